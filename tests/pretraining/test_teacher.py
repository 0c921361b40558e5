import csv
import json
from pathlib import Path
from unittest import mock
from urllib.error import URLError

import pytest
import torch
from helpers.datasets.photo_folders import write_photos
from helpers.docs.derived import gain
from helpers.package.checkout import ROOT
from helpers.pretraining.paces import stub_pace
from helpers.pretraining.recipes import choose, config_of
from helpers.saving.stopped_runs import assert_equal
from mmengine.config import Config

import mmssprl
from mmssprl.distillation.teacher import Teacher
from mmssprl.errors import UserOSError, UserValueError
from mmssprl.features.backbone import FeatureBackbone
from mmssprl.pretraining.continuation import is_anchored
from mmssprl.pretraining.methods import (
    CONTINUED_GAIN,
    DEFAULT,
    TEACHER_GAIN,
    UNANCHORED_LOSS,
)
from mmssprl.pretraining.options import PretrainOptions
from mmssprl.pretraining.recipe import RecipeRow
from mmssprl.weights import load_network
from mmssprl.weights.backbone import build_model


def test_a_teacher_makes_the_recipe_a_distillation():
    recipe = choose(None, teacher="timm/resnet10t")
    assert recipe.rows["method"] == RecipeRow("distilled from a teacher", "a teacher is given")
    assert recipe.rows["teacher"].choice == "timm/resnet10t"
    assert config_of(recipe).custom_hooks[-1].teacher == "timm/resnet10t"


@pytest.mark.parametrize(
    ("method", "weights", "match"),
    [
        ("ssprl", None, "teacher w.pth is for method distill .* is ssprl;"),
        ("byol", "w.pth", "if it is the weights, for SS-PRL and SwAV, .* is byol"),
    ],
)
def test_a_method_that_takes_no_teacher_is_refused(method, weights, match):
    with pytest.raises(UserValueError, match=match):
        choose(method, weights=weights, teacher="w.pth")


def test_a_distillation_may_start_from_its_teacher():
    assert choose("distill", weights="w.pth", teacher="w.pth").method.key == "distill"


@pytest.mark.parametrize(
    ("weights", "backbone", "teacher", "anchors"),
    [
        ("w.pth", "timm/resnet10t", "timm/resnet10t:w.pth", True),  # as named_weights leaves it
        ("timm/resnet10t", "timm/resnet10t", "timm/resnet10t", True),
        ("w.pth", "resnet18", "v.pth", False),
        (None, "resnet18", "supervised", False),
        ("random", "resnet18", "random", False),
        ("supervised", "resnet18", "supervised", True),  # next to a folder of this name
        ("./run/", "resnet18", Path("run/x_backbone.pth"), True),
        ("run/x_backbone.pth", "timm/resnet10t", "timm/resnet10t:run/../run", True),
        ("run", "timm/resnet10t", "timm/resnet18:run", False),
    ],
)
def test_a_teacher_that_is_the_start_is_recognised(
    weights, backbone, teacher, anchors, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name in ("run", "supervised"):
        (tmp_path / name).mkdir()
    (tmp_path / "run/x_backbone.pth").touch()
    asked = PretrainOptions(weights=weights, backbone=backbone, teacher=teacher)
    assert is_anchored(asked) is anchors


def test_a_teacher_of_a_distillation_is_named_by_its_whole_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.pth").touch()
    maps = "helpers.models.own_nets:maps"
    for teacher, backbone, name in (
        ("timm/resnet10t:w.pth", "resnet18", f"timm/resnet10t:{tmp_path}/w.pth"),
        ("supervised", "vit-small", "supervised"),
        ("own", maps, maps),
    ):
        cfg = config_of(choose("distill", backbone=backbone, teacher=teacher))
        assert cfg.custom_hooks[-1].teacher == name
        assert cfg.model.dense_weight == (0 if backbone == "vit-small" else 0.5)


def test_an_anchored_run_resumes_with_the_maps_of_its_start(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stub_pace(monkeypatch)
    write_photos(tmp_path / "photos", 16)
    torch.save(build_model({"type": "ResNet", "depth": 18}).state_dict(), "w.pth")
    given = {"backbone": "resnet18", "epochs": 2, "batch_size": 8, "image_px": 32}
    given |= {"num_workers": 0, "weights": "w.pth", "teacher": "w.pth"}
    options = {"default_hooks.checkpoint.max_keep_ckpts": 2}
    first = mmssprl.pretrain("photos", "run", **given, cfg_options=options)
    printed = capsys.readouterr().out
    assert "teacher    the start itself" in printed
    assert "no report" not in printed
    cfg = Config.fromfile("run/swav_resnet18.py")
    assert (cfg.model.type, cfg.model.anchor_neck.out_channels) == ("AnchoredSSPRL", 256)
    start = FeatureBackbone.of_config(load_network("w.pth", cfg), cfg)
    kept = json.loads(Path("run/teacher_maps.json").read_text())
    assert kept["weights"] == Teacher("w", start).digest()
    logged = "".join(path.read_text() for path in Path("run").rglob("scalars.json"))
    for name in ("loss_pyramid_s0", "loss_distill_s0", "loss_cells", "cosine_shuffled_cells"):
        assert f'"{name}"' in logged
    ended = torch.load(first, weights_only=True)
    for path in [Path(first), Path("run/epoch_2.pth"), Path("run/last_checkpoint")]:
        path.unlink()
    again = mmssprl.pretrain("photos", "run", resume=True)
    assert_equal(torch.load(again, weights_only=True), ended, "weights")


@pytest.mark.parametrize("budget", [{"epochs": 2}, {"budget": "5m"}])
@pytest.mark.parametrize(("name", "warns"), [("maps", True), ("trained", False)])
def test_an_untrained_teacher_is_told(name, warns, budget, tmp_path, monkeypatch):
    stub_pace(monkeypatch)
    write_photos(tmp_path / "photos", 16)
    given = {"backbone": "resnet18", "teacher": f"helpers.models.own_nets:{name}", **budget}
    printed = []
    mmssprl.pretrain(tmp_path / "photos", dry_run=True, image_px=32, **given, log=printed.append)
    told = " ".join("".join(printed).split())
    assert (f"the teacher helpers.models.own_nets:{name} seems to be untrained" in told) == warns


def test_a_teacher_that_cannot_be_downloaded_is_refused_before_a_recipe_is_printed(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    offline = mock.Mock(side_effect=URLError("no network"))
    monkeypatch.setattr(torch.hub, "download_url_to_file", offline)
    stub_pace(monkeypatch)
    write_photos(tmp_path / "photos", 16)
    printed = []
    for more in ({}, {"budget": "1h"}, {"dry_run": True}):
        given = {"backbone": "resnet18", "teacher": "supervised", **more}
        with pytest.raises(UserOSError, match="ResNet-50, is not in .* no network"):
            mmssprl.pretrain("photos", "run", **given, log=printed.append)
    assert printed == []
    assert not Path("run").exists()


def scores_of(file, **wanted):
    """The mAP of these rows of a committed table, in percent."""
    with (ROOT / "docs/results" / file).open(newline="") as table:
        rows = [row for row in csv.DictReader(table) if wanted.items() <= row.items()]
    scores = [float(row["mAP"]) for row in rows]
    return scores if max(scores) > 1 else [100 * score for score in scores]


def gained(scores, others):
    """A difference of means as a recipe says it."""
    difference, half_width = gain(scores, others)
    return f"{difference:.1f} ± {half_width:.1f}"


def test_gains_in_a_recipe_are_those_of_committed_tables():
    tested = {"file": "distillation/results.csv", "split": "test"}
    default = scores_of("photos/results.csv", method=DEFAULT, budget="time")
    assert gained(scores_of(**tested, row="cells"), default) == TEACHER_GAIN
    held_out = {"file": "distillation/results.csv", "split": "held-out"}
    protected = scores_of(**held_out, row="protected")
    assert gained(scores_of(**held_out, row="start"), protected) == UNANCHORED_LOSS
    start = scores_of("continuation/start.csv", weights="start.pth")
    continued = scores_of("continuation/results.csv", method="safe")
    assert gained(continued, start) == CONTINUED_GAIN
    recipe = choose(backbone="resnet18")
    config_of(recipe)
    assert f"{TEACHER_GAIN} points of mAP" in recipe.rows["weights"].reason
