"""Write the sample data: images, COCO instance annotations and a PASCAL VOC devkit, VOC2007."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ...console.paths import check_path
from ...console.progress import watch
from ...errors import UserFileExistsError, UserValueError
from ...system.outputs import write_whole
from ..labels.masks import palette
from .render import SCENE_CATEGORIES, Scene, SceneObject, render_scene

META_FILE = "scenes.json"
"""Written last, so that its presence shows that the folder is complete."""
SPLITS = ("train", "val")
NUM_TRAIN = 1200
NUM_VAL = 600
SIZE_PX = 96
"""Sizes of the sample data of demo and benchmark, equal so that their numbers are comparable."""
JPEG_QUALITY = 92
MIN_PX = 64
MAX_PX = 640
MAX_IMAGES = 1_000_000
"""Per split; image ids are 1 + i for train and MAX_IMAGES + 1 + i for val, unique over both."""

_FORMAT = 1  # raise when the same parameters no longer give the same images
_DIFFICULT_BELOW = 0.4  # an object of which less than this share is visible is marked difficult
_VOC_SETS = {"train": ("train", "trainval"), "val": ("val", "test")}
"""Image sets of each split. VOC's usual pairs, train and val, trainval and test, do not overlap."""


def generate_scenes(
    out_dir: str | Path,
    *,
    num_train: int = 1000,
    num_val: int = 400,
    size_px: int = 128,
    seed: int = 0,
    progress: bool = True,
) -> Path:
    """Generate the sample data, or reuse it if ``out_dir`` holds it already.

    Writes ``coco/{train2014,val2014}/*.jpg``, ``coco/annotations/instances_{train,val}2014.json``
    (each image with its ``scene``), and ``voc/VOC2007`` with the same images. Image i of a split
    depends only on (seed, split, i, size), not on the number of images.

    Args:
        out_dir: Folder to write to; absent, empty, or written by the same call before.
        num_train, num_val: Number of training and validation images, 1 to 1,000,000.
        size_px: Side of the square images in pixels, 64 to 640.
        seed: Seed of all randomness, >= 0.
        progress: Show a progress bar.

    Raises:
        ValueError: A number is not an int or out of range.
        FileExistsError: ``out_dir`` holds other files; nothing is overwritten.
    """
    meta = {
        "format": _FORMAT,
        "num_train": _check_int("num_train", num_train, 1, MAX_IMAGES),
        "num_val": _check_int("num_val", num_val, 1, MAX_IMAGES),
        "size_px": _check_int("size_px", size_px, MIN_PX, MAX_PX),
        "seed": _check_int("seed", seed, 0, 2**63 - 1),
    }
    root = check_path(out_dir, "out_dir", folder="a folder", writes=True)
    if _holds(root, meta):
        return root

    voc = VocDevkit(root / "voc")
    for split, count in zip(SPLITS, (num_train, num_val), strict=True):
        coco = CocoSplit(root / "coco", split, f"mmssprl scenes, {split}, {meta}")
        for i in watch(range(count), f"scenes, {split}", shown=progress):
            scene = draw_scene(seed, split, i, size_px)
            path = coco.add(i, scene)
            voc.add(split, path, scene)
        coco.write_annotations()
    voc.write_image_sets()
    write_whole(root / META_FILE, _to_json(meta))
    return root


def draw_scene(seed: int, split: str, index: int, size_px: int) -> Scene:
    """Draw image ``index`` (from 0) of one of ``SPLITS``, the same on every call."""
    return render_scene(np.random.default_rng([seed, SPLITS.index(split), index]), size_px)


def _check_int(name: str, value: int, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise UserValueError(f"{name} must be an int from {low} to {high}, but got {value!r}.")
    return value


def _holds(root: Path, meta: dict[str, int]) -> bool:
    """Whether ``root`` holds the finished data of ``meta``; False if it is absent or empty."""
    if not root.exists() or (root.is_dir() and not any(root.iterdir())):
        return False
    path = root / META_FILE
    found = path.read_text() if path.is_file() else "other or unfinished files"
    if found == _to_json(meta):
        return True
    raise UserFileExistsError(
        f"out_dir must be absent, empty, or hold the scenes {_to_json(meta).strip()}, but {root} "
        f"holds {found.strip()}; choose another out_dir or delete this one."
    )


def _to_json(content: dict[str, Any]) -> str:
    return json.dumps(content, separators=(",", ":")) + "\n"


def generate_sample(work_dir: Path, log: Callable[[str], object] = lambda line: None) -> Path:
    """Generate or reuse the sample data in ``work_dir/scenes``; incomplete data are deleted."""
    folder = work_dir / "scenes"
    if not (folder / META_FILE).exists():
        shutil.rmtree(folder, ignore_errors=True)
    log(f"scenes: {NUM_TRAIN} + {NUM_VAL} images of {SIZE_PX} px")
    return generate_scenes(folder, num_train=NUM_TRAIN, num_val=NUM_VAL, size_px=SIZE_PX)


def encode_mask(mask: NDArray[np.bool_]) -> dict[str, list[int]]:
    """Encode a mask (H, W) as COCO's run lengths, because polygons would lose holes."""
    flat = mask.T.ravel()
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    runs = np.diff(changes, prepend=0, append=flat.size).tolist()
    return {"size": list(mask.shape), "counts": [0, *runs] if flat[0] else runs}


def tight_box(mask: NDArray[np.bool_]) -> tuple[int, int, int, int]:
    """Return x, y, width and height in pixels of the smallest box around a non-empty mask."""
    x, width = _extent(mask, across=0)
    y, height = _extent(mask, across=1)
    return x, y, width, height


def _extent(mask: NDArray[np.bool_], across: int) -> tuple[int, int]:
    """Return start and length of a mask, looking across one of its axes."""
    places = np.flatnonzero(mask.any(axis=across))
    start = int(places[0])
    return start, int(places[-1]) + 1 - start


class CocoSplit:
    """Write the images of one split one by one to ``root``, and their annotations at the end."""

    def __init__(self, root: Path, split: str, description: str) -> None:
        self._images = root / f"{split}2014"
        self._images.mkdir(parents=True)
        self._annotations = root / "annotations" / f"instances_{split}2014.json"
        self._first_id = 1 + MAX_IMAGES * SPLITS.index(split)
        self._content: dict[str, Any] = {
            "info": {"description": description},
            "licenses": [],
            "images": [],
            "annotations": [],
            "categories": [
                {"id": c, "name": name, "supercategory": name.split("_")[1]}
                for c, name in enumerate(SCENE_CATEGORIES, start=1)
            ],
        }

    def add(self, index: int, scene: Scene) -> Path:
        """Write image ``index`` and return its path; its annotations describe the visible masks."""
        image_id = self._first_id + index
        path = self._images / f"{image_id:012d}.jpg"
        # At 64-128 px, chroma subsampling would blur textures with colours that differ in hue.
        Image.fromarray(scene.image).save(path, quality=JPEG_QUALITY, subsampling="4:4:4")

        height, width = scene.instances.shape
        image = {"id": image_id, "file_name": path.name, "width": width, "height": height}
        self._content["images"].append({**image, "scene": scene.name})
        annotations = self._content["annotations"]
        for k, item in enumerate(scene.objects, start=1):
            mask = scene.instances == k
            annotation = {
                # From 1, as ids of images: pycocotools takes 0 for "no match".
                "id": self._first_id + len(annotations),
                "image_id": image_id,
                "category_id": item.category + 1,
                "iscrowd": 0,
                "area": item.visible,
                "bbox": list(tight_box(mask)),
                "segmentation": encode_mask(mask),
            }
            annotations.append(annotation)
        return path

    def write_annotations(self) -> None:
        """Write the annotations of all images."""
        self._annotations.parent.mkdir(exist_ok=True)
        self._annotations.write_text(_to_json(self._content))


def _is_difficult(item: SceneObject) -> bool:
    return item.visible < _DIFFICULT_BELOW * item.area


def _to_xml(file_name: str, scene: Scene) -> str:
    height, width = scene.instances.shape
    objects = ""
    for k, item in enumerate(scene.objects, start=1):
        x, y, box_width, box_height = tight_box(scene.instances == k)
        objects += (
            f"  <object>\n    <name>{SCENE_CATEGORIES[item.category]}</name>\n"
            f"    <difficult>{int(_is_difficult(item))}</difficult>\n"
            f"    <bndbox><xmin>{x + 1}</xmin><ymin>{y + 1}</ymin>"
            f"<xmax>{x + box_width}</xmax><ymax>{y + box_height}</ymax></bndbox>\n  </object>\n"
        )
    return (
        f"<annotation>\n  <folder>VOC2007</folder>\n  <filename>{file_name}</filename>\n"
        f"  <size><width>{width}</width><height>{height}</height><depth>3</depth></size>\n"
        f"  <segmented>1</segmented>\n{objects}</annotation>\n"
    )


class VocDevkit:
    """Write images one by one to ``root``/VOC2007, and the image sets at the end."""

    def __init__(self, root: Path) -> None:
        self._root = root / "VOC2007"
        self._labels: dict[str, dict[str, dict[int, int]]] = {split: {} for split in SPLITS}
        for folder in ("JPEGImages", "Annotations", "SegmentationClass", "SegmentationObject"):
            (self._root / folder).mkdir(parents=True)
        for task in ("Main", "Segmentation"):
            (self._root / "ImageSets" / task).mkdir(parents=True)

    def add(self, split: str, image_path: Path, scene: Scene) -> None:
        """Copy one image and write its annotations."""
        name = image_path.stem
        shutil.copyfile(image_path, self._root / "JPEGImages" / image_path.name)
        (self._root / "Annotations" / f"{name}.xml").write_text(_to_xml(image_path.name, scene))

        class_of = np.array([0, *(item.category + 1 for item in scene.objects)], np.uint8)
        self._write_labels("SegmentationClass", name, class_of[scene.instances])
        self._write_labels("SegmentationObject", name, scene.instances)

        signs: dict[int, int] = {}
        for item in scene.objects:
            signs[item.category] = max(signs.get(item.category, 0), int(not _is_difficult(item)))
        self._labels[split][name] = signs

    def write_image_sets(self) -> None:
        """Write ImageSets: names, and for each class 1 (present), 0 (difficult) or -1 (absent)."""
        sets = self._root / "ImageSets"
        for split, labels in self._labels.items():
            for image_set in _VOC_SETS[split]:
                text = "".join(f"{name}\n" for name in labels)
                for task in ("Main", "Segmentation"):
                    (sets / task / f"{image_set}.txt").write_text(text)
                for c, category in enumerate(SCENE_CATEGORIES):
                    lines = [f"{name} {signs.get(c, -1):2d}\n" for name, signs in labels.items()]
                    (sets / "Main" / f"{category}_{image_set}.txt").write_text("".join(lines))

    def _write_labels(self, folder: str, name: str, labels: NDArray[np.uint8]) -> None:
        image = Image.fromarray(labels)
        image.putpalette(palette().tobytes())
        image.save(self._root / folder / f"{name}.png")
