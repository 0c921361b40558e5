"""LARC: layer-wise adaptive rate control around momentum SGD."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ..errors import UserValueError
from ..registry import OPTIMIZERS


@OPTIMIZERS.register_module()
class LARC(Optimizer):
    """SGD with momentum and a trust ratio per parameter.

    For ||p|| > 0 and ||g|| > 0:  a = trust ||p|| / (||g|| + wd ||p|| + eps),  g <- a (g + wd p).
    If either norm is 0 the gradient is unchanged, without weight decay. Then
    buf <- momentum buf + g,  p <- p - lr buf.  There is no clipping. mmpretrain's LARS is another
    rule: it folds lr into the momentum, and waits for the device twice per tensor.

    Args:
        params: Parameters or parameter groups.
        lr: Learning rate >= 0. Released: 0.6 at batch 128.
        momentum: In [0, 1). Released: 0.9.
        weight_decay: wd >= 0. Released: 1e-6.
        trust_coefficient: trust > 0. Released: 0.001.
        eps: > 0. Released: 1e-8.
        exclude_bias_and_norm: Whether parameters of at most one dimension (biases and parameters
            of norms) get neither trust ratio nor weight decay, as in BYOL. Released: False.

    Raises:
        ValueError: A value is out of range.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 0.6,
        momentum: float = 0.9,
        weight_decay: float = 1e-6,
        trust_coefficient: float = 0.001,
        eps: float = 1e-8,
        exclude_bias_and_norm: bool = False,
    ) -> None:
        defaults: dict[str, Any] = {"exclude_bias_and_norm": exclude_bias_and_norm}
        for name, value, valid, rule in (
            ("lr", lr, lr >= 0, ">= 0"),
            ("momentum", momentum, 0 <= momentum < 1, "in [0, 1)"),
            ("weight_decay", weight_decay, weight_decay >= 0, ">= 0"),
            ("trust_coefficient", trust_coefficient, trust_coefficient > 0, "> 0"),
            ("eps", eps, eps > 0, "> 0"),
        ):
            if not valid:
                raise UserValueError(f"LARC: {name} must be {rule}, but got {value}.")
            defaults[name] = value
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update all parameters that have a gradient; return the loss of ``closure``."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()

        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            min_dims = 2 if group["exclude_bias_and_norm"] else 0
            plain = [p for p in params if p.ndim < min_dims]
            scaled = [p for p in params if p.ndim >= min_dims]
            if plain:
                self._descend(group, plain, _grads(plain))
            if scaled:
                self._descend(group, scaled, _scaled_grads(group, scaled))
        return loss

    def _descend(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        for p in params:
            if not self.state[p]:
                self.state[p]["momentum_buffer"] = torch.zeros_like(p)
        buffers = [self.state[p]["momentum_buffer"] for p in params]
        torch._foreach_mul_(buffers, group["momentum"])
        torch._foreach_add_(buffers, grads)
        torch._foreach_add_(params, buffers, alpha=-group["lr"])


def _scaled_grads(group: dict[str, Any], params: list[Tensor]) -> list[Tensor]:
    grads = _grads(params)
    param_norms = _norms(params)
    grad_norms = _norms(grads)
    weight_decay = group["weight_decay"]
    trust = group["trust_coefficient"] * param_norms
    trust /= grad_norms + weight_decay * param_norms + group["eps"]
    adapts = (param_norms > 0) & (grad_norms > 0)
    grad_scale = torch.where(adapts, trust, 1.0)
    decay_scale = torch.where(adapts, trust * weight_decay, 0.0)

    # torch's stubs allow only lists of numbers as the second argument.
    scaled = torch._foreach_mul(grads, grad_scale.unbind())  # type: ignore[arg-type]
    decay = torch._foreach_mul(params, decay_scale.unbind())  # type: ignore[arg-type]
    torch._foreach_add_(scaled, decay)
    return list(scaled)


def _grads(params: list[Tensor]) -> list[Tensor]:
    return [p.grad for p in params if p.grad is not None]


def _norms(tensors: list[Tensor]) -> Tensor:
    """Return the L2 norms (P,) of P tensors."""
    if tensors[0].device.type == "cpu":
        # torch's norm is 4e-5 off for 2.4 million weights: it adds squares in few float32 lanes.
        return torch.stack([t.square().sum() for t in tensors]).sqrt()
    return norms_on_device(tensors)


def norms_on_device(tensors: list[Tensor]) -> Tensor:
    """Return the L2 norms (P,) of P tensors in one kernel."""
    return torch.stack(torch._foreach_norm(tensors))
