"""Changes of labelled folders: each returns a function of the folder."""

import json
import re

import numpy as np
from PIL import Image

CROWDS = '"iscrowd": 0', '"iscrowd": 1'


def in_coco(edit, *splits):
    def spoil(root):
        for split in splits or ["train"]:
            path = root / split / "_annotations.coco.json"
            path = path if path.exists() else root / "all.json"
            content = json.loads(path.read_text())
            edit(content)
            path.write_text(json.dumps(content))

    return spoil


def first(kind, **values):
    """Change the first entry of a list in a COCO file."""
    return in_coco(lambda content: content[kind][0].update(values))


def crowds_but_for(*numbers):
    def edit(content):
        for annotation in content["annotations"]:
            annotation["iscrowd"] = int(annotation["image_id"] not in numbers)

    return in_coco(edit)


def unlink(name):
    return lambda root: (root / name).unlink()


def file(name, content):
    return lambda root: (root / name).write_bytes(content)


def replaced(pattern, old, new):
    """Change the text of all files of a pattern."""

    def spoil(root):
        for path in root.glob(pattern):
            path.write_text(re.sub(old, new, path.read_text()))

    return spoil


def images(pattern, edit, suffix=None):
    """Change label images."""

    def spoil(root):
        for path in root.glob(pattern):
            pixels = edit(Image.open(path))
            path.unlink()
            pixels.save(path.with_suffix(suffix or path.suffix))

    return spoil


def values(*table):
    """Change the indices of label images."""
    lookup = np.array([*table, *[255] * (256 - len(table))], np.uint8)
    return images("masks/*/*.png", lambda mask: Image.fromarray(lookup[np.asarray(mask)]))


def both(*spoils):
    return lambda root: [spoil(root) for spoil in spoils]
