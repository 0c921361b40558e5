import math

import pytest
import torch
from reference import mean_nce
from torch.nn import functional as F

from mmssprl.functional import embedding_spread, info_nce, prediction_loss, queue_top1

pytestmark = pytest.mark.fence

T = 0.2


def units(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(*shape, generator=generator, dtype=dtype), dim=-1)


@pytest.fixture(params=[2**24, 10], ids=["one part", "10 // 5 = 2"])
def in_parts(request, monkeypatch):
    """Logits are computed in one part, or in parts of two queries."""
    monkeypatch.setitem(info_nce.__globals__, "_LOGITS_AT_ONCE", request.param)


@pytest.fixture(params=[None, 3])
def rows(request, in_parts):
    """Queries, positives, negatives of all queries, and extra negatives of each query."""
    num_extra = request.param
    extra = None if num_extra is None else units(5, num_extra, 4, seed=3)
    return units(5, 4), units(5, 4, seed=1), units(7, 4, seed=2), extra


def test_equals_the_loops(rows):
    query, positive, negatives, extra = rows
    loss = info_nce(query, positive, negatives, temperature=T, extra=extra)
    assert loss.item() == pytest.approx(mean_nce(query, positive, negatives, T, extra), abs=1e-12)


def test_the_gradient_equals_finite_differences(rows):
    query, positive, negatives, extra = rows
    assert torch.autograd.gradcheck(
        lambda q: info_nce(q, positive, negatives, temperature=T, extra=extra),
        query.requires_grad_(),
    )


def test_gradient_reaches_the_query_alone():
    tensors = [units(5, 4, seed=s).requires_grad_() for s in range(3)]
    extra = units(5, 2, 4).requires_grad_()
    info_nce(*tensors, temperature=T, extra=extra).backward()
    assert tensors[0].grad.any()
    assert [x.grad for x in (*tensors[1:], extra)] == [None] * 3


def test_is_float32_under_autocast():
    half = [units(64, 16, seed=s, dtype=torch.float32).to(torch.bfloat16) for s in range(3)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = info_nce(*half, temperature=T)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(mean_nce(*(x.double() for x in half), T), rel=1e-6)


CORNERS = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])


def test_spread_by_hand():
    # Each dimension has the deviation sqrt(2 / 3) over four rows.
    assert embedding_spread(CORNERS).item() == pytest.approx(math.sqrt(2 / 3 * 2), rel=1e-6)
    assert embedding_spread(CORNERS[:1].expand(4, 2)).item() == 0


def test_spread_is_1_if_rows_fill_the_sphere():
    spread = embedding_spread(units(4000, 64, dtype=torch.float32)).item()
    assert spread == pytest.approx(1, abs=0.01)


def test_queue_top1_by_hand():
    keys = torch.tensor([[1.0, 0.0], [0.6, -0.8], [0.6, 0.8], [0.0, -1.0]])
    # Cosines with the own key: 1, -0.6, 0.8, 1; the highest with a negative: 0.8, 0, 0.6, 1.
    assert queue_top1(CORNERS, keys, torch.tensor([[0.8, 0.6], [0.0, -1.0]])).item() == 0.5


def test_prediction_loss_is_of_float32_under_autocast():
    predictions = 3 * units(2, 5, 3)
    targets = units(2, 5, 3, seed=1)
    exact = prediction_loss(predictions, targets)
    with torch.autocast("cpu", torch.bfloat16):
        halves = prediction_loss(predictions.bfloat16(), targets.bfloat16())
        singles = prediction_loss(predictions.float(), targets.float())
    assert halves.dtype == singles.dtype == torch.float32
    assert float(singles) == pytest.approx(float(exact), rel=1e-6)
