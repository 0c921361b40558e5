import contextlib
import io
import math
import re

import pytest
import torch
from helpers.saving.stopped_runs import logged
from mmengine.config import Config

from mmssprl.cli import main
from mmssprl.config.reading import read_config_file
from mmssprl.datasets.scenes import generate_scenes
from mmssprl.pretraining import forecast


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "scenes"
    return generate_scenes(folder, num_train=24, num_val=12, size_px=96, progress=False)


@pytest.fixture(scope="module")
def own_run(scenes, tmp_path_factory):
    """The work dir of `pretrain` on 24 images, and its output."""
    folder = tmp_path_factory.mktemp("runs")
    arguments = ["pretrain", str(scenes / "coco" / "train2014"), "--work-dir", str(folder / "own")]
    arguments += ["--backbone", "resnet18", "--epochs", "2", "--batch-size", "8"]
    arguments += ["--probe", str(scenes / "coco")]
    measure = forecast.measure_pace

    def measure_and_look(*args, **options):
        result = measure(*args, **options)
        assert list(folder.iterdir()) == []
        return result

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as said:
        patch.setattr(forecast, "_LEAST_TIMED_STEPS", 1)
        patch.setattr(forecast, "measure_pace", measure_and_look)
        assert main(arguments) == 0
    return folder / "own", said.getvalue()


@pytest.fixture(scope="module")
def pretrained(own_run):
    return own_run[0]


def test_pretrain_forecasts_what_the_run_takes(own_run):
    work_dir, said = own_run
    hours, memory, disk = re.search(
        r"forecast: 2 epochs, about (.+) on this CPU \(.+ of its work\), "
        r"at least ([\d.]+) GB of memory, (\d+) MB of checkpoints, [\d,]+ [MG]B free",
        " ".join(said.split()),
    ).group(1, 2, 3)
    assert re.fullmatch(r"\d+ (s|min)", hours)
    assert 0.3 < float(memory) < 4
    sizes = [path.stat().st_size / 1e6 for path in work_dir.glob("*.pth")]
    # All files at the end, and a checkpoint of a stop between two epochs.
    assert float(disk) == pytest.approx(sum(sizes) + max(sizes), rel=0.03)


def test_the_console_of_pretrain_has_what_a_person_needs(own_run):
    work_dir, said = own_run
    lines = said.splitlines()
    assert len(lines) < 55
    paths = ("SwAV, ", "config: ", "backbone weights: ", "report: ", "next: ")
    assert [line for line in lines if len(line) > 110 and not line.startswith(paths)] == []
    assert sum("ackbone weights" in line for line in lines) == 1
    steps = [line for line in lines if line.startswith("epoch ")]
    assert len(steps) == 6
    assert all(len(line) <= 110 and "  loss / ln K " in line for line in steps)
    assert not any("Epoch(train)" in line for line in lines)
    probes = [line.partition(":")[0] for line in lines if line.startswith("Probe ")]
    assert probes == ["Probe before the training", "Probe after epoch 1", "Probe after epoch 2"]
    is_unclear = "no probe is clearly better" in lines[-2]
    assert is_unclear or lines[-2].startswith("next: python -m mmssprl finetune ")
    assert lines[-1].startswith("next: python -m mmssprl probe ")
    (log,) = work_dir.glob("*/*.log")
    assert log.read_text().count("Epoch(train)") == 6
    for dump in ("System environment:", "Config:\n", "Hooks will be executed"):
        assert dump in log.read_text()
        assert dump not in said


def test_pretrain_leaves_config_checkpoint_and_weights(pretrained):
    cfg = Config.fromfile(pretrained / "swav-small_resnet18.py")
    assert read_config_file(cfg.filename).to_dict() == cfg.to_dict()
    assert (cfg.train_cfg.max_epochs, cfg.num_threads) == (2, 1)
    assert cfg.model.layout == cfg.train_dataloader.dataset.pipeline[0].layout
    assert cfg.model.layout.image_px == 48  # 96 px images on a CPU
    checkpoint = torch.load(pretrained / "epoch_2.pth", weights_only=True)
    assert int(checkpoint["state_dict"]["head._extra_state"]) == 6
    assert (pretrained / "swav-small_resnet18_backbone.pth").exists()
    losses = [line["loss"] for line in logged(pretrained) if "loss" in line]
    assert len(losses) == 6
    assert all(map(math.isfinite, losses))


def test_a_complete_run_is_reported_and_unchanged(pretrained, scenes, capsys):
    images = str(scenes / "coco" / "train2014")
    files = {path: path.stat().st_mtime_ns for path in pretrained.rglob("*")}
    resume = ["pretrain", "--work-dir", str(pretrained), "--resume"]
    assert main([*resume, images]) == 0
    first, *more = capsys.readouterr().out.splitlines()
    weights = pretrained / "swav-small_resnet18_backbone.pth"
    assert "finished" in first
    assert str(weights) in first
    heads = [line.partition(":")[0] for line in more]
    assert (heads[0], heads[-1]) == ("report", "next")
    assert {path: path.stat().st_mtime_ns for path in pretrained.rglob("*")} == files
    assert main([*resume, str(pretrained)]) == 2
    assert "resumed with its own images" in capsys.readouterr().err
