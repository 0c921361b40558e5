"""A state that is not finite is never saved and never exported."""

import math

import pytest
import torch
from helpers.engine.pretrain_runner import make_runner
from helpers.engine.toy_run import ToyMetric
from helpers.saving.poisoned_runs import BEST, BadMomentum, BadState, train_toy

from mmssprl.errors import UserError
from mmssprl.saving.checkpoint_checks import NotFiniteError, is_not_finite
from tools.dev.faults.damages import BadGradient

pytestmark = pytest.mark.fault


def saved(folder):
    return sorted(path.name for path in (folder / "run").glob("*.pth"))


class TestSaving:
    def test_a_bad_gradient_in_the_step_of_a_save(self, tmp_path):
        keep = {"default_hooks.checkpoint": {"type": "CheckpointHook", "max_keep_ckpts": 1}}
        keep["default_hooks.checkpoint"]["interval"] = 1
        with pytest.raises(NotFiniteError) as caught:
            train_toy(tmp_path, BadGradient(8), options=keep)
        text = str(caught.value)
        for part in ("step 8 linear.weight", "--resume"):
            assert part in text
        assert "\n" not in text
        assert saved(tmp_path) == ["epoch_1.pth"]
        assert (tmp_path / "run/last_checkpoint").read_text().endswith("epoch_1.pth")
        train_toy(tmp_path, options=keep, resume="auto")
        assert saved(tmp_path) == ["epoch_2.pth"]

    def test_the_optimizer_counts_too(self, tmp_path):
        with pytest.raises(NotFiniteError, match="4 .*momentum_buffer of linear.weight"):
            train_toy(tmp_path, BadMomentum(4), options=MOMENTUM)
        assert saved(tmp_path) == []

    def test_queues_count_too(self, images, tmp_path):
        runner = make_runner(images, tmp_path / "run")
        runner.register_hook(BadState(4, "head.queues.0.features"))
        with pytest.raises(UserError, match="after step 4"):
            runner.train()
        assert saved(tmp_path) == ["epoch_1.pth"]

    def test_nothing_bad_is_exported(self, images, tmp_path):
        checkpoint = {"default_hooks.checkpoint.interval": -1}
        checkpoint["default_hooks.checkpoint.save_last"] = False
        runner = make_runner(images, tmp_path / "run", **checkpoint)
        runner.register_hook(BadGradient(4))
        with pytest.raises(NotFiniteError, match="4 backbone.conv1.weight"):
            runner.train()
        assert saved(tmp_path) == []

    def test_nothing_bad_is_the_best_one(self, tmp_path, monkeypatch):
        """A model of NaN has an accuracy, too, and the first one is always the best."""
        monkeypatch.setattr(ToyMetric, "compute_metrics", lambda self, results: {"total": 0.0})
        with pytest.raises(NotFiniteError, match="after step 4 linear.weight"):
            train_toy(tmp_path, BadGradient(4), text=BEST.replace("interval=1", "interval=2"))
        assert saved(tmp_path) == []


class TestFlag:
    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
    def test_a_single_number_is_found(self, value, dtype):
        tensors = [
            torch.full((50, 3), 6e4, dtype=dtype),
            torch.zeros(0),
            torch.ones((), dtype=dtype),
        ]
        assert is_not_finite(tensors).item() == 0
        tensors[0][17, 1] = value
        assert is_not_finite(tensors).item() == 1

    def test_large_numbers(self, tmp_path):
        """Their squares overflow; a state of them is saved all the same."""
        assert is_not_finite([torch.full((9,), 1e18)]).item() == 0
        assert is_not_finite([torch.full((9,), 1e20)]).item() == 1
        assert is_not_finite([]).item() == 0
        train_toy(tmp_path, BadMomentum(4, value=1e30), options=MOMENTUM, epochs=1)
        assert saved(tmp_path) == ["epoch_1.pth"]


MOMENTUM = {"optim_wrapper.optimizer": {"type": "SGD", "lr": 0.01, "momentum": 0.9}}
