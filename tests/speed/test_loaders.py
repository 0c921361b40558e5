"""The loaders that the benchmark compares: same crops, same draws, and what tells if not."""

from collections import Counter
from dataclasses import replace
from itertools import count

import color_probes
import crop_boxes
import data_gates
import fidelity
import loader_times
import loaders
import numpy as np
import pytest
import same_views
import sample_images
import torch
from measure import Row
from PIL import Image

from mmssprl.pyramid import ViewLayout

SIDES = {
    "ours": same_views._our_crops,
    "torchvision": same_views._torchvision_crops,
    "mmpretrain": same_views._mmpretrain_crops,
}
HAVE_P = 1e-6
"""What a wrong distribution must show, far below what chance gives in a few tests."""


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return sample_images.write_images(tmp_path_factory.mktemp("images"), 16)


@pytest.fixture
def seeded():
    same_views._seed(0)


def test_sample_images_are_like_photographs_and_always_the_same(images, tmp_path):
    files = sorted(images.iterdir())
    assert all(100_000 < file.stat().st_size < 220_000 for file in files)
    sizes = [Image.open(file).size for file in files]
    assert sizes[:4] == [(640, 480)] * 3 + [(480, 640)]
    again = sample_images.write_images(tmp_path / "again", 2)
    assert [f.read_bytes() for f in sorted(again.iterdir())] == [f.read_bytes() for f in files[:2]]
    assert files[0].read_bytes() != files[1].read_bytes()
    with pytest.raises(ValueError, match="num_images must be at least 1, but got 0"):
        sample_images.write_images(tmp_path, 0)


@pytest.mark.parametrize(
    ("layout", "sizes"),
    [
        (loaders.RELEASED, {224: 2, 96: 24, 112: 8}),
        (loaders.PAPER, {224: 2, 96: 18, 112: 8}),
    ],
)
def test_all_loaders_cut_the_crops_of_the_recipe(images, layout, sizes):
    dataset = loaders.our_loader(images, layout)
    paths = loaders.image_paths(dataset)
    ours = loaders.by_slot(layout, dataset[0]["inputs"])
    torchvision = loaders.TorchvisionLoader(paths, layout)
    mmpretrain = loaders.MultiViewLoader(paths, layout)
    theirs, packed = torchvision[0], mmpretrain[0]
    assert len(torchvision) == len(mmpretrain) == len(dataset) == 16
    for crops, dtype in (
        (ours, torch.uint8),
        (theirs, torch.float32),
        (packed["inputs"], torch.uint8),
    ):
        assert Counter(tuple(crop.shape) for crop in crops) == {
            (3, px, px): number for px, number in sizes.items()
        }
        assert {crop.dtype for crop in crops} == {dtype}
    order = [crop.shape[-1] for crop in ours]
    assert order == [crop.shape[-1] for crop in theirs]
    assert order == [crop.shape[-1] for crop in packed["inputs"]]
    assert packed["data_samples"].img_path == paths[0]


def test_torchvision_side_normalises():
    layout = ViewLayout(image_px=8, levels=())
    loader = loaders.TorchvisionLoader([], layout, steps=())
    crop = loader.cut(Image.new("RGB", (20, 20), (255, 0, 51)))[0]
    expected = [(1 - 0.485) / 0.228, -0.456 / 0.224, (0.2 - 0.406) / 0.225]
    torch.testing.assert_close(crop[:, 3, 4], torch.tensor(expected))


def test_our_side_on_the_cpu_augments_every_image_once(images, monkeypatch):
    dataset = loaders.our_loader(images, loaders.RELEASED)
    side = loaders.OursOnCpu(dataset, loaders.RELEASED, batch_size=2)
    shapes, trained = [], []
    forward = side.preprocessor.forward

    def record(data, training):
        trained.append(training)
        shapes.append([tuple(t.shape[:2]) for t in data["inputs"]])
        return forward(data, training)

    monkeypatch.setattr(side.preprocessor, "forward", record)
    side.run([3, 1, 2])
    assert trained == [True, True]
    assert shapes == [[(2, 2), (2, 6), (2, 8), (2, 18)], [(1, 2), (1, 6), (1, 8), (1, 18)]]


@pytest.mark.parametrize("box", [(30, 50, 180, 240), (0, 0, 240, 320), (100, 200, 60, 70)])
@pytest.mark.parametrize("px", [56, 96])
def test_box_is_read_from_a_crop(box, px):
    image = crop_boxes.coordinate_image(240, 320)
    found = crop_boxes.find_box(fidelity._pil_crop(image, box, px), 240, 320)
    assert found == pytest.approx(box, abs=0.5)


@pytest.mark.parametrize("side", SIDES)
def test_both_views_of_a_patch_show_one_cell(side, seeded):
    draws = crop_boxes.boxes(SIDES[side](crop_boxes.SMALL), 40)
    for scale, level in enumerate(crop_boxes.SMALL.levels, start=1):
        slack = level.cell_px - level.patch_px
        for axis in "yx":
            shifts = np.abs(draws[f"patch {scale}, shift in {axis}"])
            # As far apart as a cell allows, and not always together.
            assert slack / 2 < shifts.max() < slack + 0.5


def test_views_of_different_cells_are_refused(seeded):
    cut = SIDES["torchvision"](crop_boxes.SMALL)

    def swapped(image):
        crops = cut(image)
        crops[8], crops[9] = crops[9], crops[8]  # two cells of view 0 at scale 1
        return crops

    with pytest.raises(RuntimeError, match="patch 1: both views of a patch must lie in one cell"):
        crop_boxes.boxes(swapped, 20)


def test_all_loaders_are_the_same():
    results = same_views.check_same(60)
    assert Counter(result.side for result in results) == {"torchvision": 32, "mmpretrain": 32}
    assert same_views.smallest_p(results) >= same_views.MIN_P


@pytest.mark.parametrize(
    ("change", "quantity"),
    [
        ({"image_area": (0.5, 1.0)}, "image, area"),
        ({"small_area": (0.05, 0.2)}, "small, area"),
        ({"levels": tuple(replace(v, area=(0.4, 1.0)) for v in crop_boxes.SMALL.levels)}, "patch"),
    ],
)
def test_other_boxes_are_seen(change, quantity, seeded):
    ours = crop_boxes.boxes(SIDES["ours"](crop_boxes.SMALL), 150)
    other = crop_boxes.boxes(SIDES["ours"](replace(crop_boxes.SMALL, **change)), 150)
    worst = min(same_views.compare("other", ours, other), key=lambda result: result.p)
    assert worst.p < HAVE_P
    assert worst.quantity.startswith(quantity)


@pytest.mark.parametrize(
    ("name", "value", "quantity"),
    [
        ("FLIP_PROB", 0.8, "flip, share"),
        ("GRAYSCALE_PROB", 0.5, "grayscale, share"),
        ("JITTER_PROB", 0.5, "share"),
        ("BLUR_PROB", 0.8, "blur, share"),
        ("BLUR_RADIUS", (0.1, 1.2), "blur, factor"),
        ("JITTER", {**loaders.JITTER, "brightness": 0.4}, "brightness, factor"),
        ("JITTER", {**loaders.JITTER, "hue": 0.1}, "hue, factor"),
    ],
)
def test_other_colours_are_seen(name, value, quantity, monkeypatch, seeded):
    ours = color_probes.our_colors(400)
    monkeypatch.setattr(loaders, name, value)
    theirs = color_probes.step_colors(same_views._torchvision_step, 400)
    worst = min(same_views.compare("torchvision", ours, theirs), key=lambda result: result.p)
    assert worst.p < HAVE_P
    assert worst.quantity.endswith(quantity)


def test_check_names_what_differs(monkeypatch):
    steps = loaders.torchvision_steps

    def without_flip(jitter=loaders.JITTER):
        return {**steps(jitter), "flip": lambda image: image}

    monkeypatch.setattr(loaders, "torchvision_steps", without_flip)
    with pytest.raises(RuntimeError, match="flip, share differs from torchvision's"):
        same_views.check_same(60)


def test_check_counts_the_crops(monkeypatch):
    cut = loaders.MultiViewLoader.cut

    def without_last(self, results):
        packed = cut(self, results)
        return {"inputs": packed["inputs"][:-1]}

    monkeypatch.setattr(loaders.MultiViewLoader, "cut", without_last)
    with pytest.raises(RuntimeError, match="must cut 34 crops of .* but mmpretrain cuts"):
        same_views.check_same(1)


def test_fidelity_to_pil_and_torchvision(images):
    paths = sorted(images.iterdir())[:4]
    assert fidelity.share_within_one_level(paths) >= 0.99
    assert fidelity.jitter_difference(paths) <= 2 / 255
    greatest, share = fidelity.blur_difference(paths)
    assert greatest <= 3
    assert share > 0.99


def test_fidelity_sees_other_pixels(images, monkeypatch):
    paths = sorted(images.iterdir())[:2]
    steps = fidelity._STEPS
    brightness, contrast = list(steps)[:2]
    swapped = {**steps, brightness: steps[contrast], contrast: steps[brightness]}
    with monkeypatch.context() as patch:
        patch.setattr(fidelity, "_STEPS", swapped)
        assert fidelity.jitter_difference(paths) > 2 / 255
    with monkeypatch.context() as patch:
        patch.setattr(fidelity.photometric, "apply_gaussian_blur", lambda images, params: images)
        assert fidelity.blur_difference(paths)[0] > 10
    crop = fidelity._first_crop

    def brighter(cropper, image, seed):
        # Only the photograph is a tensor; what tells the box stays as it is.
        return crop(cropper, image, seed) + np.uint8(2 * isinstance(image, torch.Tensor))

    with monkeypatch.context() as patch:
        patch.setattr(fidelity, "_first_crop", brighter)
        assert fidelity.share_within_one_level(paths) < 0.1


def test_fidelity_needs_boxes_that_follow_from_the_seed(images, monkeypatch):
    crop, seeds = fidelity._first_crop, count()
    monkeypatch.setattr(fidelity, "_first_crop", lambda *args: crop(*args[:2], (0, 0, next(seeds))))
    with pytest.raises(RuntimeError, match="none gives it; PyramidCrop must draw the same boxes"):
        fidelity.share_within_one_level(sorted(images.iterdir())[:1])


def test_bytes_and_tensors_that_cross_processes(images):
    dataset = loaders.our_loader(images, loaders.RELEASED)
    rows = {row.id: row for row in data_gates.crossing_rows(dataset)}
    assert rows["C5"].value == 0.25
    assert "1,265,664 against 5,062,656 bytes" in rows["C5"].note
    assert rows["C6"].value == 4
    assert "has 34" in rows["C6"].note


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
    rows = {row.id: row for row in loader_times.speed_rows(seconds, 34)}
    assert rows["ours_34_ms"].value == pytest.approx(10)
    assert rows["ours_34_ms"].spread == pytest.approx((7.5, 15))
    assert rows["ours_34_rate"].value == pytest.approx(100)
    assert "decode_ms" in rows
    assert "decode_ms" not in {row.id for row in loader_times.speed_rows(seconds, 28)}
    row = loader_times.ratio_row("C1", "what", seconds, "torchvision", "ours", gate=12)
    assert row == Row("C1", "what", pytest.approx(10), "x", gate=12, spread=row.spread)
    assert row.passed is False


def test_too_few_images(tmp_path):
    sample_images.write_images(tmp_path, 2)
    with pytest.raises(RuntimeError, match="a folder of at least 16 images, but .* holds 2"):
        data_gates.rows(tmp_path, True, print)
