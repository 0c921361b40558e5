import logging

import pytest
import torch
from mmengine.logging import MMLogger

from mmssprl.models import FeatureQueue


def queue_logger():
    if not MMLogger.check_instance_created("test_queue"):
        MMLogger.get_instance("test_queue")
    return MMLogger.get_current_instance()


def step_of(value, rows=2):
    return torch.full((2, rows, 3), float(value))


def test_ring_buffer_by_hand():
    queue = FeatureQueue(6, 3)
    for value in (1, 2):
        queue.push(step_of(value))
        assert not queue.is_full
    queue.push(step_of(3))
    assert queue.is_full
    queue.push(step_of(4))
    assert queue.rows()[0, :, 0].tolist() == [4, 4, 2, 2, 3, 3]
    assert queue.num_filled == 6


def test_views_are_kept_apart():
    queue = FeatureQueue(4, 1)
    queue.push(torch.tensor([[[1.0], [2.0]], [[3.0], [4.0]]]))
    assert queue.rows()[:, :2, 0].tolist() == [[1, 2], [3, 4]]


def test_length_is_rounded_down_and_logged(caplog):
    logger = queue_logger()
    logger.addHandler(caplog.handler)
    queue = FeatureQueue(7, 3)
    with caplog.at_level(logging.INFO):
        queue.push(step_of(1))
    assert queue.capacity == 6
    assert "Queue of 7 rows per view rounded down to 6" in caplog.text
    for value in (2, 3, 4):
        queue.push(step_of(value))
    assert queue.features[0, :, 0].tolist() == [4, 4, 2, 2, 3, 3, 0]
    assert queue.rows().shape == (2, 6, 3)


def test_state_dict_continues_in_the_middle():
    queue, restored = FeatureQueue(6, 3), FeatureQueue(6, 3)
    for value in range(4):
        queue.push(step_of(value))
    restored.load_state_dict(queue.state_dict())
    assert restored.is_full
    for value in (8, 9):
        queue.push(step_of(value))
        restored.push(step_of(value))
    assert torch.equal(queue.rows(), restored.rows())
    assert queue.state_dict().keys() == {"features", "counters"}
    assert queue.counters.tolist() == [12, 6]


def test_another_batch_size_after_loading_starts_empty(caplog):
    logger = queue_logger()
    logger.addHandler(caplog.handler)
    queue, restored = FeatureQueue(6, 3), FeatureQueue(6, 3)
    for value in range(3):
        queue.push(step_of(value))
    restored.load_state_dict(queue.state_dict())
    restored.push(step_of(1, rows=4))
    assert not restored.is_full or restored.capacity == 4
    assert restored.num_filled == 4
    assert "Queue starts empty: the batch size has changed" in caplog.text


def test_another_length_after_loading_starts_empty():
    # Both lengths round down to 4 rows: without a check the zeros of the new buffer would count.
    queue, longer = FeatureQueue(4, 3), FeatureQueue(5, 3)
    for value in (1, 2, 3):
        queue.push(step_of(value))
    longer.load_state_dict(queue.state_dict())
    assert longer.num_filled == 0
    longer.push(step_of(7))
    assert not longer.is_full


def fake_ranks(monkeypatch, rank, world_size, gathered=None):
    monkeypatch.setattr("mmssprl.models.feature_queue.dist.get_rank", lambda: rank)
    monkeypatch.setattr("mmssprl.models.feature_queue.dist.get_world_size", lambda: world_size)
    monkeypatch.setattr("mmssprl.models.feature_queue.dist.all_gather", lambda x: gathered)


def test_each_rank_gets_its_own_rows_back(monkeypatch):
    queue = FeatureQueue(2, 3)
    queue.push(step_of(1))
    fake_ranks(monkeypatch, 0, 2, [step_of(1), step_of(5)])
    queue.gather_ranks()
    state = queue.state_dict()
    queue.release_ranks()
    assert "features_of_ranks" not in queue.state_dict()
    fake_ranks(monkeypatch, 1, 2)
    restored = FeatureQueue(2, 3)
    restored.load_state_dict(state)
    assert restored.is_full
    assert (restored.rows() == 5).all()
    fake_ranks(monkeypatch, 2, 3)
    other = FeatureQueue(2, 3)
    other.load_state_dict(state)
    assert other.num_filled == 0
    assert other.counters.tolist()[0] == 0


def test_a_single_process_checkpoint_does_not_fill_two_ranks(monkeypatch):
    queue = FeatureQueue(2, 3)
    queue.push(step_of(1))
    state = queue.state_dict()
    fake_ranks(monkeypatch, 0, 2)
    restored = FeatureQueue(2, 3)
    restored.load_state_dict(state)
    assert restored.num_filled == 0


def test_errors():
    with pytest.raises(ValueError, match="length must be >= 1, but got 0"):
        FeatureQueue(0, 3)
    queue = FeatureQueue(3, 3)
    with pytest.raises(ValueError, match="length must be at least the 4 rows .* but got 3"):
        queue.push(step_of(0, rows=4))
    queue.push(step_of(0))
    with pytest.raises(ValueError, match="each step must push 2 rows, but got 1; set drop_last"):
        queue.push(step_of(0, rows=1))
