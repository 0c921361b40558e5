"""The published trainings on COCO train2014, from which recipes are scaled."""

COCO_IMAGES = 82_783
COCO_BATCH = 128
COCO_GPUS = 2
COCO_EPOCHS = 200

_ROUND_TO = 10


def round_within(value: float, limits: tuple[int, int]) -> int:
    """Return a scaled number between two limits, as a multiple of 10, to be read easily."""
    low, high = limits
    return min(high, max(low, _ROUND_TO * round(value / _ROUND_TO)))
