"""Labels of images of another size, or of the pixels before EXIF turns them, are refused."""

import json

import numpy as np
import pytest
from helpers.datasets.labelled_folders import (
    HEIGHT,
    WIDTH,
    box_of,
    coco_content,
    images_of,
    mask_of,
    refused,
    shapes_of,
    write_image,
    write_voc,
    write_yolo,
)
from PIL import Image
from pycocotools import mask as run_lengths

from mmssprl.datasets.labels import find_labels
from mmssprl.datasets.labels.label_maps import draw_mask

NUM = 12
TURNS = {5: "TRANSPOSE", 6: "ROTATE_90", 7: "TRANSVERSE", 8: "ROTATE_270"}
TO_STORED = {3: "ROTATE_180", **TURNS}
"""How an image is stored that EXIF's orientation turns upright."""
STORED = (HEIGHT, WIDTH)
UNKNOWN = [(0, 0), (None, None), (WIDTH, 0)]


def moved(mask, orientation, factor):
    image = Image.fromarray(mask.astype(np.uint8) * 255)
    if orientation in TO_STORED:
        image = image.transpose(Image.Transpose[TO_STORED[orientation]])
    size = tuple(round(side * factor) for side in image.size)
    return np.asarray(image.resize(size, Image.Resampling.NEAREST)) > 0


def box_around(mask):
    left, top, right, bottom = Image.fromarray(mask.astype(np.uint8)).getbbox()
    return left, top, right - left, bottom - top


def run_lengths_of(mask):
    code = run_lengths.encode(np.asfortranarray(mask, np.uint8))
    return {"size": list(mask.shape), "counts": code["counts"].decode()}


def polygons_of(mask):
    x, y, width, height = box_around(mask)
    return [[x, y, x + width, y, x + width, y + height, x, y + height]]


def write_coco(root, *, says=(WIDTH, HEIGHT), orientation=1, labels=1, factor=1, masks=polygons_of):
    """Images of EXIF's ``orientation`` and labels moved as for ``labels``, scaled by a factor."""
    content = coco_content([f"{i}.png" for i in range(NUM)])
    boxes = iter(content["annotations"])
    for index in range(NUM):
        path = root / f"{index}.png"
        write_image(path, index)
        turn(path, orientation)
        content["images"][index].update(width=says[0], height=says[1])
        for shape in shapes_of(index):
            mask = moved(mask_of(index, shape), labels, factor)
            next(boxes).update(bbox=box_around(mask), segmentation=masks(mask))
    (root / "all.json").write_text(json.dumps(content))
    return root


def turn(path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    with Image.open(path) as image:
        stored = image
        if orientation in TO_STORED:
            stored = image.transpose(Image.Transpose[TO_STORED[orientation]])
        stored.save(path, exif=exif)


@pytest.mark.parametrize("masks", [polygons_of, run_lengths_of])
@pytest.mark.parametrize(
    ("says", "orientation"),
    [((WIDTH, HEIGHT), each) for each in (1, *TO_STORED)]
    + [((49, 40), 1), ((48, 39), 1), *((each, 1) for each in UNKNOWN), ((0, 0), 6)],
)
def test_labels_of_the_image_as_shown(tmp_path, says, orientation, masks):
    root = write_coco(tmp_path, says=says, orientation=orientation, masks=masks)
    data = find_labels(root, "detect")
    assert len(data.warnings) == 1  # of few images
    images = images_of(data)
    assert len(images) == NUM
    for image in images:
        index = int(image.path.rpartition("/")[2].removesuffix(".png"))
        assert image.size == (WIDTH, HEIGHT)
        for thing, shape in zip(image.objects, shapes_of(index), strict=True):
            assert thing.box == pytest.approx(box_of(index, shape))
            drawn = draw_mask(thing.segmentation, WIDTH, HEIGHT)
            assert box_around(drawn) == box_of(index, shape)


LEADS_OUT = "of 12 have some that lead out, .* of 48 x 40 px some that reach to "


@pytest.mark.parametrize(
    ("options", "match"),
    [
        *(({"says": (w, h)}, f"0.png: .* say {w} x {h} px, and the image has 48 x 40 px; take")
          for w, h in ((640, 480), STORED, (96, 80), (24, 20))),
        ({"factor": 2, "masks": run_lengths_of}, "say 96 x 80 px, and the image has 48 x 40 px; "),
        *(({"says": says, "factor": 3}, LEADS_OUT) for says in UNKNOWN),
        ({"says": (0, 0), "factor": 3, "masks": lambda mask: []}, LEADS_OUT),
        *(({"orientation": each, "labels": each, "says": STORED}, r"40 x 48 px, .* turns it; rem")
          for each in TURNS),
        ({"orientation": 6, "labels": 6, "says": (0, 0)}, r"reach to .* EXIF turns it; remove"),
        ({"orientation": 6, "labels": 6, "masks": run_lengths_of}, "say 40 x 48 px, .* turns it"),
    ],
)  # fmt: skip
def test_labels_of_other_images(tmp_path, options, match):
    root = write_coco(tmp_path, **options)
    refused(root, "detect", match)
    if "say" in match:  # whatever they are read for
        refused(root, "classify", "labels must be of the size of their images")


def test_shares_are_of_the_image_as_it_is_shown(tmp_path):
    root = write_yolo(tmp_path)
    turn(root / "images/train/1.jpg", 6)
    (root / "labels/train/1.txt").write_text("1 0.5 0.5 0.5 0.5\n")
    data = find_labels(root, "detect")
    (thing,) = next(image.objects for image in data.train if image.path.endswith("/1.jpg"))
    assert thing.box == pytest.approx((12, 10, 24, 20))


@pytest.mark.parametrize(
    ("size", "match"),
    [
        ("<size><width>48</width><height>40.0</height></size>", ""),
        ("<size/>", ""),
        ("<size><width>0</width><height>0</height></size>", ""),
        ("<size><width>40</width><height>48</height></size>", "say 40 x 48 px, and the image has"),
        ("<size><width>nan</width><height>1</height></size>", "xml: width and height must be num"),
    ],
)
def test_sizes_of_voc(tmp_path, size, match):
    for path in write_voc(tmp_path).glob("Annotations/*.xml"):
        path.write_text(path.read_text().replace("<annotation>", f"<annotation>{size}"))
    if match:
        refused(tmp_path, "detect", match)
    else:
        assert find_labels(tmp_path, "detect").train[1].objects[0].box == box_of(1, 1)
