import re

import pytest
from helpers.package.checkout import ROOT

from mmssprl.pretraining.options import PretrainOptions
from mmssprl.pretraining.recipe import choose_recipe
from mmssprl.pyramid import ViewLayout

PX = 224


@pytest.mark.parametrize("num_images", [5_000, 100_000])
def test_the_hours_of_the_default_follow_from_the_measured_rate(num_images):
    page = (ROOT / "docs/hardware.md").read_text()
    measured = (ROOT / "tools/dev/speed/results/gpu.md").read_text()
    [rate] = re.findall(r"^\| images  .* (\d+) images/s", measured, re.M)
    [crops] = re.findall(r"^- G1: B = 64. ([\d.]+) crops an image", measured, re.M)
    recipe = choose_recipe(PretrainOptions(), num_images, 480, on_gpu=True)
    groups = ViewLayout.build(recipe.cfg.layout).groups
    own = sum(group.num_crops * group.px**2 for group in groups) / PX**2
    hours = recipe.epochs * num_images * own / (float(rate) * float(crops)) / 3600
    views = recipe.rows["views"].choice
    row = f"| {num_images:,} | {recipe.epochs} | {views} | {own:.2f} | {hours:.1f} |"
    assert row in page
    assert f"{hours:.1f}" in (ROOT / "README.md").read_text()
    assert f"{float(rate) * float(crops):,.0f} such crops/s" in page
