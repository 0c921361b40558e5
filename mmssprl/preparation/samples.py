"""Looking at files: are they all there, does a sample decode, what are its digests.

No official digests of single files are known, so digests are printed and compared with nothing:
two labs can compare theirs. A digest of names is that of the sorted names, a line each, as
``ls | LC_ALL=C sort | sha256sum`` gives; one of files is that of their bytes one after the other,
in the order of the names.
"""

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from PIL import Image
from rich.console import Console
from rich.progress import track

from mmssprl.datasets.image_reading import ImageReadError, read_image
from mmssprl.preparation.finding import MISSING, OK, WRONG, Finding

SAMPLE_SIZE = 64
"""Images of a split that are decoded."""

Item = TypeVar("Item")


def watch(items: Sequence[Item], description: str) -> Iterable[Item]:
    """Go through ``items`` behind a progress bar on stderr, none if that is no terminal."""
    console = Console(file=sys.stderr)
    return track(
        items, description, console=console, transient=True, disable=not console.is_terminal
    )


def spread(items: Sequence[Item], size: int = SAMPLE_SIZE) -> list[Item]:
    """Take ``size`` items at equal distances, the first and the last among them.

    The choice depends on the number of items alone. All items if there are no more than ``size``.
    """
    if len(items) <= size:
        return list(items)
    return [items[i * (len(items) - 1) // (size - 1)] for i in range(size)]


def digest_lines(lines: Iterable[str | int]) -> str:
    """Return the SHA-256 of lines of text, each ended by a newline."""
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def check_files(name: str, folder: Path, files: Sequence[str], remedy: str) -> Finding:
    """Find out whether files are there, listing each folder once.

    Args:
        name: Of the finding.
        folder: Where they must be.
        files: Their names below ``folder``, with "/".
        remedy: If some are missing.
    """
    if not folder.is_dir():
        return Finding(name, MISSING, f"no folder {folder}", remedy)
    listings: dict[str, frozenset[str]] = {}
    missing = []
    for file in files:
        parent, _, base = file.rpartition("/")
        if parent not in listings:
            path = folder / parent
            listings[parent] = frozenset(os.listdir(path) if path.is_dir() else ())
        if base not in listings[parent]:
            missing.append(file)
    if missing:
        detail = f"{len(missing):,} of {len(files):,} files are not there, first {missing[0]}"
        return Finding(name, MISSING, detail, remedy)
    return Finding(name, OK, f"all {len(files):,} files are there")


def check_sample(
    name: str,
    folder: Path,
    files: Sequence[str],
    remedy: str,
    *,
    sizes: Mapping[str, tuple[int, int]] | None = None,
) -> list[Finding]:
    """Decode a sample of images and give the digests.

    Args:
        name: Begins the names of the findings.
        folder: Where the images are.
        files: All images of the split, below ``folder``; they exist.
        remedy: If one cannot be decoded or has another size.
        sizes: Width and height of each file in pixels as stored, before an EXIF orientation is
            applied; None: unknown.

    Returns:
        Whether the sample decodes, the digest of all names, the digest of the sample's bytes.
    """
    ordered = sorted(files)
    chosen = spread(ordered)
    content, faults = hashlib.sha256(), []
    for file in watch(chosen, f"{name}: decoding a sample"):
        path = folder / file
        try:
            read_image(path)
            with Image.open(path) as image:
                size = image.size
        except (ImageReadError, OSError) as error:
            faults.append(f"{file}: {error.reason if isinstance(error, ImageReadError) else error}")
            continue
        if sizes is not None and size != sizes[file]:
            expected = f"{sizes[file][0]} x {sizes[file][1]}"
            faults.append(f"{file}: it has {size[0]} x {size[1]} px, not {expected}")
        content.update(path.read_bytes())
    if faults:
        detail = f"{len(faults)} of {len(chosen)} sampled images are bad, first {faults[0]}"
        return [Finding(f"{name}: sample", WRONG, detail, remedy)]
    also = "decode" if sizes is None else "decode and have the size in the annotations"
    return [
        Finding(f"{name}: sample", OK, f"{len(chosen)} of {len(files):,} images {also}"),
        Finding(f"{name}: SHA-256 of the names", OK, digest_lines(ordered)),
        Finding(f"{name}: SHA-256 of the sample", OK, content.hexdigest()),
    ]
