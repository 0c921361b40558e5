"""What tells whether all loaders cut and recolour alike, and what it sees if not."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from mmcv_builds import needs_hues
from PIL import Image

from tools.dev.speed.data import color_probes, crop_boxes, loaders, same_views

SIDES = {
    "ours": same_views._our_crops,
    "torchvision": same_views._torchvision_crops,
    "mmpretrain": same_views._mmpretrain_crops,
}
HAVE_P = 1e-6
"""What a wrong distribution must show, far below what chance gives in a few tests."""


@pytest.fixture
def seeded():
    same_views._seed(0)


@pytest.mark.parametrize("box", [(30, 50, 180, 240), (0, 0, 240, 320), (100, 200, 60, 70)])
@pytest.mark.parametrize("px", [56, 96])
def test_box_is_read_from_a_crop(box, px):
    image = crop_boxes.coordinate_image(240, 320)
    top, left, height, width = box
    crop = Image.fromarray(image[top : top + height, left : left + width])
    resized = np.asarray(crop.resize((px, px), Image.Resampling.BILINEAR))
    found = crop_boxes.find_box(resized, 240, 320)
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


@needs_hues
def test_all_loaders_are_the_same():
    results = same_views.check_same(60)
    assert Counter(result.side for result in results) == {"torchvision": 32, "mmpretrain": 32}
    assert same_views.smallest_p(results) >= 0.01


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


@needs_hues
def test_check_names_what_differs(monkeypatch):
    steps = loaders.torchvision_steps

    def without_flip(jitter=loaders.JITTER):
        return {**steps(jitter), "flip": lambda image: image}

    monkeypatch.setattr(loaders, "torchvision_steps", without_flip)
    with pytest.raises(RuntimeError, match="flip, share differs from torchvision's"):
        same_views.check_same(60)
