"""The page docs/results/teachers: its files follow from timm, from each other and from the GPU."""

import csv
import runpy
from statistics import median

import pytest
import timm
import torch
from helpers.package.checkout import ROOT
from torchvision.models import resnet50

from mmssprl.models.timm_backbone import published_form

PAGE = ROOT / "docs/results/teachers"


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(PAGE / "cost.py"))


@pytest.fixture(scope="module")
def rows():
    with (PAGE / "cost.csv").open(newline="") as file:
        return {row["weights"]: row for row in csv.DictReader(file)}


def test_the_table_follows_from_the_file_and_is_on_the_page_of_users(script):
    assert (PAGE / "table.md").read_text() == script["table"](), "run cost.py --table"
    for page in ("docs/photographs.md", "docs/results/teachers/README.md"):
        assert "teachers/table.md" in (ROOT / page).read_text().replace("{include} ", "teachers/")


def test_sizes_and_licences_are_timms(script, rows):
    assert [*rows] == [*script["TRAINED"]]
    for weights, row in rows.items():
        with torch.device("meta"):
            name = weights.removeprefix("timm/")
            is_timm = name != weights
            network = timm.create_model(name, num_classes=0) if is_timm else resnet50()
        size = sum(value.numel() for key, value in network.named_parameters() if key[:3] != "fc.")
        assert row["million_weights"] == f"{size / 1e6:.1f}"
        assert row["licence"] == script["licence_of"](weights)


def test_a_stride_is_the_side_of_a_cell(rows):
    strides = {"patch14": "14", "patch16": "16"}
    for weights, row in rows.items():
        found = [own for part, own in strides.items() if part in weights]
        assert row["stride"] == (found or ["32"])[0]


def test_times_are_medians_of_rounds_and_those_of_a_gpu_follow_from_operations(script, rows):
    for row in rows.values():
        rounds = [*map(float, row["rounds"].split())]
        assert len(rounds) == script["ROUNDS"]
        assert float(row["cpu_s_per_1000"]) == pytest.approx(median(rounds))
        own = script["gpu_seconds"](float(row["gflops"]), float(rows["supervised"]["gflops"]))
        assert float(row["gpu_s_per_1000"]) == pytest.approx(own, abs=0.006)


def test_operations_of_a_resnet_and_of_attention_are_counted(rows):
    assert float(rows["supervised"]["gflops"]) == pytest.approx(8.18, abs=0.05)
    # 12 blocks of 12 C² weights at 257 tokens, and two products of tokens with tokens.
    tokens = 257
    linear = 2 * tokens * 12 * 12 * 384**2
    attention = 12 * 2 * 2 * tokens**2 * 384
    found = float(rows["timm/vit_small_patch14_dinov2"]["gflops"])
    assert found == pytest.approx((linear + attention) / 1e9, rel=0.02)


def test_the_rate_on_the_page_is_that_of_a_third_of_a_training_step(script):
    a_resnet = script["gpu_seconds"](1.0, 1.0)  # for 1,000 images
    trained_per_s = 1000 / a_resnet / 3
    assert f"{trained_per_s:,.0f} crops of 224 px" in (PAGE / "README.md").read_text()


def test_no_network_is_in_the_table_that_lacks_the_biases_of_its_file(rows):
    assert any("_qkvb" in weights for weights in rows)
    for weights in rows:
        name = weights.removeprefix("timm/")
        assert published_form(name) == name
