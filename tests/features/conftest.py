"""A config with a small pyramid, labelled images, and photographs of two colours."""

import pytest
from helpers.features.probe_folders import write_coco, write_config, write_image, write_voc


@pytest.fixture
def config(tmp_path):
    return write_config(tmp_path)


@pytest.fixture
def coco(tmp_path):
    return write_coco(tmp_path)


@pytest.fixture
def voc(tmp_path):
    return write_voc(tmp_path)


@pytest.fixture
def photos(tmp_path):
    """Ten images in two folders, in the order of their names."""
    for i in range(10):
        below = "a" if i < 4 else "b c"
        write_image(tmp_path / "photos" / below / f"{i}.jpg", ["red"] if i % 3 else ["green"], i)
    return tmp_path / "photos"
