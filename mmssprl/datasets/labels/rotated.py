"""Warn of rotated boxes: CVAT writes the box before its rotation, and the angle as an attribute."""

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

_HALF_TURN = 180
"""Degrees that turn a box onto itself."""


def is_rotated(angle: Any) -> bool:
    """Whether a number or text is an angle (degrees) that changes a box."""
    with suppress(TypeError, ValueError, OverflowError):
        return float(angle) % _HALF_TURN > 0
    return False


def is_rotated_annotation(annotation: dict[str, Any]) -> bool:
    """Whether an annotation of a COCO file is a rotated box without a mask."""
    attributes = annotation.get("attributes")
    has_angle = isinstance(attributes, dict) and is_rotated(attributes.get("rotation"))
    return has_angle and not annotation.get("segmentation")


def is_rotated_object(item: ET.Element) -> bool:
    """Whether an object of a VOC file is a rotated box."""
    attributes = {each.findtext("name"): each.findtext("value") for each in item.iter("attribute")}
    return is_rotated(attributes.get("rotation"))


def warn_of_rotated(rotated: Sequence[str], total: int, warnings: list[str]) -> None:
    """Warn of the rotated boxes among some; each is named."""
    if rotated:
        warnings.append(
            f"{len(rotated)} of {total} boxes are rotated, for example {rotated[0]}: the file has "
            "the upright box before its rotation, which is used. Export polygons, or draw upright "
            "boxes."
        )
