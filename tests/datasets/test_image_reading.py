import io
import os
import pickle
import struct

import cv2
import numpy as np
import pytest
import torch
from helpers.datasets.image_folders import build, turned
from PIL import Image

from mmssprl.datasets import image_reading
from mmssprl.datasets.image_reading import (
    FORMATS,
    ImageReadError,
    decode_image,
    open_image,
    read_image,
    stored_size,
)

# The corners differ, so that no orientation can pass for another.
COLORS = np.array(
    [[[200, 30, 40], [20, 180, 60]], [[40, 50, 220], [230, 220, 30]], [[10, 10, 10], [250] * 3]],
    np.uint8,
)
BLOCKS = COLORS.repeat(16, 0).repeat(16, 1)  # (48, 32, 3)


def encode(image, format="PNG", **options):
    if format == "JPEG":  # at this quality blocks of one color are kept within 6 levels
        options = {"quality": 95, "subsampling": 0, **options}
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def read(tmp_path, data, name="image"):
    path = tmp_path / name
    path.write_bytes(data)
    image = read_image(path)
    assert image.dtype == torch.uint8
    return image.permute(1, 2, 0).numpy()


def largest_difference(got, expected):
    assert got.shape == expected.shape
    return np.abs(got.astype(int) - expected).max()


RGB = Image.fromarray(BLOCKS)
NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 24, 3), np.uint8))
CLEAR = Image.fromarray(np.dstack([BLOCKS, np.zeros_like(BLOCKS[..., 0])]), "RGBA")
GRAY = BLOCKS[..., 1:2].repeat(3, 2)
CLEAR_GRAY = Image.merge("LA", (RGB.getchannel("G"), Image.new("L", RGB.size)))
WIDE = BLOCKS.astype(np.uint16) * 256 + 255
PALETTE = RGB.quantize(6)
MORE = {"save_all": True, "duration": 50, "append_images": [RGB.rotate(180)]}
EXACT = {"quality": 100, "subsampling": 0}
UNSUPPORTED = ["TGA", "PCX", "SGI", "ICO", "JPEG2000", "DDS", "IM"]


def written(image, format, **options):
    return lambda: encode(image, format, **options)


@pytest.mark.parametrize(
    ("name", "write", "expected", "most"),
    [
        *((f"{f}.jpg", written(RGB, f, lossless=True), BLOCKS, 0) for f in ("PNG", "BMP", "WEBP")),
        ("tiff.jpg", written(RGB, "TIFF", compression="tiff_lzw"), BLOCKS, 0),
        ("palette.png", written(PALETTE, "PNG"), BLOCKS, 0),
        ("shares.png", written(PALETTE, "PNG", transparency=b"\0\x80" + b"\xff" * 5), BLOCKS, 0),
        # Alpha is dropped, and the colour below it kept.
        ("clear.png", written(CLEAR, "PNG"), BLOCKS, 0),
        ("clear gray.png", written(CLEAR_GRAY, "PNG"), GRAY, 0),
        ("gray.png", written(RGB.getchannel("G"), "PNG"), GRAY, 0),
        ("gray.jpg", written(RGB.getchannel("G"), "JPEG"), GRAY, 2),
        # As Photoshop writes it: its marker says that the four channels are stored inverted.
        ("cmyk.jpg", written(RGB.convert("CMYK"), "JPEG"), BLOCKS, 6),
        # Of 16 bits the upper 8 count.
        ("16.tif", lambda: cv2.imencode(".tiff", WIDE[..., ::-1])[1].tobytes(), BLOCKS, 0),
        ("16.png", written(Image.fromarray(WIDE[..., 1]), "PNG"), GRAY, 0),
        ("16.tiff", written(Image.fromarray(WIDE[..., 1].astype(">u2")), "TIFF"), GRAY, 0),
        # Of several pages or frames the first counts.
        ("pages.tif", written(RGB, "TIFF", **MORE), BLOCKS, 0),
        ("frames.gif", written(PALETTE, "GIF", transparency=0, **MORE), BLOCKS, 0),
        *((f"a{suffix}", written(RGB, "JPEG", **EXACT), BLOCKS, 3) for suffix in (".jfif", ".jpe")),
        ("a.ppm", written(RGB, "PPM"), BLOCKS, 0),
        ("a.pgm", written(RGB.convert("L"), "PPM"), np.asarray(RGB.convert("L").convert("RGB")), 0),
        ("A.PNG", written(RGB, "PNG"), BLOCKS, 0),
        pytest.param(
            *("a.avif", written(RGB, "AVIF", quality=100, subsampling="4:4:4"), BLOCKS, 3),
            marks=pytest.mark.skipif("AVIF" not in FORMATS, reason="pillow was built without AVIF"),
        ),
    ],
)
def test_pixels_of_every_format(tmp_path, recwarn, name, write, expected, most):
    assert largest_difference(read(tmp_path, write(), name), expected) <= most
    (image,) = build(tmp_path)  # and its name is that of an image
    assert largest_difference(image["img"].permute(1, 2, 0).numpy(), expected) <= most
    assert not recwarn.list


def test_jpeg_with_a_trailer_is_read_channel_last(tmp_path):
    got = read(tmp_path, encode(RGB, "JPEG") + bytes(50) + b"camera trailer", "image.png")
    assert largest_difference(got, BLOCKS) <= 6
    assert read_image(tmp_path / "image.png").stride() == (1, 96, 3)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_undone(tmp_path, format, orientation):
    image, exif = turned(RGB, orientation)
    options = {} if format == "JPEG" else {"lossless": True}
    got = read(tmp_path, encode(image, format, exif=exif, **options))
    assert largest_difference(got, BLOCKS) <= (6 if format == "JPEG" else 0)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("exif", [b"no header", b"MM\0*"])
def test_images_with_damaged_exif_are_read_as_stored(tmp_path, format, exif):
    data = encode(NOISE, format, exif=b"Exif\0\0" + exif)
    assert read(tmp_path, data).shape == (*NOISE.size[::-1], 3)
    with open_image(data) as image:
        assert stored_size(image) == (NOISE.size, 1)


@pytest.mark.parametrize("format", ["PNG", "WEBP"])
def test_an_orientation_next_to_damaged_entries_is_undone(tmp_path, format):
    """The maker of the camera is a fraction, which pillow reads, but cannot write."""
    image, _ = turned(RGB, 6)
    maker = struct.pack("<HHII", 0x010F, 5, 1, 38)
    orientation = struct.pack("<HHIHH", 0x0112, 3, 1, 6, 0)
    exif = b"Exif\0\0II*\0" + struct.pack("<IH", 8, 2) + maker + orientation
    data = encode(image, format, exif=exif + struct.pack("<III", 0, 1, 3), lossless=True)
    assert largest_difference(read(tmp_path, data), BLOCKS) == 0


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "BMP"])
@pytest.mark.parametrize("kept", [0.1, 0.98])
def test_truncated_files_are_errors(tmp_path, format, kept):
    data = encode(NOISE.resize((80, 90), Image.Resampling.NEAREST), format)
    with pytest.raises(ImageReadError, match="cut: .*cannot be decoded"):
        read(tmp_path, data[: int(kept * len(data))], "cut")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is empty"),
        (b"<html>404 Not Found</html>", "it is in no supported image format"),
        (b"\xff\xd8\xff\xe0 no jpeg", "it cannot be decoded"),
        (b"\x89PNG\r\n\x1a\n no png", "it cannot be decoded"),
        (
            encode(Image.fromarray(np.float32([[0.5]])), "TIFF"),
            "floating-point pixels have no",
        ),
        (encode(Image.fromarray(np.int32([[70_000]])), "TIFF"), "pixels of 32 bits have no known"),
        (encode(Image.fromarray(np.int32([[-1]])), "TIFF"), "pixels of 32 bits have no known"),
        *((encode(NOISE.resize((32, 32)), name), "it is in no supported") for name in UNSUPPORTED),
    ],
)
def test_files_without_an_image(tmp_path, data, reason):
    with pytest.raises(ImageReadError, match=f"file.png: must be a complete .*{reason}") as caught:
        read(tmp_path, data, "file.png")
    error = caught.value
    assert isinstance(error, ValueError)
    assert error.path == tmp_path / "file.png"
    assert reason in error.reason
    assert "\n" not in error.reason
    assert "BytesIO" not in error.reason
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # it comes out of a loader worker


@pytest.mark.parametrize("format", ["JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP"])
def test_the_limit_of_pixels(monkeypatch, format):
    monkeypatch.setattr(image_reading, "_LARGE_BYTES", 0)
    data = np.frombuffer(encode(NOISE, format), np.uint8).copy()
    decode_image(data, "image")
    monkeypatch.setattr(image_reading, "MAX_PIXELS", 24 * 24 - 1)
    with pytest.raises(ImageReadError, match=r"image: .* 24 x 24 px, more than 575 .* tiles"):
        decode_image(data, "image")


def test_files_that_are_not_read(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "endless.jpg").symlink_to("/dev/zero")
    (tmp_path / "folder.jpg").mkdir()
    for name in ("pipe", "endless", "folder", "none"):
        path = tmp_path / f"{name}.jpg"
        reason = "cannot be opened .No such file" if name == "none" else "is not a regular file"
        with pytest.raises(ImageReadError, match=f"{path}: .* it {reason}"):
            read_image(path)
        with pytest.raises(ImageReadError, match=reason), image_reading.open_image(path):
            pass
    (tmp_path / "large.jpg").write_bytes(encode(NOISE, "JPEG"))
    monkeypatch.setattr(image_reading, "MAX_BYTES", 100)
    with pytest.raises(ImageReadError, match="bytes, more than 100"):
        read_image(tmp_path / "large.jpg")
