from helpers.features.probe_folders import coco, config, photos, voc  # noqa: F401  (fixtures)
