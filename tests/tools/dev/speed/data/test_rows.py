"""The rows of the loader."""

import pytest

from tools.dev.speed.common import sample_images
from tools.dev.speed.common.gates import GATES
from tools.dev.speed.common.models import our_loader
from tools.dev.speed.data import loader_times, loaders, rows

PAIRS = {"torchvision": [12.0], "mmpretrain": [15.0], "ours": [1.0], "ours_cpu": [3.0]}


def test_bytes_and_tensors_that_cross_processes(images):
    dataset = our_loader(images, loaders.RELEASED)
    found = {row.id: row for row in rows.crossing_rows(dataset)}
    assert found["C5"].value == 0.25
    assert "1,265,664 against 5,062,656 bytes" in found["C5"].note
    assert found["C6"].value == 4
    assert "has 34" in found["C6"].note


def test_loaders_work_on_the_same_images_in_the_same_round(images, monkeypatch):
    read: dict[str, list] = {}

    def fake_interleave(sides, rounds):
        for name, work in sides.items():
            read[name] = []
            monkeypatch.setattr(loader_times, "read_image", lambda p, n=name: read[n].append(p))
            for _ in range(rounds):
                work()
        return {name: [16.0, 32.0] for name in sides}

    monkeypatch.setattr(loader_times, "interleave", fake_interleave)
    for side in (loaders.TorchvisionLoader, loaders.MultiViewLoader):
        monkeypatch.setattr(
            side, "__getitem__", lambda self, i: loader_times.read_image(self.paths[i])
        )
    seconds = loader_times.time_loaders(images, loaders.PAPER, 2)
    assert set(seconds) == set(loader_times.SIDES)
    assert seconds["ours"] == [1.0, 2.0]  # per image
    assert len(read["decode"]) == 32
    assert read["torchvision"] == read["mmpretrain"] == read["decode"]


def test_speeds_and_ratios():
    seconds = {"torchvision": [0.1, 0.1, 0.1], "ours": [0.01, 0.005, 0.02], "decode": [0.001] * 3}
    found = {row.id: row for row in loader_times.speed_rows(seconds, 34)}
    assert found["ours_34_ms"].value == pytest.approx(10)
    assert found["ours_34_ms"].quartiles == pytest.approx((7.5, 15))
    assert found["ours_34_rate"].value == pytest.approx(100)
    assert "decode_ms" in found
    assert "decode_ms" not in {row.id for row in loader_times.speed_rows(seconds, 28)}
    row = loader_times.ratio_row("C1", seconds, "torchvision", "ours", "Noted.")
    assert (row.value, row.note, row.judged) == (pytest.approx(10), "Noted.", GATES["C1"])
    assert row.passed is True
    slower = seconds | {"torchvision": [0.09] * 3}
    assert loader_times.ratio_row("C1", slower, "torchvision", "ours", "").passed is False
    pairs = {row.id: row.value for row in rows._comparisons(PAIRS)}
    assert pairs == {"C1": 12, "C2": 4, "C13": 15, "mmpretrain_photometric": 5}


def test_too_few_images(tmp_path):
    sample_images.write_images(tmp_path, 2)
    with pytest.raises(RuntimeError, match="a folder of at least 16 images, but .* holds 2"):
        rows.rows(tmp_path, True, print)
