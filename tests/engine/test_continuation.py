from types import SimpleNamespace

import pytest
import torch
from helpers.saving.stopped_runs import assert_equal_runs, train, write_pretraining
from mmengine.hooks import Hook
from mmengine.optim import OptimWrapper
from torch.optim import SGD

from mmssprl.engine.continuation import ContinuationHook
from mmssprl.models import MomentumEncoder
from mmssprl.models.unwrap import unwrap


class Watch(Hook):
    """Records the model's state and the mode of its BatchNorm before and after each step."""

    priority = "LOWEST"

    def before_train(self, runner):
        self.states = []
        self.training = []
        self.after_train_iter(runner)

    def after_train_iter(self, runner, *args, **kwargs):
        self.model = unwrap(runner.model)
        self.states.append({k: v.clone() for k, v in self.model.state_dict().items()})
        self.training.append(self.model.backbone.bn1.training)

    def moved(self, step, part="backbone."):
        first = self.states[0]
        now = self.states[step]
        return {
            key for key in first if key.startswith(part) and not torch.equal(first[key], now[key])
        }


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return write_pretraining(tmp_path_factory.mktemp("continued"))


def continued(config, folder, stops=(), **hook):
    """Train 3 epochs of 5 steps."""
    watch = Watch()
    options = {"custom_hooks": [{"type": "PretrainHook"}, {"type": "ContinuationHook", **hook}]}
    train(config, folder, stops=stops, options=options, hooks=(watch,))
    return watch


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    """A run of which the first epoch trains the heads alone: its folder, and what was seen."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, continued(config, folder, heads_first=1)


def test_the_heads_learn_first(whole):
    _, watch = whole
    assert not any(watch.moved(step) for step in range(6))
    assert watch.moved(5, "neck.")


def test_then_the_backbone_learns_without_its_statistics(whole):
    _, watch = whole
    learned = {f"backbone.{name}" for name, _ in watch.model.backbone.named_parameters()}
    assert {"backbone.conv1.weight", "backbone.bn1.weight"} < learned
    assert watch.moved(6) <= watch.moved(-1) == learned
    assert watch.training[1:] == [False] * 15


def test_the_log_says_when_the_backbone_begins(whole):
    folder, _ = whole
    [log] = folder.glob("*/*.log")
    assert "after epoch 1 the backbone begins to learn" in log.read_text()


def test_a_resumed_run_protects_the_same_epochs(config, whole, tmp_path):
    continued(config, tmp_path, stops=(2, 4, 5, 7), heads_first=1)
    assert_equal_runs(tmp_path, whole[0], "epoch_3.pth")


@pytest.mark.parametrize(("heads_first", "frozen"), [(0, 0), (3, 15)])
def test_epochs_alone_end_the_phase_of_the_heads(heads_first, frozen, config, tmp_path):
    watch = continued(config, tmp_path, heads_first=heads_first)
    assert [step for step in range(1, 16) if not watch.moved(step)] == [*range(1, frozen + 1)]
    [log] = tmp_path.glob("*/*.log")
    assert ("of 3 epochs, so the backbone learns nothing" in log.read_text()) is (frozen == 15)


def test_the_frozen_backbone_is_not_in_the_clipped_norm():
    model = torch.nn.ModuleDict({"backbone": torch.nn.Linear(3, 4), "head": torch.nn.Linear(4, 2)})
    model.backbone = model["backbone"]
    wrapper = OptimWrapper(SGD(model.parameters(), lr=0.1), clip_grad={"max_norm": 1e-3})
    runner = SimpleNamespace(model=model, epoch=0, max_epochs=2, optim_wrapper=wrapper)
    ContinuationHook(1).before_train(runner)
    wrapper.backward(model["head"](model.backbone(torch.ones(5, 3))).square().sum())
    wrapper.step()
    head = [parameter.grad for parameter in model["head"].parameters()]
    assert torch.nn.utils.get_total_norm(head).item() == pytest.approx(1e-3, rel=1e-3)


def test_the_copy_of_one_network_is_found():
    first, second, other = (torch.nn.Linear(2, 2) for _ in range(3))
    encoder = MomentumEncoder(first, second)
    assert (encoder.copies_of(second), encoder.copies_of(other)) == ([encoder.copies[1]], [])
