"""Run a function in two gloo processes, to compare them with one process."""

import torch
from helpers.system.no_gpu import HAS_GPU
from torch import distributed as dist
from torch import multiprocessing

NUM_RANKS = 2
# Importing everything twice takes half a minute. A GPU's autograd threads do not survive a fork.
_START = "spawn" if HAS_GPU else "fork"


def _worker(rank, work, folder):
    torch.set_num_threads(1)
    init = f"file://{folder}/init"
    dist.init_process_group("gloo", init_method=init, rank=rank, world_size=NUM_RANKS)
    torch.save(work(rank), folder / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def on_two_ranks(work, folder):
    """Return the result of ``work(rank)``, a module-level function, on each rank."""
    multiprocessing.start_processes(_worker, (work, folder), NUM_RANKS, start_method=_START)
    return [torch.load(folder / f"{rank}.pt") for rank in range(NUM_RANKS)]


def assert_mean_equals(of_ranks, expected):
    """Check that losses by name, and gradients, of one process are the means over the ranks."""
    losses, grads = expected
    for name, loss in losses.items():
        mean = sum(found[name] for found, _ in of_ranks) / NUM_RANKS
        torch.testing.assert_close(mean, loss, rtol=1e-5, atol=1e-6)
    for grad, *found in zip(grads, *(found for _, found in of_ranks), strict=True):
        torch.testing.assert_close(sum(found) / NUM_RANKS, grad, rtol=1e-4, atol=1e-6)
