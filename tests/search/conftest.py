from helpers.features.probe_folders import config, photos  # noqa: F401  (fixtures)
