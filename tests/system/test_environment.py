import os

import pytest
import torch

from mmssprl.system import environment
from mmssprl.system.environment import default_threads, torch_threads, usable_cores


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_cores_are_those_that_this_process_may_use():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_threads_are_those_of_torch_within_the_cores(monkeypatch):
    monkeypatch.setattr(environment, "usable_cores", lambda: 2)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with torch_threads(3):
        assert (torch.get_num_threads(), default_threads()) == (3, 2)
        monkeypatch.setenv("OMP_NUM_THREADS", "3")
        assert default_threads() == 3
    assert torch.get_num_threads() == 1
    with pytest.raises(ZeroDivisionError), torch_threads(2):
        _ = 1 // 0
    assert torch.get_num_threads() == 1
