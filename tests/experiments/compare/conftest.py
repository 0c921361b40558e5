"""Comparisons of 24 + 12 images, without what mmengine does for every runner and data set."""

import gc

import pytest
from helpers.experiments.tiny_compare import comparison
from helpers.features.probe_folders import write_coco
from mmengine.config import Config


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
        found = comparison(tmp_path / "work", data, **{"seeds": 1, "epochs": 6, **changes})
        assert found.planner  # which claims the work dir
        return found

    compare.data, compare.work_dir = data, tmp_path / "work"
    return compare
