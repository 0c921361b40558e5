import math

import pytest
import torch

from mmssprl.functional import prediction_loss


def vectors(seed):
    return torch.randn(2, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_loss_equals_loops_in_float64():
    predictions, targets = vectors(0), vectors(1)
    expected = 0.0
    for b in range(5):
        for v in range(2):
            p, y = predictions[v, b].tolist(), targets[1 - v, b].tolist()
            dot = sum(i * j for i, j in zip(p, y, strict=True))
            expected += (2 - 2 * dot / (math.hypot(*p) * math.hypot(*y))) / 5
    loss = prediction_loss(predictions, targets)
    assert float(loss) == pytest.approx(expected, rel=1e-12)


def test_loss_is_of_float32_under_autocast():
    predictions, targets = vectors(0), vectors(1)
    exact = prediction_loss(predictions, targets)
    with torch.autocast("cpu", torch.bfloat16):
        halves = prediction_loss(predictions.bfloat16(), targets.bfloat16())
        singles = prediction_loss(predictions.float(), targets.float())
    assert halves.dtype == singles.dtype == torch.float32
    assert float(singles) == pytest.approx(float(exact), rel=1e-6)


def test_loss_of_equal_and_opposite_vectors_of_any_length():
    y = vectors(0)
    for scale in (1e-2, 1.0, 1e3):
        assert float(prediction_loss(scale * y.flip(0), y)) == pytest.approx(0, abs=1e-6)
        assert float(prediction_loss(-scale * y.flip(0), y)) == pytest.approx(8)
        assert float(prediction_loss(y.flip(0), -scale * y)) == pytest.approx(8)


def test_loss_has_no_gradient_in_the_targets():
    predictions, targets = vectors(0).requires_grad_(), vectors(1).requires_grad_()
    prediction_loss(predictions, targets).backward()
    assert predictions.grad.abs().min() > 0
    assert targets.grad is None
