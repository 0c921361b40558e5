"""Tiny labelled folders and a config with a small pyramid, as functions and as fixtures."""

import json

import numpy as np
import pytest
from PIL import Image

CONFIG = """
model = dict(
    type="SSPRL",
    layout=dict(
        image_px=32,
        levels=[dict(grid=2, resize_px=64, patch_px=24), dict(grid=3, resize_px=90, patch_px=16)],
    ),
    backbone=dict(
        type="ResNet", depth=18, stem_channels=8, base_channels=8, num_stages=2,
        strides=(1, 2), dilations=(1, 1), out_indices=(1,),
        init_cfg=dict(type="Pretrained", checkpoint="not_there.pth"),
    ),
    data_preprocessor=dict(mean=(100.0, 110.0, 120.0), std=(50.0, 55.0, 60.0)),
)
"""
COLOURS = {"red": (200, 60, 60), "green": (60, 200, 60)}


def write_config(tmp_path):
    path = tmp_path / "tiny.py"
    path.write_text(CONFIG)
    return path


def write_image(path, names, index):
    rng = np.random.default_rng(index)
    pixels = rng.integers(0, 60, (40, 48, 3))
    for half, name in zip((slice(0, 20), slice(20, 40)), names, strict=False):
        pixels[half] += np.array(COLOURS[name]) // 2
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path)


def contents(index):
    return [(), ("red",), ("green",), ("red", "green")][index % 4]


def write_coco(tmp_path, *, mixed=False):
    """24 + 12 images, two of five with a wrong label if ``mixed``."""
    root = tmp_path / "coco"
    for split, count in (("train2014", 24), ("val2014", 12)):
        images = []
        annotations = []
        for i in range(count):
            write_image(root / split / f"{i}.jpg", contents(i), i)
            images.append({"id": i, "file_name": f"{i}.jpg", "height": 40, "width": 48})
            for name in contents(i):
                # Ids against the order of the names: the order of ids counts.
                category = {"green": 3, "red": 7}[name]
                category = 10 - category if mixed and i % 5 < 2 else category
                annotations.append({"id": len(annotations), "image_id": i, "category_id": category})
        categories = [{"id": 7, "name": "red"}, {"id": 3, "name": "green"}]
        content = {"images": images, "annotations": annotations, "categories": categories}
        (root / "annotations").mkdir(exist_ok=True)
        (root / "annotations" / f"instances_{split}.json").write_text(json.dumps(content))
    return root


def write_voc(tmp_path):
    """The same images, with difficult objects and a class without any."""
    root = tmp_path / "devkit" / "VOC2007"
    for folder in ("ImageSets/Main", "Annotations"):
        (root / folder).mkdir(parents=True)
    for i in range(36):
        write_image(root / "JPEGImages" / f"{i:06d}.jpg", contents(i), i)
        objects = [(name, 0) for name in contents(i)]
        if i % 4 < 2:  # alone, so it is unknown, or with an easy one
            objects.append(("red", 1))
        xml = "".join(
            f"<object><name>{name}</name><difficult>{hard}</difficult>"
            "<part><name>head</name></part></object>"
            for name, hard in objects
        )
        (root / "Annotations" / f"{i:06d}.xml").write_text(f"<annotation>{xml}</annotation>")
    for split, numbers in (("trainval", range(24)), ("test", range(24, 36))):
        names = "".join(f"{i:06d}\n" for i in numbers)
        (root / "ImageSets/Main" / f"{split}.txt").write_text(names)
    (root / "ImageSets/Main/zebra_trainval.txt").write_text("")
    return root


# They take ``tmp_path`` alone.
config, coco, voc = map(pytest.fixture, (write_config, write_coco, write_voc))


@pytest.fixture
def photos(tmp_path):
    """Ten images in two folders, in the order of their names."""
    for i in range(10):
        below = "a" if i < 4 else "b c"
        write_image(tmp_path / "photos" / below / f"{i}.jpg", ["red"] if i % 3 else ["green"], i)
    return tmp_path / "photos"
