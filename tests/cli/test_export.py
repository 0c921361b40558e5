from dataclasses import replace

import pytest
import torch
from helpers.datasets.noise_images import images  # noqa: F401  (fixture)
from helpers.engine.pretrain_runner import make_runner
from mmengine.config import Config
from safetensors.torch import load_file

from mmssprl.cli import main, use
from mmssprl.registry import MODELS
from mmssprl.weights import export_weights
from mmssprl.weights.key_tables import SOURCES
from mmssprl.weights.targets import TARGETS

CONFIG = "toy_ssprl.py"


@pytest.fixture(scope="module")
def run(images, tmp_path_factory):  # noqa: F811
    """The work dir of two epochs, in which the queues have filled."""
    folder = tmp_path_factory.mktemp("run")
    make_runner(images, folder).train()
    return folder


def state_of(run):
    return torch.load(run / "epoch_2.pth", weights_only=True)["state_dict"]


def export_all(run, state, target, out):
    """Export every tensor of the run's checkpoint with another state, which lies beside ``out``."""
    checkpoint = torch.load(run / "epoch_2.pth", weights_only=True)
    file = out.with_name("changed.pth")
    torch.save({**checkpoint, "state_dict": state}, file)
    return export_weights(file, target, out, config=run / CONFIG, full=True)


def test_the_command_exports_a_run_under_the_default_name(run, capsys):
    command = ["export", str(run / "epoch_2.pth"), "--to", "safetensors"]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    out = run / "epoch_2.safetensors"
    want = {k: v for k, v in state_of(run).items() if k.startswith("backbone.")}
    assert any(line.split() == ["tensors", "matched", f"{len(want)}"] for line in lines)
    got = load_file(out)
    assert len(got) == len(want) > 20
    assert all(torch.equal(got[k.removeprefix("backbone.")], v) for k, v in want.items())
    assert out.stat().st_mode & 0o044, "others can read it"
    assert main(command) == 2
    assert "overwrite" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0


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
    cfg = Config.fromfile(run / CONFIG)
    model = MODELS.build(cfg.model)
    model.load_state_dict(got)
    assert model.head.queues[0].num_filled == 8


def test_full_keeps_the_queues_of_other_ranks_and_lengths(run, tmp_path):
    state = state_of(run)
    key = "head.queues.0.features"
    state[f"{key}_of_ranks"] = torch.stack([state[key], state[key] + 1])
    state[key] = state[key][:, :4].clone()
    report = export_all(run, state, "safetensors", tmp_path / "f.safetensors")
    assert report.matched == len(state)
    got = load_file(tmp_path / "f.safetensors")
    for name in (key, f"{key}_of_ranks"):
        assert torch.equal(got[name], state[name])


def test_full_must_fit_the_model_and_the_file(run, tmp_path):
    backbone = str(run / "toy_ssprl_backbone.pth")
    with pytest.raises(ValueError, match="full .* backbone"):
        export_weights(backbone, "backbone", tmp_path / "f.pth", full=True)
    with pytest.raises(ValueError, match="onnx, but got mmdet"):
        export_weights(str(run / "epoch_2.pth"), "mmdet", tmp_path / "f.pth", full=True)
    state = state_of(run)
    del state["head.prototypes.0.weight"]
    with pytest.raises(ValueError, match="head.prototypes.0.weight"):
        export_all(run, state, "backbone", tmp_path / "f.pth")
    assert [path.name for path in tmp_path.iterdir()] == ["changed.pth"]


def test_the_report(run, tmp_path):
    report = export_weights(str(run / "epoch_2.pth"), "backbone", tmp_path / "w.pth")
    missing, notes = ("fc.weight", "fc.bias"), ("First.", "Second.")
    report = replace(report, num_bytes=44_780_000, missing=missing, notes=notes)
    lines = use.format_export(report).splitlines()
    assert lines[0].split() == ["target", "backbone"]
    assert [line.split()[-2:] for line in lines if "MB" in line] == [["44.78", "MB"]]
    assert any(line.endswith("fc.weight, fc.bias") for line in lines)
    assert lines[-3:] == ["First.", "", "Second."]


def test_every_target_and_source_is_offered():
    assert tuple(TARGETS) == use.TARGETS
    assert sorted(SOURCES) == sorted(use.SOURCES)
