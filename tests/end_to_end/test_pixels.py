"""The pixels that each command sees, for every format and EXIF orientation."""

import numpy as np
import pytest
from helpers.datasets.pixel_paths import CONFIGS, LABELLED, TURNED, WAYS, write_images
from PIL import Image, ImageOps

NEEDS_MMDET_OR_MMSEG = ("detect", "segment", "detection", "segmentation")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A folder of the images, and the pixels as pillow turns them, by file name."""
    folder = tmp_path_factory.mktemp("pixels") / "images"
    shown = write_images(folder)
    wanted = {}
    for path in sorted(folder.iterdir()):
        with Image.open(path) as image:
            wanted[path.name] = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
        assert wanted[path.name].shape == shown.shape
        difference = wanted[path.name].astype(int) - shown
        assert np.abs(difference).mean() < 12  # of lossy formats; of others turned, over 60
    assert len(wanted) >= 8 * (len(TURNED) - 1) + 3  # AVIF depends on pillow
    return folder, wanted


def ways():
    for way in WAYS:
        is_full = any(word in way for word in NEEDS_MMDET_OR_MMSEG)
        yield pytest.param(way, marks=pytest.mark.full if is_full else ())


@pytest.mark.parametrize("way", ways())
def test_every_command_sees_the_same_pixels(way, images):
    folder, wanted = images
    wrong = set()
    seen = set()
    for name, pixels in WAYS[way](folder):
        seen.add(name)
        if pixels.shape != wanted[name].shape or (pixels != wanted[name]).any():
            wrong.add(name)
    assert wrong == set()
    assert seen == wanted.keys()


def test_no_shipped_config_has_another_reader():
    texts = {str(path.relative_to(CONFIGS)): path.read_text() for path in CONFIGS.glob("**/*.py")}
    assert len(texts.keys() & {*LABELLED}) == len(LABELLED) >= 26
    assert not [name for name, text in texts.items() if "LoadImageFromFile" in text]
