"""The config that `pretrain` makes of its options, and what it says and asks before it trains."""

import pytest
import torch
from mmengine.config import Config
from paces import PACE, stub_pace
from PIL import Image

from mmssprl.cli import main
from mmssprl.config.pretrain_checks import check_pretraining
from mmssprl.engine import trackers
from mmssprl.errors import UserRuntimeError
from mmssprl.pretraining import start
from mmssprl.registry import MODELS


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for i in range(40):
        Image.new("RGB", (64, 48), (i, 2 * i, 3 * i)).save(folder / f"{i}.png")
    return folder


def config_of(photos, work_dir, monkeypatch, *options):
    """The config written for a run that is not started."""
    monkeypatch.setattr(start, "train", lambda *arguments, **options: None)
    stub_pace(monkeypatch)
    arguments = ["pretrain", str(photos), "--work-dir", str(work_dir), "--backbone", "resnet18"]
    assert main([*arguments, *options]) == 0
    return Config.fromfile(work_dir / "ssprl_resnet18.py")


def test_accumulated_images_are_one_batch_of_the_loader(
    photos, tmp_path, monkeypatch, capsys, on_cpu
):
    options = ("--batch-size", "4", "--epochs", "6")
    plain = config_of(photos, tmp_path / "a", monkeypatch, *options)
    assert "4 images x 1 device  " in capsys.readouterr().out
    cfg = config_of(photos, tmp_path / "b", monkeypatch, *options, "--accumulate", "3")
    out = capsys.readouterr().out
    assert "12 images x 1 device, in 3 parts" in out
    assert "6, 18 updates" in out  # 40 // 12 = 3 steps an epoch
    assert (plain.model.num_chunks, cfg.model.num_chunks) == (1, 3)
    assert (plain.train_dataloader.batch_size, cfg.train_dataloader.batch_size) == (4, 12)
    assert cfg.train_dataloader.drop_last
    assert cfg.num_threads == PACE.threads
    assert cfg.auto_scale_lr.base_batch_size == 12  # mmengine's rule: batch x processes
    lr, plain_lr = (c.optim_wrapper.optimizer.lr for c in (cfg, plain))
    assert lr == pytest.approx(3 * plain_lr)
    assert "accumulative_counts" not in cfg.optim_wrapper
    head = cfg.model.head
    # Half of 40 images without the step's 12, for each patch that is cut.
    assert [head.queue_length, *head.patch_queue_length] == [8, 2 * 8, 3 * 8]
    check_pretraining(cfg)


def test_the_released_form_has_its_views_losses_and_deviation_of_red(photos, tmp_path, monkeypatch):
    found = {}
    for variant in ("paper", "released"):
        options = ("--epochs", "1", "--variant", variant)
        cfg = config_of(photos, tmp_path / variant, monkeypatch, *options)
        model = MODELS.build(cfg.model)
        red = model.data_preprocessor.std[0] / 255
        found[variant] = (model.head.variant, model.layout.num_small, pytest.approx(red))
        assert not {"max_epochs", "batch_size", "base_lr", "data_root", "num_gpus"} & cfg.keys()
    assert found == {"paper": ("paper", 0, 0.229), "released": ("released", 6, 0.228)}


def test_too_many_accumulated_images(photos, tmp_path, capsys):
    arguments = ["pretrain", str(photos), "--work-dir", str(tmp_path / "run")]
    assert main([*arguments, "--batch-size", "16", "--accumulate", "4"]) == 2
    assert "got batch size 16 4 times on" in capsys.readouterr().err


@pytest.fixture
def long_run(photos, tmp_path, monkeypatch, on_cpu):
    """Arguments of a run of 26 h that is not started, and the trainings that were asked for."""
    asked = stub_pace(monkeypatch, step_s=7200.0)
    started = []

    def train(*arguments, go_on, **options):
        started.append((*arguments, options))

    monkeypatch.setattr(start, "train", train)
    monkeypatch.setattr("sys.stdin", None)
    arguments = ["pretrain", str(photos), "--work-dir", str(tmp_path / "run")]
    # 40 // 16 = 2 steps an epoch, 20 h in all, and 25 images of eight a step for the report
    return [*arguments, "--batch-size", "16", "--epochs", "5"], asked, started


def test_a_run_too_long_for_a_cpu_is_refused_and_writes_nothing(long_run, tmp_path, capsys):
    arguments, asked, started = long_run
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert "\nforecast: 5 epochs, about 26 h on this CPU (1 thread on 2 cores), 1.4 GB" in told.out
    assert "\nwarning: 40 usable images are few" in told.out
    assert told.err.startswith("mmssprl pretrain: error: a run on a CPU should take at most 12 h")
    assert told.err.count("\n") == 1
    assert not (tmp_path / "run").exists()
    assert started == []
    ((cfg, amp, num_devices),) = asked
    assert cfg.train_dataloader.batch_size == 16
    assert (amp, num_devices) == (False, 1)


def test_yes_starts_a_long_run(long_run, tmp_path, capsys):
    arguments, _, started = long_run
    assert main([*arguments, "--yes", "--verbose"]) == 0
    work_dir = tmp_path / "run"
    options = {"num_gpus": 0, "resume": None, "verbose": True, "trackers": []}
    assert started == [(work_dir / "ssprl_resnet50.py", work_dir, options)]
    assert "forecast: 5 epochs, about 26 h" in capsys.readouterr().out


def test_no_at_a_terminal_writes_nothing(long_run, tmp_path, monkeypatch, capsys):
    arguments, _, started = long_run
    monkeypatch.setattr("mmssprl.timing.forecast.may_start", lambda *_, **__: False)
    assert main(arguments) == 1
    assert capsys.readouterr().out.endswith("not started; nothing was written.\n")
    assert not (tmp_path / "run").exists()
    assert started == []


def test_a_used_work_dir_is_refused_before_anything_is_timed(long_run, tmp_path, capsys):
    arguments, asked, _ = long_run
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").touch()
    assert main(arguments) == 2
    assert "go on with its run by --resume" in capsys.readouterr().err
    assert asked == []


def test_several_processes_get_the_arguments_of_one(photos, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    stub_pace(monkeypatch, device="cuda")
    commands = []

    def fail(command, go_on):
        commands.append(command)
        assert go_on[-3:] == [str(tmp_path / "run"), "--wandb", "--resume"]
        raise UserRuntimeError("the disk is full; make room.")

    monkeypatch.setattr(start, "run_processes", fail)
    monkeypatch.setattr(start, "check_trackers", lambda names: None)
    arguments = ["pretrain", str(photos), "--work-dir", str(tmp_path / "run"), "--wandb"]
    assert main(arguments) == 2
    assert capsys.readouterr().err == ("mmssprl pretrain: error: the disk is full; make room.\n")
    ((first, count, script, config, *options),) = commands
    assert (first, count) == ("--standalone", "--nproc_per_node=2")
    assert script.endswith("tools/train.py")
    assert config.endswith("ssprl_resnet50.py")
    assert options[2:] == ["--launcher", "pytorch", "--amp", "--wandb"]


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_tracker_that_is_not_installed_is_told_before_anything_is_timed(
    name, long_run, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(trackers.importlib.util, "find_spec", lambda name: None)
    arguments, asked, _ = long_run
    assert main([*arguments, f"--{name}"]) == 2
    assert capsys.readouterr().err == (
        f"mmssprl pretrain: error: --{name} needs the package {name}, but it is not installed; "
        f"pip install {name}.\n"
    )
    assert asked == []
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("count", "size", "reason"), [(3, (64, 48), "has 3:"), (40, (1, 1), "40")])
def test_images_that_nothing_can_be_learned_from(count, size, reason, tmp_path, capsys):
    (tmp_path / "images").mkdir()
    for i in range(count):
        Image.new("RGB", size, (i, 0, 0)).save(tmp_path / "images" / f"{i}.png")
    arguments = ["pretrain", str(tmp_path / "images"), "--work-dir", str(tmp_path / "run")]
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert "at least 8 usable images" in told
    assert reason in told
    assert not (tmp_path / "run").exists()
