"""The learning rate and the schedule of a resumed run."""

from itertools import count

import pytest
import torch
from helpers.engine.toy_run import write_config
from helpers.saving.toy_checkpoint import SCHEDULE
from mmengine.hooks import Hook

from mmssprl.engine.launch import launch, prepare_train_config
from mmssprl.errors import UserError

WARM_UP = """
train_cfg = dict(by_epoch=True, max_epochs=2)
param_scheduler = [
    dict(type="LinearLR", start_factor=0.1, by_epoch=False, end=6),
    dict(type="MultiStepLR", milestones=[1], gamma=0.5),
]
"""
_NUMBERS = count()
DIFFERS = "the config differs from the checkpoint and is used from now on"


class Rates(Hook):
    """Notes the learning rate of each step."""

    def __init__(self):
        self.found = []

    def before_train_iter(self, runner, *args, **kwargs):
        self.found += runner.optim_wrapper.get_lr()["lr"]


def rates(work_dir, resume=None, **options):
    """Train the toy, and return the learning rates of its steps."""
    hook = Rates()
    # Two runs in one second would share a name and its logger.
    options["experiment_name"] = f"rates_{next(_NUMBERS)}"
    options = {key.replace("__", "."): value for key, value in options.items()}
    cfg = prepare_train_config("toy.py", work_dir=work_dir, resume=resume, cfg_options=options)
    launch(cfg, "train", hooks=[hook])
    return hook.found


def stop_after_first_epoch(run):
    (run / "last_checkpoint").write_text("epoch_1.pth")
    (run / "epoch_2.pth").unlink()


@pytest.fixture
def console(capfd):
    """A function that returns what the console has shown."""
    return lambda: "".join(capfd.readouterr())


def test_a_resumed_run_has_the_rate_of_its_config(work, console):
    resumed = rates("run", "auto", optim_wrapper__optimizer__lr=0.1)
    assert resumed == pytest.approx([0.05] * 4)  # the cosine is half down
    assert f"warning: {DIFFERS}: lr 0.1 (was 0.01)\n" in console()


def test_a_resumed_run_has_the_weight_decay_of_its_config(work, console):
    rates("run", "auto", optim_wrapper__optimizer__weight_decay=0.25)
    (group,) = torch.load("run/epoch_2.pth", weights_only=True)["optimizer"]["param_groups"]
    assert group["weight_decay"] == 0.25
    assert f"{DIFFERS}: weight_decay 0.25 (was 0)\n" in console()


def test_another_wrapper_of_the_optimizer_is_reported(work, console):
    rates("run", "auto", optim_wrapper__clip_grad={"max_norm": 1.0})
    assert f"{DIFFERS}: optim_wrapper.clip_grad {{'max_norm': 1.0}} (was None)\n" in console()


def test_a_longer_schedule_is_the_one_of_a_run_that_began_with_it(work, console):
    longer = {"train_cfg__max_epochs": 4, "param_scheduler__0__T_max": 4}
    whole = rates("whole", **longer)
    assert rates("run", "auto", **longer) == whole[4:]
    assert f"{DIFFERS}: param_scheduler\n" in console()


def test_schedulers_of_steps_are_replayed_with_those_of_epochs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_config(tmp_path, WARM_UP)
    rates("run")
    stop_after_first_epoch(tmp_path / "run")
    whole = rates("whole", optim_wrapper__optimizer__lr=0.1)
    assert len(set(whole)) > 4
    assert rates("run", "auto", optim_wrapper__optimizer__lr=0.1) == whole[4:]


def test_a_run_without_a_schedule_has_the_rate_of_its_config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_config(tmp_path, "train_cfg = dict(by_epoch=True, max_epochs=2)\n")
    rates("run")
    stop_after_first_epoch(tmp_path / "run")
    assert rates("run", "auto", optim_wrapper__optimizer__lr=0.1) == [0.1] * 4


def test_the_same_config_takes_the_rate_of_the_checkpoint(work, console):
    content = torch.load("run/epoch_1.pth", weights_only=True)
    content["optimizer"]["param_groups"][0]["lr"] = 0.003  # as a hook of the user left it
    torch.save(content, "run/epoch_1.pth")
    assert rates("run", "auto") == [0.003] * 4
    assert DIFFERS not in console()


def test_a_rate_that_a_hook_has_set_is_no_change_of_the_config(tmp_path, monkeypatch, console):
    monkeypatch.chdir(tmp_path)
    write_config(tmp_path, "train_cfg = dict(by_epoch=True, max_epochs=2)\n")
    rates("run")
    stop_after_first_epoch(tmp_path / "run")
    content = torch.load("run/epoch_1.pth", weights_only=True)
    content["optimizer"]["param_groups"][0]["lr"] = 0.003
    torch.save(content, "run/epoch_1.pth")
    assert rates("run", "auto", train_cfg__max_epochs=3)[:4] == [0.003] * 4
    assert DIFFERS not in console()


def test_another_weight_decay_leaves_the_rate(work):
    content = torch.load("run/epoch_1.pth", weights_only=True)
    content["optimizer"]["param_groups"][0]["lr"] = 0.003
    torch.save(content, "run/epoch_1.pth")
    assert rates("run", "auto", optim_wrapper__optimizer__weight_decay=0.25) == [0.003] * 4


def test_a_rate_that_follows_the_scores_stays(work):
    text = 'param_scheduler = [dict(type="ReduceOnPlateauLR", monitor="loss", patience=0)]\n'
    write_config(work, SCHEDULE + text)
    assert rates("new") == [0.01] * 8
    stop_after_first_epoch(work / "new")
    assert rates("new", "auto", optim_wrapper__optimizer__lr=0.1) == [0.01] * 4


def test_another_optimizer_is_refused_before_anything_is_written(work):
    before = {path: path.stat().st_mtime_ns for path in (work / "run").rglob("*")}
    other = {"_delete_": True, "type": "AdamW", "lr": 0.001}
    with pytest.raises(UserError, match="epoch_1.pth was written .* SGD, the config has AdamW"):
        rates("run", "auto", optim_wrapper__optimizer=other)
    assert {path: path.stat().st_mtime_ns for path in (work / "run").rglob("*")} == before


@pytest.mark.parametrize("kind", [torch.optim.SGD, "torch.optim.SGD", "torch.optim.sgd.SGD"])
def test_the_same_optimizer_has_several_names(work, kind):
    assert len(rates("run", "auto", optim_wrapper__optimizer__type=kind)) == 4
