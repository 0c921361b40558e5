"""A config with a small pyramid, labelled images, and photographs of two colours."""

import pytest
from helpers.features.probe_folders import write_coco, write_config, write_image, write_voc
from mmengine.config import Config

from mmssprl.weights import load_network

# They take ``tmp_path`` alone.
config, coco, voc = map(pytest.fixture, (write_config, write_coco, write_voc))


@pytest.fixture
def photos(tmp_path):
    """Ten images in two folders, in the order of their names."""
    for i in range(10):
        below = "a" if i < 4 else "b c"
        write_image(tmp_path / "photos" / below / f"{i}.jpg", ["red"] if i % 3 else ["green"], i)
    return tmp_path / "photos"


@pytest.fixture
def asked_depths(monkeypatch):
    """The depths of ResNets whose supervised weights have been asked for; random ones are given."""
    asked = []

    def supervised_state(depth):
        asked.append(depth)
        cfg = Config({"model": {"backbone": {"type": "ResNet", "depth": depth}}})
        return load_network("random", cfg).state_dict()

    monkeypatch.setattr("mmssprl.weights.backbone.supervised_state", supervised_state)
    return asked
