import re

import numpy as np
import pytest
from helpers.datasets.image_folders import build, save
from PIL import Image

from mmssprl.datasets import UnlabeledImages
from mmssprl.errors import UserValueError
from mmssprl.pretraining import usable_images
from mmssprl.pretraining.usable_images import find_usable_images


def fill(folder, usable=0, unreadable=0, small=0):
    """Images of 32 x 48 px, cut off ones, and ones whose shorter side is 31 px, mixed by name."""
    sizes = [(32, 48)] * usable + [(48, 40)] * unreadable + [(31, 64)] * small
    for i, size in enumerate(sizes):
        path = folder / f"{(i * 7) % 101:03}.png"
        save(path, i, size)
        if usable <= i < usable + unreadable:
            path.write_bytes(path.read_bytes()[:60])
    assert len(list(folder.iterdir())) == len(sizes)
    return build(folder)


def test_seven_usable_images_are_refused(tmp_path):
    seven = fill(tmp_path / "photos", usable=7, unreadable=2, small=3)
    with pytest.raises(UserValueError, match="at least 8 .* photos/ has 7: of 12 .* 2 .* 3 "):
        find_usable_images(seven, "photos/")


def test_eight_usable_images_are_called_few_for_random_weights(tmp_path):
    images = fill(tmp_path / "a", usable=8, unreadable=1, small=1)
    side, [unusable, few] = find_usable_images(images, "a")
    assert side == 32
    assert "of 10 images" in unusable
    assert few.startswith("8 usable images are few")
    assert find_usable_images(images, "a", from_random=False) == (32, [unusable])


def test_a_small_folder_is_looked_at_whole_while_there_is_time(tmp_path, monkeypatch):
    images = fill(tmp_path / "a", usable=99, unreadable=2)
    message = rf"at most 0.01 .* but 2 of 101 are, such as {tmp_path}/a/.*max_bad_share"
    with pytest.raises(UserValueError, match=message):
        find_usable_images(images, "a")
    assert find_usable_images(build(tmp_path / "a", max_bad_share=0.1), "a")[0] == 32
    monkeypatch.setattr(usable_images, "_SAMPLE", 10)
    monkeypatch.setattr(usable_images, "_LOOK_S", 0.0)
    find_usable_images(images, "a")
    # A slow look continues until enough images are usable.
    _, [looked, _] = find_usable_images(fill(tmp_path / "b", usable=20, small=80), "b")
    opened, small = map(int, re.match(r"of (\d+) images .* and (\d+) have", looked).groups())
    assert opened - small == 8


def test_of_many_images_a_part_is_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(usable_images, "_MOST_OPENED", 10)
    monkeypatch.setattr(usable_images, "FEW_IMAGES", 100)
    opened = []
    load = UnlabeledImages.load_image
    monkeypatch.setattr(
        UnlabeledImages, "load_image", lambda self, i: opened.append(i) or load(self, i)
    )
    _, [few] = find_usable_images(fill(tmp_path / "c", usable=99), "c")
    assert few.startswith("99 usable")
    assert sorted(opened) == [0, 10, 21, 32, 43, 54, 65, 76, 87, 98]
    with pytest.raises(UserValueError, match="of 10 images looked at"):
        find_usable_images(fill(tmp_path / "d", small=100), "d")


def gray(folder, most, num=20):
    """Images of 16 bits that use values up to ``most``."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for index in range(num):
        values = rng.integers(0, most, (40, 40)).astype(np.uint16)
        values[0, 0] = most
        Image.fromarray(values).save(folder / f"{index}.png")
    return folder


def warnings_of(folder, words, **options):
    _, warnings = find_usable_images(build(folder, **options), str(folder))
    return [warning for warning in warnings if words in warning]


def test_images_of_12_bits_in_16_are_called_nearly_black(tmp_path):
    (warning,) = warnings_of(gray(tmp_path / "twelve", 4095), "nearly black")
    assert warning.startswith("20 of 20 images are nearly black, for example ")
    assert not warnings_of(gray(tmp_path / "fourteen", 16383), "nearly black")
    pixels = {"channels": 1, "dtype": "uint16"}
    assert not warnings_of(tmp_path / "twelve", "nearly black", pixels=pixels)


def test_a_few_black_images_are_no_mistake(tmp_path):
    folder = gray(tmp_path / "a", 65535)
    for name in ("0.png", "1.png"):
        Image.new("L", (40, 40)).save(folder / name)
    assert not warnings_of(folder, "nearly black")


NAMES = ["masks/{}.png", "SegmentationClass/{}.png", "images/{}_mask.png", "images/{}-label.gif"]


def drawn(path):
    """A label image of two classes."""
    path.parent.mkdir(exist_ok=True)
    Image.new("L", (40, 40), 1).save(path)


@pytest.mark.parametrize("name", NAMES)
def test_label_images_among_photographs_are_counted(tmp_path, name):
    for index in range(12):
        save(tmp_path / f"images/{index}.jpg", index, (40, 40))
        drawn(tmp_path / name.format(index))
    (warning,) = warnings_of(tmp_path, "label images")
    rule = f"12 of 24 images look like label images of others, for example {name.format(0)}:"
    assert warning.startswith(rule)


def test_a_class_may_be_called_mask(tmp_path):
    for index in range(12):
        drawn(tmp_path / f"{('mask', 'no_mask')[index % 2]}/{index}.png")
    assert not warnings_of(tmp_path, "label images")


def test_a_name_is_compared_with_images_of_its_folder(tmp_path):
    for index in range(12):
        drawn(tmp_path / f"with_mask/{index}_mask.png")
        save(tmp_path / f"without/{index}.png", index, (40, 40))
    assert not warnings_of(tmp_path, "label images")


def test_sharp_photographs_of_blurred_ones_are_no_label_images(tmp_path):
    for index in range(12):
        save(tmp_path / f"images/{index}.png", index, (40, 40))
        (tmp_path / "gt").mkdir(exist_ok=True)
        pixels = np.random.default_rng(index).integers(0, 256, (40, 40, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"gt/{index}.png")
    assert not warnings_of(tmp_path, "label images")


def test_a_few_label_images_are_no_mistake(tmp_path):
    for index in range(20):
        save(tmp_path / f"{index}.png", index, (40, 40))
    for index in range(2):
        drawn(tmp_path / f"{index}_mask.png")
    assert not warnings_of(tmp_path, "label images")


def test_the_names_of_all_images_are_read_only_for_label_images(tmp_path, monkeypatch):
    for index in range(12):
        save(tmp_path / f"{index}.png", index, (40, 40))
    monkeypatch.setattr(UnlabeledImages, "names", None)
    assert not warnings_of(tmp_path, "label images")
