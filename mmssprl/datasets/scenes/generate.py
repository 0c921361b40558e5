"""Write the sample data: images, COCO annotations and a PASCAL VOC devkit."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ...console.progress import watch
from ...errors import UserFileExistsError, UserValueError
from ...system.outputs import write_whole
from .annotations import CocoSplit, VocDevkit
from .render import Scene, render_scene

META_FILE = "scenes.json"
"""Written last: its presence means that the folder is complete."""
SPLITS = ("train", "val")
NUM_TRAIN, NUM_VAL, SIZE_PX = 1200, 600, 96
"""The sample data of demo and benchmark: one size, so that their figures can be compared."""
JPEG_QUALITY = 92
MIN_PX, MAX_PX = 64, 640
MAX_IMAGES = 1_000_000
"""Per split; image ids are 1 + i for train and MAX_IMAGES + 1 + i for val, unique over both."""

_FORMAT = 1
"""Raise when the same parameters no longer give the same images."""


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
    depends on (seed, split, i, size) only, not on how many are asked for.

    Args:
        out_dir: Folder to write to; absent, empty, or made by the same call before.
        num_train, num_val: Training and validation images, 1 to 1,000,000.
        size_px: Side of the square images in pixels, 64 to 640.
        seed: Seed of all randomness, >= 0.
        progress: Whether to show a progress bar.

    Returns:
        ``out_dir`` as a path.

    Raises:
        ValueError: A number that is no int or out of range.
        FileExistsError: ``out_dir`` holds anything else; nothing is overwritten.
    """
    meta = {
        "format": _FORMAT,
        "num_train": _check_int("num_train", num_train, 1, MAX_IMAGES),
        "num_val": _check_int("num_val", num_val, 1, MAX_IMAGES),
        "size_px": _check_int("size_px", size_px, MIN_PX, MAX_PX),
        "seed": _check_int("seed", seed, 0, 2**63 - 1),
    }
    root = Path(out_dir)
    if _holds(root, meta):
        return root
    voc = VocDevkit(root / "voc")
    annotations = root / "coco" / "annotations"
    annotations.mkdir(parents=True)
    for split, count in zip(SPLITS, (num_train, num_val), strict=True):
        images = root / "coco" / f"{split}2014"
        images.mkdir()
        offset = 1 + MAX_IMAGES * SPLITS.index(split)
        coco = CocoSplit(f"mmssprl scenes, {split}, {meta}", first_annotation_id=offset)
        for i in watch(range(count), f"scenes, {split}", shown=progress):
            scene = draw_scene(seed, split, i, size_px)
            path = images / f"{offset + i:012d}.jpg"
            # At 64-128 px halved chroma would smear textures whose colours differ in hue.
            Image.fromarray(scene.image).save(path, quality=JPEG_QUALITY, subsampling="4:4:4")
            coco.add(offset + i, path.name, scene)
            voc.add(split, path, scene)
        (annotations / f"instances_{split}2014.json").write_text(_to_json(coco.content))
    voc.write_image_sets()
    write_whole(root / META_FILE, _to_json(meta))
    return root


def draw_scene(seed: int, split: str, index: int, size_px: int) -> Scene:
    """Draw image ``index``, from 0, of one of ``SPLITS``, the same on every call."""
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
        f"out_dir must be absent, empty, or hold the finished scenes {_to_json(meta).strip()}, "
        f"but {root} holds {found.strip()}; choose another out_dir or delete this one."
    )


def _to_json(content: dict[str, Any]) -> str:
    return json.dumps(content, separators=(",", ":")) + "\n"


def generate_sample(work_dir: Path, log: Callable[[str], object] = lambda line: None) -> Path:
    """Generate the sample data in ``work_dir/scenes``, or find them there; return their folder.

    The folder is of our own: what was left half-made in it is deleted.
    """
    folder = work_dir / "scenes"
    if not (folder / META_FILE).exists():
        shutil.rmtree(folder, ignore_errors=True)
    log(f"scenes: {NUM_TRAIN} + {NUM_VAL} images of {SIZE_PX} px")
    return generate_scenes(folder, num_train=NUM_TRAIN, num_val=NUM_VAL, size_px=SIZE_PX)
