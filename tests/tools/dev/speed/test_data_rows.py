"""The rows of the loader, and how near its pixels are to PIL's and torchvision's."""

import pytest

from mmssprl.datasets.transforms import pyramid_crop
from tools.dev.speed import data_rows as rows
from tools.dev.speed import loaders
from tools.dev.speed.gates import GATES
from tools.dev.speed.models import our_loader


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
            monkeypatch.setattr(rows, "read_image", lambda p, n=name: read[n].append(p))
            for _ in range(rounds):
                work()
        return {name: [16.0, 32.0] for name in sides}

    monkeypatch.setattr(rows, "interleave", fake_interleave)
    for side in (loaders.TorchvisionLoader, loaders.MultiViewLoader):
        monkeypatch.setattr(side, "__getitem__", lambda self, i: rows.read_image(self.paths[i]))
    seconds = rows.time_loaders(images, loaders.RELEASED, 2)
    assert set(seconds) == set(rows.SIDES)
    assert seconds["ours"] == [1.0, 2.0]  # per image
    assert len(read["decode"]) == 32
    assert read["torchvision"] == read["mmpretrain"] == read["decode"]


def test_speeds_and_ratios():
    seconds = {
        "torchvision": [0.1, 0.1, 0.1],
        "mmpretrain": [0.15] * 3,
        "ours": [0.01, 0.005, 0.02],
        "ours_cpu": [0.025] * 3,
        "decode": [0.001] * 3,
    }
    found = {row.id: row for row in rows.speed_rows(seconds)}
    assert found["ours_34_ms"].value == pytest.approx(10)
    assert found["ours_34_ms"].quartiles == pytest.approx((7.5, 15))
    assert found["decode_ms"].value == pytest.approx(1)
    assert found["C1"].judged == GATES["C1"]
    assert [found[row_id].value for row_id in ("C1", "C2", "C13")] == pytest.approx([10, 4, 15])
    assert found["C1"].passed is True
    slower = {row.id: row for row in rows.speed_rows(seconds | {"torchvision": [0.09] * 3})}
    assert slower["C1"].passed is False


def test_fidelity_to_pil_and_torchvision(images):
    paths = sorted(images.iterdir())[:4]
    assert rows.share_within_one_level(paths) >= 0.99
    assert rows.jitter_difference(paths) <= 2 / 255
    assert rows.blur_share(paths) > 0.99


def test_fidelity_sees_other_pixels(images, monkeypatch):
    paths = sorted(images.iterdir())[:2]
    steps = rows._STEPS
    brightness, contrast = list(steps)[:2]
    swapped = {**steps, brightness: steps[contrast], contrast: steps[brightness]}
    with monkeypatch.context() as patch:
        patch.setattr(rows, "_STEPS", swapped)
        assert rows.jitter_difference(paths) > 2 / 255
    with monkeypatch.context() as patch:
        patch.setattr(rows, "_blurred", lambda images, params: images)
        assert rows.blur_share(paths) < 0.9
    interpolate, pil_crop = pyramid_crop.interpolate, rows._pil_crop

    def brighter(*args, **options):
        return interpolate(*args, **options).clamp(max=253) + 2

    def one_pixel_off(image, box, px):
        return pil_crop(image.roll(1, -1), box, px)

    with monkeypatch.context() as patch:
        patch.setattr(pyramid_crop, "interpolate", brighter)
        assert rows.share_within_one_level(paths) < 0.1
    with monkeypatch.context() as patch:
        patch.setattr(rows, "_pil_crop", one_pixel_off)
        assert rows.share_within_one_level(paths) < 0.8
