import importlib
import io
import itertools
import os
import time
from functools import partial

import mmcv
import numpy as np
import pytest
from helpers.datasets.forged_images import encode, forge_sides, jpeg
from PIL import Image

from mmssprl.datasets.image_reading import ImageReadError, check_header, decode_image, read_image
from mmssprl.registry import TRANSFORMS, registered
from tools.dev.faults import images


def decode(data):
    return decode_image(np.frombuffer(data, np.uint8).copy(), "image")


def refused(data, match):
    start = time.process_time()
    with pytest.raises(ImageReadError, match=match):
        decode(data)
    assert time.process_time() - start < 1.0  # decoding 30,000 x 30,000 px takes 11 s


@pytest.mark.parametrize("marker", [b"\xff\xc0", b"\xff\xc9", b"\xff\xca"])
def test_more_pixels_than_any_jpeg_may_have(marker):
    data = forge_sides(jpeg(), 30_000, 20_000).replace(b"\xff\xc0", marker, 1)
    refused(data, r"image: .* at most 178,956,970 px are decoded .* tiles")


@pytest.mark.parametrize("format", ["PNG", "BMP", "GIF", "TIFF", "WEBP"])
def test_limit_of_other_formats(monkeypatch, format):
    data = encode(format)
    decode(data)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 24 * 24 // 2 - 1)
    refused(data, r"px are decoded")


def test_files_that_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "endless.jpg").symlink_to("/dev/zero")
    (tmp_path / "folder.jpg").mkdir()
    reasons = dict.fromkeys(["pipe", "endless", "folder"], r"is no regular file \(.* a folder")
    for name, reason in {**reasons, "none": r"cannot be opened \(No such file or dir"}.items():
        with pytest.raises(ImageReadError, match=rf"{name}.jpg: .* it {reason}"):
            read_image(tmp_path / f"{name}.jpg")


@pytest.mark.parametrize("scope", ["mmpretrain", "mmdet", "mmseg"])
def test_what_other_packages_read_through_mmcv(tmp_path, monkeypatch, scope):
    pytest.importorskip(scope)
    importlib.import_module("mmssprl.engine")  # as every run does
    path, pipe = tmp_path / "image", tmp_path / "pipe"
    os.mkfifo(pipe)
    load = registered("LoadImageFromFile", TRANSFORMS, scope)()
    for data in (jpeg(), encode("PNG"), encode("BMP"), encode("WEBP")):
        path.write_bytes(data)
        assert load({"img_path": str(path)})["img"].shape == (24, 24, 3)
    with pytest.raises(OSError, match=r"pipe: .* no regular file"):
        load({"img_path": str(pipe)})
    path.write_bytes(forge_sides(jpeg(), 30_000, 9_000))
    with pytest.raises(ImageReadError, match=r"image: .* at most 178,956,970 px"):
        load({"img_path": str(path)})
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 24 * 24 // 2 - 1)
    path.write_bytes(encode("PNG"))
    with pytest.raises(ImageReadError, match=r"px are decoded"):
        load({"img_path": str(path)})


def test_what_is_no_image_passes():
    for data in (b"", b"{}", b"RIFF????WAVE", b"PK\3\4", b"\x80\4", b"Photo 1"):
        check_header(data, "file")


@pytest.mark.parametrize(
    ("mode", "format", "options"),
    [
        ("L", "JPEG", {"quality": 1, "progressive": True, "optimize": True}),
        *(("1", "PNG", {}), ("L", "PNG", {}), ("P", "GIF", {})),
        ("1", "TIFF", {"compression": "group4"}),
        *(("RGB", "WEBP", {"lossless": True}), ("RGB", "AVIF", {"speed": 10})),
    ],
)
def test_what_encoders_make_of_a_blank_image_is_decoded(mode, format, options):
    file = io.BytesIO()
    Image.new(mode, (4096, 4096)).save(file, format, **options)
    assert decode(file.getvalue()).shape == (3, 4096, 4096)


def test_no_other_format_is_opened_whatever_its_name_and_whoever_reads(tmp_path):
    importlib.import_module("mmssprl.engine")  # as every run does
    files = list(images.undocumented_files())
    assert len(files) == 11
    backends = [partial(mmcv.imread, backend=backend) for backend in ("cv2", "pillow")]
    for name, data in files:
        path = tmp_path / f"{name}.jpg"
        path.write_bytes(data)
        for read in (read_image, partial(check_header, data), *backends):
            with pytest.raises(ImageReadError, match="in no image format that is known"):
                read(str(path))
    for named, read in itertools.product(("/dev/zero", str(tmp_path)), backends):
        with pytest.raises(OSError, match="no regular file"):
            read(named)
