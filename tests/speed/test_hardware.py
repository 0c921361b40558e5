"""Memory and time per backbone: by hand, and as they stand on the page."""

from pathlib import Path

import pytest

from tools.speed.common.counts import flops_per_image
from tools.speed.common.models import shipped_config
from tools.speed.hardware import (
    MEASURED_MB,
    MEASURED_RATES,
    cost_of,
    images_per_second,
    lines,
)
from tools.speed.scaling import GPUS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "hardware.md"


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
    # By the bandwidths of their memory: 1.008 and 2.039 TB/s.
    slower = images_per_second(int(242.9e9), "a100") / images_per_second(int(242.9e9), "rtx 4090")
    assert slower == pytest.approx(2.039 / 1.008)


def test_what_is_called_measured_is_the_report_of_one_gpu():
    report = (ROOT / "tools/speed/results/gpu.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:4]] for line in report.splitlines()]
    found = {row[0]: row[2] for row in rows if len(row) == 3}
    rates = {28: found["images"], 34: found["images-34"]}
    assert MEASURED_RATES.keys() == {("resnet50", crops, "h100") for crops in rates}
    for (_, crops, _), rate in MEASURED_RATES.items():
        assert rates[crops] == f"{rate} images/s"
    assert {("resnet50", 28): found["G10"]} == {k: f"{v} MB" for k, v in MEASURED_MB.items()}
    assert "NVIDIA H100" in report


def test_the_page_holds_what_is_computed():
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith(("| resnet18 ", "| resnet50 "))
    ]
    assert cells == [*lines(["resnet18", "resnet50"])]
