from functools import partial
from pathlib import Path

import pytest
import torch
from helpers.models import small_regions
from helpers.models.small_contrast import make_model, views_of
from torch import distributed as dist
from torch import multiprocessing

from mmssprl.engine.runner import CPUDistributedDataParallel

pytestmark = pytest.mark.dist
NUM_RANKS, BATCH, STEPS = 2, 4, 3
CASES = {
    "MoCo": {"kind": "MoCo"},
    "symmetric MoCo": {"kind": "MoCo", "symmetric": True},
    "DenseCL": {"kind": "DenseCL"},
    "symmetric DenseCL": {"kind": "DenseCL", "symmetric": True},
    "DetCo": {"kind": "DetCo"},
    "InsLoc": {"kind": "InsLoc"},
    "symmetric InsLoc": {"kind": "InsLoc", "symmetric": True},
    "MaskCo": {"kind": "MaskCo"},
    "MaskCo, M on both sides": {"kind": "MaskCo", "mph_on_key": True},
}
QUEUES = {
    "DenseCL": ["queue", "dense_queue"],
    "DetCo": [f"{kind}_queues.{i}" for kind in ("image", "patch") for i in range(3)],
    "InsLoc": ["queues.0", "queues.1"],
}
"""By kind, where there are others than 'queue'."""
QUEUED = ("queue._extra_state", *(f"queues.{i}._extra_state" for i in range(3)))


def case_model(name, **fields):
    # Half of the batch in a group, and a queue that wraps in the middle of a step.
    case = dict(CASES[name], queue_length=20, **fields)
    if case["kind"] in small_regions.CONFIGS:
        return small_regions.make_model(small_regions.CONFIGS[case.pop("kind")], **case).double()
    return make_model(**case).double()


def samples_of(name, step, images):
    """Inputs and data_samples of some images of the joined batch, in float64."""
    kind, batch = CASES[name]["kind"], NUM_RANKS * BATCH
    if kind in small_regions.CONFIGS:
        return small_regions.double_step(kind, batch, seed=step, images=images)
    sizes = (32, 36) if kind == "DetCo" else (16,)
    views = views_of(batch, seed=step, sizes=sizes)
    return [v.double()[:, images] for v in views], None


def train(name, model, call, images):
    """Losses, gradients and queues of steps of SGD on some images of the joined batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    steps = []
    for step in range(STEPS):
        losses = call(*samples_of(name, step, images))
        optimizer.zero_grad()
        sum(losses.values()).backward()
        optimizer.step()
        state = {n: x.clone() for n, x in model.state_dict().items()}
        steps.append(
            {
                "losses": {n: x.detach() for n, x in losses.items()},
                "grads": {n: p.grad for n, p in model.named_parameters() if p.grad is not None},
                "queues": {n: x for n, x in state.items() if n.endswith("keys")},
                "pushed": {n: x for n, x in state.items() if n.endswith(QUEUED)},
                "statistics": {n: x for n, x in state.items() if "running" in n},
            }
        )
    return steps


def worker(rank, folder):
    torch.set_num_threads(1)
    init = f"file://{folder}/init"
    dist.init_process_group("gloo", init_method=init, rank=rank, world_size=NUM_RANKS)
    results = {}
    for name in CASES:
        # Another seed on each rank: the wrapper gives all of them rank 0's weights.
        model = case_model(name, seed=rank)
        wrapped = CPUDistributedDataParallel(model, broadcast_buffers=False)
        images = slice(rank * BATCH, (rank + 1) * BATCH)
        call = partial(wrapped, mode="loss")
        results[name] = train(name, model, call, images)
    torch.save(results, f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    multiprocessing.spawn(worker, (str(folder),), nprocs=NUM_RANKS)
    return [torch.load(Path(folder, f"{rank}.pt")) for rank in range(NUM_RANKS)]


def differences(ranks, name):
    """The largest difference to one process, by what is compared."""
    model = case_model(name, bn_groups=NUM_RANKS)
    expected = train(name, model, model.loss, slice(None))
    largest = {}
    for step, one in enumerate(expected):
        for kind, values in one.items():
            for key, value in values.items():
                of_ranks = [result[name][step][kind][key] for result in ranks]
                if kind == "queues":
                    assert torch.equal(*of_ranks)
                mean = sum(of_ranks) / NUM_RANKS
                assert mean.any()
                error = float((mean - value).abs().max())
                largest[kind] = max(largest.get(kind, 0.0), error)
    return largest


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_equal_one_process(ranks, name):
    errors = differences(ranks, name)
    assert errors.keys() == {"losses", "grads", "queues", "pushed", "statistics"}
    assert max(errors.values()) < 1e-12, errors
    # Every queue takes the keys of all directions.
    num_keys = STEPS * NUM_RANKS * BATCH * (2 if CASES[name].get("symmetric") else 1)
    pushed = ranks[0][name][-1]["pushed"]
    queues = QUEUES.get(CASES[name]["kind"], ["queue"])
    assert {n: x.tolist() for n, x in pushed.items()} == {
        f"{queue}._extra_state": [num_keys, 20] for queue in queues
    }
