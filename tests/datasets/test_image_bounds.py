import os

import numpy as np
import pytest
from helpers.datasets.forged_images import encode, jpeg, undocumented_files

from mmssprl.datasets import image_reading
from mmssprl.datasets.image_reading import ImageReadError, decode_image, read_image


def decode(data):
    return decode_image(np.frombuffer(data, np.uint8).copy(), "image")


@pytest.mark.parametrize("format", ["JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP"])
def test_the_limit_of_pixels(monkeypatch, format):
    monkeypatch.setattr(image_reading, "_LARGE_BYTES", 0)
    data = encode(format)
    decode(data)
    monkeypatch.setattr(image_reading, "MAX_PIXELS", 24 * 24 - 1)
    with pytest.raises(ImageReadError, match=r"image: .* 24 x 24 px, and at most 575 .* tiles"):
        decode(data)


def test_files_that_are_not_read(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "endless.jpg").symlink_to("/dev/zero")
    (tmp_path / "folder.jpg").mkdir()
    reasons = dict.fromkeys(["pipe", "endless", "folder"], r"is no regular file \(.* a folder")
    for name, reason in {**reasons, "none": r"cannot be opened \(No such file or dir"}.items():
        with pytest.raises(ImageReadError, match=rf"{name}.jpg: .* it {reason}"):
            read_image(tmp_path / f"{name}.jpg")
    (tmp_path / "large.jpg").write_bytes(jpeg())
    monkeypatch.setattr(image_reading, "MAX_BYTES", 100)
    with pytest.raises(ImageReadError, match=r"bytes, and at most 100 are read"):
        read_image(tmp_path / "large.jpg")


@pytest.mark.parametrize(("name", "data"), undocumented_files())
def test_no_other_format_is_opened_whatever_its_name(name, data, tmp_path):
    path = tmp_path / f"{name}.jpg"
    path.write_bytes(data)
    with pytest.raises(ImageReadError, match="in no image format that is known"):
        read_image(path)
