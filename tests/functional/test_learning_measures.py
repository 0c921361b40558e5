import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from mmssprl.functional import (
    alignment,
    effective_rank,
    embedding_spread,
    mean_perplexity,
    measure_views,
    queue_top1,
)
from mmssprl.models.prototypes import AssignmentRecord


def unit_rows(rows, size, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(rows, size, generator=generator))


def test_effective_rank_equals_the_papers_formula():
    rows = unit_rows(20, 6)
    sigma = np.linalg.svd(rows.double().numpy(), compute_uv=False)
    p = sigma / sigma.sum() + 1e-7
    entropy = -(p * np.log(p)).sum()
    assert effective_rank(rows).item() == pytest.approx(math.exp(entropy), rel=1e-5)


def test_alignment_equals_a_loop():
    first = unit_rows(7, 5)
    second = unit_rows(7, 5, seed=1)
    expected_own = 0.0
    expected_others = 0.0
    for i, x in enumerate(first.double()):
        for j, y in enumerate(second.double()):
            if i == j:
                expected_own += float(x @ y) / 7
            else:
                expected_others += float(x @ y) / 42
    own, others = alignment(first, second)
    assert own.item() == pytest.approx(expected_own, rel=1e-5)
    assert others.item() == pytest.approx(expected_others, rel=1e-5)


def test_measures_of_views_are_of_all_rows_or_of_pairs():
    first = unit_rows(7, 5)
    second = unit_rows(7, 5, seed=1)
    own, others = alignment(first, second)
    rank = effective_rank(torch.cat([first, second]))
    expected = {"effective_rank": rank, "alignment": own, "alignment_others": others}
    assert measure_views(first, second) == expected


def nearly_equal_rows(seed):
    """Unit vectors (64, 32) with a mean cosine of about 0.997."""
    return F.normalize(unit_rows(1, 32) + 0.05 * unit_rows(64, 32, seed=seed))


@pytest.mark.parametrize(
    "measure",
    [
        lambda: queue_top1(nearly_equal_rows(1), nearly_equal_rows(1), nearly_equal_rows(2)),
        lambda: torch.stack(alignment(nearly_equal_rows(1), nearly_equal_rows(2))),
        lambda: effective_rank(nearly_equal_rows(1)),
        lambda: embedding_spread(nearly_equal_rows(1)),
    ],
    ids=["queue_top1", "alignment", "effective_rank", "embedding_spread"],
)
def test_a_measure_is_the_same_under_autocast(measure):
    with torch.autocast("cpu", torch.bfloat16):
        found = measure()
    assert found.dtype == torch.float32
    assert torch.equal(found, measure())


def test_closed_forms_of_mean_perplexity():
    uniform = torch.full((3, 8), 1 / 8)
    sure = torch.eye(8)
    pairs = (torch.eye(8)[:4] + torch.eye(8)[4:]) / 2
    some = torch.cat([pairs, torch.zeros(5, 8)])
    none = torch.zeros(2, 8)
    found = [mean_perplexity(p).item() for p in (uniform, sure, pairs, some, none)]
    assert found == pytest.approx([8, 1, 2, 2, 1])


def scores_of(*nearest):
    """Scores (V, M, B, K) = (3, 1, 2, 4) that are highest at ``nearest``; one view is small."""
    return F.one_hot(torch.tensor(nearest), 4).float().view(3, 1, 2, 4)


def test_perplexities_are_shares_of_the_number_of_prototypes():
    record = AssignmentRecord([4])
    scores = scores_of(0, 1, 2, 3, 0, 0)
    codes = torch.zeros(2, 2, 4)
    codes[..., :2] = 0.5
    record.note([scores], [codes], step=0)
    found = record.examine(temperature=0.1)
    assert found["code_perplexity_s0"].item() == pytest.approx(2 / 4)
    # All prototypes are predicted equally often, each by a confident row.
    assert found["prediction_perplexity_s0"].item() == pytest.approx(1)
    record.note([scores_of(2, 2, 2, 2, 0, 0)], [codes], step=1)
    found = record.examine(temperature=0.1)
    p = [math.exp(10 * x) / (math.exp(10) + 3) for x in (0, 0, 1, 0)]
    perplexity = math.exp(-sum(x * math.log(x) for x in p))
    assert found["prediction_perplexity_s0"].item() == pytest.approx(perplexity / 4, rel=1e-5)
