from dataclasses import replace

import pytest
import torch
from helpers.models import chunked_model
from helpers.models.head_cases import LAYOUT, SAMPLED, cosines, embeddings_of, make_head
from helpers.models.two_ranks import NUM_RANKS, assert_mean_equals, on_two_ranks
from torch import distributed as dist

from mmssprl.engine.runner import CPUDistributedDataParallel
from mmssprl.functional import sinkhorn

pytestmark = [pytest.mark.dist, pytest.mark.fence]
BATCH = 3
STEPS = 4
LAYOUTS = {"plain": LAYOUT, "small_views_and_sampled": replace(SAMPLED, num_small=2)}
# Rows of two steps, except for the first level of the plain layout: rows of one step.
PATCH_QUEUES = {"plain": (12, 54), "small_views_and_sampled": (12, 18)}


def underflowing_scores():
    """Scores whose second half (rank 1) alone would underflow in exp(score / 0.005)."""
    scores = cosines(8, 6)
    scores[4:] -= 0.95
    return scores.clamp(-1, 1)


def joined_embeddings(step, name="plain"):
    return embeddings_of(LAYOUTS[name], seed=step, batch=NUM_RANKS * BATCH)


def head_of(name, factor=1):
    """A head with queues that are ``factor`` times as long as on one rank."""
    patch_queues = [factor * length for length in PATCH_QUEUES[name]]
    queues = {"queue_length": factor * 6, "patch_queue_length": patch_queues}
    return make_head(LAYOUTS[name], freeze_iters=1, **queues)


def detached(losses):
    return {name: loss.detach() for name, loss in losses.items()}


def train_steps(rank, num_ranks, name):
    """Losses and gradients of a few steps on this rank's images of the joined batch."""
    head = head_of(name, NUM_RANKS // num_ranks)
    images = slice(rank * BATCH, (rank + 1) * BATCH) if num_ranks > 1 else slice(None)
    steps = []
    for step in range(STEPS):
        head.zero_grad()
        terms = head.loss([z[:, :, images] for z in joined_embeddings(step, name)])
        sum(terms.values()).backward()
        steps.append((detached(terms), [p.grad.clone() for p in head.parameters()]))
        # The same update everywhere, so that later steps have other prototypes.
        with torch.no_grad():
            generator = torch.Generator().manual_seed(step)
            for p in head.parameters():
                p.add_(0.1 * torch.randn(p.shape, generator=generator))
    return head, steps


def model_in_chunks(num_chunks):
    """A model without batch statistics, so that ranks and one process agree."""
    model = chunked_model.make_model(num_chunks, queue_length=0, patch_queue_length=0)
    model.backbone.eval()
    for i, head in enumerate(model.neck.heads):
        model.neck.heads[i] = head[0:1] + head[2:]
    return model


def step_in_chunks(model, call, images):
    """Losses and gradients of a step on the given images of the joined batch."""
    crops = chunked_model.crops_of(batch=NUM_RANKS * chunked_model.BATCH)
    losses = call([x[:, images] for x in crops], mode="loss")
    sum(losses.values()).backward()
    grads = {name: p.grad for name, p in model.named_parameters()}
    return detached(losses), grads


def work(rank):
    results = {"codes": sinkhorn(underflowing_scores().chunk(NUM_RANKS)[rank], epsilon=0.005)}
    for name in reversed(LAYOUTS):  # the plain one last, because its head is used below
        head, results[name] = train_steps(rank, NUM_RANKS, name)

    for queue in filter(None, head.queues):
        queue.gather_ranks()
    state = {k: v.clone() for k, v in head.state_dict().items()}
    results["state_dict"] = state
    for queue in filter(None, head.queues):
        queue.release_ranks()

    # All ranks load the checkpoint of rank 0.
    shared = [state]
    dist.broadcast_object_list(shared)
    restored = head_of("plain")
    restored.load_state_dict(shared[0])
    z = [x[:, :, :BATCH] for x in joined_embeddings(9 + rank)]
    results["resumed"] = [detached(each.loss(z)) for each in (head, restored)]

    with pytest.raises(ValueError, match=r"\[2, 3\]"):
        make_head().loss(embeddings_of(LAYOUT, batch=2 + rank))

    model = model_in_chunks(2)
    wrapped = CPUDistributedDataParallel(model, broadcast_buffers=False)
    images = slice(rank * chunked_model.BATCH, (rank + 1) * chunked_model.BATCH)
    results["chunks"] = step_in_chunks(model, wrapped, images)
    return results


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """Results of each rank."""
    return on_two_ranks(work, tmp_path_factory.mktemp("ranks"))


def test_codes_equal_one_process_even_where_one_rank_underflows(ranks):
    codes = torch.cat([result["codes"] for result in ranks])
    assert torch.isfinite(codes).all()
    expected = sinkhorn(underflowing_scores(), epsilon=0.005)
    torch.testing.assert_close(codes, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", LAYOUTS)
def test_steps_equal_one_process(ranks, name):
    head, steps = train_steps(0, 1, name)
    assert all(queue.is_full for queue in head.queues)
    for expected, *of_ranks in zip(steps, *(result[name] for result in ranks), strict=True):
        assert_mean_equals(of_ranks, expected)
    _, grads = expected
    assert any(grad.any() for grad in grads)


def test_one_checkpoint_resumes_the_queues_of_all_ranks(ranks):
    gathered = ranks[0]["state_dict"]["queues.0.features_of_ranks"]
    for rank, result in enumerate(ranks):
        assert torch.equal(gathered[rank], result["state_dict"]["queues.0.features"])
        continued, resumed = result["resumed"]
        for name in continued:
            assert torch.equal(continued[name], resumed[name])
    assert not torch.equal(gathered[0], gathered[1])


def test_chunks_equal_one_process(ranks):
    model = model_in_chunks(1)
    losses, expected = step_in_chunks(model, model, slice(None))
    for name, loss in losses.items():
        mean = sum(result["chunks"][0][name] for result in ranks) / NUM_RANKS
        torch.testing.assert_close(mean, loss, rtol=1e-5, atol=1e-6)
    for result in ranks:
        assert chunked_model.relative_error(result["chunks"][1], expected) < 1e-4
