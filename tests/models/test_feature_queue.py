import pytest
import torch
from mmengine.runner.checkpoint import load_state_dict

from mmssprl.models import FeatureQueue, NegativeQueue


def step_of(value):
    return torch.full((2, 2, 3), float(value))


@pytest.mark.parametrize("rows", [1, 256, 576, 2496, 5000])
def test_holds_the_newest_rows_whatever_a_step_pushes(rows):
    # The released 2,496 rows per rank are not a multiple of 4 x 64 or 9 x 64.
    queue = FeatureQueue(2496, 1)
    pushed = torch.arange(2.0 * 11 * rows).view(2, 11 * rows, 1)
    for step in pushed.split(rows, dim=1):
        queue.push(step)
        filled = min(int(step[0, -1]) + 1, 2496)
        assert (queue.num_filled, queue.is_full) == (filled, filled == 2496)
    if queue.is_full:
        newest = pushed[:, -2496:]
        assert torch.equal(queue.features.sort(dim=1).values, newest)
    assert queue.num_pushed == 11 * rows


@pytest.fixture
def logged(monkeypatch):
    lines = []
    monkeypatch.setattr("mmssprl.models.queues.print_log", lambda text, **_: lines.append(text))
    return lines


def test_a_queue_of_another_length_starts_empty(logged):
    # mmengine skips features that do not fit. Without a check, zeros would count as rows.
    queue = FeatureQueue(4, 3)
    for value in (1, 2, 3):
        queue.push(step_of(value))
    longer = FeatureQueue(5, 3)
    longer.load_state_dict(queue.state_dict())
    assert longer.num_filled == 0
    (line,) = logged
    assert "(2, 4, 3) on 1 rank(s), in this training (2, 5, 3)" in line
    longer.push(step_of(7))
    assert not longer.is_full


def test_negatives_of_another_length_are_left_out():
    negatives = NegativeQueue(5, 2)
    negatives.push(torch.ones(3, 2))
    assert negatives.state_dict().keys() == {"keys", "_extra_state"}
    more = NegativeQueue(6, 2)
    before = more.keys.clone()
    load_state_dict(more, negatives.state_dict())
    assert torch.equal(more.keys, before)
    assert more.fill == 0


def test_a_queue_of_another_number_of_ranks_starts_empty(logged, monkeypatch):
    # The same number of ranks: tests/models/test_distributed.py.
    state = {"features_of_ranks": torch.stack([step_of(1), step_of(5)]), "features": step_of(1)}
    restored = FeatureQueue(2, 3)
    monkeypatch.setattr("mmssprl.models.queues.dist.get_world_size", lambda: 3)
    restored.load_state_dict({**state, "_extra_state": torch.tensor(2)})
    assert (restored.num_filled, restored.num_pushed) == (0, 0)
    assert "on 2 rank(s), in this training (2, 2, 3) on 3" in logged[0]


def test_starts_with_random_unit_rows():
    queue = NegativeQueue(500, 16)
    torch.manual_seed(1)  # like a rank with another seed
    assert torch.equal(NegativeQueue(500, 16).keys, queue.keys)
    torch.testing.assert_close(queue.keys.norm(dim=1), torch.ones(500))
    assert queue.keys.mean(dim=0).norm() < 0.1
    assert (queue.fill, queue.num_pushed) == (0, 0)


def test_a_queue_without_rows_is_refused():
    with pytest.raises(ValueError, match="length.*0"):
        NegativeQueue(0, 2)
