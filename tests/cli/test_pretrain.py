import re
import shutil
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from helpers.datasets.photo_folders import write_photos
from helpers.pretraining.paces import stub_pace
from mmengine.config import Config

from mmssprl.cli import main
from mmssprl.config.pretrain_checks import check_pretraining
from mmssprl.errors import UserRuntimeError
from mmssprl.pretraining import plan
from mmssprl.pretraining.methods import PRETRAINED
from mmssprl.registry import MODELS
from mmssprl.runs import forecast, start, train


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = write_photos(tmp_path_factory.mktemp("photos"))
    (folder / "a.heic").write_bytes(b"x")
    return folder


@pytest.fixture
def started(monkeypatch, on_cpu):
    """The requested trainings, which do not start."""
    calls = []
    stub_pace(monkeypatch)
    monkeypatch.setattr(
        start, "train_config", lambda *args, **options: calls.append((*args, options))
    )
    return calls


@pytest.fixture
def pretrain(photos, tmp_path, monkeypatch, started):
    """Run the command without training; return its exit code and the config, if written."""
    monkeypatch.setattr(plan, "load_teacher", lambda *given: None)

    def run(*options, work_dir="run", method="ssprl"):
        words = ["pretrain", str(photos), "--work-dir", str(tmp_path / work_dir), *options]
        new = ["--method", method, "--backbone", "resnet18"]
        code = main(words if "--resume" in options else words + new)
        config = tmp_path / work_dir / f"{method}_resnet18.py"
        return code, Config.fromfile(config) if config.exists() else None

    return run


@pytest.mark.parametrize("name", PRETRAINED)
def test_each_method_gets_a_config_that_its_model_takes(name, photos, tmp_path, pretrain, started):
    _, cfg = pretrain("--batch-size", "8", "--epochs", "20", method=name)
    resume_by = ["python", "-m", "mmssprl", "pretrain", str(photos), "--work-dir"]
    resume_by.append(f"{tmp_path}/run")
    given = {"num_gpus": 0, "resume": None, "resume_by": resume_by}
    config = tmp_path / "run" / f"{name}_resnet18.py"
    assert started == [(config, tmp_path / "run", given)]
    check_pretraining(cfg)
    model = MODELS.build(cfg.model)
    model.check_training(40, cfg.train_dataloader.batch_size)
    assert not {"warmup_epochs", "max_epochs", "base_lr", "data_root", "num_gpus"} & cfg.keys()
    assert pretrain("--resume")[0] == 0
    assert (started[1][0], started[1][-1]["resume"]) == (config, "auto")


def test_the_command_that_resumes_names_the_module_of_the_network(
    photos, tmp_path, monkeypatch, started
):
    (tmp_path / "resumed_net.py").write_text(
        "from torch import nn\n\n\ndef net():\n    return nn.Conv2d(3, 4, 3, stride=32)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    words = ["pretrain", str(photos), "--work-dir", "run", "--backbone", "resumed_net:net"]
    assert main([*words, "--method", "swav", "--epochs", "1", "--batch-size", "8"]) == 0
    command = started[0][-1]["resume_by"]
    assert command[command.index("--import") + 1] == "resumed_net"


def test_numbers_reach_the_config(pretrain, capsys):
    options = ["--lr", "0.003", "--num-workers", "0", "--epochs", "20", "--seed", "7"]
    options += ["--image-px", "64", "--cfg-options", "save_every=15m"]
    options += ["train_dataloader.dataset.max_bad_share=0.25", "train_cfg.max_epochs=3"]
    _, cfg = pretrain(*options, "model.head.temperature=0.2")
    assert cfg.optim_wrapper.optimizer.lr == 0.003
    assert cfg.train_dataloader.num_workers == 0
    assert cfg.train_dataloader.dataset.max_bad_share == 0.25
    assert cfg.model.head.temperature == 0.2
    assert cfg.model.layout.image_px == 64
    # 64 and 56 of 128 px, in multiples of 16 from 32 on
    assert [level.patch_px for level in cfg.model.layout.levels] == [32, 32]
    assert (cfg.train_cfg.max_epochs, cfg.save_every, cfg.randomness.seed) == (3, "15m", 7)
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count("40 images; 1 .heic skipped") == 1
    assert "forecast: 3 epochs" in printed


def test_several_processes_get_the_arguments_of_one(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    stub_pace(monkeypatch, device="cuda")
    run = mock.Mock(side_effect=UserRuntimeError("process 1 failed."))
    monkeypatch.setattr(train, "run_processes", run)
    words = ["--verbose", "pretrain", str(photos), "--work-dir", str(tmp_path / "run")]
    assert [main([*words, *more]) for more in (["--gpus", "2"], ["--resume"])] == [2, 2]
    (command, resume_by), (resumed, _) = (call.args for call in run.call_args_list)
    assert resume_by[-1] == "--resume"
    assert resumed[1] == "--nproc_per_node=2"
    first, count, script, config, *options = command
    assert (first, count) == ("--standalone", "--nproc_per_node=2")
    assert script.endswith("tools/train.py")
    assert options[2:] == ["--launcher", "pytorch", "--amp", "--verbose"]
    cfg = Config.fromfile(config)
    assert cfg.auto_scale_lr.base_batch_size == 2 * cfg.train_dataloader.batch_size


def test_lack_of_disk_or_memory_is_reported_after_the_recipe(
    pretrain, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=100_000_000))
    assert pretrain("--epochs", "3") == (2, None)
    printed = capsys.readouterr()
    assert "765 MB of checkpoints, 100 MB free" in " ".join(printed.out.split())
    assert "765 MB" in printed.err
    fail = mock.Mock(side_effect=UserRuntimeError("there is not enough memory; lower batch_size."))
    monkeypatch.setattr(forecast, "measure_pace", fail)
    assert pretrain("--batch-size", "16") == (2, None)
    printed = capsys.readouterr()
    assert "lower batch_size" in printed.err
    assert "40 images; 1 .heic skipped" in printed.out
    assert not (tmp_path / "run").exists()


@pytest.fixture
def no_time(monkeypatch):
    """Time stands still: planning takes nothing from a budget."""
    monkeypatch.setattr(plan, "time", SimpleNamespace(monotonic=lambda: 0.0))


def test_a_schedule_fits_a_budget(pretrain, no_time, capsys):
    """Ten steps an epoch of 0.5 s, and a report of 10 s."""
    _, cfg = pretrain("--budget", "1m")
    assert cfg.train_cfg.max_epochs == 10  # 50 s / 5 s
    assert cfg.param_scheduler[-1].T_max + cfg.param_scheduler[-1].get("begin", 0) == 10
    assert cfg.default_hooks.checkpoint.interval == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "fit into 1m; 800 " in text
    assert "forecast: 10 epochs, about 60 s on this CPU" in text


def test_a_long_budget_takes_no_more_epochs_than_recommended(pretrain, no_time):
    _, cfg = pretrain("--budget", "1d")
    assert cfg.train_cfg.max_epochs == 800


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--num-workers -1", "error: num_workers must be at least 0, but got -1"),
        ("--gpus 0", "gpus 0 CUDA_VISIBLE_DEVICES="),
        ("--cfg-options max_epochs=3", "max_epochs train_cfg.max_epochs"),
        ("--cfg-options train_dataloader.dataset.pipeline.0.layout.image_px=64", "model.layout"),
        ("--backbone timm/resnet18x", "'resnet18x' resnet18?"),
        ("--backbone swin-tiny --weights supervised", "swin-tiny weights backbone"),
        ("--budget soon", "budget 90m 'soon'"),
        ("--method mocov2 --accumulate 2", "accumulate mocov2 batch_size"),
    ],
)
def test_options_that_fit_no_training(options, words, photos, tmp_path, started, capsys):
    fixed = ["--work-dir", str(tmp_path / "run"), "--backbone", "resnet18"]
    assert main(["pretrain", str(photos), *fixed, *options.split()]) == 2
    out, printed = capsys.readouterr()
    assert all(word in printed for word in words.split())
    assert (printed.count("\n"), out) == (1, "")
    assert not (tmp_path / "run").exists()


def test_gpus_without_a_gpu_are_called_so(photos, tmp_path, on_cpu, capsys):
    assert main(["pretrain", str(photos), "--gpus", "2", "--dry-run"]) == 2
    line = "gpus needs a GPU, but got 2 and torch finds none; leave it out to train on the CPU"
    assert line in capsys.readouterr().err


USED = [
    ("--teacher missing.pth", "there is no missing.pth"),
    ("--teacher timm/nothing", "timm .* has no network 'nothing'"),
    ("--teacher empty.pth", "empty.pth cannot be read"),
    ("--probe missing", "there is no missing"),
    ("--cfg-options model.head.epsilom=1", "unexpected keyword argument 'epsilom'"),
    ("--image-px 31", "image_px"),
    ("", "work_dir must be new or empty"),
]


@pytest.mark.parametrize(("options", "error"), USED)
def test_a_used_work_dir_is_told_after_other_mistakes(
    options, error, photos, tmp_path, started, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/notes.txt").touch()
    (tmp_path / "empty.pth").touch()
    assert main(["pretrain", str(photos), "--work-dir", "run", *options.split()]) == 2
    assert re.search(error, capsys.readouterr().err)


def test_a_resumed_run_refuses_what_its_config_decides(photos, tmp_path, started, capsys):
    words = ["pretrain", str(photos), "--work-dir", str(tmp_path / "run")]
    main([*words, "--backbone", "resnet18"])
    options = "--lr 1 --image-px 32 --num-workers 1 --gpus 1 --weights random --cfg-options a=1"
    options += f" --budget 1h --dry-run --probe {photos}"
    capsys.readouterr()
    assert main([*words, "--resume", *options.split()]) == 2
    names = "budget, image_px, lr, weights, gpus, num_workers, probe"
    assert f"{names}, cfg_options, dry_run out" in capsys.readouterr().err


def test_the_default_work_dir_is_named_after_the_images(started, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for owner in ("ann", "bob"):
        write_photos(tmp_path / owner / "photos", 8)
    command = ["pretrain", "--backbone", "resnet18", "--epochs", "1"]
    folder = "work_dirs/pretrain_photos"
    assert main(["pretrain", "ann/photos", "--resume"]) == 2
    assert f"{folder}, but found 0" in capsys.readouterr().err
    assert main([*command, "ann/photos"]) == 0
    assert main(["pretrain", "ann/photos/", "--resume"]) == 0
    assert [str(each[1]) for each in started] == [folder, folder]
    assert main([*command, "bob/photos"]) == 2
    assert f"but {folder} holds files" in capsys.readouterr().err
