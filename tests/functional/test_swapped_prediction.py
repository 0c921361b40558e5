"""See tests/models/test_sinkhorn_head.py for a comparison with the equations."""

import pytest
import torch

from mmssprl.functional import swapped_prediction_loss

pytestmark = pytest.mark.fence


def random_codes(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator, dtype=torch.float64).softmax(dim=-1)


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
