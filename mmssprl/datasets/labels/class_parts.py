"""Warn of folders that are read as classes next to other labels, or are parts of the data."""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import PurePosixPath

from ...errors import UserError
from ..image_reading import MOST_DARK
from .files import Files
from .masks import label_images_in
from .unread import of_tool


def warn_of_parts(files: Files, class_of: Mapping[str, str], warnings: list[str]) -> None:
    """Warn of other labels; ``class_of`` has the folder of each image by its name."""
    if message := of_tool(files):
        warnings.append(f"{message} The folders are read as classes instead.")

    drawn = label_images_in([*class_of])
    if len(drawn) > MOST_DARK * len(class_of):
        warnings.append(
            f"{len(drawn)} of {len(class_of)} images look like label images of others, for example "
            f"{drawn[0]}: they are read as photographs of their class; move them."
        )

    titles = sorted({*class_of.values()})
    are_numbered = len({re.sub(r"\d+", "", title) for title in titles}) == 1
    tables = files.ending(".csv", ".tsv", ".jsonl", ".ndjson") if are_numbered else []
    if table := next((name for name in tables if _tells_no_class(files, name, class_of)), ""):
        warnings.append(
            f"{table} lists the images, but not their classes {titles[0]}, {titles[1]}, ...: the "
            "folders may be parts of the data. A table is not read; make a folder per class."
        )


def _tells_no_class(files: Files, table: str, class_of: Mapping[str, str]) -> bool:
    """Whether most images are in a line of a table that does not name their class."""
    titles = {PurePosixPath(name).stem: title for name, title in class_of.items()}
    untold: set[str] = set()
    with suppress(UserError):  # it is no text
        for line in files.read_lines(table):
            cells = {cell.strip() for cell in re.split(r'[,;\t{}:"]+', line)}
            stems = {PurePosixPath(cell).stem for cell in cells} & titles.keys()
            untold.update(stem for stem in stems if titles[stem] not in cells)
    return len(untold) > len(titles) / 2
