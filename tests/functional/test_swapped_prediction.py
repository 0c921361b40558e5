"""See tests/models/test_sinkhorn_head.py for a comparison with the equations."""

import pytest
import torch

from mmssprl.functional import swapped_prediction_loss

pytestmark = pytest.mark.fence


def test_half_scores_are_computed_in_float32():
    codes = torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(0)).softmax(dim=-1)
    scores = (2 * codes - 1).half()
    loss = swapped_prediction_loss(scores, codes, temperature=0.05)
    assert loss.dtype == torch.float32
    expected = swapped_prediction_loss(scores.float(), codes, temperature=0.05)
    torch.testing.assert_close(loss, expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("scores", "codes"), [((2, 3, 4), (2, 3, 5)), ((2, 3, 4), (3, 3, 4)), ((1, 3, 4), (1, 3, 4))]
)
def test_shapes_that_do_not_fit(scores, codes):
    with pytest.raises(ValueError, match="swapped_prediction_loss"):
        swapped_prediction_loss(torch.zeros(scores), torch.zeros(codes), temperature=0.1)
