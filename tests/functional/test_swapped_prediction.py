import pytest
import reference
import torch

from mmssprl.functional import cross_scale_loss, swapped_prediction_loss


def random_codes(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator, dtype=torch.float64).softmax(dim=-1)


def mean_ce(code, cosines):
    """Of rows of codes and of cosines (N, K)."""
    pairs = zip(code, cosines, strict=True)
    return sum(reference.cross_entropy(q, c, 0.1) for q, c in pairs) / len(code)


@pytest.mark.parametrize("num_views", [2, 5])
def test_equals_the_loops(num_views):
    scores = 2 * random_codes(num_views, 3, 4, seed=1) - 1
    codes = random_codes(2, 3, 4)
    pairs = [(v, a) for a in range(2) for v in range(num_views) if v != a]
    total = sum(mean_ce(codes[a], scores[v]) for v, a in pairs)
    loss = swapped_prediction_loss(scores, codes, temperature=0.1)
    torch.testing.assert_close(loss, total / len(pairs))


def test_cross_scale_pairs():
    scores, codes = 2 * random_codes(2, 3, 4, seed=1) - 1, random_codes(2, 3, 4)

    def ce(v, a):
        return mean_ce(codes[a], scores[v])

    paper = cross_scale_loss(scores, codes, temperature=0.1, all_pairs=False)
    torch.testing.assert_close(paper, (ce(0, 0) + ce(1, 1)) / 2)
    released = cross_scale_loss(scores, codes, temperature=0.1, all_pairs=True)
    torch.testing.assert_close(released, (ce(0, 0) + ce(1, 1) + ce(0, 1) + ce(1, 0)) / 4)


def test_half_scores_are_computed_in_float32():
    scores, codes = (2 * random_codes(2, 3, 4) - 1).half(), random_codes(2, 3, 4).float()
    loss = swapped_prediction_loss(scores, codes, temperature=0.05)
    assert loss.dtype == torch.float32
    expected = swapped_prediction_loss(scores.float(), codes, temperature=0.05)
    torch.testing.assert_close(loss, expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("scores", "codes"),
    [
        (torch.zeros(2, 3, 4), torch.zeros(2, 3, 5)),
        (torch.zeros(2, 3, 4), torch.zeros(3, 3, 4)),
        (torch.zeros(1, 3, 4), torch.zeros(1, 3, 4)),
    ],
)
def test_shapes_that_do_not_fit(scores, codes):
    with pytest.raises(ValueError, match="swapped_prediction_loss"):
        swapped_prediction_loss(scores, codes, temperature=0.1)
    if scores.shape != codes.shape:
        with pytest.raises(ValueError, match="cross_scale_loss"):
            cross_scale_loss(scores, codes, temperature=0.1, all_pairs=True)
