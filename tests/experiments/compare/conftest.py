"""Comparisons of 24 + 12 images."""

import pytest
from helpers.experiments.tiny_compare import comparison
from helpers.features.probe_folders import write_coco


@pytest.fixture
def compare(tmp_path):
    data = write_coco(tmp_path)

    def compare(**changes):
        found = comparison(tmp_path / "work", data, **{"seeds": 1, "epochs": 6, **changes})
        assert found.images  # which claims the work dir
        return found

    compare.data, compare.work_dir = data, tmp_path / "work"
    return compare
