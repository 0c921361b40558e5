"""Which layout a folder has, and what it holds."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import UserFileNotFoundError, UserValueError
from ..image_index import heic_remedy, kind_of
from . import coco, folders, masks, voc, yolo
from .checks import check_labels
from .files import Files
from .labelled_images import LabelledData, LabelledImage, Object
from .splits import Splits, choose_splits

DEFAULT_VAL_SHARE = 0.2
_OF_OBJECTS = (coco, voc, yolo)
_BACKGROUND = "background"
_EXPECTED = {
    "classify": "a COCO .json, PASCAL VOC .xml files, YOLO .txt files, label images, or a folder "
    "of images per class",
    "detect": "a COCO .json, PASCAL VOC .xml files or YOLO .txt files with boxes",
    "segment": "label images (PNGs of class indices) in a folder named masks, labels, annotations "
    "or SegmentationClass",
}
_OTHER_TOOLS = {
    ".xml": "as CVAT's, export them as COCO 1.0, Ultralytics YOLO or masks",
    ".json": "as LabelMe's, make COCO of them (pip install labelme2coco; labelme2coco DATA); as "
    "Label Studio's, export them as COCO, YOLO or masks",
    ".csv": "write its rows as a COCO .json, or sort the images into a folder per class",
}
"""What to do with labels of others, by the suffix of their files."""


def find_labels(
    root: str | Path,
    task: str,
    *,
    val_share: float = DEFAULT_VAL_SHARE,
    seed: int = 0,
    measured: bool = True,
    class_folders: bool = False,
) -> LabelledData:
    """Find the labels of a task below a folder, read all of them, and check them.

    Args:
        root: The folder.
        task: 'classify', 'detect' or 'segment'; the last two options are for 'classify'.
        val_share, seed: Share of the images to hold out where the data have no splits, by a seed.
        measured: Whether each image is opened, for its size.
        class_folders: Whether to take a folder per class, whatever other files lie there.

    Raises:
        FileNotFoundError: No such folder, no labels of the task, or labels without their image.
        ValueError: A number out of range, several layouts at once, a file that cannot be read, or
            labels that nothing can be trained with.
    """
    if not 0 < val_share < 1:
        raise UserValueError(f"val_share must be between 0 and 1, but got {val_share}.")
    if not 0 <= seed < 2**32:
        raise UserValueError(f"seed must be from 0 to {2**32 - 1}, but got {seed}.")
    files = Files(root)
    layout, found = (folders, folders.find(files)) if class_folders else _find(files, task)
    warnings: list[str] = []
    classes, splits = layout.read(files, found, warnings)
    if layout is masks and task == "classify":
        classes, splits = _shown(classes, splits)
    train, val, how = choose_splits(splits, share=val_share, seed=seed)
    data = LabelledData(files.root, layout.TITLE, classes, train, val, how, warnings)
    return check_labels(data, task, measured=measured)


def _find(files: Files, task: str) -> tuple[Any, Any]:
    """Return the module of the one layout with labels of a task, and what it has found.

    Each module of a layout has a ``TITLE``, ``find(files)``, which returns nothing if the folder
    has another layout, and ``read(files, found, warnings)``, the classes and images of what that
    returned.
    """
    layouts: tuple[Any, ...] = (masks,) if task == "segment" else _OF_OBJECTS
    found = [(layout, content) for layout in layouts if (content := layout.find(files))]
    if not found and task == "classify":
        shown = masks.find(files)
        is_shown = masks.are_of_images(files, shown)
        other: tuple[Any, Any] = (masks, shown) if is_shown else (folders, folders.find(files))
        found = [other] if other[1] else []
    if not found:
        remedy = _other_tool(files) or heic_remedy(map(kind_of, files.names))
        raise UserFileNotFoundError(
            f"DATA must hold labels for {task}: {_EXPECTED[task]}; but {files.root} holds none "
            f"among {len(files.names)} files ({len(files.images)} images)"
            f"{remedy and f'; {remedy}'}."
        )
    if len(found) > 1:
        raise UserValueError(
            f"DATA must have one layout, but {files.root} has {found[0][0].TITLE} and "
            f"{found[1][0].TITLE}; give the folder of one, or move the other out of it."
        )
    return found[0]


def _shown(classes: list[str], splits: Splits) -> tuple[list[str], Splits]:
    """Return classes and images, labelled with what their label images show but a background."""
    first = int(classes[0].lower() == _BACKGROUND)

    def shown(image: LabelledImage) -> LabelledImage:
        labels = frozenset(label - first for label in image.labels if label >= first)
        objects = tuple(map(Object, sorted(labels)))
        return replace(image, mask=None, objects=objects, labels=labels)

    return classes[first:], {split: list(map(shown, images)) for split, images in splits.items()}


def _other_tool(files: Files) -> str:
    """Return what makes labels of files that other tools write, "" without such files."""
    for suffix, remedy in _OTHER_TOOLS.items():
        for name in files.ending(suffix)[:1]:
            return f"if its labels are in {name}, {remedy}"
    return ""
