"""Comparisons of 24 + 12 images, without what mmengine does for every runner and data set."""

import gc

import pytest
from helpers.experiments.tiny_compare import request
from helpers.features.probe_folders import write_coco
from mmengine.config import Config

from mmssprl.experiments.compare.start import Comparison


@pytest.fixture(autouse=True, scope="module")
def quick():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "collect", lambda *args: 0)
        patch.setattr(Config, "pretty_text", "")
        yield


@pytest.fixture
def compare(tmp_path):
    data = write_coco(tmp_path)

    def compare(**changes):
        values = {"num_seeds": 1, "epochs": 6, **changes}
        comparison = Comparison(request(tmp_path / "work", data, **values), lambda line: None)
        assert comparison.planner  # which claims the work dir
        return comparison

    compare.data, compare.work_dir = data, tmp_path / "work"
    return compare
