"""A finished training that several modules look at."""

from helpers.saving.toy_checkpoint import toy_training, work  # noqa: F401  (fixtures)
