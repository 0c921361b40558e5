"""The page docs/results/deployed: its tables follow from its files, and its own statistics."""

import csv
import re
import runpy
from collections import Counter
from itertools import product
from operator import itemgetter

import numpy as np
import pytest
import torch
from helpers.package.checkout import ROOT
from scipy import stats

PAGE = ROOT / "docs/results/deployed"


@pytest.fixture(scope="module")
def tables():
    return runpy.run_path(str(PAGE / "tables.py"))


@pytest.fixture(scope="module")
def dense():
    return runpy.run_path(str(PAGE / "dense.py"))


def read(name):
    with (PAGE / name).open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_tables_follow_from_the_files_of_the_page(tables):
    made = tables["tables"]()
    assert len(made) == 4
    page = (PAGE / "README.md").read_text()
    for name, text in made.items():
        assert (PAGE / name).read_text() == text, f"run tables.py for {name}"
        assert name in page


def test_a_cell_has_the_interval_of_the_seeds_of_a_row(tables):
    scores = tables["scores_of"](read("results.csv"))
    assert scores
    for (key, measure), values in scores.items():
        text = f"{np.mean(values):.1f}"
        if len(values) > 1:
            width = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
            text += f" ± {width:.1f}"
        name = "tuned.md" if key[0] in ("narrow", "lite0") else "deployed.md"
        title = tables["TITLES"][key]
        row = re.search(f"^{re.escape(f'| {title} ')}.*", (PAGE / name).read_text(), re.MULTILINE)
        assert f" {text} ({len(values)}) " in row[0], (key, measure)


@pytest.mark.parametrize("name", ["results.csv", "dense.csv"])
def test_each_score_is_there_once_from_a_clean_commit(name):
    lines = read(name)
    fields = [x for x in ("network", "row", "seed", "measure", "question") if x in lines[0]]
    counts = Counter(itemgetter(*fields)(line) for line in lines)
    assert set(counts.values()) == {1}
    for line in lines:
        assert len(line["commit"]) >= 7
        assert " " not in line["commit"]
        assert float(line["seconds"]) > 0
        assert int(line["num_val"]) == (100 if name == "dense.csv" else 499)


def test_the_iou_of_a_row_is_the_mean_of_its_images():
    for line in read("dense.csv"):
        images = [float(value) for value in line["per_image"].split()]
        assert len(images) == 100
        assert np.mean(images) == pytest.approx(float(line["IoU"]), abs=0.01)


def test_the_bootstrap_pairs_the_images(tables):
    rng = np.random.default_rng(3)
    other = rng.uniform(0, 100, (1, 100))
    low, high, p = tables["bootstrap"](other + 2, other)
    assert (low, high) == pytest.approx((2, 2))
    assert p == pytest.approx(2 / 10_001)


def test_the_bootstrap_agrees_with_the_normal_interval_of_many_images(tables):
    rng = np.random.default_rng(4)
    other = rng.uniform(0, 100, (1, 400))
    gain = rng.normal(1, 10, (1, 400))
    low, high, p = tables["bootstrap"](other + gain, other)
    half = 1.96 * gain.std() / 20
    assert (low, high) == pytest.approx((gain.mean() - half, gain.mean() + half), abs=0.1)
    assert p == pytest.approx(2 * stats.norm.sf(gain.mean() / gain.std() * 20), rel=0.2)


def test_the_bootstrap_draws_the_seeds_of_a_row(tables):
    images = np.full((2, 100), 50.0)
    images[1] += 10
    draws = tables["draw_means"](images, 0)
    assert set(draws) == {50.0, 55.0, 60.0}
    assert np.mean(draws == 55.0) == pytest.approx(0.5, abs=0.02)


def test_an_incomplete_family_has_no_p(tables):
    family = tables["FAMILIES"]["tuned"]
    scores = {
        each: [1.0, 2.0, 4.0, 5.0, 7.0] for each in product(tables["TITLES"], family.measures)
    }
    found = tables["differences"](family, scores)
    assert tables["adjusted"](family, found) == [1.0] * 10
    scores[("narrow", "cells"), "10 %"].pop()
    found = tables["differences"](family, scores)
    assert [each.p is None for each in found].count(True) == 2
    assert tables["adjusted"](family, found) == [None] * 10


def test_the_iou_of_an_image_is_the_mean_over_the_classes_of_its_mask(dense):
    # Class 0 has 6 pixels, 4 of them found; class 1 has 2, both found; class 2 is only predicted.
    confusion = torch.tensor([[4, 1, 1], [0, 2, 0], [0, 0, 0]], dtype=torch.float64)
    assert dense["shown_iou"](confusion) == pytest.approx((4 / 6 + 2 / 3) / 2)


def test_the_most_frequent_classes_are_those_of_most_images(dense):
    labels = [np.zeros((2, 4), np.uint8) for _ in range(3)]
    labels[0][0] = 7  # many pixels of one image
    labels[1][1, :2] = 3
    labels[2][1, :1] = 3
    labels[2][0, 0] = 255
    labels[2][0, 1] = 9
    assert dense["most_frequent"](labels) == [3, 7, 9]


def test_questions_join_the_other_classes(dense):
    tables = dense["questions"](21, [15, 7])
    mask = np.array([0, 15, 7, 3, 255])
    assert tables["foreground"][mask].tolist() == [0, 1, 1, 1, 255]
    assert tables["five classes"][mask].tolist() == [0, 1, 2, 0, 255]


def test_the_epochs_of_the_deployed_networks_fill_45_minutes():
    lines = read("paces.csv")
    assert len(lines) == 4
    for line in lines:
        steps = int(line["epochs"]) * (4500 // 64)
        seconds = float(line["pass_s"]) + steps * float(line["step_s"])
        assert seconds == pytest.approx(45 * 60, rel=0.03)
