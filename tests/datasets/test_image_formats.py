import io
import os
import struct
from collections import Counter

import numpy as np
import pytest
from helpers.datasets.blocks import encode
from helpers.datasets.image_folders import build, make_tar, save
from PIL import Image

from mmssprl.datasets import image_reading
from mmssprl.datasets.image_reading import (
    FORMATS,
    ImageReadError,
    decode_image,
    read_image,
)

NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 24, 3), np.uint8))


def decode(data):
    return decode_image(np.frombuffer(data, np.uint8).copy(), "image")


def test_skipped_files_are_counted_by_kind(tmp_path):
    root = tmp_path / "photos"
    for name in ("a.png", "b.TIF", "c/d.gif"):
        save(root / name)
    for name in ("1.HEIC", "c/2.heic", "notes.txt", "README", ".hidden.xyz", "c/archive.tar.gz"):
        (root / name).write_bytes(b"x")
    wanted = Counter({".heic": 2, ".txt": 1, ".gz": 1, "without suffix": 1})
    from_folder, from_tar = build(root), build(make_tar(tmp_path / "photos.tar", root))
    assert (len(from_folder), from_folder.skipped) == (3, wanted)
    assert (len(from_tar), from_tar.skipped) == (3, wanted)
    assert build(tmp_path / "photos.tar").skipped == wanted  # headers are not read again
    shards = tmp_path / "shards"
    make_tar(shards / "1.tar", root)
    (shards / "1.idx").write_bytes(b"x")
    assert build(shards).skipped == wanted + Counter({".idx": 1})


@pytest.mark.parametrize("format", ["JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP"])
def test_the_limit_of_pixels(monkeypatch, format):
    monkeypatch.setattr(image_reading, "_LARGE_BYTES", 0)
    data = encode(NOISE, format)
    decode(data)
    monkeypatch.setattr(image_reading, "MAX_PIXELS", 24 * 24 - 1)
    with pytest.raises(ImageReadError, match=r"image: .* 24 x 24 px, more than 575 .* tiles"):
        decode(data)


def test_files_that_are_not_read(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "endless.jpg").symlink_to("/dev/zero")
    (tmp_path / "folder.jpg").mkdir()
    reasons = dict.fromkeys(["pipe", "endless", "folder"], r"is not a regular file \(.* a folder")
    for name, reason in {**reasons, "none": r"cannot be opened \(No such file or dir"}.items():
        with pytest.raises(ImageReadError, match=rf"{name}.jpg: .* it {reason}"):
            read_image(tmp_path / f"{name}.jpg")
    (tmp_path / "large.jpg").write_bytes(encode(NOISE, "JPEG"))
    monkeypatch.setattr(image_reading, "MAX_BYTES", 100)
    with pytest.raises(ImageReadError, match="bytes, more than 100"):
        read_image(tmp_path / "large.jpg")


def undocumented_files():
    """Yield images in formats that pillow or OpenCV decodes and this package does not."""
    image = Image.fromarray(np.zeros((32, 32, 3), np.uint8))
    for name in sorted({"TGA", "PPM", "PCX", "SGI", "ICO", "JPEG2000", "DDS", "IM"} - {*FORMATS}):
        file = io.BytesIO()
        image.save(file, name)
        yield name, file.getvalue()
    yield "Sun raster", struct.pack(">8I", 0x59A66A95, 32, 32, 24, 3072, 1, 0, 0) + bytes(3072)
    yield "Radiance HDR", b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 32 +X 32\n" + bytes(4096)
    yield "OpenEXR", b"\x76\x2f\x31\x01" + bytes(1024)


@pytest.mark.parametrize(("name", "data"), undocumented_files())
def test_no_other_format_is_opened_whatever_its_name(name, data, tmp_path):
    path = tmp_path / f"{name}.jpg"
    path.write_bytes(data)
    with pytest.raises(ImageReadError, match="in no supported image format"):
        read_image(path)
