"""Is all that a checkpoint would hold finite, on every rank?"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from mmengine import dist
from mmengine.optim import OptimWrapper, OptimWrapperDict
from mmengine.runner import Runner
from torch import Tensor
from torch.optim import Optimizer

from ..errors import UserRuntimeError
from ..models.unwrap import unwrap


class NotFiniteError(UserRuntimeError):
    """A training that cannot go on: a loss, a weight or another part of its state is no number."""


def require_finite_state(runner: Runner, step: int) -> None:
    """Check weights, queues, other buffers and the optimizer's state of all ranks.

    Every rank must call it: one number per rank goes around, and the device is waited for once.
    A NotFiniteError comes on every rank alike, and names ``step``, the steps done.
    """
    state = {name: value for name, value in _state(runner) if value.is_floating_point()}
    flag = is_not_finite(list(state.values()))
    dist.all_reduce(flag, op="max")
    if not flag.item():
        return
    bad = [name for name, value in state.items() if not torch.isfinite(value).all()]
    found = dist.all_gather_object(bad[:1])
    for hook in runner.hooks:
        # Of losses: one of this rank that was not finite before says more.
        if hasattr(hook, "hand_over"):
            hook.hand_over(runner)
    if not any(found):
        return  # numbers whose squares overflow
    rank, (first,) = next((rank, names) for rank, names in enumerate(found) if names)
    where = f" of rank {rank}" if len(found) > 1 else ""
    raise NotFiniteError(
        f"a checkpoint must hold finite numbers only, but after step {step} {first}{where} does "
        "not; nothing was written, the last checkpoint is still there: go on from it by --resume "
        "with a lower optim_wrapper.optimizer.lr."
    )


def is_not_finite(tensors: Sequence[Tensor]) -> Tensor:
    """Return 1.0 if the norm of any tensor is NaN or infinite, else 0.0; no wait for the device.

    The tensors are floating point, of any shapes, kinds and devices; the result lies where the
    first of them does. Numbers beyond 1e19, whose squares overflow, count as infinite.
    """
    groups: dict[tuple[torch.device, torch.dtype], list[Tensor]] = defaultdict(list)
    for tensor in tensors:
        if tensor.numel():
            # The norm of halves is a half, and overflows early.
            tensor = tensor.detach().float() if tensor.itemsize < 4 else tensor.detach()
            groups[tensor.device, tensor.dtype].append(tensor)
    device = tensors[0].device if tensors else torch.device("cpu")
    bad = torch.zeros((), device=device)
    for group in groups.values():
        # On a CPU the largest magnitude, or isfinite, takes sixty times as long.
        norms = torch.stack(torch._foreach_norm(group))
        bad = torch.maximum(bad, (~norms.isfinite()).any().to(device, torch.float32))
    return bad


def wrappers_of(runner: Runner) -> list[OptimWrapper]:
    """Return the optimizer wrappers of a runner, mostly one."""
    wrapper = runner.optim_wrapper
    return list(wrapper.values()) if isinstance(wrapper, OptimWrapperDict) else [wrapper]


def optimizers_of(runner: Runner) -> list[Optimizer]:
    """Return the optimizers of a runner, mostly one."""
    return [each.optimizer for each in wrappers_of(runner)]


def _state(runner: Runner) -> Iterator[tuple[str, Tensor]]:
    model = unwrap(runner.model)
    for name, value in model.state_dict().items():
        if isinstance(value, Tensor):
            yield name, value
    names: dict[Any, str] = {parameter: name for name, parameter in model.named_parameters()}
    for optimizer in optimizers_of(runner):
        for parameter, values in optimizer.state.items():
            for key, value in values.items() if isinstance(values, Mapping) else ():
                if isinstance(value, Tensor):
                    yield f"the optimizer's {key} of {names.get(parameter, '?')}", value
