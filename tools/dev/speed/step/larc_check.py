"""LARC in float32 against a float64 loop written from the formula of the released recipe."""

from collections.abc import Mapping

import torch
from torch import Tensor

from mmssprl.engine import LARC

from ..common.models import build_model

_MOMENTUM, _EPS, _LR = 0.9, 1e-8, 0.6


def larc_errors(
    cfg: Mapping, *, weight_decay: float, trust: float, steps: int = 4
) -> dict[str, float]:
    """Train a config's parameters on random gradients with LARC and with the float64 loop.

    The gradients of the tensors have norms over six decades. BatchNorm's biases start at norm
    zero; in the third step every seventh gradient is zero, among them one of a zero parameter.

    Args:
        cfg: Config with ``model``.
        weight_decay: wd.
        trust: The trust coefficient.
        steps: Steps of both, at least 3.

    Returns:
        Of 'parameters' and of 'momentum' buffers: the largest error of a step, each tensor's
        largest deviation over its largest reference value.
    """
    params = [torch.nn.Parameter(p.detach()) for p in build_model(cfg).parameters()]
    params[7].data.zero_()
    optimizer = LARC(
        params, lr=_LR, momentum=_MOMENTUM, weight_decay=weight_decay, trust_coefficient=trust
    )
    weights = [p.detach().double() for p in params]
    buffers = [torch.zeros_like(w) for w in weights]
    generator = torch.Generator().manual_seed(0)
    errors = {"parameters": 0.0, "momentum": 0.0}
    for step in range(steps):
        for i, p in enumerate(params):
            decade = float(torch.rand((), generator=generator)) * 6
            grad = torch.randn(p.shape, generator=generator) / 10**decade
            if step == 2 and i % 7 == 0:
                grad.zero_()
            p.grad = grad
            weights[i], buffers[i] = _float64_step(
                weights[i], grad.double(), buffers[i], weight_decay, trust
            )
        optimizer.step()
        for i, p in enumerate(params):
            buffer = optimizer.state[p]["momentum_buffer"]
            errors["parameters"] = max(errors["parameters"], _error(p.detach(), weights[i]))
            errors["momentum"] = max(errors["momentum"], _error(buffer, buffers[i]))
    return errors


def _float64_step(
    weight: Tensor, grad: Tensor, buffer: Tensor, weight_decay: float, trust: float
) -> tuple[Tensor, Tensor]:
    weight_norm, grad_norm = float(weight.norm()), float(grad.norm())
    if weight_norm > 0 and grad_norm > 0:
        ratio = trust * weight_norm / (grad_norm + weight_decay * weight_norm + _EPS)
        grad = ratio * (grad + weight_decay * weight)
    buffer = _MOMENTUM * buffer + grad
    return weight - _LR * buffer, buffer


def _error(value: Tensor, reference: Tensor) -> float:
    deviation = float((value - reference).abs().max())
    largest = float(reference.abs().max())
    if deviation == 0:
        return 0.0
    return deviation / largest if largest > 0 else float("inf")
