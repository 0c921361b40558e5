"""The toy training whose checkpoints are spoiled."""

from toy_checkpoint import toy_training, work  # noqa: F401  (fixtures)
