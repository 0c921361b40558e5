from functools import partial

import pytest
import torch
from helpers.models.small_contrast import KINDS, OF_MOCO, make_model, model_cfg, step_of
from helpers.models.two_ranks import NUM_RANKS, on_two_ranks

from mmssprl.engine.runner import CPUDistributedDataParallel
from mmssprl.models import NegativeQueue

pytestmark = [pytest.mark.dist, pytest.mark.fence]
BATCH = 4
STEPS = 3
CASES = {name: {"kind": name} for name in KINDS}
CASES["BYOL"]["base_momentum"] = 0.5
CASES["MaskCo, M on both sides"] = {"kind": "MaskCo", "mph_on_key": True}
GROUPS = {"norm_cfg": {"type": "GN", "num_groups": 2}}


def case_model(name, seed=0, bn_groups=1):
    case = CASES[name]
    # Groups have half of the batch. The queue wraps in the middle of a step.
    fields = {"queue_length": 20, "bn_groups": bn_groups}
    if case["kind"] not in OF_MOCO:  # these have no BatchNorm groups
        fields = {part: {**model_cfg(name)[part], **GROUPS} for part in ("backbone", "neck")}
    return make_model(**case, seed=seed, training_length=STEPS, **fields).double()


def samples_of(name, step, images):
    """Inputs and data_samples of the given images of the joined batch, in float64."""
    views, samples = step_of(CASES[name]["kind"], NUM_RANKS * BATCH, seed=step)
    samples = samples and {key: in_part(key, value, images) for key, value in samples.items()}
    return [v.double()[:, images] for v in views], samples


def in_part(key, value, images):
    """Select images in boxes and places (2, B, ...) or in the boxes (B, R, 4) of MaskCo."""
    if isinstance(value, list):
        return [in_part(key, each, images) for each in value]
    return (value[images] if key == "boxes" and value.dim() == 3 else value[:, images]).double()


def train(name, model, call, images):
    """Losses and state after each step of SGD on the given images of the joined batch."""
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
        # Each rank has another seed, but the wrapper broadcasts the weights of rank 0.
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
    largest = {}  # largest difference of each kind
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
    kinds = {"queues", "pushed", "statistics"} if CASES[name]["kind"] in OF_MOCO else set()
    assert largest.keys() == {"losses", "weights", "grads"} | kinds
    assert max(largest.values()) < 1e-12, largest

    # Every queue receives the keys of all ranks.
    num_keys = STEPS * NUM_RANKS * BATCH
    pushed = ranks[0][name][-1]["pushed"]
    counts = [x.tolist() for x in pushed.values()]
    queues = [part for part in model.modules() if isinstance(part, NegativeQueue)]
    assert counts == [[num_keys, 20]] * len(queues)
