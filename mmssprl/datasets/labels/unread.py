"""Name files of formats that are not read, and what to export instead."""

from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from . import voc
from .coco_file import read_json
from .files import Files

_EXPORT = "export COCO, PASCAL VOC or YOLO"
_JSON = (
    ({"shapes"}, "LabelMe's JSON", "convert it with `labelme2coco DATA`"),
    ({"data", "annotations"}, "Label Studio's JSON", _EXPORT),
    ({"data", "completions"}, "Label Studio's JSON", _EXPORT),
    ({"annotation_id", "annotator"}, "Label Studio's JSON", _EXPORT),
    ({"_via_img_metadata"}, "the VGG Image Annotator's (VIA) JSON", "export its COCO format"),
    ({"filename", "regions"}, "the VGG Image Annotator's (VIA) JSON", "export its COCO format"),
    ({"image", "annotations"}, "CreateML's JSON", _EXPORT),
    ({"image_id", "bbox"}, "a list of COCO's annotations", "add the images and categories"),
    ({"size", "objects"}, "Supervisely's JSON", _EXPORT),
    ({"item", "annotations"}, "V7 Darwin's JSON", _EXPORT),
    ({"categories", "items"}, "Datumaro's JSON", _EXPORT),
    ({"metainfo", "data_list"}, "OpenMMLab's list of data", "write COCO's format"),
    ({"classes", "labels"}, "FiftyOne's JSON", _EXPORT),
)
"""Keys of the first entry of a JSON file, its format and what to do."""
_SUFFIXES = {
    ".csv": "a CSV table",
    ".tsv": "a table",
    ".xlsx": "a table",
    ".ndjson": "JSON in lines",
    ".jsonl": "JSON in lines",
    ".parquet": "a table",
    ".tfrecord": "a TFRecord",
    ".mat": "a MATLAB file",
}
_MOST_OPENED = 100


def near_miss(files: Files) -> str:
    """Return a message about the first file of a known format that is not read, or ""."""
    if found := of_tool(files):
        return found
    for name in files.ending(*_SUFFIXES):
        title = _SUFFIXES[PurePosixPath(name).suffix.lower()]
        return _message(files, name, title, f"{_EXPORT}, or make a folder of images per class")
    return ""


def of_tool(files: Files) -> str:
    """Return a message about the first file of a tool for labels that is not read, or ""."""
    for name in islice(files.ending(".json"), _MOST_OPENED):
        keys = _keys(read_json(files.root / name, name))
        for needed, title, remedy in _JSON:
            if any(needed <= each for each in keys):
                return _message(files, name, title, remedy)
    for name in islice(files.ending(".xml"), _MOST_OPENED):
        root = voc.parse(files.root / name, name)
        if root.tag == "annotations" and root.find("image") is not None:
            return _message(files, name, "CVAT's XML", _EXPORT)
    return ""


def _keys(content: Any) -> list[set[str]]:
    """Return the keys of a JSON object and of its first member, or of the first of a list."""
    found = [content] if isinstance(content, dict) else []
    members = content.values() if isinstance(content, dict) else content
    if isinstance(content, (dict, list)):
        found += [each for each in islice(members, 1) if isinstance(each, dict)]
    return [set(each) for each in found]


def _message(files: Files, name: str, title: str, remedy: str) -> str:
    suffix = PurePosixPath(name).suffix
    num = len(files.ending(suffix.lower()))
    return f"{name}: {title} is not read, the first of {num} {suffix} files; {remedy}."
