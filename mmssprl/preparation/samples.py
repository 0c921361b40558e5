"""Look at files: whether they are all there, and whether a sample of them decodes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from ..console.progress import watch
from ..datasets.image_opening import open_image
from ..datasets.image_reading import ImageReadError, missing_files, read_image
from .finding import MISSING, OK, WRONG, Finding

SAMPLE_SIZE = 64
"""Images of a split that are decoded."""

Item = TypeVar("Item")


def spread(items: Sequence[Item], size: int = SAMPLE_SIZE) -> list[Item]:
    """Take ``size`` items at equal distances, the first and the last among them.

    The choice depends on the number of items alone. If there are no more than ``size``, it is all.
    """
    if len(items) <= size:
        return list(items)
    return [items[i * (len(items) - 1) // (size - 1)] for i in range(size)]


def check_files(name: str, folder: Path, files: Sequence[str], remedy: str) -> Finding:
    """Find out whether ``files``, given by their names below ``folder``, are there."""
    if not folder.is_dir():
        return Finding(name, MISSING, f"no folder {folder}", remedy)
    missing = missing_files([f"{folder}/{file}" for file in files])
    if missing:
        first = missing[0].removeprefix(f"{folder}/")
        detail = f"{len(missing):,} of {len(files):,} files are not there, first {first}"
        return Finding(name, MISSING, detail, remedy)
    return Finding(name, OK, f"all {len(files):,} files are there")


def check_sample(
    name: str,
    folder: Path,
    files: Sequence[str],
    remedy: str,
    *,
    sizes: Mapping[str, tuple[int, int]] | None = None,
) -> Finding:
    """Decode a sample of images.

    Args:
        name: Name of the split, in the name of the finding.
        folder: Folder of the images.
        files: All images of the split, below ``folder``. They exist.
        remedy: Remedy of the finding if one cannot be decoded or has another size.
        sizes: Width and height of each file in pixels as stored, before an EXIF orientation is
            applied. None if they are unknown.
    """
    chosen = spread(sorted(files))
    faults = []
    for file in watch(chosen, f"{name}: decoding a sample"):
        path = folder / file
        try:
            read_image(path)
            with open_image(path) as image:
                size = image.size
        except (ImageReadError, OSError) as error:
            faults.append(f"{file}: {error.reason if isinstance(error, ImageReadError) else error}")
            continue
        if sizes is not None and size != sizes[file]:
            expected = f"{sizes[file][0]} x {sizes[file][1]}"
            faults.append(f"{file}: it has {size[0]} x {size[1]} px, not {expected}")
    if faults:
        detail = f"{len(faults)} of {len(chosen)} sampled images are bad, first {faults[0]}"
        return Finding(f"{name}: sample", WRONG, detail, remedy)
    also = "decode" if sizes is None else "decode and have the size in the annotations"
    return Finding(f"{name}: sample", OK, f"{len(chosen)} of {len(files):,} images {also}")
