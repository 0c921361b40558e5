"""Read the lists of images that name the splits: train.txt and val.txt, for all layouts."""

import os
from collections import defaultdict
from collections.abc import Container
from pathlib import PurePosixPath

from ...errors import UserError
from .agreement import differing
from .files import Files, refuse_missing
from .labelled_images import TRAIN, VAL, LabelledImage, Splits, split_of

PAIRS = (("trainval", "test"), ("train", "val"), ("train", "test"))
"""Lists that become train and val; the first complete pair counts."""
_FOLDERS = ("splits", "split", "imagesets")
"""Folders of lists, in lower case, other than one around all images."""
_OWN = "the folders or label files"


def with_lists(files: Files, splits: Splits, warnings: list[str]) -> tuple[Splits, str]:
    """Return the splits, and why lists are not used, or "".

    Lists replace only the missing splits of a layout. The first pair of lists is used. Others that
    differ from what is used are a warning.
    """
    every = [image for own in splits.values() for image in own]
    names = {image.path: image.path.removeprefix(f"{files.root}/") for image in every}
    images = {names[image.path]: image for image in every}
    sources: dict[str, dict[str, list[str]]] = {}
    named = {split: own for split, own in splits.items() if split}
    if TRAIN in named and len(named) > 1:
        sources[_OWN] = {split: [names[i.path] for i in own] for split, own in named.items()}
    reason = ""
    for lists in _groups(files):
        first, *_ = lists.values()
        if sources and PurePosixPath(first).parts[-3:-2] == ("ImageSets",):
            continue  # each task has its own, such as Segmentation
        # Next to splits of the data, trainval is the two of them joined.
        pairs = PAIRS[1:] if sources else PAIRS
        pair = next((pair for pair in pairs if {*pair} <= {*lists}), ())
        try:
            read = [read_list(files, lists[stem], images) for stem in pair]
        except UserError:
            if sources:
                continue
            raise
        if pair and all(read):
            sources[lists[pair[0]]] = dict(zip((TRAIN, VAL), read, strict=True))
            continue
        why = "no image of the data is listed" if pair else "there is no list of the other split"
        reason = reason or f"; {first} is not used: {why}"

    if not sources:
        return splits, reason
    (used, own), *others = sources.items()
    known = {name for part in own.values() for name in part}
    for place, other in others:
        listed = {name for part in other.values() for name in part} & known
        moved = sorted(({*own[TRAIN]} ^ {*other[TRAIN]}) & listed)
        if moved:
            rule = "the data must have one split into train and val"
            remedy = f"those of {used} are used: remove the others"
            warnings.append(differing(rule, used, place, moved, len(listed), remedy))
    if used == _OWN:
        return splits, ""
    chosen: dict[str | None, list[LabelledImage]] = {
        split: [images[name] for name in part] for split, part in own.items()
    }
    chosen[None] = [image for name, image in images.items() if name not in known]
    return chosen, ""


def read_list(files: Files, name: str, images: Container[str]) -> list[str]:
    """Return the images of a list; none if all are missing, as test images often are.

    A line is a name, with or without a suffix, folders and a class after it.
    """
    found = {}
    for line in map(str.strip, files.read_lines(name)):
        if line:
            first = line.rsplit(maxsplit=1)[0]
            exact = next((each for each in (line, first) if each in images), None)
            found[line] = (
                exact
                or files.find_image(line, name, is_moved=True)
                or files.find_image(first, name, is_moved=True)
            )
    missing = [line for line, image in found.items() if image not in images]
    if len(missing) < len(found):
        refuse_missing(
            f"{name}: each line must name a labelled image in the data", missing, len(found)
        )
    return [image for image in found.values() if image is not None and image in images]


def _groups(files: Files) -> list[dict[str, str]]:
    """Return the lists next to each other by what they list, those of obj.data first."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    texts = files.ending(".txt")
    for name, key, path in files.darknet_settings():
        last = PurePosixPath(path).name
        listed = [text for text in texts if PurePosixPath(text).name == last]
        if listed and (split := split_of(key)):
            found[name][split] = listed[0]

    folders = [os.path.dirname(name) for name in files.photographs]
    around = f"/{os.path.commonpath(folders)}/" if folders else "/"
    labelled = {name.rpartition(".")[0] for name in files.photographs}
    for name in texts:
        if name.rpartition(".")[0] in labelled:  # the labels of an image named test1.jpg
            continue
        folder = os.path.dirname(name)
        stem = PurePosixPath(name).stem.lower()
        last, *above = [*reversed(folder.lower().split("/")), ""]
        is_place = last in _FOLDERS or above[0] == "imagesets" or around.startswith(f"/{folder}/")
        if (is_place or not folder) and (split := split_of(stem)):
            found[folder].setdefault(stem if stem == "trainval" else split, name)
    return [lists for lists in found.values() if lists]
