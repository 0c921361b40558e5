"""Memory and time per backbone: by hand, and as they stand on the page."""

from pathlib import Path

import pytest

from tools.speed.common.counts import flops_per_image
from tools.speed.common.models import shipped_config
from tools.speed.hardware import cost_of, images_per_second, lines
from tools.speed.scaling import GPUS

PAGE = Path(__file__).parents[2] / "docs" / "hardware.md"


def test_three_times_the_forward_pass_is_what_the_whole_step_of_a_resnet_counts():
    whole = sum(flops_per_image(shipped_config(28)).values())
    assert cost_of("resnet50", 28).flops == pytest.approx(whole, rel=0.02)


def test_sampled_patches_cost_what_they_have_of_the_crops():
    # Areas in crops of 224 px, of 2 + 6 views and of 2 x 2 and 2 x 3 patches; heads are little.
    small = (96 / 224) ** 2
    paper, default = 2 + 8 / 4 + 18 * small, 2 + 6 * small + 4 / 4 + 6 * small
    ratio = cost_of("resnet50", 18).flops / cost_of("resnet50", 28).flops
    assert ratio == pytest.approx(default / paper, rel=0.01)


def test_a_rate_by_hand():
    # 0.9 of 2,470 crops/s of 24.29 GFLOP, at ten such crops an image.
    assert images_per_second(int(242.9e9), "a100") == pytest.approx(0.9 * 247)
    assert GPUS["a100"].plain == 2470


def test_the_page_holds_what_is_computed():
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("| resnet18 ")
    ]
    assert cells == [*lines(["resnet18"])]
