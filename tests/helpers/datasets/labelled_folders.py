"""Small labelled folders in every layout: red squares and green discs on gray noise."""

import json

import numpy as np
import pytest
import torch
from helpers.experiments.tiny_benchmark import save_backbone
from PIL import Image
from pycocotools import mask as run_lengths

from mmssprl.datasets.labels import find_labels

WIDTH = 48
HEIGHT = 40
CLASSES = ("disc", "square")
COLOURS = ((40, 220, 40), (220, 40, 40))


def shapes_of(index):
    """Image ``index`` shows a disc, a square, or both."""
    return [(0,), (1,), (0, 1)][index % 3]


def all_shapes(num=12):
    """Image and shape of each object in the first images."""
    found = []
    for index in range(num):
        found += [(index, shape) for shape in shapes_of(index)]
    return found


def box_of(index, shape):
    """x, y, width and height of a shape of an image."""
    return 2 + index % 5 + 22 * shape, 4 + index % 7, 16, 16


def polygon_of(box):
    x, y, width, height = box
    return [x, y, x + width, y, x + width, y + height, x, y + height]


def run_lengths_of(mask):
    code = run_lengths.encode(np.asfortranarray(mask, np.uint8))
    return {"size": [*mask.shape], "counts": code["counts"].decode()}


def mask_of(index, shape):
    x, y, side, _ = box_of(index, shape)
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    if shape == 1:
        return (columns >= x) & (columns < x + side) & (rows >= y) & (rows < y + side)
    centre = (side - 1) / 2
    return (columns - x - centre) ** 2 + (rows - y - centre) ** 2 <= (side / 2) ** 2


def write_image(path, index, shapes=None):
    pixels = np.random.default_rng(index).integers(90, 130, (HEIGHT, WIDTH, 3)).astype(np.uint8)
    shown = shapes_of(index) if shapes is None else shapes
    for shape in shown:
        pixels[mask_of(index, shape)] = COLOURS[shape]
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, quality=95)


def coco_content(names, first=0):
    images = []
    annotations = []
    for number, name in enumerate(names):
        index = first + number
        images.append({"id": index, "file_name": name, "width": WIDTH, "height": HEIGHT})
        for shape in shapes_of(index):
            box = box_of(index, shape)
            place = {"category_id": [9, 4][shape], "bbox": [*box], "area": box[2] * box[3]}
            number = {"id": len(annotations) + 1, "image_id": index, "iscrowd": 0}
            annotations.append({**number, **place, "segmentation": [polygon_of(box)]})
    # Category ids against the order of the file, and of the alphabet: square comes first.
    categories = [{"id": 9, "name": "disc"}, {"id": 4, "name": "square"}]
    return {"images": images, "annotations": annotations, "categories": categories}


def write_listed(root, images, names, first=0, file="all.json", edit=lambda content: None):
    """COCO in one file, whose ``names`` need not be those of the ``images`` written."""
    for i, name in enumerate(images):
        write_image(root / name, first + i)
    content = coco_content(names, first)
    edit(content)
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(json.dumps(content))


def write_coco(root, num_train=16, num_val=8):
    """COCO in two splits, images in nested folders, with names that no pattern fits."""
    for split, first, count in (("train", 0, num_train), ("valid", num_train, num_val)):
        names = [f"cam {i % 2}/Shot-{first + i:02d}.v1.PNG" for i in range(count)]
        images = [f"{split}/pictures/{name}" for name in names]
        write_listed(root, images, names, first, f"{split}/_annotations.coco.json")
    return root


def write_xml(path, index, named=None):
    objects = ""
    for shape in shapes_of(index):
        x, y, width, height = box_of(index, shape)
        box = f"<xmin>{x + 1}</xmin><ymin>{y + 1}</ymin>"
        box += f"<xmax>{x + width}</xmax><ymax>{y + height}</ymax>"
        objects += f"<object><name>{CLASSES[shape]}</name><bndbox>{box}</bndbox></object>"
    path.parent.mkdir(parents=True, exist_ok=True)
    filename = f"<filename>{named}</filename>" if named else ""
    path.write_text(f"<annotation>{filename}{objects}</annotation>")


def write_voc(root, num_images=24, num_val=8):
    """VOC's folders, the last images in val."""
    names = [f"img_{i:03d}" for i in range(num_images)]
    for i, name in enumerate(names):
        write_image(root / "JPEGImages" / f"{name}.jpg", i)
        write_xml(root / "Annotations" / f"{name}.xml", i, f"{name}.jpg")
    lists = root / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    (lists / "train.txt").write_text("\n".join(names[:-num_val]) + "\n")
    (lists / "val.txt").write_text("\n".join(names[-num_val:]) + "\n")
    return root


def write_yolo(root, num_train=16, num_val=8, *, polygons=False):
    """images/<split> and labels/<split>, with a data.yaml; shapes are boxes, or their corners."""
    for index in range(num_train + num_val):
        split = "train" if index < num_train else "val"
        write_image(root / "images" / split / f"{index}.jpg", index)
        lines = []
        for shape in shapes_of(index):
            x, y, width, height = box = box_of(index, shape)
            centred = [x + width / 2, y + height / 2, width, height]
            numbers = polygon_of(box) if polygons else centred
            shares = [n / (HEIGHT if i % 2 else WIDTH) for i, n in enumerate(numbers)]
            lines.append(" ".join(map(str, [shape, *shares])) + "\n")
        path = root / "labels" / split / f"{index}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(lines))
    (root / "data.yaml").write_text(
        "path: ../datasets/shapes\ntrain: images/train\nval: images/val\n"
        "names: {0: disc, 1: square}\n"
    )
    return root


def write_masks(root, num_train=16, num_val=8, *, classes=("background", *CLASSES)):
    """images/<split> and masks/<split>: 0 background, 1 disc, 2 square, the top row ignored."""
    for index in range(num_train + num_val):
        split = "train" if index < num_train else "val"
        write_image(root / "images" / split / f"{index}.jpg", index)
        write_mask(root / "masks" / split / f"{index}.png", index)
    if classes:
        (root / "classes.txt").write_text("\n".join(classes) + "\n")
    return root


def write_mask(path, index):
    labels = np.zeros((HEIGHT, WIDTH), np.uint8)
    for shape in shapes_of(index):
        labels[mask_of(index, shape)] = shape + 1
    labels[0] = 255
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(labels).save(path)


def write_class_folders(root, per_class=10):
    """A folder per class, each image with that shape alone, some in a folder below."""
    for shape, name in enumerate(CLASSES):
        for index in range(per_class):
            below = "deep/er" if index % 3 == 0 else ""
            write_image(root / name / below / f"no {index}.jpeg", index, (shape,))
    return root


def write_weights(folder):
    """Random weights of a narrow ResNet next to the config of its pre-training."""
    torch.manual_seed(0)
    return save_backbone(folder / "tiny_backbone.pth")


def refused(root, task, match):
    with pytest.raises((ValueError, FileNotFoundError), match=match) as caught:
        find_labels(root, task)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value).replace(str(root), "")) < 600


def images_of(data):
    return [*data.train, *data.val]


def write_flat(root, edit=lambda content: None, *, names="{}.png", num=12):
    """COCO in one file next to its images."""
    images = [f"{i}.png" for i in range(num)]
    write_listed(root, images, [names.format(i) for i in range(num)], edit=edit)
    return root


def every_entry_twice(content):
    """As if two exports had been merged: equal objects under other ids."""
    num = len(content["images"])
    content["images"] += [{**each, "id": each["id"] + num} for each in content["images"]]
    content["annotations"] += [
        {**each, "id": each["id"] + 100, "image_id": each["image_id"] + num}
        for each in content["annotations"]
    ]
