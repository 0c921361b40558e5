import math

import pytest

from mmssprl.compare.meter import has_collapsed
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
