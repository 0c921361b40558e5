"""Chunks on two gloo processes against one process on the joined batch."""

from pathlib import Path

import pytest
import torch
from helpers.models.chunked_model import BATCH, crops_of, make_model, relative_error
from torch import distributed as dist
from torch import multiprocessing

from mmssprl.engine.runner import CPUDistributedDataParallel

NUM_RANKS = 2


def distributed_model(num_chunks):
    """No batch statistics at all, so that ranks and one process agree."""
    model = make_model(num_chunks, frozen_norms=True, queue_length=0, patch_queue_length=0)
    for i, head in enumerate(model.neck.heads):
        model.neck.heads[i] = head[0:1] + head[2:] if len(head) == 4 else head
    return model


def worker(rank, folder):
    torch.set_num_threads(1)
    init = f"file://{folder}/init"
    dist.init_process_group("gloo", init_method=init, rank=rank, world_size=NUM_RANKS)
    model = distributed_model(2)
    wrapped = CPUDistributedDataParallel(model, broadcast_buffers=False)
    images = slice(rank * BATCH, (rank + 1) * BATCH)
    losses = wrapped([x[:, images] for x in crops_of(batch=NUM_RANKS * BATCH)], mode="loss")
    sum(losses.values()).backward()
    grads = {name: p.grad for name, p in model.named_parameters()}
    torch.save(({n: t.detach() for n, t in losses.items()}, grads), f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.dist
def test_two_ranks_with_chunks_equal_one_process(tmp_path):
    multiprocessing.spawn(worker, (str(tmp_path),), nprocs=NUM_RANKS)
    results = [torch.load(Path(tmp_path, f"{rank}.pt")) for rank in range(NUM_RANKS)]
    model = distributed_model(1)
    losses = model(crops_of(batch=NUM_RANKS * BATCH), mode="loss")
    sum(losses.values()).backward()
    for name, loss in losses.items():
        mean = sum(result[0][name] for result in results) / NUM_RANKS
        torch.testing.assert_close(mean, loss.detach(), rtol=1e-5, atol=1e-6)
    expected = {name: p.grad for name, p in model.named_parameters()}
    for _, grads in results:
        assert relative_error(grads, expected) < 1e-4
