"""Label images with colours, pixels or names that differ from their images and classes."""

import json

import numpy as np
import pytest
from helpers.datasets.image_folders import turned
from helpers.datasets.label_changes import file, images
from helpers.datasets.labelled_folders import (
    CLASSES,
    COLOURS,
    HEIGHT,
    WIDTH,
    images_of,
    refused,
    write_masks,
)
from PIL import Image

from mmssprl.datasets.labels import find_labels
from mmssprl.datasets.labels.label_maps import read_label_map
from mmssprl.datasets.transforms import LoadLabelMap
from mmssprl.finetuning.label_files import write_labels

RGB = np.array([(0, 0, 0), *COLOURS, *[(224, 224, 192)] * 253], np.uint8)
MAP = b"# label:color_rgb:parts:actions\n" + b"".join(
    f"{name}:{','.join(map(str, colour))}::\n".encode()
    for name, colour in zip(("background", *CLASSES), RGB[:3].tolist(), strict=True)
)


def in_colour(mask):
    return Image.fromarray(RGB[np.asarray(mask)])


def with_palette(order):
    """Give class k the index order[k] and its colour."""

    def edit(mask):
        table = np.arange(256, dtype=np.uint8)
        table[: len(order)] = order
        colours = RGB.copy()
        colours[table[:3]] = RGB[:3]
        image = Image.fromarray(table[np.asarray(mask)])
        image.putpalette(colours.tobytes())
        return image

    return edit


def label_maps(root):
    return [read_label_map(image) for image in images_of(find_labels(root, "segment"))]


def each_its_palette(root):
    images("masks/train/*.png", with_palette([0, 1, 2]))(root)
    images("masks/val/*.png", with_palette([1, 2, 0]))(root)


@pytest.mark.parametrize(
    ("edit", "is_warned"),
    [
        (images("masks/*/*.png", in_colour), False),
        (images("masks/*/*.png", lambda mask: in_colour(mask).convert("RGBA")), False),
        (images("masks/*/*.png", with_palette([0, 1, 2])), False),
        (images("masks/*/*.png", with_palette([0, 2, 1])), True),
        (each_its_palette, True),
    ],
)
def test_label_images_are_read_by_the_colours_of_labelmap_txt(tmp_path, edit, is_warned):
    expected = label_maps(write_masks(tmp_path / "plain"))
    root = write_masks(tmp_path / "coloured", classes=None)
    edit(root)
    file("labelmap.txt", MAP)(root)
    data = find_labels(root, "segment")
    assert data.classes == ["background", "disc", "square"]
    assert data.train[1].labels == {0, 2}
    assert all(map(np.array_equal, label_maps(root), expected))
    warned = ["labelmap.txt give other colours to an index" in each for each in data.warnings]
    assert any(warned) == is_warned


def test_turned_label_images_in_colour_reach_the_training(tmp_path):
    root = write_masks(tmp_path / "data", classes=None)
    images("masks/*/*.png", in_colour)(root)
    turn_images(root, 6)
    file("labelmap.txt", MAP)(root)
    data = find_labels(root, "segment")
    write_labels(data, tmp_path / "labels", "segment")
    content = json.loads((tmp_path / "labels/val.json").read_text())
    for item, image in zip(content["data_list"], data.val, strict=True):
        item["seg_map_path"] = str(root / item["seg_map_path"])
        found = LoadLabelMap().transform(item)["gt_seg_map"]
        assert found.shape == (WIDTH, HEIGHT)
        assert np.array_equal(found, read_label_map(image))


def test_palettes_that_differ_without_a_list_are_refused(tmp_path):
    each_its_palette(write_masks(tmp_path))
    match = "masks/train/0.png and masks/val/16.png differ in 8 of 24, for example index 0: "
    refused(tmp_path, "segment", match + r"\(0, 0, 0\) and \(220, 40, 40\); save them with one")


def test_colours_of_unused_indices_may_differ(tmp_path):
    images("masks/*/*.png", with_palette([0, 1, 2]))(write_masks(tmp_path, num_val=10))
    path = tmp_path / "masks/train/3.png"
    image = Image.open(path)
    image.putpalette([*image.getpalette()[:9], *[7] * 600, *image.getpalette()[609:]])
    image.save(path)
    assert find_labels(tmp_path, "segment").warnings == []


def test_a_colour_that_is_not_listed_is_refused(tmp_path):
    images("masks/*/*.png", in_colour)(write_masks(tmp_path, classes=None))
    file("labelmap.txt", MAP.replace(b"220,40,40", b"1,2,3"))(tmp_path)
    refused(
        tmp_path, "segment", r"1.png: the colours .* pixels are others, .* \(220, 40, 40\); add"
    )


def turn_images(root, orientation, pattern="images/*/*.jpg"):
    """Let EXIF turn the images; their stored pixels, and the label images, stay."""
    for path in root.glob(pattern):
        image = Image.open(path)
        image.load()
        exif = Image.Exif()
        exif[0x0112] = orientation
        image.save(path, exif=exif)


TURNS = {5: lambda m: m.T, 6: lambda m: m.T[:, ::-1], 7: lambda m: m[::-1, ::-1].T}
TURNS |= {8: lambda m: m.T[::-1]}


@pytest.mark.parametrize("orientation", TURNS)
def test_label_images_of_the_stored_pixels_are_turned(tmp_path, orientation):
    root = write_masks(tmp_path)
    stored = label_maps(root)
    turn_images(root, orientation)
    data = find_labels(root, "segment")
    assert "24 of 24 label images are of the stored pixels, before EXIF" in data.warnings[0]
    for image, before in zip(images_of(data), stored, strict=True):
        assert np.array_equal(read_label_map(image), TURNS[orientation](before))


@pytest.mark.parametrize("orientation", [3, 6])
def test_label_images_as_shown_stay(tmp_path, orientation):
    root = write_masks(tmp_path)
    expected = label_maps(root)
    for path in root.glob("images/*/*.jpg"):
        stored, exif = turned(Image.open(path), orientation)
        stored.save(path, exif=exif)
    data = find_labels(root, "segment")
    assert all(map(np.array_equal, label_maps(root), expected))
    warned = ["EXIF turns 24 images, for example" in w for w in data.warnings]
    assert any(warned) == (orientation == 3)


def test_other_images_decide_for_those_that_keep_their_size(tmp_path):
    root = write_masks(tmp_path)
    stored = label_maps(root)
    turn_images(root, 6)
    turn_images(root, 3, "images/val/*.jpg")
    data = find_labels(root, "segment")
    for image, before in zip(data.val, stored[16:], strict=True):
        assert np.array_equal(read_label_map(image), before[::-1, ::-1])


def rename(new, folder="masks"):
    def edit(root):
        for path in root.glob("masks/*/*.png"):
            path.rename(path.with_name(new.format(path.stem)))
        (root / "masks").rename(root / folder)

    return edit


def test_names_of_label_images_may_keep_the_suffix_of_the_image(tmp_path):
    expected = label_maps(write_masks(tmp_path / "plain"))
    rename("{}.jpg.png")(write_masks(tmp_path / "data"))
    assert all(map(np.array_equal, label_maps(tmp_path / "data"), expected))


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (rename("mask of {}.png"), "masks/train/mask of 0.png has no image, .* images/train/"),
        (rename("{}.png", "drawn"), "drawn/train/0.png may be the label image of images/train/0"),
    ],
)
def test_label_images_of_other_names_are_named_with_an_image(tmp_path, edit, match):
    edit(write_masks(tmp_path))
    refused(tmp_path, "segment", match)


def without_ignored(root):
    images("masks/*/*.png", lambda mask: mask.point(lambda value: value % 255))(root)


@pytest.mark.parametrize(
    ("num", "is_nodata", "values", "is_told"),
    [
        (8, False, {0, 255}, True),
        (2, False, {0, 255}, False),
        (8, True, {0, 255}, False),  # as without objects, next to the border of the scene
        (8, True, {255}, True),
    ],
)
def test_label_images_of_another_convention_are_counted(num, is_nodata, values, is_told, tmp_path):
    root = write_masks(tmp_path)
    if not is_nodata:
        without_ignored(root)
    for index in range(num):
        path = f"masks/train/{index}.png"
        images(path, lambda mask: mask.point(lambda value: 255 if value else min(values)))(root)
    rule = f"{num} of 24 label images hold only 255, which is ignored, and perhaps 0, for example "
    warnings = find_labels(root, "segment").warnings
    assert any(warning.startswith(f"{rule}masks/train/0.png") for warning in warnings) is is_told
