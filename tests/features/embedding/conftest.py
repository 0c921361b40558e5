"""A config with a small pyramid, and photographs of two colours."""

import pytest
from helpers.features.probe_folders import CONFIG, write_image

LEVELS = "levels=[dict(grid=2, resize_px=64, patch_px=24), dict(grid=3, resize_px=90, patch_px=16)]"


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "tiny.py"
    path.write_text(CONFIG.replace("image_px=32", f"image_px=32, {LEVELS}"))
    return path


@pytest.fixture
def photos(tmp_path):
    """Ten images in two folders, in the order of their names."""
    for i in range(10):
        below = "a" if i < 4 else "b c"
        write_image(tmp_path / "photos" / below / f"{i}.jpg", ["red"] if i % 3 else ["green"], i)
    return tmp_path / "photos"
