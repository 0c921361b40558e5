import csv
from pathlib import Path
from statistics import mean

import pytest
from helpers.pretraining.recipes import COCO, choose, config_of

from mmssprl.errors import UserValueError
from mmssprl.pretraining.chosen import RecipeRow
from mmssprl.pretraining.methods import CONTINUED_GAIN, DEFAULT, TEACHER_GAIN, find_method
from mmssprl.pretraining.options import PretrainOptions
from mmssprl.pretraining.recipe import choose_recipe


def test_a_teacher_chooses_the_method_and_is_a_row():
    recipe = choose_recipe(find_method(None, "w.pth"), PretrainOptions(teacher="w.pth"), **COCO)
    assert recipe.rows["method"] == RecipeRow("distilled from a teacher", "a teacher is given")
    assert recipe.rows["teacher"].choice == "w.pth"
    cfg = config_of(recipe, teacher="timm/resnet10t")
    assert [hook.get("teacher") for hook in cfg.custom_hooks][-1] == "timm/resnet10t"
    with pytest.raises(
        UserValueError, match="a teacher is for method distill, but method is ssprl"
    ):
        find_method("ssprl", "w.pth")


def test_a_backbone_without_a_map_learns_no_cells():
    for backbone, weight in (("vit-small", 0), ("resnet18", 0.5)):
        cfg = config_of(choose("distill", backbone=backbone), method="distill", backbone=backbone)
        assert cfg.model.dense_weight == weight


def test_gains_in_a_recipe_are_those_of_committed_tables():
    results = Path(__file__).parents[2] / "docs" / "results"
    with (results / "distillation" / "results.csv").open(newline="") as file:
        of_row = {"split": "test", "row": "cells"}.items()
        ours = [float(row["mAP"]) for row in csv.DictReader(file) if of_row <= row.items()]
    with (results / "photos" / "results.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["method"] == DEFAULT]
    default = [100 * float(row["mAP"]) for row in rows if row["budget"] == "time"]
    assert round(mean(ours) - mean(default)) == TEACHER_GAIN
    with (results / "continuation" / "results.csv").open(newline="") as file:
        own = [float(row["mAP"]) for row in csv.DictReader(file) if row["method"] == "safe"]
    with (results / "continuation" / "start.csv").open(newline="") as file:
        [start] = [row["mAP"] for row in csv.DictReader(file) if row["weights"] == "start.pth"]
    assert round(100 * (mean(own) - float(start)), 1) == CONTINUED_GAIN
    rows = {}
    for method in ("ssprl", "distill"):
        recipe = choose(method, backbone="resnet18")
        config_of(recipe, method=method, backbone="resnet18")
        rows[method] = recipe.rows.get("weights")
    assert f"{TEACHER_GAIN} points of mAP" in rows["ssprl"].reason
    assert rows["distill"] is None
