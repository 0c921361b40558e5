from functools import partial

import pytest
import torch
from helpers.models.small_contrast import make_model, model_cfg, step_of
from helpers.models.two_ranks import NUM_RANKS, on_two_ranks

from mmssprl.engine.runner import CPUDistributedDataParallel

pytestmark = [pytest.mark.dist, pytest.mark.fence]
BATCH, STEPS = 4, 3
CASES = {
    "MoCo": {"kind": "MoCo"},
    "DenseCL": {"kind": "DenseCL"},
    "DetCo": {"kind": "DetCo"},
    "InsLoc": {"kind": "InsLoc"},
    "MaskCo": {"kind": "MaskCo"},
    "MaskCo, M on both sides": {"kind": "MaskCo", "mph_on_key": True},
    "BYOL": {"kind": "BYOL"},
}
NUM_QUEUES = {"MoCo": 1, "DenseCL": 2, "DetCo": 6, "InsLoc": 2, "MaskCo": 1, "BYOL": 0}
GROUPS = {"norm_cfg": {"type": "GN", "num_groups": 2}}


def case_model(name, seed=0, bn_groups=1):
    if name == "BYOL":
        parts = {part: {**model_cfg(name)[part], **GROUPS} for part in ("backbone", "neck")}
        return make_model(name, seed, STEPS, base_momentum=0.5, **parts).double()
    # Half of the batch in a group, and a queue that wraps in the middle of a step.
    return make_model(**CASES[name], queue_length=20, seed=seed, bn_groups=bn_groups).double()


def samples_of(name, step, images):
    """Inputs and data_samples of some images of the joined batch, in float64."""
    views, samples = step_of(CASES[name]["kind"], NUM_RANKS * BATCH, seed=step)
    samples = samples and {key: in_part(key, value, images) for key, value in samples.items()}
    return [v.double()[:, images] for v in views], samples


def in_part(key, value, images):
    """Boxes and places (2, B, ...), and the boxes (B, R, 4) of MaskCo, of some images."""
    if isinstance(value, list):
        return [in_part(key, each, images) for each in value]
    return (value[images] if key == "boxes" and value.dim() == 3 else value[:, images]).double()


def train(name, model, call, images):
    """Losses and state of steps of SGD on some images of the joined batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    steps = []
    for step in range(STEPS):
        losses = call(*samples_of(name, step, images))
        optimizer.zero_grad()
        sum(losses.values()).backward()
        optimizer.step()
        state = {n: x.clone() for n, x in model.state_dict().items()}
        queues = [n for n in state if n.endswith(".keys")]
        steps.append(
            {
                "losses": {n: x.detach() for n, x in losses.items()},
                "weights": {"all": torch.cat([p.detach().flatten() for p in model.parameters()])},
                "grads": {n: p.grad for n, p in model.named_parameters() if p.grad is not None},
                "queues": {n: state[n] for n in queues},
                "pushed": {n: state[n.replace("keys", "_extra_state")] for n in queues},
                "statistics": {n: x for n, x in state.items() if "running" in n},
            }
        )
    return steps


def work(rank):
    results = {}
    for name in CASES:
        # Another seed on each rank: the wrapper gives all of them rank 0's weights.
        model = case_model(name, seed=rank)
        wrapped = CPUDistributedDataParallel(model, broadcast_buffers=False)
        images = slice(rank * BATCH, (rank + 1) * BATCH)
        call = partial(wrapped, mode="loss")
        results[name] = train(name, model, call, images)
    return results


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return on_two_ranks(work, tmp_path_factory.mktemp("ranks"))


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_equal_one_process(ranks, name):
    model = case_model(name, bn_groups=NUM_RANKS)
    expected = train(name, model, model.loss, slice(None))
    largest = {}  # difference, by what is compared
    for step, one in enumerate(expected):
        for kind, values in one.items():
            for key, value in values.items():
                of_ranks = [result[name][step][kind][key] for result in ranks]
                if kind in ("queues", "weights"):
                    assert torch.equal(*of_ranks)
                mean = sum(of_ranks) / NUM_RANKS
                assert mean.any()
                error = float((mean - value).abs().max())
                largest[kind] = max(largest.get(kind, 0.0), error)
    of_moco = set() if name == "BYOL" else {"queues", "pushed", "statistics"}
    assert largest.keys() == {"losses", "weights", "grads"} | of_moco
    assert max(largest.values()) < 1e-12, largest
    # Every queue takes the keys of all ranks.
    num_keys = STEPS * NUM_RANKS * BATCH
    pushed = ranks[0][name][-1]["pushed"]
    counts = [x.tolist() for x in pushed.values()]
    assert counts == [[num_keys, 20]] * NUM_QUEUES[CASES[name]["kind"]]
