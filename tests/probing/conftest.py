"""A config, photographs, and labelled images in the layouts of COCO and VOC."""

from helpers.features.probe_folders import coco, config, photos, voc  # noqa: F401  (fixtures)
