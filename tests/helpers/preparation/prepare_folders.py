"""Tiny folders in the layouts of the public data sets, for the tests of ``prepare``."""

import json
import shlex
import subprocess

import numpy as np
from PIL import Image

from mmssprl.preparation.voc07 import CLASSES


def by_name(findings):
    found = {item.name: item for item in findings}
    assert len(found) == len(findings)
    return found


def statuses(findings):
    return {item.status for item in findings}


def write_jpeg(path, height, width, seed=0, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(pixels).save(path, format="JPEG", **options)


def shell(command):
    return subprocess.run(
        ["bash", "-ec", command], capture_output=True, text=True, check=True
    ).stdout


def run_remedy(remedy, archives):
    """Run printed commands, except for those that fetch: put ``archives`` there."""
    lines = remedy.splitlines()
    for line in lines:
        words = shlex.split(line.lstrip("# "))
        if words[0] == "curl" or words[0] == "put":
            target = words[words.index("-o") + 1] if words[0] == "curl" else words[-1]
            name = target.rsplit("/", 1)[-1]
            shell(f"mkdir -p {shlex.quote(target.rsplit('/', 1)[0])}")
            shell(f"cp {shlex.quote(str(archives / name))} {shlex.quote(target)}")
    shell("\n".join(line for line in lines if not line.startswith(("curl", "#"))))


def coco_images(count, first_id=1):
    return [
        {"id": first_id + i, "file_name": f"{i:03}.jpg", "height": 20 + i, "width": 30}
        for i in range(count)
    ]


def write_coco(root, train=3, val=2):
    for split, count in (("train2014", train), ("val2014", val)):
        images = coco_images(count, first_id=100 if split == "val2014" else 1)
        for image in images:
            write_jpeg(root / split / image["file_name"], image["height"], image["width"])
        write_coco_json(root, split, images)
    return root


def write_coco_json(root, split, images):
    (root / "annotations").mkdir(exist_ok=True)
    content = {
        "images": images[::-1],  # the order in the file must not count
        "annotations": [{"id": 1, "image_id": image["id"], "category_id": 1} for image in images],
        "categories": [{"id": 1, "name": "cup"}, {"id": 2, "name": "dog"}],
    }
    (root / "annotations" / f"instances_{split}.json").write_text(json.dumps(content))


def write_voc07(voc, splits=(("trainval", ("01", "02", "03")), ("test", ("04", "05")))):
    """Each image has a cat, and a difficult dog."""
    main = voc / "ImageSets/Main"
    main.mkdir(parents=True)
    (voc / "Annotations").mkdir()
    labels = {"cat": 1, "dog": 0}
    for split, names in splits:
        (main / f"{split}.txt").write_text("".join(f"{name}\n" for name in names))
        for label in CLASSES:
            lines = [f"{name} {labels.get(label, -1):2d}\n" for name in names]
            (main / f"{label}_{split}.txt").write_text("".join(lines))
        for name in names:
            write_jpeg(voc / "JPEGImages" / f"{name}.jpg", 20, 30, seed=int(name))
            (voc / "Annotations" / f"{name}.xml").write_text(
                "<annotation><object><name>cat</name><difficult>0</difficult></object>"
                "<object><name>dog</name><difficult>1</difficult></object></annotation>"
            )
    return voc


def write_png(path, labels, mode="P"):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(np.asarray(labels, np.uint8))
    if mode == "P":
        image = Image.fromarray(np.asarray(labels, np.uint8), mode="L")
        image.putpalette([(37 * i) % 256 for i in range(768)])
    image.save(path)


# Hand-typed labels, each with another corner, so that a mix-up shows.
OWN = {
    "a": [[0, 1, 255], [0, 0, 20]],  # in VOC's train only
    "b": [[2, 2, 255], [2, 255, 0]],  # in VOC's train, and with other labels in SBD
    "v": [[3, 0, 0], [0, 0, 255]],  # in VOC's val, and in SBD's train
}
ADDED = {
    "b": [[7, 7, 7], [7, 7, 7]],
    "c": [[0, 4, 4], [0, 15, 15]],
    "d": [[5, 0, 0], [0, 0, 20]],
    "v": [[8, 8, 8], [8, 8, 8]],
}


def write_voc12(voc):
    lists = voc / "ImageSets/Segmentation"
    lists.mkdir(parents=True)
    (lists / "train.txt").write_text("b\na\n")
    (lists / "val.txt").write_text("v\n")
    for name, labels in OWN.items():
        write_png(voc / "SegmentationClass" / f"{name}.png", labels)
    for seed, name in enumerate("abcdv"):
        write_jpeg(voc / "JPEGImages" / f"{name}.jpg", 2, 3, seed=seed)
    return voc


def write_imagenet(root, classes=("n01440764", "n02102040"), per_class=2):
    for seed, name in enumerate(classes):
        for i in range(per_class):
            write_jpeg(root / "train" / name / f"{name}_{i}.JPEG", 20, 30, seed=10 * seed + i)
    return root
