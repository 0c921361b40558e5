"""Ten photographs and a config."""

from helpers.features.fixtures import config, photos  # noqa: F401  (fixtures)
