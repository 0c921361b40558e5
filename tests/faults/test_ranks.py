"""What one rank alone finds is known to all of them."""

import logging
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers.system.no_gpu import HAS_GPU
from mmengine.hooks import Hook
from mmengine.logging import MessageHub
from mmengine.optim import OptimWrapper
from torch import distributed as dist
from torch import multiprocessing, nn

from mmssprl.engine.runner import CPUDistributedDataParallel
from mmssprl.saving.finiteness import NotFiniteError, require_finite_state
from mmssprl.saving.save_and_stop_hook import SaveAndStopHook

pytestmark = [pytest.mark.fault, pytest.mark.dist]


def make_runner():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return SimpleNamespace(
        model=CPUDistributedDataParallel(model, broadcast_buffers=False),
        optim_wrapper=OptimWrapper(optimizer),
        message_hub=MessageHub("ranks"),
        hooks=[],
        logger=logging.getLogger(),
        iter=0,
        max_iters=11,
    )


def steps_of_saves(runner, rank):
    """The steps of ten after which a rank saves, of which the first asks for one by the clock."""
    hook = SaveAndStopHook("1h")
    hook._group = dist.group.WORLD
    hook._saver = object()
    hook._saved_at -= 3601 * (rank == 0)
    steps = []

    def save(runner, saver):
        steps.append(runner.iter + 1)
        hook._saved_at = time.monotonic()

    hook._save = save
    for runner.iter in range(10):
        hook.after_train_iter(runner)
    return steps


class LossOf1(Hook):
    """Has a loss of rank 1 that is not finite."""

    def hand_over(self, runner):
        if dist.get_rank() == 1:
            raise NotFiniteError("the loss of rank 1")


def message_of(runner):
    try:
        require_finite_state(runner, 3)
    except NotFiniteError as error:
        return str(error)


def worker(rank, folder):
    torch.set_num_threads(1)
    init = f"file://{folder}/init"
    dist.init_process_group("gloo", init_method=init, rank=rank, world_size=2)
    runner = make_runner()
    images = torch.randn(4, 2, generator=torch.Generator().manual_seed(rank))
    runner.optim_wrapper.update_params((runner.model(images) - 1).square().sum())
    require_finite_state(runner, 0)
    runner.model.module[1].running_mean += torch.inf if rank == 1 else 0
    texts = [message_of(runner)]
    runner.hooks = [LossOf1()]
    texts.append(message_of(runner))
    found = {"texts": texts, "saves": steps_of_saves(runner, rank)}
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_a_single_rank_stops_all(tmp_path, on_cpu):
    # Forked: to import everything twice more takes half a minute. Autograd's threads for a GPU
    # forbid it.
    start = "spawn" if HAS_GPU else "fork"
    multiprocessing.start_processes(worker, (str(tmp_path),), nprocs=2, start_method=start)
    first, second = (torch.load(Path(tmp_path, f"{rank}.pt")) for rank in range(2))
    for found in (first, second):
        assert NAMED in found["texts"][0]
        assert found["saves"] == [2], "asked in the first step, answered in the second, and once"
    # A rank that knows more must not leave the others waiting.
    assert NAMED in first["texts"][1]
    assert second["texts"][1] == "the loss of rank 1"


NAMED = "after step 3 1.running_mean of rank 1 does"
