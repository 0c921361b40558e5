"""Labels of images of another size, or of images that EXIF turns."""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.datasets.blocks import turned
from helpers.datasets.label_changes import first, in_coco, replaced
from helpers.datasets.labelled_folders import (
    HEIGHT,
    WIDTH,
    box_of,
    coco_content,
    images_of,
    mask_of,
    polygon_of,
    refused,
    run_lengths_of,
    shapes_of,
    write_image,
    write_voc,
)
from PIL import Image

from mmssprl.datasets.labels import find_labels
from mmssprl.datasets.labels.label_maps import object_mask

NUM = 12
TURNED = (5, 6, 7, 8)


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
    content = coco_content([f"{i}.png" for i in range(NUM)])
    boxes = iter(content["annotations"])
    for index in range(NUM):
        path = root / f"{index}.png"
        write_image(path, index)
        with Image.open(path) as image:
            stored, exif = turned(image, orientation)
            stored.save(path, exif=exif)
        content["images"][index].update(width=says[0], height=says[1])
        for shape in shapes_of(index):
            mask = moved(mask_of(index, shape), labels, factor)
            next(boxes).update(bbox=box_around(mask), segmentation=masks(mask))
    (root / "all.json").write_text(json.dumps(content))
    return root


def check_boxes(data, most=1e-6):
    """Boxes are those of the images as shown; yield each object with its index and shape."""
    images = images_of(data)
    assert len(images) == NUM
    for image in images:
        index = int(Path(image.path).stem)
        assert image.size == (WIDTH, HEIGHT)
        for thing, shape in zip(image.objects, shapes_of(index), strict=True):
            assert thing.box == pytest.approx(box_of(index, shape), abs=most)
            yield thing, index, shape


def check(data):
    """Boxes and masks are those of the images as shown, to the pixel."""
    for thing, index, shape in check_boxes(data):
        drawn = object_mask(thing.segmentation, WIDTH, HEIGHT)
        assert box_around(drawn) == box_of(index, shape)
        if isinstance(thing.segmentation, dict):
            assert np.array_equal(drawn, mask_of(index, shape))


STORED = (HEIGHT, WIDTH)
NO_SIZE = "<width>0</width><height>0</height>"
UNKNOWN = [(0, 0), (None, None), (WIDTH, 0)]


@pytest.mark.parametrize("masks", [polygons_of, run_lengths_of])
class TestTurnedImages:
    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_labels_of_the_image_as_shown_stay(self, tmp_path, orientation, masks):
        data = find_labels(write_coco(tmp_path, orientation=orientation, masks=masks), "detect")
        check(data)
        assert len(data.warnings) == 1  # of few images

    @pytest.mark.parametrize("orientation", TURNED)
    def test_labels_of_the_stored_pixels_are_turned(self, tmp_path, orientation, masks):
        root = write_coco(
            tmp_path, orientation=orientation, labels=orientation, says=STORED, masks=masks
        )
        data = find_labels(root, "detect")
        check(data)
        assert "12 of 12 images have labels of the stored pixels" in data.warnings[0]


class TestBoxesDecide:
    def test_before_the_sizes_of_turned_images(self, tmp_path):
        check(find_labels(write_coco(tmp_path / "a", orientation=6, says=STORED), "detect"))
        for number, says in enumerate([(WIDTH, HEIGHT), *UNKNOWN]):
            root = write_coco(tmp_path / f"{number}", orientation=6, labels=6, says=says)
            check(find_labels(root, "detect"))

    def test_for_all_images(self, tmp_path):
        root = write_coco(tmp_path / "a", orientation=8, labels=8, says=STORED)
        first("annotations", bbox=[40, 2, 8, 8], segmentation=[])(root)
        refused(root, "detect", "or all of the stored pixels, but the 12 images .* have both")


class TestScaledImages:
    @pytest.mark.parametrize("factor", [0.5, 2, 3])
    @pytest.mark.parametrize("masks", [polygons_of, run_lengths_of])
    def test_labels_are_scaled_by_one_factor(self, tmp_path, factor, masks):
        says = (round(WIDTH * factor), round(HEIGHT * factor))
        data = find_labels(write_coco(tmp_path, factor=factor, says=says, masks=masks), "detect")
        warning = f"labels of another size, for example {says[0]} x {says[1]} px for 48 x 40 px"
        assert warning in data.warnings[0]
        if factor > 1:
            check(data)
        assert len([*check_boxes(data, most=2)]) == 16

    @pytest.mark.parametrize(
        ("says", "factor"),
        [((640, 480), 1), ((40, 48), 1), ((96, 80), 1), ((24, 20), 1), ((90, 100), 2)],
    )
    def test_sizes_that_explain_nothing_are_refused(self, tmp_path, says, factor):
        root = write_coco(tmp_path, says=says, factor=factor)
        match = f"12 of 12 do not, .*the labels say {says[0]} x {says[1]} px, the image"
        for task in ("classify", "detect", "segment", "dense"):
            refused(root, task, f"{match} has 48 x 40 px; ")

    def test_one_wrong_size_is_named(self, tmp_path):
        root = write_coco(tmp_path)
        in_coco(lambda content: content["images"][3].update(width=100))(root)
        refused(root, "detect", r"1 of 12 do not, .*/3.png: the labels say 100 x 40")

    def test_run_lengths_of_another_size_than_the_file_says(self, tmp_path):
        root = write_coco(tmp_path, factor=2, masks=run_lengths_of)
        refused(root, "detect", "are 48 x 40 px and 96 x 80 px; correct")

    @pytest.mark.parametrize("says", [(49, 40), (47, 41), (48, 39)])
    @pytest.mark.parametrize("masks", [polygons_of, run_lengths_of])
    def test_a_pixel_of_rounding_is_silent(self, tmp_path, says, masks):
        data = find_labels(write_coco(tmp_path, says=says, masks=masks), "detect")
        check(data)
        assert len(data.warnings) == 1

    @pytest.mark.parametrize("says", UNKNOWN)
    def test_unknown_sizes_are_silent(self, tmp_path, says):
        data = find_labels(write_coco(tmp_path / "good", says=says), "detect")
        check(data)
        assert len(data.warnings) == 1
        root = write_coco(tmp_path / "large", says=says, factor=3)
        refused(root, "detect", "12 of 12 images have a polygon outside .* of 48 x 40 px one that")
        root = write_coco(tmp_path / "boxes", says=says, factor=3, masks=lambda mask: [])
        refused(root, "detect", "of 12 images have a box outside")


@pytest.mark.parametrize("size", ["<width>48</width><height>40.0</height>", "", NO_SIZE])
def test_sizes_of_voc(tmp_path, size):
    root = write_voc(tmp_path)
    replaced("Annotations/*.xml", "<annotation>", f"<annotation><size>{size}</size>")(root)
    data = find_labels(root, "detect")
    assert data.train[1].objects[0].box == box_of(1, 1)
