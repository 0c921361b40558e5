from contextlib import nullcontext

import torch

from mmssprl.functional import phases
from mmssprl.models.negative_queue import join_ranks


class Names(list):
    """A clock that notes the names of the phases."""

    def phase(self, name):
        self.append(name)
        return nullcontext()


def test_ranks_are_joined_in_their_order_as_communication(monkeypatch):
    images = torch.arange(12).view(2, 6)
    monkeypatch.setattr("mmengine.dist.get_world_size", lambda: 2)
    monkeypatch.setattr("mmengine.dist.all_gather", lambda x: [x, x + 100])
    with phases.timed_by(names := Names()):
        assert join_ranks(images, dim=1)[1].tolist() == [*range(6, 12), *range(106, 112)]
        assert join_ranks(images)[:, 0].tolist() == [0, 6, 100, 106]
    assert names == [phases.COMMUNICATION] * 2


def test_one_process_communicates_nothing():
    images = torch.arange(12).view(2, 6)
    with phases.timed_by(names := Names()):
        assert join_ranks(images, dim=1) is images
    assert names == []
