from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner
from safetensors.torch import load_file

from mmssprl.cli import main
from mmssprl.cli.use import TARGETS as OFFERED
from mmssprl.cli.use import format_export
from mmssprl.config.pretrain_checks import hand_on_layout
from mmssprl.datasets.scenes import generate_scenes
from mmssprl.registry import MODELS
from mmssprl.weights import ExportReport, export_weights
from mmssprl.weights.targets import TARGETS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The work dir of two epochs of the sample config with queues, on 12 images."""
    scenes = tmp_path_factory.mktemp("data") / "scenes"
    generate_scenes(scenes, num_train=12, num_val=4, size_px=96, progress=False)
    cfg = Config.fromfile(ROOT / "configs/ssprl/ssprl_resnet18_scenes.py")
    cfg.work_dir = str(tmp_path_factory.mktemp("run"))
    cfg.merge_from_dict(
        {
            "train_dataloader.dataset.data_root": str(scenes / "coco" / "train2014"),
            "train_dataloader.batch_size": 4,
            "train_cfg.max_epochs": 2,
            "model.head.queue_length": 8,
            "model.head.queue_start_epoch": 1,
            "log_level": "WARNING",
        }
    )
    cfg.experiment_name = "export"
    hand_on_layout(cfg)
    Runner.from_cfg(cfg).train()
    return Path(cfg.work_dir)


def state_of(run):
    return torch.load(run / "epoch_2.pth", weights_only=True)["state_dict"]


def test_the_command_exports_a_run_under_the_default_name(run, capsys):
    assert main(["export", str(run / "epoch_2.pth"), "--to", "safetensors"]) == 0
    lines = capsys.readouterr().out.splitlines()
    out = run / "epoch_2.safetensors"
    assert any(line.split() == ["tensors", "matched", "90"] for line in lines)
    want = {k: v for k, v in state_of(run).items() if k.startswith("backbone.")}
    got = load_file(out)
    assert len(got) == len(want) == 90
    assert all(torch.equal(got[k.removeprefix("backbone.")], v) for k, v in want.items())
    again = ["export", str(run / "epoch_2.pth"), "--to", "safetensors"]
    assert main(again) == 2
    assert "force" in capsys.readouterr().err
    assert main([*again, "--force"]) == 0


@pytest.mark.parametrize(("target", "read"), [("backbone", torch.load), ("safetensors", load_file)])
def test_full_keeps_every_tensor_and_goes_on_training(run, target, read, tmp_path):
    suffix = {"backbone": ".pth", "safetensors": ".safetensors"}[target]
    report = export_weights(str(run / "epoch_2.pth"), target, tmp_path / f"f{suffix}", full=True)
    state = state_of(run)
    assert any(".queues." in key for key in state)
    assert any(".prototypes." in key for key in state)
    got = read(tmp_path / f"f{suffix}")
    assert set(got) == set(state)
    assert all(torch.equal(got[key], value) for key, value in state.items())
    assert (report.matched, report.missing) == (len(state), ())
    assert report.model == "mmssprl SSPRL with ResNet-18"
    assert ("load_from='FILE'" in report.notes[0]) == (suffix == ".pth")
    cfg = Config.fromfile(run / "ssprl_resnet18_scenes.py")
    model = MODELS.build(cfg.model)
    model.load_state_dict(got)
    assert model.head.queues[0].num_filled == 8


def test_full_keeps_the_queues_of_other_ranks_and_lengths(run, tmp_path):
    checkpoint = torch.load(run / "epoch_2.pth", weights_only=True)
    state = checkpoint["state_dict"]
    key = "head.queues.0.features"
    state[f"{key}_of_ranks"] = torch.stack([state[key], state[key] + 1])
    state[key] = state[key][:, :4].clone()
    torch.save(checkpoint, tmp_path / "two_ranks.pth")
    config = str(run / "ssprl_resnet18_scenes.py")
    out = tmp_path / "f.safetensors"
    report = export_weights(
        str(tmp_path / "two_ranks.pth"), "safetensors", out, config=config, full=True
    )
    assert report.matched == len(state)
    got = load_file(out)
    for name in (key, f"{key}_of_ranks"):
        assert torch.equal(got[name], state[name])


def test_full_must_fit_the_model_and_the_file(run, tmp_path):
    backbone = str(run / "ssprl_resnet18_scenes_backbone.pth")
    with pytest.raises(ValueError, match="full .* backbone"):
        export_weights(backbone, "backbone", tmp_path / "f.pth", full=True)
    with pytest.raises(ValueError, match="safetensors, but got mmdet"):
        export_weights(str(run / "epoch_2.pth"), "mmdet", tmp_path / "f.pth", full=True)
    checkpoint = torch.load(run / "epoch_2.pth", weights_only=True)
    checkpoint["state_dict"].pop("head.prototypes.0.weight")
    torch.save(checkpoint, tmp_path / "cut.pth")
    config = str(run / "ssprl_resnet18_scenes.py")
    with pytest.raises(ValueError, match="head.prototypes.0.weight"):
        export_weights(
            str(tmp_path / "cut.pth"), "backbone", tmp_path / "f.pth", config=config, full=True
        )
    assert [path.name for path in tmp_path.iterdir()] == ["cut.pth"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{run}/epoch_9.pth", "--to", "mmdet"], "no {run}/epoch_9.pth"),
        (["{run}/epoch_2.pth", "--to", "timm"], "base_channels=64"),
        (["{run}/epoch_2.pth", "--to", "onnx", "--full"], "safetensors"),
        (["{run}/epoch_2.pth", "--to", "onnx", "--out", "{run}/x.pth"], ".onnx"),
    ],
)
def test_mistakes_are_one_message(run, arguments, message, capsys):
    before = sorted(run.iterdir())
    assert main(["export", *(text.format(run=run) for text in arguments)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("mmssprl export: error: ")
    assert error.count("\n") == 1
    assert message.format(run=run) in error
    assert sorted(run.iterdir()) == before


def test_the_report():
    report = ExportReport(
        target="torchvision",
        file=Path("w.pth"),
        num_bytes=44_780_000,
        matched=None,
        missing=("fc.weight", "fc.bias"),
        model="torchvision resnet18",
        map_difference=0.0,
        pooled_difference=2.5e-7,
        tolerance=1e-5,
        notes=("First.", "Second."),
    )
    lines = format_export(report).splitlines()
    assert lines[0].split() == ["target", "torchvision"]
    assert [line.split()[-2:] for line in lines if "MB" in line] == [["44.78", "MB"]]
    assert any(line.endswith("fc.weight, fc.bias") for line in lines)
    assert lines[-3:] == ["First.", "", "Second."]


def test_every_target_is_offered():
    assert tuple(TARGETS) == OFFERED
