"""Scenes as COCO instance annotations and as a PASCAL VOC devkit, VOC2007."""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from .categories import SCENE_CATEGORIES
from .render import Scene, SceneObject

DIFFICULT_BELOW = 0.4
"""An object of which less than this share is visible is marked difficult."""
INTACT_FROM = 0.95
"""An object is truncated (occluded) if the border (another object) takes more than the rest."""


def encode_mask(mask: NDArray[np.bool_]) -> dict[str, list[int]]:
    """Encode a mask (H, W) as COCO's uncompressed run lengths: ``size`` [H, W] and ``counts``.

    Polygons would lose the holes of rings and the visible fragments of occluded objects.
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
    """COCO's dictionary of one split.

    Args:
        description: Text of the file's ``info``.
        first_annotation_id: Annotation ids count up from here, >= 1: pycocotools takes an id of 0
            for "no match".
    """

    def __init__(self, description: str, first_annotation_id: int) -> None:
        self._first_id = first_annotation_id
        self._images: list[dict[str, Any]] = []
        self._annotations: list[dict[str, Any]] = []
        self.content: dict[str, Any] = {
            "info": {"description": description},
            "licenses": [],
            "images": self._images,
            "annotations": self._annotations,
            "categories": [
                {"id": c, "name": name, "supercategory": name.split("_")[1]}
                for c, name in enumerate(SCENE_CATEGORIES, start=1)
            ],
        }

    def add(self, image_id: int, file_name: str, scene: Scene) -> None:
        """Append one image; ``area`` and ``bbox`` describe the visible mask."""
        height, width = scene.instances.shape
        image = {"id": image_id, "file_name": file_name, "width": width, "height": height}
        self._images.append({**image, "scene": scene.name})
        for index, item in enumerate(scene.objects, start=1):
            mask = scene.instances == index
            self._annotations.append(
                {
                    "id": self._first_id + len(self._annotations),
                    "image_id": image_id,
                    "category_id": item.category + 1,
                    "iscrowd": 0,
                    "area": item.visible,
                    "bbox": list(tight_box(mask)),
                    "segmentation": encode_mask(mask),
                }
            )


def _voc_palette() -> list[int]:
    """VOC's 256 RGB colours: the bits of the index, dealt out to R, G, B from the top bit down."""
    index = np.arange(256)
    rgb = np.zeros((256, 3), np.int64)
    for bit in range(8):
        rgb[:, bit % 3] |= ((index >> bit) & 1) << (7 - bit // 3)
    return rgb.ravel().tolist()


_PALETTE = _voc_palette()


def _is_difficult(item: SceneObject) -> bool:
    return item.visible < DIFFICULT_BELOW * item.area


def _object_xml(item: SceneObject, mask: NDArray[np.bool_]) -> str:
    x, y, width, height = tight_box(mask)
    return (
        "  <object>\n"
        f"    <name>{SCENE_CATEGORIES[item.category]}</name>\n"
        "    <pose>Unspecified</pose>\n"
        f"    <truncated>{int(item.inside < INTACT_FROM * item.area)}</truncated>\n"
        f"    <occluded>{int(item.visible < INTACT_FROM * item.inside)}</occluded>\n"
        f"    <difficult>{int(_is_difficult(item))}</difficult>\n"
        f"    <bndbox><xmin>{x + 1}</xmin><ymin>{y + 1}</ymin>"
        f"<xmax>{x + width}</xmax><ymax>{y + height}</ymax></bndbox>\n"
        "  </object>\n"
    )


class VocDevkit:
    """Writes images one by one into ``root``/VOC2007, and the image sets at the end.

    The train split fills the sets ``train`` and ``trainval``, the val split ``val`` and ``test``:
    both of VOC's usual pairs (train -> val, trainval -> test) are free of overlap.
    """

    SETS = {"train": ("train", "trainval"), "val": ("val", "test")}

    def __init__(self, root: Path) -> None:
        self._root = root / "VOC2007"
        self._labels: dict[str, dict[str, dict[int, int]]] = {split: {} for split in self.SETS}
        for folder in ("JPEGImages", "Annotations", "SegmentationClass", "SegmentationObject"):
            (self._root / folder).mkdir(parents=True)
        for task in ("Main", "Segmentation"):
            (self._root / "ImageSets" / task).mkdir(parents=True)

    def add(self, split: str, image_path: Path, scene: Scene) -> None:
        """Write one image, a hard link to ``image_path`` where the file system allows it."""
        name = image_path.stem
        copy = self._root / "JPEGImages" / image_path.name
        try:
            os.link(image_path, copy)
        except OSError:
            shutil.copyfile(image_path, copy)
        self._write_xml(name, image_path.name, scene)
        class_of = np.array([0, *(item.category + 1 for item in scene.objects)], np.uint8)
        self._write_labels("SegmentationClass", name, class_of[scene.instances])
        self._write_labels("SegmentationObject", name, scene.instances)
        signs: dict[int, int] = {}
        for item in scene.objects:
            signs[item.category] = max(signs.get(item.category, 0), int(not _is_difficult(item)))
        self._labels[split][name] = signs

    def write_image_sets(self) -> None:
        """Write ImageSets: names, and per class 1 (present), 0 (only difficult) or -1 (absent)."""
        sets = self._root / "ImageSets"
        for split, labels in self._labels.items():
            for image_set in self.SETS[split]:
                text = "".join(f"{name}\n" for name in labels)
                for task in ("Main", "Segmentation"):
                    (sets / task / f"{image_set}.txt").write_text(text)
                for c, category in enumerate(SCENE_CATEGORIES):
                    lines = [f"{name} {signs.get(c, -1):2d}\n" for name, signs in labels.items()]
                    (sets / "Main" / f"{category}_{image_set}.txt").write_text("".join(lines))

    def _write_xml(self, name: str, file_name: str, scene: Scene) -> None:
        height, width = scene.instances.shape
        objects = (
            _object_xml(item, scene.instances == k) for k, item in enumerate(scene.objects, start=1)
        )
        text = (
            "<annotation>\n"
            f"  <folder>VOC2007</folder>\n  <filename>{file_name}</filename>\n"
            f"  <size><width>{width}</width><height>{height}</height><depth>3</depth></size>\n"
            f"  <segmented>1</segmented>\n{''.join(objects)}</annotation>\n"
        )
        (self._root / "Annotations" / f"{name}.xml").write_text(text)

    def _write_labels(self, folder: str, name: str, labels: NDArray[np.uint8]) -> None:
        image = Image.fromarray(labels)
        image.putpalette(_PALETTE)
        image.save(self._root / folder / f"{name}.png")
