"""The order of things in one training step: kernels, collectives, final gradients; for scaling.py.

The step is the real model's: forward and backward under bfloat16 autocast, then LARC. It runs on
fake tensors, which have shapes and types but no memory, so a batch of 64 takes seconds anywhere.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Literal, NamedTuple

import torch
from counts import build_model, shipped_config
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from mmssprl.engine import LARC
from mmssprl.pyramid import NUM_PYRAMIDS

_FLOAT_BYTES = 4
_PLAIN_PX = 224
_CPU = torch.device("cpu")


class Event(NamedTuple):
    """One thing that happens in a step.

    Attributes:
        kind: ``op``: a kernel; ``gather`` and ``reduce``: a collective that the next kernel waits
            for; ``gradient``: a parameter's gradient is final, DDP may send it.
        what: Name of the op, owner of the collective, or name of the parameter.
        num_bytes: An op's inputs and outputs, read or written once each; bytes that a rank gives
            to a collective; bytes of the gradient.
        flops: Of an op, two per multiply-add; only convolutions and matrix products have any.
    """

    kind: Literal["op", "gather", "reduce", "gradient"]
    what: str
    num_bytes: int
    flops: int = 0


Events = tuple[Event, ...]


@cache
def training_events(num_crops: int, batch: int) -> Events:
    """Return what happens in a step of SS-PRL with ResNet-50 as it is shipped.

    Args:
        num_crops: Crops per image, 28 or 34.
        batch: Images of this process.
    """
    return events_of_model(build_model(shipped_config(num_crops)), batch)


def events_of_model(model: Any, batch: int) -> Events:
    """Return what happens in a step of an ``SSPRL`` model; its values stay as they are."""
    # In training the head reads the batch sizes of all ranks once, and they have no value here.
    model.head.eval()
    with FakeTensorMode():
        inputs = [
            torch.empty(group.num_crops, batch, 3, group.px, group.px, device=_CPU)
            for group in model.layout.groups
        ]
        events = _record(
            model, {"inputs": inputs, "mode": "loss"}, lambda losses: sum(losses.values())
        )
    sinkhorn = Event("gather", "Sinkhorn", _sinkhorn_bytes(model.head))
    backward = next(i for i, event in enumerate(events) if "backward" in event.what)
    return (*events[:backward], *[sinkhorn] * model.head.num_iters, *events[backward:])


@cache
def plain_events(batch: int) -> Events:
    """Return what happens in a step of the same backbone alone, on crops of 224 px."""
    backbone = build_model(shipped_config()).backbone
    with FakeTensorMode():
        return tuple(
            _record(
                backbone,
                {"x": torch.empty(batch, 3, _PLAIN_PX, _PLAIN_PX, device=_CPU)},
                lambda maps: maps[-1].mean(dim=(2, 3)).sum(),
            )
        )


def total_flops(events: Iterable[Event]) -> int:
    """FLOPs of all events."""
    return sum(event.flops for event in events)


def total_bytes(events: Iterable[Event], kind: str) -> int:
    """Bytes of all events of a kind."""
    return sum(event.num_bytes for event in events if event.kind == kind)


def num_waits(events: Iterable[Event], what: str) -> int:
    """Collectives of one owner that the step waits for."""
    return sum(event.kind in ("gather", "reduce") and event.what == what for event in events)


def overlap_share(events: Events) -> float:
    """Share of the FLOPs left when the backbone's first gradient is final, in [0, 1].

    All resolution groups pass through one backbone, and backward takes the groups in reverse: a
    gradient is the sum over the groups and is final in the backward pass of the first one only.
    """
    left = at_first = 0
    for event in reversed(events):
        left += event.flops
        if event.kind == "gradient" and event.what.startswith("backbone."):
            at_first = left
    return at_first / total_flops(events)


def convolution_flops(events: Iterable[Event]) -> int:
    """FLOPs of the backbone: heads have matrix products only."""
    return total_flops(event for event in events if "convolution" in event.what)


def equivalent_crops(num_crops: int, batch: int = 1, plain_batch: int = 1) -> float:
    """How many crops of 224 px cost the backbone as many FLOPs as the crops of one image.

    The batches do not change the result; equal ones are counted once.
    """
    per_image = convolution_flops(training_events(num_crops, batch)) / batch
    return per_image / (convolution_flops(plain_events(plain_batch)) / plain_batch)


def _sinkhorn_bytes(head: Any) -> int:
    """Bytes of one Sinkhorn collective: the K-vectors of both pyramids on all scales."""
    prototypes = [head.prototypes[s].weight.shape[0] for s in head.assigned_scales]
    return NUM_PYRAMIDS * sum(prototypes) * _FLOAT_BYTES


class _Recorder(TorchDispatchMode):
    """Writes down every op that moves data, and the collectives that SyncBN adds to it."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.namespace != "aten" or func.is_view:
            return out
        packet = func.overloadpacket
        name = packet.__name__
        count = flop_registry.get(packet)
        flops = count(*args, **(kwargs or {}), out_val=out) if count else 0
        tensors = [leaf for leaf in tree_leaves((args, kwargs, out)) if isinstance(leaf, Tensor)]
        moved = sum(t.numel() * t.element_size() for t in tensors)
        self.events.append(Event("op", name, moved, int(flops)))
        # torch's SyncBatchNorm gathers mean, 1 / std and one count, and sums two gradients.
        if "batch_norm_backward" in name:
            sums = 2 * args[1].shape[1]
            self.events.append(Event("reduce", "SyncBN", sums * _FLOAT_BYTES))
        elif "batch_norm" in name:
            statistics = 2 * args[0].shape[1] + 1
            self.events.append(Event("gather", "SyncBN", statistics * _FLOAT_BYTES))
        return out


def _record(model: nn.Module, inputs: dict, loss_of: Callable[[Any], Tensor]) -> list[Event]:
    """Run forward, backward and LARC on stand-ins of the model's tensors."""
    parameters = {
        name: nn.Parameter(torch.empty(p.shape, device=_CPU))
        for name, p in model.named_parameters()
    }
    buffers = {
        name: torch.empty(b.shape, dtype=b.dtype, device=_CPU) for name, b in model.named_buffers()
    }
    recorder = _Recorder()
    for name, parameter in parameters.items():
        size = parameter.numel() * _FLOAT_BYTES
        final = Event("gradient", name, size)
        parameter.register_post_accumulate_grad_hook(
            lambda _, final=final: recorder.events.append(final)
        )
    with recorder, torch.autocast(_CPU.type, torch.bfloat16):
        outputs = torch.func.functional_call(model, {**parameters, **buffers}, kwargs=inputs)
        loss = loss_of(outputs)
    with recorder:
        loss.backward()
    optimizer = LARC(parameters.values())
    optimizer.step()  # the first step makes the momentum buffers, all others use them
    with recorder:
        optimizer.step()
    return recorder.events
