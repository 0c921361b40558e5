"""Images, and a toy training to damage."""

from helpers.datasets.noise_images import images  # noqa: F401  (fixture)
from helpers.saving.toy_checkpoint import toy_training, work  # noqa: F401  (fixtures)
