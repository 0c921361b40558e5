"""A config, and the depths whose supervised weights are asked for."""

from helpers.features.fixtures import asked_depths, config  # noqa: F401  (fixtures)
