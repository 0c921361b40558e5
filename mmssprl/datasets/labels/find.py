"""Find the layout of labelled images, and read them."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...console.wording import counted
from ...errors import UserFileNotFoundError, UserValueError
from . import coco_file, folders, masks, unread, voc, yolo
from .checks import OF_PIXELS, check_labels
from .class_lists import warn_of_similar, without_unused_twins
from .coco_boxes import has_masks
from .copies import with_digests
from .files import Files
from .label_maps import IGNORED
from .labelled_images import (
    LabelledData,
    LabelledImage,
    Object,
    Splits,
    all_images,
    by_folder,
    choose_splits,
    image_of_objects,
    joined,
    map_images,
)
from .object_masks import is_whole_image
from .repeated import without_repeats
from .split_lists import read_image_sets, with_lists
from .split_names import TRAIN
from .unlisted import warn_of_unlisted
from .yolo_boxes import refuse_shared

DEFAULT_VAL_SHARE = 0.2
_OF_OBJECTS = (coco_file, voc, yolo)
_WITH_FOLDERS = (coco_file, voc, yolo, masks)
"""Layouts with splits named by the folders of images; of one COCO file, train and another."""
_BACKGROUND = "background"
_MASKS = (
    "label images (PNGs of class indices) in a folder named masks, labels, annotations or "
    "SegmentationClass, or objects with masks, other than whole images, in a COCO .json or YOLO "
    ".txt files"
)
_BOXES = "a COCO .json, PASCAL VOC .xml files or YOLO .txt files with boxes"
_EXPECTED = {
    "classify": f"{_BOXES} or without, label images, or a folder of images per class",
    "detect": _BOXES,
    "segment": _MASKS,
    "dense": _MASKS,
}


def find_labels(
    root: str | Path,
    task: str,
    *,
    val_share: float = DEFAULT_VAL_SHARE,
    seed: int = 0,
    train_share: float = 1.0,
    measured: bool = True,
) -> LabelledData:
    """Find, read and check the labels of a task in a folder.

    Args:
        root: The folder, or its data.yaml or COCO .json.
        task: 'classify', 'detect', 'segment' or 'dense'. The last two read label images, or objects
            of which some have masks; 'dense' accepts images that cannot be read.
        val_share: As ``share`` of ``choose_splits``.
        seed: As in ``choose_splits``, in [0, 2**32).
        train_share: As in ``choose_splits``.
        measured: Open each image for its size and compare it with the labels; decode it, except
            for 'dense'.

    Raises:
        FileNotFoundError: There are no labels, or images are missing.
        ValueError: The labels cannot be read or trained with.
    """
    if not 0 <= seed < 2**32:
        raise UserValueError(f"seed must be from 0 to {2**32 - 1}, but got {seed}.")
    files = Files(root)
    warnings: list[str] = []
    layout, found = _find(files, task, warnings)
    is_drawn = layout is not masks and task in OF_PIXELS
    lacking = (
        f"the objects of {files.root} ({layout.TITLE}) have no masks for {task}; add {_MASKS}."
    )

    classes, splits, unused = _read(files, layout, found, warnings)
    if layout is masks and task == "classify":
        classes, splits = _labelled_by_masks(classes, splits)
    if is_drawn:
        classes, splits = _with_background(classes, splits)
        if not any(image.labels for image in all_images(splits)):
            raise UserFileNotFoundError(lacking)

    splits = with_digests(splits)
    train, val, how = choose_splits(splits, share=val_share, seed=seed, train_share=train_share)
    data = LabelledData(files.root, layout.TITLE, classes, train, val, how + unused, warnings)
    if layout is voc and task == "detect" and any(thing.box is None for thing in data.objects):
        voc.require_boxes(found)
    if layout is yolo:
        used = {os.path.relpath(image.path, files.root) for image in data.images}
        refuse_shared({image: text for image, text in found.items() if image in used})

    data = check_labels(data, task, measured=measured)
    if is_drawn and measured and all(map(_has_only_whole_masks, data.images)):
        raise UserFileNotFoundError(lacking)
    return data


def _find(files: Files, task: str, warnings: list[str]) -> tuple[Any, Any]:
    """Return the module of the layout, and what its ``find`` returned.

    Each module has a ``TITLE``, ``find(files)``, empty for another layout, and ``read(files, found,
    warnings)``, which returns the classes and the images.
    """
    found = [(layout, content) for layout in _OF_OBJECTS if (content := layout.find(files))]
    may_show = task in OF_PIXELS or (task == "classify" and not found)
    if may_show and (drawn := masks.find(files)):
        contents = dict(found).get(coco_file, {})
        listed = [name for name, content in contents.items() if has_masks(content)]
        if listed and task != "classify":
            warnings.append(
                f"the label images are used, for example {drawn[0]}, and not {listed[0]}; move "
                "them away to use its masks."
            )
        return masks, drawn
    if not found and task == "classify" and (content := folders.find(files)):
        return folders, content

    if not found:
        raise UserFileNotFoundError(
            coco_file.near_miss(files)
            or yolo.near_miss(files)
            or masks.near_miss(files)
            or unread.near_miss(files)
            or (folders.near_miss(files) if task == "classify" else "")
            or f"{files.root} has no labels for {task} among {counted(len(files.names), 'file')} "
            f"({counted(len(files.images), 'image')}); add {_EXPECTED[task]}."
        )
    if len(found) > 1:
        titles = " and ".join(layout.TITLE for layout, _ in found)
        raise UserValueError(
            f"the data must have one layout, but {files.root} has {titles}; give the folder of one."
        )
    return found[0]


def _read(
    files: Files, layout: Any, found: Any, warnings: list[str]
) -> tuple[list[str], Splits, str]:
    """Return the classes, the images by split, and why lists of splits are not used, or ""."""
    if files.unlisted:
        warnings.append(
            f"{counted(len(files.unlisted), 'folder')} cannot be listed ({files.unlisted[0]}): all "
            "in it is left out."
        )
    classes, splits = layout.read(files, found, warnings)
    # Scripts that write COCO files read names with their line breaks, which pictures cannot show.
    classes = [" ".join(name.splitlines()) for name in classes]
    splits = {split: joined(images, warnings) for split, images in splits.items()}
    if layout is not masks:
        classes, splits = without_unused_twins(classes, splits, warnings)
    warn_of_similar(classes, warnings)
    splits = without_repeats(splits, classes, warnings)

    has_list = layout is voc and bool(read_image_sets(files, "Main"))
    if layout in (coco_file, voc) and not has_list:
        warn_of_unlisted(files, splits, warnings)
    splits, unused = with_lists(files, splits, warnings)
    if layout in _WITH_FOLDERS and {*splits} == {None}:
        images = {os.path.relpath(image.path, files.root): image for image in all_images(splits)}
        named = by_folder(images, in_words=True)
        if layout is not coco_file or _are_labelled_splits(named):
            splits = named
    return classes, splits, unused


def _are_labelled_splits(named: Splits) -> bool:
    """Whether folders name train and another split, each with labels.

    The folder test of a COCO file may hold images without any.
    """
    with_labels = {split for split, own in named.items() if any(image.labels for image in own)}
    return {*named} - {None} > {TRAIN} and {*named} - {None} <= with_labels


def _has_only_whole_masks(image: LabelledImage) -> bool:
    drawn = (thing.segmentation for thing in image.objects if thing.segmentation)
    return all(is_whole_image(segmentation, *image.size) for segmentation in drawn)


def _with_background(classes: list[str], splits: Splits) -> tuple[list[str], Splits]:
    """Insert a first class for the background, and label images by the objects with masks."""
    if len(classes) >= IGNORED:
        raise UserValueError(
            f"segmentation takes at most {IGNORED - 1} classes and the background, but the data "
            f"have {len(classes)}."
        )

    def moved(image: LabelledImage) -> LabelledImage:
        objects = tuple(replace(thing, label=thing.label + 1) for thing in image.objects)
        labels = frozenset(x.label for x in objects if x.segmentation and not x.is_crowd)
        return replace(image, objects=objects, labels=labels)

    background = "no object" if _BACKGROUND in classes else _BACKGROUND
    return [background, *classes], map_images(splits, moved)


def _labelled_by_masks(classes: list[str], splits: Splits) -> tuple[list[str], Splits]:
    """Label images by the classes in their label images, without the background."""
    first = 1 if classes[0].lower().strip("_") == _BACKGROUND else 0

    def shown(image: LabelledImage) -> LabelledImage:
        labels = sorted(label - first for label in image.labels if label >= first)
        return image_of_objects(image.path, map(Object, labels))

    return classes[first:], map_images(splits, shown)
