import errno
import os

import pytest
import torch
from helpers.config.linear_config import write_linear
from helpers.saving.toy_checkpoint import load_from, resume_by, resume_file, tools_test
from mmengine.config import Config
from torch import nn

from mmssprl.config.run_config import run_config
from mmssprl.engine.launch import launch, prepare_test_config, prepare_train_config
from mmssprl.errors import UserError
from mmssprl.saving import checkpoint_hooks
from mmssprl.saving.run_files import check_work_dir, files_of_run

RUN_FILES = {"epoch_1.pth", "epoch_3.pth", "iter_9.pth", "step_9.pth", "best_mAP_epoch_1.pth"}
RUN_FILES |= {"last_checkpoint", "probe.csv", "recipe.json", "scores.json", "report.html"}
OTHER_FILES = {"mine.pth", "epoch_3_mmdet.pth", "notes.txt"}


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_linear(tmp_path)


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class TestWorkDir:
    @pytest.fixture
    def used(self, tmp_path, config):
        """A folder with all kinds of files of a run and its user."""
        folder = tmp_path / "run"
        folder.mkdir()
        for name in RUN_FILES | OTHER_FILES:
            (folder / name).write_text("old")
        return folder

    def test_overwrite_deletes_only_the_checkpoints_of_the_run(self, config, used):
        cfg = prepare_train_config(config, overwrite=True)
        assert {path.name for path in files_of_run(cfg)} == RUN_FILES
        assert {path.name for path in used.iterdir()} == RUN_FILES | OTHER_FILES
        launch(cfg, "train", overwrite=True)
        assert all((used / name).read_text() == "old" for name in OTHER_FILES)
        assert not (used / "epoch_3.pth").exists()
        assert (used / "epoch_1.pth").stat().st_size > len("old")

    def test_nothing_is_deleted_before_everything_else_is_right(self, config, used):
        elsewhere = {"default_hooks.checkpoint": {"type": "CheckpointHook", "out_dir": "disk"}}
        for options, match in (
            ({"model.head.num_classes": 5}, "model.head.num_classes .*5 and 2.* num_classes=2"),
            (elsewhere, "out_dir must not be set, but got 'disk'"),
            ({"optim_wrapper.optimizer.lrr": 1}, "unexpected keyword argument 'lrr'"),
        ):
            cfg = prepare_train_config(config, overwrite=True, cfg_options=options)
            with pytest.raises(ValueError, match=match):
                launch(cfg, "train", overwrite=True)
        assert {path.name for path in used.iterdir()} >= RUN_FILES | OTHER_FILES
        assert not [*used.glob("*.py")]

    @pytest.mark.parametrize(
        ("key", "start"),
        [("weights", "run/epoch_3.pth"), ("load_from", "run/epoch_3.pth"), ("weights", "run")],
    )
    def test_what_the_training_starts_from_is_not_deleted(self, config, used, key, start):
        (used / "a_backbone.pth").touch()
        cfg = Config.fromfile(config)
        cfg[key] = start
        with pytest.raises(ValueError, match=rf"overwrite .*{key}='{start}'"):
            check_work_dir(cfg, overwrite=True)

    def test_scores_without_a_run_are_not_of_one(self, config, tmp_path):
        (tmp_path / "run").mkdir()
        (tmp_path / "run/scores.csv").touch()
        assert files_of_run(prepare_train_config(config, overwrite=True)) == []

    @pytest.mark.parametrize(
        ("options", "asked"),
        [
            ({"resume": "auto"}, "--resume"),
            ({"cfg_options": {"resume": True}}, "resume=True of the config"),
        ],
    )
    def test_a_run_is_not_resumed_by_deleting_it(self, config, used, options, asked):
        with pytest.raises(ValueError, match=f"{asked} keeps a run, --overwrite deletes it"):
            prepare_train_config(config, overwrite=True, **options)
        assert {path.name for path in used.iterdir()} == RUN_FILES | OTHER_FILES


def test_a_test_leaves_the_config_of_the_training(work):
    before = (work / "run/toy.py").read_text()
    launch(prepare_test_config("toy.py", "run", work_dir="run"), "test")
    assert (work / "run/toy.py").read_text() == before


def test_a_config_in_json_is_kept_as_python(work):
    Config.fromfile("toy.py").dump("named.json")
    launch(prepare_train_config("named.json", work_dir="new"), "train")
    assert run_config("new").train_cfg.max_epochs == 2
    prepare_train_config("named.json", work_dir="new", resume="auto")


class TestRefused:
    def test_a_checkpoint_without_what_a_resumed_run_needs(self, work):
        file = work / "run/epoch_1.pth"
        whole = torch.load(file, weights_only=True)
        kept = {key: whole[key] for key in ("meta", "state_dict", "optimizer")}
        for part, missing in (
            (whole["state_dict"], "meta, state_dict, message_hub, optimizer, param_sch"),
            (kept, "message_hub, par"),
        ):
            torch.save(part, file)
            with pytest.raises(UserError, match=f"it lacks {missing}"):
                resume_file(work)
            tools_test(work)  # its weights are all there

    def test_a_refused_run_leaves_config_and_record(self, work, monkeypatch):
        files = [work / "run" / name for name in ("toy.py", "run.json")]
        before = [file.read_text() for file in files]
        longer = {"train_cfg.max_epochs": 9}
        for options, refused in (
            ({"train_dataloader.batch_size": 4}, "4 samples per step"),
            (longer, "No space left"),
        ):
            cfg = prepare_train_config("toy.py", work_dir="run", resume="auto", cfg_options=options)
            with pytest.raises((UserError, OSError), match=refused):
                launch(cfg, "train")
            assert [file.read_text() for file in files] == before
            monkeypatch.setattr(checkpoint_hooks, "require_space", full)

    def test_a_config_of_another_name(self, work):
        (work / "toy.py").rename(work / "other.py")
        with pytest.raises(UserError, match="run has toy.py, but got a config other.py"):
            prepare_train_config("other.py", work_dir="run", resume="auto")
        assert [path.name for path in (work / "run").glob("*.py")] == ["toy.py"]
        # A new run from a checkpoint of this one has a name of its own.
        prepare_train_config("other.py", work_dir="new", resume="run/epoch_1.pth")

    def test_the_users_modules_in_a_work_dir_are_no_configs(self, work):
        (work / "run/a_module.py").touch()
        resume_by(work)
        assert (work / "run/epoch_2.pth").exists()

    @pytest.mark.parametrize("path", [resume_by, load_from, tools_test])
    def test_another_model(self, work, path):
        file = work / "run/epoch_1.pth"
        content = torch.load(file, weights_only=True)
        content["state_dict"] = nn.Sequential(nn.Linear(3, 3)).state_dict()
        torch.save(content, file)
        with pytest.raises(UserError, match=r"toy.py.* 2 missing .*linear.weight.* weights"):
            path(work)

    def test_a_part_of_the_weights_is_enough_to_start_from(self, work):
        file = work / "run/epoch_1.pth"
        torch.save({"state_dict": {"linear.bias": torch.ones(1)}}, file)
        load_from(work)
        with pytest.raises(UserError, match=r"1 missing \(linear.weight\)"):
            tools_test(work)
