"""Images for trainings."""

from helpers.datasets.noise_images import images  # noqa: F401  (fixture)
