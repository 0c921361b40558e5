"""Look at files: whether they are all there, and whether a sample of them can be used."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from ..console.progress import watch
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


def find_fault(path: Path) -> str:
    """Return why an image cannot be decoded, nothing if it can."""
    try:
        read_image(path)
    except ImageReadError as error:
        return error.reason
    return ""


def check_images(
    name: str,
    folder: Path,
    files: Sequence[str],
    fetch: str,
    replace: str,
    fault_of: Callable[[Path], str] = find_fault,
) -> list[Finding]:
    """Find out whether all files are there, and if so, whether a sample of them can be used.

    Args:
        name: Of the folder in the findings, ending in "/".
        folder: Of the files.
        files: Names below ``folder``.
        fetch: Remedy if some are missing.
        replace: Remedy if some are damaged.
        fault_of: Returns what is wrong with a file, nothing if it is right.
    """
    missing = missing_files([f"{folder}/{file}" for file in files])
    if not folder.is_dir() or missing:
        detail = f"no folder {folder}"
        if folder.is_dir():
            first = missing[0].removeprefix(f"{folder}/")
            detail = f"{len(missing):,} of {len(files):,} files are not there, first {first}"
        return [Finding(name, MISSING, detail, fetch)]
    found = Finding(name, OK, f"all {len(files):,} files are there")
    return [found, *check_sample(name, folder, files, replace, fault_of)]


def check_sample(
    name: str,
    folder: Path,
    files: Sequence[str],
    replace: str,
    fault_of: Callable[[Path], str] = find_fault,
) -> list[Finding]:
    """Look at a sample of files that are there, as ``check_images``; none is no finding."""
    if not files:
        return []
    title = f"{name.rstrip('/')}: sample"
    chosen = spread(sorted(files))
    faults = [
        f"{file}: {fault}"
        for file in watch(chosen, f"{title}: reading")
        if (fault := fault_of(folder / file))
    ]
    if faults:
        detail = f"{len(faults)} of {len(chosen)} sampled files are bad, first {faults[0]}"
        return [Finding(title, WRONG, detail, replace)]
    return [Finding(title, OK, f"{len(chosen)} of {len(files):,} files are right")]
