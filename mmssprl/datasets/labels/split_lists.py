"""Read the lists of images that name the splits: train.txt and val.txt, for all layouts.

The lists of a folder are their file names by what they list: "trainval", "train", "val" or "test".
"""

import os
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from itertools import chain
from pathlib import Path, PurePosixPath

from ...errors import UserError, UserValueError
from ..image_index import IMAGE_SUFFIXES
from .agreement import differing, spelled
from .files import Files, refuse_missing
from .labelled_images import LabelledImage, Splits, all_images, by_folder
from .split_names import TRAIN, VAL, split_of

_Listed = dict[str, list[str]]
"""Names of images by split."""
_PAIRS = (("trainval", "test"), ("train", "val"), ("train", "test"))
"""Lists that become train and val; the first complete pair counts."""
_FOLDERS = ("splits", "split", "imagesets")
"""Folders of lists, in lower case, other than one around all images."""
_OWN = "the folders or label files"


def with_lists(files: Files, splits: Splits, warnings: list[str]) -> tuple[Splits, str]:
    """Return the splits, and why lists are not used, or "".

    Lists replace only the missing splits of a layout. The first pair of lists is used. Others that
    differ from what is used are a warning.
    """

    def name_of(image: LabelledImage) -> str:
        return image.path.removeprefix(f"{files.root}/")

    images = {name_of(image): image for image in all_images(splits)}

    sources: dict[str, _Listed] = {}
    named = {split: own for split, own in splits.items() if split}
    if TRAIN in named and len(named) > 1:
        sources[_OWN] = {split: [*map(name_of, own)] for split, own in named.items()}
    reason = _add_pairs(sources, files, images)
    if not sources:
        return splits, reason

    (used, own), *others = sources.items()
    known = {*chain.from_iterable(own.values())}
    for place, other in others:
        listed = known.intersection(chain.from_iterable(other.values()))
        moved = sorted(({*own[TRAIN]} ^ {*other[TRAIN]}) & listed)
        if moved:
            rule = "the data must have one split into train and val"
            remedy = f"the split of {used} is used: remove the others"
            warnings.append(differing(rule, used, place, moved, len(listed), remedy))

    if used == _OWN:
        return splits, ""
    chosen: dict[str | None, list[LabelledImage]] = {
        split: [*map(images.__getitem__, part)] for split, part in own.items()
    }
    chosen[None] = [image for name, image in images.items() if name not in known]
    return chosen, ""


def _add_pairs(
    sources: dict[str, _Listed], files: Files, images: Mapping[str, LabelledImage]
) -> str:
    """Add the pairs of lists by the name of their first; return why others are not used, or ""."""
    reason = ""
    for lists in _groups(files):
        first, *_ = lists.values()
        if sources and PurePosixPath(first).parts[-3:-2] == ("ImageSets",):
            continue  # each task has its own, such as Segmentation

        # Next to splits of the data, trainval is the two of them joined.
        pair = _first_pair(lists, _PAIRS[1:] if sources else _PAIRS)
        try:
            read = [read_list(files, name, images) for name in pair]
        except UserError:
            if sources:
                continue
            raise
        if pair and all(read):
            sources[pair[0]] = dict(zip((TRAIN, VAL), read, strict=True))
            continue
        why = "no image of the data is listed" if pair else "there is no list of the other split"
        reason = reason or f"; {first} is not used: {why}"
    return reason


def _first_pair(
    lists: Mapping[str, str], pairs: Iterable[tuple[str, str]] = _PAIRS
) -> tuple[str, ...]:
    """Return the lists that become train and val; () if there are none."""
    stems = next((pair for pair in pairs if {*pair} <= {*lists}), ())
    return tuple(lists[stem] for stem in stems)


def read_list(files: Files, name: str, images: Container[str]) -> list[str]:
    """Return the images of a list; none if all are missing, as test images often are.

    A line is a name, with or without a suffix, folders and a class after it.
    """
    found = {}
    for line in map(str.strip, files.read_lines(name)):
        if line:
            first, last = [*line.rsplit(maxsplit=1), ""][:2]
            if last.endswith((")", *IMAGE_SUFFIXES)) and "/" not in last:
                first = line  # "photo (1).jpg" has no class, and is not photo.jpg
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
    """Return the lists next to each other by what they list, the lists of obj.data first."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    texts = files.ending(".txt")
    for name, key, path in files.darknet_settings():
        last = spelled(PurePosixPath(path).name)
        listed = [text for text in texts if spelled(PurePosixPath(text).name) == last]
        if listed and (split := split_of(key)):
            found[name][split] = listed[0]

    folders = [os.path.dirname(name) for name in files.photographs]
    around = f"/{os.path.commonpath(folders)}/" if folders else "/"
    labelled = {spelled(name.rpartition(".")[0]) for name in files.photographs}
    for name in texts:
        if spelled(name.rpartition(".")[0]) in labelled:  # the labels of an image named test1.jpg
            continue
        folder = os.path.dirname(name)
        stem = PurePosixPath(name).stem.lower()
        last, *above = [*reversed(folder.lower().split("/")), ""]
        is_place = last in _FOLDERS or above[0] == "imagesets" or around.startswith(f"/{folder}/")
        if (is_place or not folder) and (split := split_of(stem)):
            found[folder].setdefault(stem if stem == "trainval" else split, name)
    return [lists for lists in found.values() if lists]


def image_sets(files: Files, task: str) -> dict[str, str]:
    """Return the lists of PASCAL VOC's ImageSets/<task> by stem.

    Raises:
        ValueError: There are two such folders.
    """
    names = [n for n in files.ending(".txt") if Path(n).parts[-3:-1] == ("ImageSets", task)]
    years = sorted({name.rpartition("ImageSets/")[0] for name in names})
    if len(years) > 1:
        raise UserValueError(
            f"the data must hold one year of PASCAL VOC, but hold {', '.join(years)}; give one."
        )
    return {Path(name).stem: name for name in names}


def listed_names(lines: Iterable[str]) -> list[str]:
    """Return the names of images, without spaces, in the lines of an image set."""
    return [line.split()[0] for line in lines if line.strip()]


def meant_by(line: str) -> list[str]:
    """Return the names that a line of an image set may mean, the likeliest first.

    CVAT writes folders before a name, and quotes around a name with spaces. Others write a suffix,
    numbers after the name, or the path of the label file after the path of the image.
    "photo (1).jpg" is never "photo".
    """
    texts = [line.replace("\\", "/")]
    while shorter := re.fullmatch(r"(.+?)\s+[-+]?\d+(?:\.\d+)?", texts[-1]):
        texts.append(shorter[1])
    first, *others = map(PurePosixPath, texts[0].split())
    if first.suffix.lower() in IMAGE_SUFFIXES and [path.stem for path in others] == [first.stem]:
        texts.append(str(first))

    found: list[str] = []
    for text in texts:
        for name in (text, text.strip('"')):
            has_suffix = name.lower().endswith((*IMAGE_SUFFIXES, ".xml"))
            stem = name.rpartition(".")[0] if has_suffix else name
            found += [name, stem, re.sub(r"^(\./)?((.*/)?JPEGImages/)?", "", stem)]
    return [*dict.fromkeys(found)]


def named_by(lines: Iterable[str], image_of: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the label files that each line of an image set names, by line.

    ``image_of`` has the image of each label file: a line may have the folders of either, and the
    label file comes first.
    """
    by_end = _by_end(image_of) | _by_end({name: name for name in image_of})
    found = {}
    for line in lines:
        names = meant_by(line)
        named = [name for name in (*names, *map(spelled, names)) if name in by_end]
        if named:
            found[line] = by_end[named[0]]
    return found


def _by_end(paths: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the keys by the last parts of their paths, 1, 2, ..., without the suffix."""
    exact: dict[str, list[str]] = defaultdict(list)
    for key, path in paths.items():
        parts = path.rpartition(".")[0].split("/")
        for start in range(len(parts)):
            exact["/".join(parts[start:])].append(key)
    return {spelled(end): own for end, own in exact.items()} | exact


def read_image_sets(files: Files, task: str) -> _Listed:
    """Return the lines of train and val of ImageSets/<task>; {} without such lists."""
    pair = _first_pair(image_sets(files, task))
    lines = [[*filter(None, map(str.strip, files.read_lines(name)))] for name in pair]
    return dict(zip((TRAIN, VAL), lines, strict=False))


def image_set_splits(
    files: Files, task: str, images: Mapping[str, LabelledImage], what: str
) -> Splits:
    """Return train and val of ImageSets/<task>, else the splits that folders name."""
    image_of = {name: image.path.removeprefix(f"{files.root}/") for name, image in images.items()}
    splits: dict[str | None, list[LabelledImage]] = {}
    for split, lines in read_image_sets(files, task).items():
        found = named_by(lines, image_of)
        lost = [line for line in lines if line not in found]
        rule = f"every image that ImageSets/{task} lists for {split} must have {what}"
        refuse_missing(rule, lost, len(lines))
        for line, own in found.items():
            if len(own) > 1:
                raise UserValueError(
                    f"each line of ImageSets/{task} must name one file, but {line} is {own[0]} and "
                    f"{own[1]}; write their folders before the name."
                )
        splits[split] = [images[found[line][0]] for line in lines]
    return splits or by_folder(images)
