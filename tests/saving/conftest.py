"""A finished toy training."""

from helpers.saving.toy_checkpoint import toy_training, work  # noqa: F401  (fixtures)
