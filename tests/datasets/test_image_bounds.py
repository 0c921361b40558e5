import importlib
import io
import itertools
import os
import re
import time
from functools import partial

import mmcv
import numpy as np
import pytest
from helpers.datasets import forged_images as images
from helpers.datasets.forged_images import encode, forge_sides, jpeg
from PIL import Image
from torch.utils.data import DataLoader

from mmssprl.datasets import image_reading
from mmssprl.datasets.image_reading import ImageReadError, check_header, decode_image, read_image
from mmssprl.registry import TRANSFORMS, registered
from mmssprl.system.environment import peak_resident_mib
from mmssprl.system.processes import call_in_process


def decode(data):
    return decode_image(np.frombuffer(data, np.uint8).copy(), "image")


def refused(data, match):
    start = time.process_time()
    with pytest.raises(ImageReadError, match=match):
        decode(data)
    assert time.process_time() - start < 1.0  # decoding 30,000 x 30,000 px takes 11 s


class TestJpeg:
    @pytest.mark.parametrize("marker", [b"\xff\xc0", b"\xff\xc9", b"\xff\xca"])
    def test_more_pixels_than_any_image_may_have(self, marker):
        data = forge_sides(jpeg(), 30_000, 20_000).replace(b"\xff\xc0", marker, 1)
        refused(data, r"image: .* 30,000 x 20,000 px, and at most 178,956,970 .* tiles")

    @pytest.mark.parametrize("options", [{}, {"progressive": True}])
    def test_more_pixels_than_the_bytes_can_hold(self, options):
        data = jpeg(**options)
        refused(forge_sides(data, 13_000, 13_000), rf"more than {len(data):,} bytes can hold")

    def test_header_behind_what_libjpeg_skips(self):
        data = forge_sides(jpeg(), 13_000, 13_000)
        for between in (b"garbage", b"\xff\xff", b"\xff\x01", b"\xff\xd0", b"\xff\x00"):
            refused(data[:20] + between + data[20:], "more than")  # behind the first segment

    def test_sides_in_a_segment_that_is_no_frame_do_not_count(self):
        comment = b"\xff\xfe\x00\x0c\xff\xc0\x00\x11\x08\xff\xff\xff\xff\x00"
        assert decode(jpeg()[:2] + comment + jpeg()[2:]).shape == (3, 24, 24)

    def test_scans_without_end(self):
        data = jpeg(progressive=True)
        scan = data[data.rindex(b"\xff\xda") : -2]
        refused(data[:-2] + scan * 100 + data[-2:], r"1\d\d scans, and at most 100")


@pytest.mark.parametrize("format", ["PNG", "BMP", "GIF", "TIFF", "WEBP"])
def test_limit_of_other_formats(monkeypatch, format):
    data = encode(format)
    decode(data)
    monkeypatch.setattr(image_reading, "MAX_PIXELS", 24 * 24 - 1)
    refused(data, r"says 24 x 24 px, and at most 575 px")


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
    path.write_bytes(forge_sides(jpeg(), 12_000, 12_000))
    with pytest.raises(ImageReadError, match=r"image: .* says 12,000 x 12,000 px, more than"):
        load({"img_path": str(path)})
    monkeypatch.setattr(image_reading, "MAX_PIXELS", 24 * 24 - 1)
    path.write_bytes(encode("PNG"))
    with pytest.raises(ImageReadError, match=r"says 24 x 24 px, and at most 575 px"):
        load({"img_path": str(path)})


def test_what_is_no_image_passes():
    for data in (b"", b"{}", b"RIFF????WAVE", b"PK\3\4", b"\x80\4", b"Photo 1"):
        check_header(data, "file")


def mib_of_refusals():
    before = peak_resident_mib()
    files = [*images.tiny_files(images.LARGE_PX), *images.undocumented_files()]
    assert len(files) == 16
    for _, data in files:
        refused(data, "image")
    return peak_resident_mib() - before


class TestFewBytes:
    """Images just inside the limit of pixels, from files that hold next to nothing."""

    @pytest.mark.parametrize("index", range(5))
    def test_are_refused_by_their_header(self, index):
        _, data = list(images.tiny_files(images.LARGE_PX))[index]
        refused(data, rf"says 13,300 x 13,300 px, more than {len(data)} bytes can hold")
        with pytest.raises(ImageReadError, match="bytes can hold"):
            check_header(data, "file")

    def test_take_no_memory(self):
        grown = call_in_process(mib_of_refusals)
        assert grown < 64

    def test_a_small_one_is_decoded(self):
        assert decode(images.flat_webp(images.SMALL_PX)).shape == (3, 2048, 2048)
        refused(images.flat_webp(images.SMALL_PX + 1), "can hold")

    @pytest.mark.parametrize(
        ("mode", "format", "options"),
        [
            ("L", "JPEG", {"quality": 1, "progressive": True, "optimize": True}),
            *(("1", "PNG", {}), ("L", "PNG", {}), ("P", "GIF", {})),
            ("1", "TIFF", {"compression": "group4"}),
            *(("RGB", "WEBP", {"lossless": True}), ("RGB", "AVIF", {"speed": 10})),
        ],
    )
    def test_what_encoders_make_of_a_blank_image_is_decoded(self, mode, format, options):
        file = io.BytesIO()
        Image.new(mode, (4096, 4096)).save(file, format, **options)
        assert decode(file.getvalue()).shape == (3, 4096, 4096)


def read_in_worker(paths):
    """Size of an image, or why it is refused."""
    try:
        return str(read_image(paths[0]).shape[1])
    except ImageReadError as error:
        return str(error)


@pytest.mark.parametrize(("workers", "processes", "is_read"), [(0, 1, 1), (2, 1, 1), (2, 2, 0)])
def test_memory_is_shared_by_all_that_read(tmp_path, monkeypatch, workers, processes, is_read):
    monkeypatch.setattr(image_reading, "usable_memory", lambda: 2**30)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    Image.new("L", (3000, 3000)).save(tmp_path / "a.png")  # 206 MiB at 24 bytes a pixel
    (found,) = DataLoader([tmp_path / "a.png"], num_workers=workers, collate_fn=read_in_worker)
    wanted = "3000" if is_read else "4 reading processes with 1.0 GiB .*take fewer workers"
    assert re.search(wanted, found)


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
