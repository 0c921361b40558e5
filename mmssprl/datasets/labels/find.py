"""Which layout a folder has, and what it holds."""

from pathlib import Path
from types import ModuleType

from ...errors import UserFileNotFoundError, UserValueError
from ..image_index import heic_remedy, kind_of
from . import coco, folders, masks, voc
from .checks import check_labels
from .files import Files
from .labelled_images import LabelledData
from .splits import choose_splits

DEFAULT_VAL_SHARE = 0.2
_LAYOUTS: dict[str, tuple[ModuleType, ...]] = {
    "classify": (coco, voc),
    "detect": (coco, voc),
    "segment": (masks,),
}
_EXPECTED = {
    "classify": "a COCO .json, PASCAL VOC .xml files, or a folder of images per class",
    "detect": "a COCO .json or PASCAL VOC .xml files with boxes",
    "segment": "label images (PNGs of class indices) in a folder named masks, labels, annotations "
    "or SegmentationClass",
}


def find_labels(
    root: str | Path,
    task: str,
    *,
    val_share: float = DEFAULT_VAL_SHARE,
    seed: int = 0,
) -> LabelledData:
    """Find the labels of a task below a folder, read all of them, and check them.

    Args:
        root: The folder.
        task: 'classify', 'detect' or 'segment'.
        val_share: Share of the images to hold out where the data have no splits, in (0, 1).
        seed: Of that choice.

    Raises:
        FileNotFoundError: No such folder, no labels of the task, or labels without their image.
        ValueError: A number out of range, several layouts at once, a file that cannot be read, or
            labels that nothing can be trained with.
    """
    if not 0 < val_share < 1:
        raise UserValueError(f"--val-share must be between 0 and 1, but got {val_share}.")
    if not 0 <= seed < 2**32:
        raise UserValueError(f"--seed must be from 0 to {2**32 - 1}, but got {seed}.")
    files = Files(root)
    found = [layout for layout in _LAYOUTS[task] if layout.is_there(files)]
    if not found and task == "classify" and folders.is_there(files):
        found = [folders]
    if not found:
        heic = heic_remedy(map(kind_of, files.names))
        raise UserFileNotFoundError(
            f"DATA must hold labels for {task}: {_EXPECTED[task]}; but {root} holds none among "
            f"{len(files.names)} files ({len(files.images)} images){heic and f'; {heic}'}."
        )
    if len(found) > 1:
        raise UserValueError(
            f"DATA must have one layout, but {root} has {found[0].TITLE} and {found[1].TITLE}; "
            "give the folder of one, or move the other out of it."
        )
    warnings: list[str] = []
    classes, splits = found[0].read(files, warnings)
    train, val, how = choose_splits(splits, share=val_share, seed=seed)
    data = LabelledData(files.root, found[0].TITLE, classes, train, val, how, warnings)
    return check_labels(data, task)
