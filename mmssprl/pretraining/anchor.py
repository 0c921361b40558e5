"""The two published trainings of each method, on COCO train2014 and ImageNet, between which recipes
are scaled; their numbers are those of the shipped configs.
"""

import math

COCO_IMAGES = 82_783
IMAGENET_IMAGES = 1_281_167

_ROUND_TO = 10


def way_to_imagenet(num_images: int) -> float:
    """Return 0 up to COCO's number of images, 1 from ImageNet's on, by its logarithm between."""
    way = math.log(num_images / COCO_IMAGES) / math.log(IMAGENET_IMAGES / COCO_IMAGES)
    return min(1.0, max(0.0, way))


def between(coco: float, imagenet: float, num_images: int) -> float:
    """Return a published number, geometrically between those of both trainings."""
    way = way_to_imagenet(num_images)
    return coco ** (1 - way) * imagenet**way


def round_within(value: float, limits: tuple[int, int]) -> int:
    """Return a scaled number between two limits, as a multiple of 10, to be read easily."""
    low, high = limits
    return min(high, max(low, _ROUND_TO * round(value / _ROUND_TO)))
