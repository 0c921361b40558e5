"""Whether a pre-training is probed, and with which labels."""

from collections import Counter
from pathlib import Path
from typing import Any, Literal

import torch
from mmengine.config import Config

from ..datasets.labels import folders, masks, yolo
from ..datasets.labels.files import Files
from ..errors import UserError, called
from ..features.linear_probe import ProbeData, find_probe_data
from ..features.probe_hook import MOST_IMAGES
from .methods import RecipeRow

LEAST_IMAGES = 5
"""Of each class, for folders to count as classes without being asked."""
MOST_CLASSES = 1000
"""Above, folders are rather days or places."""


def add_probe(
    cfg: Config, source: str, asked: str | Path | Literal[False] | None
) -> RecipeRow | None:
    """Add the hook that scores features by labels to a config; return what the recipe prints.

    ``asked`` is a labelled folder; None takes ``source``, the images, if its folders name classes;
    False is no probe.
    """
    if asked is False:
        return None
    hook: dict[str, Any] = {"type": "ProbeHook", "data": str(Path(asked or source).resolve())}
    if asked is not None:
        with called("probe", field="DATA"):
            found = find_probe_data(str(asked))
        why = "as asked"
    else:
        by_itself = _folders_of(Path(source))
        if by_itself is None:
            return None
        found = by_itself
        why = "the folders name classes; the training sees these images"
        hook["class_folders"] = True
    cfg.custom_hooks = [*cfg.get("custom_hooks", []), hook]
    splits = (found.train, found.test)
    num_images = sum(len(split.paths) for split in splits)
    num_probed = sum(min(len(split.paths), MOST_IMAGES) for split in splits)
    probed = f"{num_probed:,} of " if num_probed < num_images else ""
    boxes = f", {found.labelled.num_boxes:,} boxes" if found.labelled.num_boxes else ""
    return RecipeRow(f"{probed}{num_images:,} images of {len(found.classes)} classes{boxes}", why)


def _folders_of(source: Path) -> ProbeData | None:
    if not source.is_dir():
        return None
    try:
        files = Files(source)
        # Folders of masks or of YOLO are no classes; JSON and XML may be of anything.
        has_others = masks.are_of_images(files, masks.find(files)) or yolo.find(files)
        if has_others or not folders.find(files):
            return None
        found = find_probe_data(source, class_folders=True)
    except (UserError, OSError):  # no labels, or not of each image
        return None
    labels = torch.cat([found.train.labels, found.test.labels])
    sizes = Counter(labels.argmax(dim=1).tolist())
    is_sure = len(found.classes) <= MOST_CLASSES and min(sizes.values()) >= LEAST_IMAGES
    return found if is_sure else None
