"""Exact count of the operators of a training step outside the backbone. Nothing is timed."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from counts import build_model, build_optimizer, random_batch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from mmssprl.engine import larc
from mmssprl.models import sinkhorn_head


@contextmanager
def device_path() -> Iterator[None]:
    """Take the paths of a device, in augmentation and LARC, on the CPU.

    Raises:
        RuntimeError: The functions have no such switch any more.
    """
    modules = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("mmssprl.") and hasattr(module, "params_are_free")
    ]
    if not modules:
        raise RuntimeError(
            "mmssprl.functional must choose between its paths by params_are_free, but no module "
            "has it; teach counts.device_path() the new switch."
        )
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(mock.patch.object(module, "params_are_free", return_value=False))
        stack.enter_context(mock.patch.object(larc, "_on_cpu", return_value=False))
        yield


class OperatorCounter(TorchDispatchMode):
    """Count operators that compute, by the phase in which they are called.

    Views and allocations launch nothing and do not count.
    """

    def __init__(self) -> None:
        super().__init__()
        self.phase = "heads"
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence = (), kwargs: dict | None = None
    ) -> Any:
        if not func.is_view and func.overloadpacket.__name__ not in _LAUNCH_NOTHING:
            self.counts[self.phase] += 1
        return func(*args, **(kwargs or {}))

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Count to ``phase`` in here."""
        before, self.phase = self.phase, phase
        try:
            yield
        finally:
            self.phase = before

    def attribute(self, owner: Any, name: str, phase: str) -> Any:
        """Patch: count the calls of ``owner.name`` to ``phase``."""
        function = getattr(owner, name)

        def called(*args: Any, **kwargs: Any) -> Any:
            with self.during(phase):
                return function(*args, **kwargs)

        return mock.patch.object(owner, name, called)


_LAUNCH_NOTHING = {
    "_reshape_alias",
    "_unsafe_view",
    "detach",
    "empty",
    "empty_like",
    "empty_strided",
    "lift_fresh",
    "new_empty",
    "new_empty_strided",
}


class _Given(nn.Module):
    """Stand-in for a backbone: one prepared feature map (N, C, 1, 1) per resolution group."""

    def __init__(self, feature_maps: Sequence[Tensor]) -> None:
        super().__init__()
        self._by_batch = {len(maps): maps for maps in feature_maps}

    def forward(self, images: Tensor) -> tuple[Tensor]:
        """Return the maps prepared for as many images."""
        return (self._by_batch[len(images)],)


def operators_outside_backbone(cfg: Mapping, batch_size: int) -> dict[str, int]:
    """Count the operators of one ``train_step`` but for the backbone's forward and backward.

    On a GPU an operator is a kernel launch or a few: a fused optimizer operator over many tensors
    takes several. Augmentation takes the GPU's path. Counted in the second step, where the
    optimizer's state exists.

    Returns:
        Operators by phase: 'augment', 'heads' (pooling, neck, losses and their backward),
        'sinkhorn', 'optimizer', and 'all'.
    """
    model = build_model(cfg)
    wrapper = build_optimizer(cfg, model)
    backbone_params = list(model.backbone.parameters())
    maps = [
        torch.rand(group.num_crops * batch_size, model.neck.in_channels, 1, 1, requires_grad=True)
        for group in model.layout.groups
    ]
    model.backbone = _Given(maps)
    counter = OperatorCounter()
    with (
        device_path(),
        counter.attribute(model.data_preprocessor, "forward", "augment"),
        counter.attribute(sinkhorn_head, "sinkhorn_jointly", "sinkhorn"),
        counter.attribute(wrapper.optimizer, "step", "optimizer"),
    ):
        for _ in range(2):
            for parameter in backbone_params:
                parameter.grad = torch.ones_like(parameter)
            batch = random_batch(model.layout, batch_size)
            counter.counts.clear()
            with counter:
                model.train_step(batch, wrapper)
    return {**counter.counts, "all": sum(counter.counts.values())}
