"""Trainings that are stopped after a step and gone on with, and what must be equal at their end."""

import json
import os
import signal
from contextlib import contextmanager
from pathlib import Path

import torch
from mmengine.hooks import Hook

from mmssprl.engine.launch import prepare_train_config, run
from mmssprl.stopping import SAVED, StoppedError, signals

_TIMES = ("time", "eta", "data_time", "memory", "images_per_second")


class SignalAt(Hook):
    """Sends this process a signal before it trains on step ``step``, counted from 0."""

    priority = "VERY_LOW"

    def __init__(self, step: int, number: int = signal.SIGTERM) -> None:
        self.step = step
        self.number = number

    def before_train_iter(self, runner, *args, **kwargs) -> None:
        if runner.iter == self.step:
            os.kill(os.getpid(), self.number)
            wait_for_number()


def wait_for_number() -> None:
    """Wait until the thread that reads signals has noted one."""
    for _ in range(1000):
        if signals.number:
            return
        signal.sigtimedwait([], 0.005)
    raise AssertionError("nobody noted the signal")


def train(config: Path, work_dir: Path, *, stops=(), hooks=(), **options) -> None:
    """Train to the end in this process, stopped by a signal in each of the steps ``stops``."""
    for number, stop in enumerate((*stops, None)):
        again = [SignalAt(stop)] if stop is not None else []
        resume = "auto" if number else None
        try:
            train_once(config, work_dir, resume=resume, hooks=[*again, *hooks], **options)
            assert stop is None
        except StoppedError as error:
            assert (error.code, stop is None) == (SAVED, False)


def train_once(config: Path, work_dir: Path, *, resume=None, hooks=(), **options) -> None:
    cfg = prepare_train_config(config, work_dir=work_dir, resume=resume, cfg_options=options)
    # Two runners in one second would share mmengine's name.
    cfg.experiment_name = f"{work_dir}_{len(list(Path(work_dir).glob('*')))}".replace(os.sep, "_")
    with signals.watched():
        run(cfg, "train", hooks=hooks, go_on=["the", "command"])


def state_at_end(work_dir: Path, name: str) -> dict:
    """Return everything of a checkpoint that does not depend on the clock."""
    checkpoint = torch.load(work_dir / name, weights_only=False)
    hub = checkpoint["message_hub"]
    parts = {key: checkpoint[key] for key in ("state_dict", "optimizer", "param_schedulers")}
    return {**parts, "iter": checkpoint["meta"]["iter"], "logged": _values(hub["log_scalars"])}


def _values(histories: dict) -> dict:
    return {
        name: list(getattr(history, "data", history)[0])
        for name, history in histories.items()
        if name.rpartition("/")[2] not in _TIMES
    }


def logged(work_dir: Path) -> list[dict]:
    """Return the lines of the log of all starts, by step, without what the clock decides."""
    paths = sorted(work_dir.glob("*/vis_data/scalars.json"))
    lines = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in _TIMES} for line in lines]


def assert_equal(found, expected, where: str = "") -> None:
    """Compare two nested states bit by bit."""
    if isinstance(expected, torch.Tensor):
        assert torch.equal(found, expected), where
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key in expected:
            assert_equal(found[key], expected[key], f"{where}.{key}")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), where
        for i, (left, right) in enumerate(zip(found, expected, strict=True)):
            assert_equal(left, right, f"{where}.{i}")
    else:
        assert found == expected, (where, found, expected)
