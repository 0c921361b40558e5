"""Two gloo processes against one process on the joined batch."""

from pathlib import Path

import pytest
import torch
from byol_cases import build_byol, sgd_step, views_of
from small_ssprl import BACKBONE
from torch import distributed as dist
from torch import multiprocessing

from mmssprl.engine.cpu_distributed import CPUDistributedDataParallel

pytestmark = pytest.mark.dist
NUM_RANKS, BATCH, STEPS = 2, 3, 4


def train(rank=None):
    """Losses and weights after some steps, of one rank or of one process with all images."""
    # BatchNorm would see other images in each process.
    model = build_byol(
        training_length=STEPS,
        base_momentum=0.5,
        seed=rank or 0,  # rank 0 gives the others its weights
        backbone={**BACKBONE, "norm_cfg": {"type": "GN", "num_groups": 2}},
        neck={
            "in_channels": 8,
            "hid_channels": 12,
            "out_channels": 4,
            "norm_cfg": {"type": "LN"},
        },
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    wrapped = model if rank is None else CPUDistributedDataParallel(model, broadcast_buffers=False)
    images = slice(None) if rank is None else slice(rank * BATCH, (rank + 1) * BATCH)
    losses = [
        sgd_step(wrapped, views_of(t, NUM_RANKS * BATCH)[:, images], optimizer)
        for t in range(STEPS)
    ]
    return losses, model.state_dict()


def worker(rank, folder):
    torch.set_num_threads(1)
    init = f"file://{folder}/init"
    dist.init_process_group("gloo", init_method=init, rank=rank, world_size=NUM_RANKS)
    torch.save(train(rank), f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_two_ranks_equal_one_process(tmp_path):
    multiprocessing.spawn(worker, (str(tmp_path),), nprocs=NUM_RANKS)
    ranks = [torch.load(Path(tmp_path, f"{rank}.pt")) for rank in range(NUM_RANKS)]
    losses, state = train()
    means = torch.tensor([of_rank for of_rank, _ in ranks]).mean(dim=0)
    torch.testing.assert_close(means, torch.tensor(losses), rtol=1e-6, atol=1e-6)
    assert len({round(loss, 3) for loss in losses}) == STEPS
    for name, value in state.items():
        if name.startswith("data_preprocessor"):
            continue  # each rank draws its own augmentations
        for _, other in ranks:
            torch.testing.assert_close(other[name], value, rtol=0, atol=1e-6, msg=name)
