"""What each option of `pretrain` changes in the config, and when it is refused."""

import shutil
from types import SimpleNamespace

import pytest
import torch
from mmengine.config import Config
from paces import stub_pace
from PIL import Image
from torchvision.models import resnet18

from mmssprl.cli import main
from mmssprl.datasets import UnlabeledImages
from mmssprl.pretraining import plan, start
from mmssprl.registry import DATASETS


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for i in range(40):
        Image.new("RGB", (64, 48), (i, 2 * i, 3 * i)).save(folder / f"{i}.png")
    (folder / "a.heic").write_bytes(b"x")
    return folder


@pytest.fixture
def pretrain(photos, tmp_path, monkeypatch, on_cpu):
    """Runs the command without training; returns the exit code and the config written, if any."""
    monkeypatch.setattr(start, "train", lambda *arguments, **options: None)
    stub_pace(monkeypatch)

    def run(*options, backbone="resnet18"):
        words = ["pretrain", str(photos), "--work-dir", str(tmp_path / "run"), *options]
        if backbone:
            words += ["--backbone", backbone]
        code = main(words)
        config = tmp_path / "run" / "ssprl_resnet18.py"
        return code, Config.fromfile(config) if config.exists() else None

    return run


def test_image_px_scales_all_views(pretrain, capsys):
    _, cfg = pretrain("--image-px", "64")
    assert cfg.model.layout == cfg.train_dataloader.dataset.pipeline[0].layout
    assert cfg.model.layout.image_px == 64
    # 112 and 96 of 224 px, in multiples of 16 from 32 on
    assert [level.patch_px for level in cfg.model.layout.levels] == [32, 32]
    told = " ".join(capsys.readouterr().out.split())
    assert "in proportion to the side that was asked for" in told


def test_numbers_reach_the_config(pretrain, capsys):
    options = ["--lr", "0.003", "--workers", "0", "--max-bad-share", "0.25", "--epochs", "20"]
    _, cfg = pretrain(*options, "--set", "model.head.temperature=0.2", "train_cfg.max_epochs=3")
    assert cfg.optim_wrapper.optimizer.lr == 0.003
    assert cfg.param_scheduler[-1].eta_min == 0.003 / 1000
    assert cfg.train_dataloader.num_workers == 0
    dataset = DATASETS.build({**cfg.train_dataloader.dataset, "pipeline": []})
    assert isinstance(dataset, UnlabeledImages)
    assert dataset.max_bad_share == 0.25
    assert cfg.model.head.temperature == 0.2
    assert cfg.train_cfg.max_epochs == 3
    told = " ".join(capsys.readouterr().out.split())
    assert "40 images; 1 .heic skipped (pip install pillow-heif to read HEIC)" in told
    for text in ("the rate as asked", "0 per device", "model.head.temperature=0.2, train_cfg.max_"):
        assert text in told
    assert "forecast: 3 epochs" in told


def test_a_batch_that_is_set_counts_for_the_devices(pretrain, monkeypatch):
    _, cfg = pretrain("--set", "train_dataloader.batch_size=2")
    assert cfg.auto_scale_lr.base_batch_size == 2


@pytest.mark.parametrize("kind", ["torchvision", "supervised"])
def test_weights_are_recorded(kind, pretrain, photos, tmp_path, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr("mmssprl.pretraining.config.supervised_state", asked.append)
    weights = tmp_path / "w.pth"
    torch.save(resnet18().state_dict(), weights)  # with its classifier
    given = "supervised" if kind == "supervised" else str(weights)
    _, cfg = pretrain("--weights", given)
    assert cfg.weights == given
    assert asked == [18] * (kind == "supervised")
    assert f"  weights    {given} " in capsys.readouterr().out


def test_of_two_starts_in_one_folder_the_slower_one_writes_nothing(
    photos, tmp_path, monkeypatch, capsys
):
    stub_pace(monkeypatch)

    def may_start(*args, **options):
        (tmp_path / "run").mkdir()
        (tmp_path / "run/ssprl_resnet18.py").write_text("the other's")
        return True

    monkeypatch.setattr(start.forecast, "may_start", may_start)
    words = ["--backbone", "resnet18", "--work-dir", str(tmp_path / "run")]
    assert main(["pretrain", str(photos), *words]) == 2
    assert "the work dir must be new or empty" in capsys.readouterr().err
    assert [path.read_text() for path in (tmp_path / "run").iterdir()] == ["the other's"]


def test_gpus_are_those_of_the_run(photos, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    stub_pace(monkeypatch, device="cuda")
    commands = []

    monkeypatch.setattr(start, "run_processes", lambda command, go_on: commands.append(command))
    words = ["pretrain", str(photos), "--work-dir", str(tmp_path / "run")]
    assert main([*words, "--gpus", "2"]) == 0
    cfg = Config.fromfile(tmp_path / "run" / "ssprl_resnet50.py")
    assert cfg.auto_scale_lr.base_batch_size == 2 * cfg.train_dataloader.batch_size
    assert main([*words, "--resume"]) == 0
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert main([*words, "--resume"]) == 2
    told = capsys.readouterr().err
    step_images = cfg.auto_scale_lr.base_batch_size
    assert f"{step_images} images a step that it began with, on 2 GPUs, but found 1 here" in told
    assert f"train.py {tmp_path}/run/ssprl_resnet50.py --work-dir {tmp_path}/run --resume" in told
    assert f"--amp --cfg-options train_dataloader.batch_size={step_images}\n" in told
    assert ["--nproc_per_node=2" in command for command in commands] == [True, True]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--image-px", "100"], "a multiple of 16 from 32 to 2048, but got 100; the nearest is 96"),
        (["--image-px", "100000"], "from 32 to 2048, but got 100000; the nearest is 2048"),
        (["--lr", "0"], "lr must be a number > 0, but got 0.0"),
        (["--lr", "nan"], "lr must be a number > 0, but got nan"),
        (["--workers", "-1"], "workers must be from 0 to 1024, but got -1"),
        (["--workers", f"{10**12}"], f"workers must be from 0 to 1024, but got {10**12}"),
        (["--max-bad-share", "2"], "max_bad_share must be a share of the images in [0, 1], but"),
        (["--gpus", "0"], "gpus must be >= 1, but got 0; CUDA_VISIBLE_DEVICES="),
        (["--gpus", "1"], "at most the 0 that torch finds here, but got 1; leave it out to train"),
        (["--set", "model.head.temperatur=1"], "did you mean 'temperature'?"),
        (["--set", "max_epochs=3"], "set train_cfg.max_epochs instead"),
        (["--set", "model.head.epsilon=abc"], "--set model.head.epsilon=abc: it must be a number"),
        (["--weights", "none.pth"], "weights must be an existing file, but there is no none.pth"),
        (["--backbone", "resnet19"], "but got 'resnet19'; did you mean resnet18?"),
        (["--backbone", "timm/resnet18x"], "no network 'resnet18x'; did you mean resnet18?"),
        (["--backbone", "timm/cait_xxs24_224", "--image-px", "32"], "turn views of 32 px into one"),
        (["--backbone", "swin-tiny", "--weights", "supervised"], "but the backbone is swin-tiny"),
        (["--budget", "2h", "--epochs", "3"], "given beside --budget 2h; leave one of the two out"),
        (["--budget", "2h", "--set", "train_cfg.max_epochs=3"], "leave one of the two out"),
        (["--budget", "soon"], "a time such as 90m, 2h, 1h30m or 1d, but got 'soon'"),
    ],
)
def test_refusals_are_one_line_and_write_nothing(options, message, pretrain, tmp_path, capsys):
    code, cfg = pretrain(*options, backbone=None if "--backbone" in options else "resnet18")
    out, told = capsys.readouterr()
    assert (code, cfg, out) == (2, None, "")
    assert message in told
    assert told.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_weights_of_another_network_are_refused(pretrain, tmp_path, capsys):
    torch.save(resnet18().state_dict(), tmp_path / "w.pth")
    assert pretrain("--weights", str(tmp_path / "w.pth"), backbone="resnet34")[0] == 2
    told = capsys.readouterr().err
    assert "must fit the backbone of resnet34, but got" in told
    assert "give --backbone the network that they are of" in told


def test_a_resumed_run_refuses_what_its_config_decides(pretrain, capsys):
    pretrain()
    options = ["--lr", "1", "--image-px", "32", "--workers", "1", "--gpus", "1", "--weights", "w"]
    options += ["--max-bad-share", "0.5", "--set", "a=1", "--budget", "1h", "--dry-run"]
    capsys.readouterr()
    assert pretrain("--resume", *options, backbone=None)[0] == 2
    told = capsys.readouterr().err
    flags = {word for word in options if word.startswith("--")}
    assert flags <= set(told.replace(",", " ").split())
    assert "takes the recipe from" in told


def test_a_dry_run_writes_nothing_and_refuses_what_the_run_would(pretrain, tmp_path, capsys):
    assert pretrain("--dry-run") == (0, None)
    told = capsys.readouterr().out
    assert "\nforecast: 800 epochs, about " in told
    assert told.endswith("\ndry run: nothing was written.\n")
    assert not (tmp_path / "run").exists()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").touch()
    for folder, message in (
        (tmp_path / "run", "must be new or empty, but"),
        (tmp_path / "run" / "notes.txt", "is a file; choose another path"),
        (tmp_path / "run" / "notes.txt" / "below", "is a file; choose another path"),
    ):
        assert pretrain("--dry-run", "--work-dir", str(folder))[0] == 2
        told = capsys.readouterr()
        assert message in told.err
        assert told.out == ""
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]


def test_a_full_disk_is_told_before_the_run(pretrain, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=100_000_000))
    assert pretrain("--epochs", "3") == (2, None)
    told = capsys.readouterr()
    assert "765 MB of checkpoints, 100 MB free" in " ".join(told.out.split())
    assert f"{tmp_path / 'run'} must have room for the checkpoints of the run, 765 MB" in told.err
    assert not (tmp_path / "run").exists()


class TestBudget:
    """Ten steps an epoch of 0.5 s, and a report of 10 s + 25 images, eight a step: 11.6 s."""

    @pytest.fixture(autouse=True)
    def clock(self, monkeypatch):
        """What a plan's clock reads; it stands still at 0 afterwards."""
        times = []
        read = SimpleNamespace(monotonic=lambda: times.pop(0) if times else 0.0)
        monkeypatch.setattr(plan, "time", read)
        return times

    def test_epochs_fit_and_all_else_follows_them(self, pretrain, capsys):
        _, cfg = pretrain("--budget", "1m", "--variant", "paper")
        assert cfg.train_cfg.max_epochs == 9  # 48.4 s / 5 s
        assert cfg.param_scheduler[-1].T_max + cfg.param_scheduler[-1].get("begin", 0) == 9
        assert cfg.model.head.queue_start_epoch == 4  # 0.4 x 9
        assert cfg.model.head.freeze_iters == 0  # 1 % of 90 updates
        assert cfg.default_hooks.checkpoint.interval == 1
        text = " ".join(capsys.readouterr().out.split())
        assert "as many as fit into 1m; 800 are recommended" in text
        assert "forecast: 9 epochs, about 57 s on this CPU" in text
        assert "a smaller --backbone, smaller --image-px or a GPU lets more epochs fit" in text

    def test_the_time_of_timing_counts(self, pretrain, clock, capsys):
        clock[:] = [100.0, 112.0]
        _, cfg = pretrain("--budget", "1m")
        assert cfg.train_cfg.max_epochs == 7  # 48.4 s - 12 s
        assert "about 47 s on this CPU" in capsys.readouterr().out  # what is left
        clock[:] = [100.0, 112.0]
        assert pretrain("--budget", "28s", "--work-dir", "other")[0] == 2
        assert "which takes about 29 s here with its timing and" in capsys.readouterr().err

    def test_no_more_than_recommended(self, pretrain, capsys):
        _, cfg = pretrain("--budget", "1d")
        assert cfg.train_cfg.max_epochs == 800
        text = " ".join(capsys.readouterr().out.split())
        assert "as recommended, though 17,277 fit into 1d" in text
        assert "more epochs fit" not in text

    def test_agrees_to_a_long_run(self, pretrain, monkeypatch):
        stub_pace(monkeypatch, step_s=3600.0)
        monkeypatch.setattr("sys.stdin", None)
        _, cfg = pretrain("--budget", "1d")
        assert cfg.train_cfg.max_epochs == 2  # 24 h / 10 h

    def test_below_one_epoch(self, pretrain, capsys):
        assert pretrain("--budget", "2s") == (2, None)
        told = capsys.readouterr().err
        assert "takes about 17 s here with its timing and report, but got 2s; a smaller" in told

    def test_holds_with_probes(self, pretrain, monkeypatch, capsys):
        stub_pace(monkeypatch, probe_s=2.0, first_probes=1)
        _, cfg = pretrain("--budget", "1m")
        assert cfg.train_cfg.max_epochs == 6  # 48.4 s - 2 s, of 5 + 2 s each
        assert "about 56 s on this CPU" in capsys.readouterr().out
        assert pretrain("--budget", "20s", "--work-dir", "other")[0] == 2
        told = capsys.readouterr().err
        assert "about 21 s here with its timing, probes (--no-probe) and report, but" in told
