"""Images, and the toy training whose checkpoints are spoiled."""

from noise_images import images  # noqa: F401  (fixture)
from toy_checkpoint import toy_training, work  # noqa: F401  (fixtures)
