"""Scenes as COCO instance annotations."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmssprl.datasets.scenes.categories import SCENE_CATEGORIES
from mmssprl.datasets.scenes.render import Scene


def encode_mask(mask: NDArray[np.bool_]) -> dict[str, list[int]]:
    """Encode a mask (H, W) as COCO's uncompressed run lengths.

    Polygons would lose the holes of rings and the visible fragments of occluded objects.

    Returns:
        ``size`` [H, W], and ``counts``, the lengths of alternating runs of 0 and 1 in
        column-major order, starting with a (perhaps empty) run of 0.
    """
    flat = mask.T.ravel()
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    runs = np.diff(changes, prepend=0, append=flat.size).tolist()
    return {"size": list(mask.shape), "counts": [0, *runs] if flat[0] else runs}


def tight_box(mask: NDArray[np.bool_]) -> tuple[int, int, int, int]:
    """Return x, y, width and height in pixels of the smallest box around a non-empty mask."""
    columns, rows = np.flatnonzero(mask.any(axis=0)), np.flatnonzero(mask.any(axis=1))
    x, y = int(columns[0]), int(rows[0])
    return x, y, int(columns[-1]) + 1 - x, int(rows[-1]) + 1 - y


class CocoSplit:
    """Collects the annotations of one split and hands them out as COCO's dictionary.

    Args:
        description: Text of the file's ``info``.
        first_annotation_id: Annotation ids count up from here, >= 1: pycocotools takes an id of 0
            for "no match".
    """

    def __init__(self, description: str, first_annotation_id: int) -> None:
        self._description = description
        self._next_id = first_annotation_id
        self._images: list[dict[str, Any]] = []
        self._annotations: list[dict[str, Any]] = []

    def add(self, image_id: int, file_name: str, scene: Scene) -> None:
        """Append one image; ``area`` and ``bbox`` describe the visible mask."""
        height, width = scene.instances.shape
        self._images.append(
            {
                "id": image_id,
                "file_name": file_name,
                "width": width,
                "height": height,
                "scene": scene.name,
            }
        )
        for index, item in enumerate(scene.objects, start=1):
            mask = scene.instances == index
            self._annotations.append(
                {
                    "id": self._next_id,
                    "image_id": image_id,
                    "category_id": item.category + 1,
                    "iscrowd": 0,
                    "area": item.visible,
                    "bbox": list(tight_box(mask)),
                    "segmentation": encode_mask(mask),
                }
            )
            self._next_id += 1

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``instances_*.json``; a category's supercategory is its shape."""
        return {
            "info": {"description": self._description},
            "licenses": [],
            "images": self._images,
            "annotations": self._annotations,
            "categories": [
                {"id": c, "name": name, "supercategory": name.split("_")[1]}
                for c, name in enumerate(SCENE_CATEGORIES, start=1)
            ],
        }
