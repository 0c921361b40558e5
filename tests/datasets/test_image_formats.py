import importlib
import sys
from collections import Counter
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from helpers.datasets.blocks import BLOCKS, encode
from helpers.datasets.image_folders import build, make_tar, save
from PIL import Image

from mmssprl.datasets import image_index, image_reading
from mmssprl.datasets.image_reading import ImageReadError, can_read, decode_image


def decode(data):
    image = decode_image(np.frombuffer(data, np.uint8).copy(), "image")
    return image.permute(1, 2, 0).numpy()


class TestTiff:
    def test_16_bit_colour_and_gray_keep_their_upper_8_bits(self):
        wide = BLOCKS.astype(np.uint16) * 256 + 255
        assert np.array_equal(decode(cv2.imencode(".tiff", wide[..., ::-1])[1].tobytes()), BLOCKS)
        for order in ("<u2", ">u2"):
            data = encode(Image.fromarray(wide[..., 1].astype(order)), "TIFF")
            assert np.array_equal(decode(data), BLOCKS[..., 1:2].repeat(3, 2))

    def test_of_several_pages_the_first_counts(self):
        other = Image.fromarray(BLOCKS[::-1].copy())
        data = encode(Image.fromarray(BLOCKS), "TIFF", save_all=True, append_images=[other])
        assert np.array_equal(decode(data), BLOCKS)

    @pytest.mark.parametrize(
        ("pixels", "reason"),
        [
            (np.float32([[0.5]]), "floating-point pixels have no known range"),
            (np.int32([[70_000]]), "pixels of 32 bits have no known range"),
            (np.int32([[-1]]), "pixels of 32 bits have no known range"),
        ],
    )
    def test_pixels_without_a_known_range_are_refused(self, pixels, reason):
        with pytest.raises(ImageReadError, match=reason):
            decode(encode(Image.fromarray(pixels), "TIFF"))


def test_first_frame_of_an_animated_gif_with_a_transparent_colour(recwarn):
    first = Image.fromarray(BLOCKS).quantize(6)
    frames = {"save_all": True, "append_images": [first.rotate(180)], "duration": 50}
    data = encode(first, "GIF", **frames, transparency=0)
    assert np.array_equal(decode(data), BLOCKS)
    assert not recwarn.list


@pytest.mark.parametrize(
    ("suffix", "format"),
    [(".jfif", "JPEG"), (".jpe", "JPEG"), (".ppm", "PPM"), (".pgm", "PPM"), (".PNG", "PNG")],
)
def test_suffixes(tmp_path, suffix, format):
    mode = "L" if suffix == ".pgm" else "RGB"
    options = {"quality": 100, "subsampling": 0} if format == "JPEG" else {}
    Image.fromarray(BLOCKS).convert(mode).save(tmp_path / f"a{suffix}", format, **options)
    (image,) = build(tmp_path)
    expected = np.asarray(Image.fromarray(BLOCKS).convert(mode).convert("RGB")).astype(int)
    found = image["img"].permute(1, 2, 0).numpy().astype(int)
    assert np.abs(found - expected).max() <= (3 if format == "JPEG" else 0)
    assert "." + suffix[1:].lower() in image_index.IMAGE_SUFFIXES


@pytest.mark.skipif(not can_read(".avif"), reason="pillow was built without AVIF")
def test_avif(tmp_path):
    Image.fromarray(BLOCKS).save(tmp_path / "a.avif", quality=100, subsampling="4:4:4")
    (image,) = build(tmp_path)
    assert np.abs(image["img"].permute(1, 2, 0).numpy().astype(int) - BLOCKS).max() <= 3


def test_heic_is_read_where_its_package_is_installed(monkeypatch):
    def register():
        monkeypatch.setitem(Image.EXTENSION, ".heic", "HEIF")
        monkeypatch.setitem(Image.OPEN, "HEIF", (None, None))

    assert not can_read(".heic")
    assert ".heic" not in image_index.IMAGE_SUFFIXES
    plugin = SimpleNamespace(register_heif_opener=register)
    monkeypatch.setitem(sys.modules, "pillow_heif", plugin)
    spec = importlib.util.spec_from_file_location("fresh", image_reading.__file__)
    fresh = importlib.util.module_from_spec(spec)
    monkeypatch.setattr(fresh, "__package__", "mmssprl.datasets")
    spec.loader.exec_module(fresh)
    assert fresh.can_read(".heic")


def test_what_is_skipped_is_counted_by_kind(tmp_path):
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
