"""Labels in the files of other tools: recognised, with what makes them labels that are read."""

import csv
from collections.abc import Callable
from typing import Any

from ...errors import UserValueError
from ..coco_file import read_json
from . import voc
from .files import Files

_MASKS = "export masks (PNGs of class indices)"
_CLASS_COLUMNS = frozenset(("class", "label", "class_name", "category", "labels"))


def find_foreign(files: Files, task: str) -> str:
    """Return which labels of another tool a folder holds and what converts them; "" for none."""
    for is_it, suffix, tool, remedy in _TOOLS:
        for name in files.ending(suffix):
            try:
                if is_it(files, name):
                    return f"{name} is of {tool}: {_MASKS if task == 'segment' else remedy}"
            except (UserValueError, csv.Error):  # not even in its format
                continue
    return ""


def _is_cvat(files: Files, name: str) -> bool:
    return voc.parse(files.root / name, name).tag == "annotations"


def _json(files: Files, name: str) -> Any:
    return read_json(files.root / name, name)


def _is_labelme(files: Files, name: str) -> bool:
    content = _json(files, name)
    return isinstance(content, dict) and isinstance(content.get("shapes"), list)


def _is_label_studio(files: Files, name: str) -> bool:
    content = _json(files, name)
    first = content[0] if isinstance(content, list) and content else None
    return isinstance(first, dict) and bool({"annotations", "completions"} & set(first))


def _is_table(files: Files, name: str) -> bool:
    header = next(csv.reader(files.read_lines(name)[:1]), [])
    return bool(_CLASS_COLUMNS & {title.strip().lower() for title in header})


_TOOLS: tuple[tuple[Callable[[Files, str], bool], str, str, str], ...] = (
    (_is_cvat, ".xml", "CVAT", "export the task there as COCO 1.0 or Ultralytics YOLO"),
    (_is_labelme, ".json", "LabelMe", "pip install labelme2coco; labelme2coco DATA"),
    (_is_label_studio, ".json", "Label Studio", "export the project there as COCO or YOLO"),
    (_is_table, ".csv", "a table", "write its rows as a COCO .json, or sort the images into a "
     "folder per class"),
)  # fmt: skip
"""How each is known, the suffix of its files, its name, and the converter."""
