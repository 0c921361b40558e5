import math
from types import SimpleNamespace

import pytest
import torch
from helpers.models.two_ranks import on_two_ranks
from helpers.saving.stopped_runs import assert_equal_runs, train, write_pretraining
from mmengine.hooks import Hook
from mmengine.optim import OptimWrapper
from torch.optim import SGD

from mmssprl.engine import continuation
from mmssprl.engine.continuation import ContinuationHook, relative_loss
from mmssprl.models import LossTerm, MomentumEncoder
from mmssprl.models.unwrap import unwrap


class Watch(Hook):
    """Keeps the backbone before and after each step, with its neck and the mode of its norm."""

    priority = "LOWEST"

    def before_train(self, runner):
        self.states, self.training = [], []
        self.after_train_iter(runner)

    def after_train_iter(self, runner, *args, **kwargs):
        self.model = unwrap(runner.model)
        self.states.append({k: v.clone() for k, v in self.model.state_dict().items()})
        self.training.append(self.model.backbone.bn1.training)

    def moved(self, step, part="backbone."):
        first, now = self.states[0], self.states[step]
        return {
            key for key in first if key.startswith(part) and not torch.equal(first[key], now[key])
        }


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return write_pretraining(tmp_path_factory.mktemp("continued"))


def resume_by(config, folder, left_chance, stops=(), **hook):
    """Train 3 epochs of 5 steps; below ``left_chance`` the loss lets the backbone learn."""
    watch, names = Watch(), ({"type": "PretrainHook"}, {"type": "ContinuationHook", **hook})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(continuation, "LEFT_CHANCE", left_chance)
        train(config, folder, stops=stops, options={"custom_hooks": [*names]}, hooks=(watch,))
    return watch


def test_the_backbone_and_its_statistics_move_once_the_heads_have_learned_also_if_stopped(
    config, tmp_path
):
    watch = resume_by(config, tmp_path / "whole", math.inf, heads_first=2, bn_momentum=0.5)
    assert not any(watch.moved(step) for step in range(6))
    assert watch.moved(5, "neck.")
    names = ("conv1.weight", "bn1.weight", "bn1.running_mean", "bn1.num_batches_tracked")
    assert watch.moved(6) >= {f"backbone.{name}" for name in names}
    assert watch.moved(-1) == {key for key in watch.states[0] if key.startswith("backbone.")}
    assert watch.training[1:] == [False] * 5 + [True] * 10
    assert watch.model.backbone.bn1.momentum == 0.5
    [log] = tmp_path.glob("whole/*/*.log")
    assert "after epoch 1 the backbone begins to learn, the loss of the heads is" in log.read_text()
    cut = {"stops": (2, 4, 5, 7), "heads_first": 2, "bn_momentum": 0.5}
    resume_by(config, tmp_path / "cut", math.inf, **cut)
    assert_equal_runs(tmp_path / "cut", tmp_path / "whole", "epoch_3.pth")


@pytest.mark.parametrize(("heads_first", "frozen"), [(0, 0), (2, 10)])
def test_a_loss_that_is_not_below_chance_waits_for_the_most_epochs(
    heads_first, frozen, config, tmp_path
):
    watch = resume_by(config, tmp_path, math.nan, heads_first=heads_first)
    assert [step for step in range(1, 16) if not watch.moved(step)] == [*range(1, frozen + 1)]
    assert watch.model.backbone.bn1.momentum == 0.1


def test_the_frozen_backbone_has_no_part_in_the_norm_that_is_clipped():
    model = torch.nn.ModuleDict({"backbone": torch.nn.Linear(3, 4), "head": torch.nn.Linear(4, 2)})
    model.backbone = model["backbone"]
    wrapper = OptimWrapper(SGD(model.parameters(), lr=0.1), clip_grad={"max_norm": 1e-3})
    hub = SimpleNamespace(get_info=lambda key: None)
    runner = SimpleNamespace(model=model, message_hub=hub, epoch=0, optim_wrapper=wrapper)
    ContinuationHook(1).before_train(runner)
    wrapper.backward(model["head"](model.backbone(torch.ones(5, 3))).square().sum())
    wrapper.step()
    head = [parameter.grad for parameter in model["head"].parameters()]
    assert torch.nn.utils.get_total_norm(head).item() == pytest.approx(1e-3, rel=1e-3)


class Model:
    def loss_terms(self):
        term = LossTerm("L", 0, 2.0, num_classes=3)
        return {"loss_a": term, "loss_b": term._replace(scale=1), "loss_c": LossTerm("L", 0, 1.0)}


def relative_of(rank):
    losses = {"loss_a": (1 + rank) * math.log(3), "loss_b": 9.0, "loss_c": 9.0}
    return torch.tensor(relative_loss(Model(), {k: torch.tensor(v) for k, v in losses.items()}))


def test_the_loss_is_that_of_the_image_over_chance_and_its_mean_over_all_ranks(tmp_path):
    assert on_two_ranks(relative_of, tmp_path) == pytest.approx([0.75, 0.75])
    assert math.isnan(relative_loss(Model(), {"loss_c": torch.tensor(9.0)}))


def test_the_copy_of_one_network_is_found():
    first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    encoder = MomentumEncoder(first, second)
    assert encoder.copies_of(second) == [encoder.copies[1]]
    assert encoder.copies_of(torch.nn.Linear(2, 2)) == []
