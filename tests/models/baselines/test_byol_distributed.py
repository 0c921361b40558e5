import pytest
import torch
from helpers.models.byol_cases import MODEL, build_byol, views_of
from helpers.models.two_ranks import NUM_RANKS, on_two_ranks

from mmssprl.engine.runner import CPUDistributedDataParallel

BATCH, STEPS = 3, 3
GROUPS = {"norm_cfg": {"type": "GN", "num_groups": 2}}


def make_model(seed=0):
    parts = {name: {**MODEL[name], **GROUPS} for name in ("backbone", "neck")}
    return build_byol(STEPS, seed=seed, base_momentum=0.5, **parts).double()


def train(model, call, images):
    """Losses and weights, the target's too, after each step on some images of the joined batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    steps = []
    for step in range(STEPS):
        views = views_of(step, NUM_RANKS * BATCH).double()[:, images]
        (loss,) = call([views], mode="loss").values()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps.append((loss.detach(), torch.cat([p.detach().flatten() for p in model.parameters()])))
    return [torch.stack(values) for values in zip(*steps, strict=True)]


def work(rank):
    model = make_model(seed=rank)  # the wrapper gives both ranks the weights of rank 0
    wrapped = CPUDistributedDataParallel(model, broadcast_buffers=False)
    return train(model, wrapped, slice(rank * BATCH, (rank + 1) * BATCH))


@pytest.mark.dist
def test_two_ranks_equal_one_process(tmp_path):
    model = make_model()
    losses, weights = train(model, model, slice(None))
    (losses_0, weights_0), (losses_1, weights_1) = on_two_ranks(work, tmp_path)
    torch.testing.assert_close((losses_0 + losses_1) / NUM_RANKS, losses, rtol=0, atol=1e-12)
    assert torch.equal(weights_0, weights_1)
    torch.testing.assert_close(weights_0, weights, rtol=0, atol=1e-12)
