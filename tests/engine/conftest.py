"""Images, and a toy training that several modules look at."""

from helpers.datasets.noise_images import images  # noqa: F401  (fixture)
