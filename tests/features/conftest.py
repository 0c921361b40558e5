"""A config, and stand-ins for supervised weights."""

import pytest
from helpers.features.probe_folders import config  # noqa: F401  (fixture)
from mmengine.config import Config

from mmssprl.weights import load_network


@pytest.fixture
def asked_depths(monkeypatch):
    """Depths of ResNets whose supervised weights are loaded; they get random ones."""
    asked = []

    def supervised_state(depth):
        asked.append(depth)
        cfg = Config({"model": {"backbone": {"type": "ResNet", "depth": depth}}})
        return load_network("random", cfg).state_dict()

    monkeypatch.setattr("mmssprl.weights.backbone.supervised_state", supervised_state)
    return asked
