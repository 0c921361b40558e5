import math

import pytest
import torch
from helpers.models.two_ranks import on_two_ranks
from helpers.saving.stopped_runs import assert_equal_runs, train, write_pretraining
from mmengine.hooks import Hook

from mmssprl.engine import continuation
from mmssprl.engine.continuation import ContinuationHook, relative_loss
from mmssprl.models import LossTerm, MomentumEncoder
from mmssprl.models.unwrap import unwrap


def hooks(**options):
    names = ({"type": "PretrainHook"}, {"type": "ContinuationHook", **options})
    return {"custom_hooks": list(names)}


class Watch(Hook):
    """Keeps the backbone after each step, and whether its norms were in training mode."""

    priority = "LOWEST"

    def __init__(self):
        self.states, self.training, self.momentum = [], [], set()

    def before_train(self, runner):
        self.note(runner)

    def after_train_iter(self, runner, *args, **kwargs):
        self.note(runner)

    def note(self, runner):
        model = unwrap(runner.model)
        state = {key: value.clone() for key, value in model.backbone.state_dict().items()}
        self.states.append(state)
        self.training.append(model.backbone.bn1.training)
        self.momentum.add(model.backbone.bn1.momentum)


def same(left, right):
    return {key for key in left if torch.equal(left[key], right[key])}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return write_pretraining(tmp_path_factory.mktemp("continued"))


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    folder, watch = tmp_path_factory.mktemp("whole"), Watch()
    # All heads are below infinity, so that the first epoch's end is decided by the loss.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(continuation, "LEFT_CHANCE", math.inf)
        train(config, folder, options=hooks(heads_first=2, bn_momentum=0.5), hooks=(watch,))
    return folder, watch


def test_the_backbone_and_its_statistics_move_after_the_heads_have_learned_and_not_before(whole):
    folder, watch = whole
    first = watch.states[0]
    assert all(same(first, state) == first.keys() for state in watch.states[:6])
    moved = first.keys() - same(first, watch.states[6])
    assert moved >= {"conv1.weight", "bn1.weight", "bn1.running_mean", "bn1.num_batches_tracked"}
    assert same(first, watch.states[-1]) == set()
    assert watch.training[1:] == [False] * 5 + [True] * 10
    assert watch.momentum == {0.5}
    heads = [torch.load(folder / f"epoch_{i}.pth", weights_only=False) for i in (1, 3)]
    keys = [key for key in heads[0]["state_dict"] if key.startswith("neck.")]
    assert any(not torch.equal(*(each["state_dict"][key] for each in heads)) for key in keys)
    [log] = folder.glob("*/*.log")
    assert "after epoch 1 the backbone begins to learn, the loss of the heads is" in log.read_text()


def test_stopped_before_at_and_after_the_change_it_goes_on_bit_by_bit(
    config, whole, tmp_path, monkeypatch
):
    monkeypatch.setattr(continuation, "LEFT_CHANCE", math.inf)
    options = hooks(heads_first=2, bn_momentum=0.5)
    train(config, tmp_path, stops=(2, 4, 5, 7), options=options)
    assert_equal_runs(tmp_path, whole[0], "epoch_3.pth")


@pytest.mark.parametrize(("heads_first", "frozen"), [(0, 0), (2, 10)])
def test_a_loss_at_chance_waits_for_the_most_epochs(
    heads_first, frozen, config, tmp_path, monkeypatch
):
    monkeypatch.setattr(continuation, "LEFT_CHANCE", 0.0)
    watch = Watch()
    train(config, tmp_path, options=hooks(heads_first=heads_first), hooks=(watch,))
    first, *later = watch.states
    assert [same(first, state) == first.keys() for state in later] == [
        *([True] * frozen),
        *([False] * (15 - frozen)),
    ]
    assert watch.momentum == {0.1}


class Model:
    def loss_terms(self):
        term = LossTerm("L", 0, 2.0, num_classes=3)
        return {"loss_a": term, "loss_b": term._replace(scale=1), "loss_c": LossTerm("L", 0, 1.0)}


def relative_of(rank):
    losses = {"loss_a": torch.tensor((1 + rank) * math.log(3)), "loss_b": torch.tensor(9.0)}
    return torch.tensor(relative_loss(Model(), losses))


def test_the_loss_is_that_of_the_image_over_chance_and_its_mean_over_all_ranks(tmp_path):
    assert relative_of(1) == pytest.approx(1.0)
    assert on_two_ranks(relative_of, tmp_path) == pytest.approx([0.75, 0.75])


def test_no_term_has_a_chance(monkeypatch):
    monkeypatch.setattr(Model, "loss_terms", lambda self: {"loss": LossTerm("L", 0, 1.0)})
    assert relative_loss(Model(), {}) is None


def test_the_copy_of_one_network_is_found():
    first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    encoder = MomentumEncoder(first, second)
    assert encoder.copies_of(second) == [encoder.copies[1]]
    assert encoder.copies_of(torch.nn.Linear(2, 2)) == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"heads_first": -1}, "heads_first must be at least 0, but got -1"),
        ({"heads_first": 1, "bn_momentum": 0.0}, r"bn_momentum must be in \(0, 1\], but got 0.0"),
    ],
)
def test_numbers_out_of_range(options, told):
    with pytest.raises(ValueError, match=told):
        ContinuationHook(**options)
