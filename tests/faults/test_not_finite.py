"""A state that is not finite is never saved and never exported; bad updates can be dropped."""

import math

import pytest
import torch
from mmengine.config import Config
from mmengine.device import get_device
from poisoned_runs import BEST, BadImages, BadMomentum, BadState, BadViews, State, train_toy
from pretrain_runner import make_runner
from toy_run import ToyMetric, gradient_descent

from mmssprl.engine.finiteness import NotFiniteError, is_not_finite
from mmssprl.engine.hooks.skip_bad_steps_hook import drop_bad_steps
from mmssprl.errors import UserError
from tools.faults.states import BadGradient

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
        assert "after step 8 linear.weight (layer linear: Linear) does not" in text
        assert "losses last read: loss=" in text
        assert "--skip-bad-steps" in text
        assert "\n" not in text
        assert saved(tmp_path) == ["epoch_1.pth"]
        assert (tmp_path / "run/last_checkpoint").read_text().endswith("epoch_1.pth")
        train_toy(tmp_path, options=keep, resume="auto")
        assert saved(tmp_path) == ["epoch_2.pth"]

    def test_the_optimizer_counts_too(self, tmp_path):
        with pytest.raises(NotFiniteError, match="4 the optimizer's momentum_buffer of linear.wei"):
            train_toy(tmp_path, BadMomentum(4), options=MOMENTUM)
        assert saved(tmp_path) == []

    def test_queues_count_too(self, images, tmp_path):
        runner = make_runner(images, tmp_path / "run")
        runner.register_hook(BadState(4, "head.queues.0.features"))
        with pytest.raises(UserError, match=r"(queues.0.features|loss)"):
            runner.train()
        assert saved(tmp_path) == ["epoch_1.pth"]

    def test_nothing_bad_is_exported(self, images, tmp_path):
        checkpoint = {"default_hooks.checkpoint.interval": -1}
        checkpoint["default_hooks.checkpoint.save_last"] = False
        runner = make_runner(images, tmp_path / "run", **checkpoint)
        runner.register_hook(BadGradient(4))
        with pytest.raises(NotFiniteError, match=r"4 backbone.conv1.weight \(layer backbone.conv1"):
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
        """Their squares overflow, so that an update is dropped; a state of them is saved."""
        assert is_not_finite([torch.full((9,), 1e18)]).item() == 0
        assert is_not_finite([torch.full((9,), 1e20)]).item() == 1
        assert is_not_finite([]).item() == 0
        train_toy(tmp_path, BadMomentum(4, value=1e30), options=MOMENTUM, epochs=1)
        assert saved(tmp_path) == ["epoch_1.pth"]


class TestDropping:
    def test_the_batch_has_never_been(self, tmp_path):
        train_toy(tmp_path, BadGradient(3), epochs=1, skip_bad_steps=1, options=CONSTANT)
        state = torch.load(tmp_path / "run/epoch_1.pth", weights_only=True)
        weight, bias = descent_without(2)
        assert state["state_dict"]["linear.weight"].item() == pytest.approx(weight, rel=1e-5)
        assert state["state_dict"]["linear.bias"].item() == pytest.approx(bias, rel=1e-5)
        history = state["message_hub"]["log_scalars"]["train/dropped_in_row"]["log_history"]
        assert history.tolist() == [0, 0, 1, 0]
        assert gradient_descent(1) != (weight, bias)

    @pytest.mark.parametrize("step", [1, 2, 6])
    def test_a_bad_batch_leaves_no_trace(self, images, tmp_path, step):
        """Weights, BatchNorm, queues and momentum; the first step makes the last one.

        On a GPU Python's counters are put back in the first step alone: no other one is waited for.
        """
        hooks = [{"type": "PretrainHook"}, {"type": "SkipBadStepsHook", "limit": 1}]
        info = {"type": "PretrainRuntimeInfoHook"}
        options = {"custom_hooks": hooks, "default_hooks.runtime_info": info}
        runner = make_runner(images, tmp_path / "run", max_epochs=4, **options)
        states = State(numbers=step == 1 or get_device() == "cpu")
        for hook in (BadViews(step), states):
            runner.register_hook(hook)
        runner.train()
        before, after = states.before[step], states.before[step + 1]
        assert len(before) > 40
        if step == 1:
            assert all(not torch.any(value) for value in after[len(before) :])
        for old, new in zip(before, after, strict=step > 1):
            assert torch.equal(old, new)
        later = states.before.get(step + 2, after)
        assert all(torch.isfinite(value).all() for value in later)
        assert any(not torch.equal(old, new) for old, new in zip(before, later, strict=False))

    def test_more_in_a_row_end_it(self, tmp_path):
        with pytest.raises(NotFiniteError, match="at most 2 updates in a row .* but up to step "):
            train_toy(tmp_path, BadGradient(2, 3, 4), skip_bad_steps=2)
        (tmp_path / "other").mkdir()
        train_toy(tmp_path / "other", BadGradient(2, 3, 5, 6), skip_bad_steps=2)

    def test_off_unless_asked_for(self, tmp_path):
        with pytest.raises(NotFiniteError, match="after step 4 linear.weight"):
            train_toy(tmp_path, BadGradient(2), skip_bad_steps=0)

    def test_of_two_parts_of_an_update_one_is_bad(self, tmp_path):
        options = {**CONSTANT, "optim_wrapper.accumulative_counts": 2}
        train_toy(tmp_path, BadImages(1), epochs=1, skip_bad_steps=1, options=options)
        state = torch.load(tmp_path / "run/epoch_1.pth", weights_only=True)["state_dict"]
        # The second update: the mean of the pairs (4, 5) and (6, 7), from zero.
        gradient = sum(2 * -3 * x * x for x in (4, 5, 6, 7)) / 4
        assert state["linear.weight"].item() == pytest.approx(-0.01 * gradient, rel=1e-5)

    def test_an_earlier_start_is_followed_unless_told_otherwise(self):
        """A run's own config holds the hook that an earlier start was given."""
        others = [{"type": "MonitorHook"}]
        cfg = Config({"custom_hooks": others})
        for limit, found in ((None, []), (3, [3]), (None, [3]), (5, [5]), (0, [])):
            drop_bad_steps(cfg, limit)
            assert [each.get("limit") for each in cfg.custom_hooks] == [None, *found]
            assert cfg.custom_hooks[0].type == "MonitorHook"

    def test_a_number_below_0(self, tmp_path):
        with pytest.raises(UserError, match="--skip-bad-steps must be >= 0, but got -1"):
            train_toy(tmp_path, skip_bad_steps=-1)


MOMENTUM = {"optim_wrapper.optimizer": {"type": "SGD", "lr": 0.01, "momentum": 0.9}}
CONSTANT = {"param_scheduler": None}


def descent_without(left_out):
    """As ``gradient_descent`` of one epoch, without one pair."""
    weight = bias = 0.0
    for i, pair in enumerate(((0, 1), (2, 3), (4, 5), (6, 7))):
        errors = [weight * x + bias - 3 * x for x in pair]
        if i != left_out:
            weight -= 0.01 * sum(2 * e * x for e, x in zip(errors, pair, strict=True)) / 2
            bias -= 0.01 * sum(2 * e for e in errors) / 2
    return weight, bias
