"""Labels of images of another size, or of images that EXIF turns."""

from pathlib import Path

import numpy as np
import pytest
from helpers.datasets.image_folders import turned
from helpers.datasets.label_changes import first
from helpers.datasets.labelled_folders import (
    HEIGHT,
    WIDTH,
    all_shapes,
    box_of,
    images_of,
    mask_of,
    polygon_of,
    refused,
    run_lengths_of,
    shapes_of,
    write_flat,
    write_yolo,
)
from PIL import Image

from mmssprl.datasets.labels import find_labels
from mmssprl.datasets.labels.object_masks import object_mask

NUM = 12


def moved(mask, orientation, factor):
    image, _ = turned(Image.fromarray(mask.astype(np.uint8) * 255), orientation)
    size = tuple(round(side * factor) for side in image.size)
    return np.asarray(image.resize(size, Image.Resampling.NEAREST)) > 0


def box_around(mask):
    left, top, right, bottom = Image.fromarray(mask.astype(np.uint8)).getbbox()
    return left, top, right - left, bottom - top


def polygons_of(mask):
    return [polygon_of(box_around(mask))]


def write_coco(root, *, says=(WIDTH, HEIGHT), orientation=1, labels=1, factor=1, masks=polygons_of):
    """Write images of an EXIF ``orientation`` and labels of another one, scaled by a factor."""

    def edit(content):
        for image in content["images"]:
            image.update(width=says[0], height=says[1])
        for annotation, shape in zip(content["annotations"], all_shapes(NUM), strict=True):
            mask = moved(mask_of(*shape), labels, factor)
            annotation.update(bbox=box_around(mask), segmentation=masks(mask))

    for path in write_flat(root, edit, num=NUM).glob("*.png"):
        stored, exif = turned(Image.open(path), orientation)
        stored.save(path, exif=exif)
    return root


def check(data, most=1e-6):
    """Boxes and masks are those of the images as shown, up to ``most`` pixels."""
    images = images_of(data)
    assert len(images) == NUM
    for image in images:
        index = int(Path(image.path).stem)
        assert image.size == (WIDTH, HEIGHT)
        for thing, shape in zip(image.objects, shapes_of(index), strict=True):
            drawn = object_mask(thing.segmentation, WIDTH, HEIGHT)
            for box in (thing.box, box_around(drawn)):
                assert box == pytest.approx(box_of(index, shape), abs=most)
            if isinstance(thing.segmentation, dict) and most < 1:
                assert np.array_equal(drawn, mask_of(index, shape))


STORED = (HEIGHT, WIDTH)
UNKNOWN = [(0, 0), (None, None), (WIDTH, 0)]
ROUNDED = [(49, 40), (47, 41), (48, 39)]
of_both_kinds = pytest.mark.parametrize("masks", [polygons_of, run_lengths_of])


@of_both_kinds
@pytest.mark.parametrize(
    "options",
    [*({"orientation": n} for n in range(1, 9)), *({"says": size} for size in ROUNDED + UNKNOWN)],
)
def test_labels_of_the_image_as_shown_stay(tmp_path, options, masks):
    data = find_labels(write_coco(tmp_path, masks=masks, **options), "detect")
    check(data)
    is_undecided = options.get("orientation", 1) in (2, 3, 4)
    warned = ["EXIF turns" in warning for warning in data.warnings]  # another one of few images
    assert warned == ([True, False] if is_undecided else [False])


@of_both_kinds
@pytest.mark.parametrize("orientation", [5, 6, 7, 8])
def test_labels_of_the_stored_pixels_are_turned(tmp_path, orientation, masks):
    turns = {"orientation": orientation, "labels": orientation}
    data = find_labels(write_coco(tmp_path, **turns, says=STORED, masks=masks), "detect")
    check(data)
    assert "12 of 12 images have labels of the stored pixels" in data.warnings[0]


def test_boxes_decide_before_the_sizes_of_turned_images(tmp_path):
    check(find_labels(write_coco(tmp_path, orientation=6, says=STORED), "detect"))
    for says in [(WIDTH, HEIGHT), *UNKNOWN]:
        check(find_labels(write_coco(tmp_path, orientation=6, labels=6, says=says), "detect"))


def test_boxes_of_turned_images_must_all_be_of_one_frame(tmp_path):
    write_coco(tmp_path, orientation=6, labels=6)
    first("annotations", bbox=[40, 2, 8, 8], segmentation=[])(tmp_path)
    refused(tmp_path, "detect", "or all of the stored pixels, but the 12 images .* have both")


@of_both_kinds
@pytest.mark.parametrize("factor", [0.5, 2, 3])
def test_labels_are_scaled_by_one_factor(tmp_path, factor, masks):
    says = (round(WIDTH * factor), round(HEIGHT * factor))
    data = find_labels(write_coco(tmp_path, factor=factor, says=says, masks=masks), "detect")
    warning = f"labels of another size, for example {says[0]} x {says[1]} px for 48 x 40 px"
    assert warning in data.warnings[0]
    check(data, most=1e-6 if factor > 1 else 2)


@pytest.mark.parametrize(
    ("says", "factor"),
    [((640, 480), 1), ((40, 48), 1), ((96, 80), 1), ((24, 20), 1), ((90, 100), 2)],
)
def test_sizes_that_explain_nothing_are_refused(tmp_path, says, factor):
    root = write_coco(tmp_path, says=says, factor=factor)
    match = f"12 of 12 do not, .*/0.png: the labels say {says[0]} x {says[1]} px, .* 48 x 40 px"
    for task in ("classify", "detect"):
        refused(root, task, match)


def test_run_lengths_of_another_size_are_refused(tmp_path):
    root = write_coco(tmp_path, factor=2, masks=run_lengths_of)
    refused(root, "detect", "are 48 x 40 px and 96 x 80 px; correct")


@pytest.mark.parametrize("says", UNKNOWN)
@pytest.mark.parametrize(("kind", "masks"), [("polygon", polygons_of), ("box", lambda mask: [])])
def test_labels_outside_of_their_images_are_refused(tmp_path, says, kind, masks):
    root = write_coco(tmp_path, says=says, factor=3, masks=masks)
    refused(root, "detect", f"12 images have a {kind} outside")


def test_shares_of_yolo_are_those_of_a_turned_image_as_shown(tmp_path):
    root = write_yolo(tmp_path)
    path = root / "images" / "train" / "1.jpg"
    _, exif = turned(Image.open(path), 6)
    Image.open(path).save(path, exif=exif)
    (root / "labels/train/1.txt").write_text("1 0.5 0.5 0.5 0.5\n")
    images = find_labels(root, "detect").train
    [(thing,)] = [image.objects for image in images if image.path == str(path)]
    assert thing.box == pytest.approx((10, 12, 20, 24))
