import math
from pathlib import Path
from types import SimpleNamespace

import pytest
from mmengine.logging import MessageHub
from small_contrast import make_model
from torch.utils.data import DataLoader

from mmssprl.compare.meter import Meter, has_collapsed
from mmssprl.models.protocol import LossTerm


class Terms:
    """A model with two terms that choose among 8 and 32, and one that chooses nothing."""

    def loss_terms(self):
        return {
            "loss_a": LossTerm("a", 0, 0.5, "K", 8),
            "loss_b": LossTerm("b", 1, 2.0, "K", 32),
            "loss_c": LossTerm("c", 0, 1.0),
        }


@pytest.mark.parametrize(
    ("shares", "spread", "collapsed"),
    [
        ((1.0, 1.0), None, True),
        ((0.995, 0.995), 0.9, True),
        ((0.98, 1.0), None, False),  # one of them learns
        ((0.5, 0.5), 0.29, True),
        ((0.5, 0.5), 0.31, False),
    ],
)
def test_a_run_has_collapsed_by_its_spread_or_by_all_terms_at_chance(shares, spread, collapsed):
    last = {
        "loss_a": shares[0] * 0.5 * math.log(8),
        "loss_b": shares[1] * 2 * math.log(32),
        "loss_c": 100.0,
        **({} if spread is None else {"embedding_spread": spread}),
    }
    assert has_collapsed(Terms(), last) is collapsed


def test_terms_that_choose_nothing_tell_nothing():
    assert not has_collapsed(Terms(), {"loss_c": 100.0})


@pytest.mark.parametrize(
    ("spreads", "collapsed"), [((0.9, 0.9, 0.2, 0.1), True), ((0.2, 0.1, 0.9, 0.9), False)]
)
def test_loss_and_collapse_are_those_of_the_last_epoch(spreads, collapsed, monkeypatch):
    hub = MessageHub("two epochs of two steps")
    for spread, loss in zip(spreads, (9.0, 8.0, 3.0, 1.0), strict=True):
        hub.update_scalars({"train/embedding_spread": spread, "train/loss": loss})
    loader = DataLoader(range(16), batch_size=8)
    meter = Meter(Path("config.py"), seed=0)
    peaks = iter([3, 8, 2, 4])  # the log begins anew after the second step
    monkeypatch.setattr("mmssprl.compare.meter.peak_bytes", lambda device: next(peaks) * 2**20)
    for _ in range(4):
        meter.after_train_iter(None)
    meter.after_train(
        SimpleNamespace(iter=4, train_dataloader=loader, message_hub=hub, model=make_model())
    )
    assert (meter.measured["loss"], meter.measured["peak_mib"]) == (2.0, 8)
    assert meter.measured["embedding_spread"] == pytest.approx(sum(spreads[2:]) / 2)
    assert meter.measured["collapsed"] is collapsed
