import re

import pytest
from helpers.datasets.image_folders import build, save

from mmssprl.datasets import UnlabeledImages
from mmssprl.errors import UserValueError
from mmssprl.pretraining import plan
from mmssprl.pretraining.plan import find_usable_images


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
    monkeypatch.setattr(plan, "_SAMPLE", 10)
    monkeypatch.setattr(plan, "_LOOK_S", 0.0)
    find_usable_images(images, "a")
    # A slow look continues until enough images are usable.
    _, [looked, _] = find_usable_images(fill(tmp_path / "b", usable=20, small=80), "b")
    opened, small = map(int, re.match(r"of (\d+) images .* and (\d+) have", looked).groups())
    assert opened - small == 8


def test_of_many_images_a_part_is_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "_MOST_OPENED", 10)
    monkeypatch.setattr(plan, "FEW_IMAGES", 100)
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
