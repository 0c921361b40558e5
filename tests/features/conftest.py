from helpers.features.probe_folders import config  # noqa: F401  (fixture)
