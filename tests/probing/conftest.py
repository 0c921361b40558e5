"""A config, photographs, and labelled images in the layouts of COCO and VOC."""

from helpers.features.fixtures import coco, config, photos, voc  # noqa: F401  (fixtures)
