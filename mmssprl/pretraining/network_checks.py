"""What a network of the user does that its pre-training would not show.

Legend: N images, C features, h, w rows and columns of the last output.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..console.wording import first_line
from ..errors import UserValueError
from ..weights.checkpoint_prefixes import is_head

_SAME = 1e-3
"""Share of the largest feature by which features of an image may differ between two batches."""
_LEAST_MOVED = 0.1
"""Relative change of the token of a changed patch, as a share of the largest one. Transformers with
random weights have 0.7 to 1 if the order is right, and 0.002 to 0.2 if tokens are behind."""
_MOST_NAMED = 3
_MEANS = ("mean", "pixel_mean", "image_mean")
"""Names of buffers of a mean that networks subtract from images."""
_NORMS = (_BatchNorm, nn.LayerNorm, nn.GroupNorm)


def num_outputs(outputs: Any) -> int:
    """Return how many outputs a network returns; 1 if it is a tensor."""
    return len(outputs) if isinstance(outputs, Mapping | list | tuple) else 1


def check_types(name: str, network: nn.Module) -> None:
    """Raise ValueError for parameters that are not float32, which optimizers would round."""
    for key, value in network.named_parameters():
        if value.is_floating_point() and value.dtype != torch.float32:
            raise UserValueError(
                f"the parameters of {name} must be torch.float32, but {key} is {value.dtype}; "
                "return network.float()."
            )


@torch.no_grad()
def check_modes(name: str, network: Any, counts: set[int], images: Tensor) -> list[str]:
    """Compare the last outputs in training and in evaluation; return warnings.

    Args:
        name: The network.
        network: A ``ModuleBackbone``, which is left in training mode.
        counts: Numbers of its outputs, in both modes.
        images: (N, 3, height, width).

    Raises:
        ValueError: The last output in training has another shape, or an output in front of it is
            the last one in evaluation.
    """
    if len(counts) == 1:
        return []
    network.eval()
    (expected,) = network(images)
    network.train()

    # The output of the training mode, by the values of the evaluation mode.
    for part in network.modules():
        if not any(True for _ in part.children()):
            part.eval()
    outputs = network.inner(images)
    found = network.last_of(outputs, images)
    network.train()
    if _are_close(found, expected):
        return []

    several = " or ".join(map(str, sorted(counts)))
    others = outputs.values() if isinstance(outputs, Mapping) else outputs
    is_another = isinstance(outputs, Mapping | list | tuple) and any(
        _are_close(each, expected) for each in others
    )
    if found.shape != expected.shape or is_another:
        raise UserValueError(
            f"the backbone must have the same last output in training and in evaluation, but {name}"
            f" returns {several} outputs; leave auxiliary ones out."
        )
    # Such as dropout by a function, or in nn.MultiheadAttention.
    return [
        f"the backbone returns {several} outputs, and the last one has other values in training "
        "than in evaluation. If it is an auxiliary output, leave it out; dropout is no reason."
    ]


@torch.no_grad()
def check_tokens(name: str, network: Any, images: Tensor) -> None:
    """Raise ValueError if the tokens of patches have other places in the map made of them.

    The patch in a corner of an image is changed, and the token of the cell there should change.
    Attention changes all tokens, so only a change that is many times larger elsewhere counts.

    Args:
        name: The network.
        network: A ``ModuleBackbone``, which is left in training mode.
        images: (N, 3, height, width).
    """
    network.eval()
    before = _tokens_of(network, images)
    if before is not None:
        rows, columns = network(images)[0].shape[2:]
        height = -(-images.shape[2] // rows)
        width = -(-images.shape[3] // columns)
        corners = {
            len(before) - rows * columns: (slice(height), slice(width)),
            len(before) - 1: (slice(-height, None), slice(-width, None)),
        }
        for cell, place in corners.items():
            changed = images.clone()
            changed[:, :, *place] *= -1
            moved = (_tokens_of(network, changed) - before).norm(dim=1) / before.norm(dim=1)
            if moved[cell] < _LEAST_MOVED * moved.max():
                raise UserValueError(
                    f"the last {rows * columns} tokens must be of the patches, row by row, but "
                    f"{name} has other tokens behind or between them: a change in a corner of an "
                    "image changes others most; let its forward return the map (N, C, H, W)."
                )
    network.train()


def _tokens_of(network: Any, images: Tensor) -> Any:
    """Return the tokens (T, C) of the first image, or None if the output is something else."""
    hidden = getattr(network.inner(images), "last_hidden_state", None)
    return hidden[0] if isinstance(hidden, Tensor) and hidden.dim() == 3 else None


def _are_close(found: Any, expected: Tensor) -> bool:
    """Whether an output has the same shape and values."""
    is_tensor = isinstance(found, Tensor) and found.shape == expected.shape
    return is_tensor and torch.allclose(found, expected, rtol=_SAME, atol=_SAME)


def network_warnings(name: str, network: Any, last: Tensor, images: Tensor) -> list[str]:
    """Return what a user should know of a network, which is left in evaluation mode.

    Args:
        name: The network.
        network: A ``ModuleBackbone``.
        last: Its last output in training mode.
        images: (2, 3, height, width).

    Raises:
        ValueError: The output cannot be differentiated.
    """
    return [
        *_untrained(name, network.inner, last),
        *_classifier(network.inner, last),
        *_mixing(network, images),
        *_normalising(network, images),
    ]


def _untrained(name: str, inner: nn.Module, last: Tensor) -> list[str]:
    """Warn of parameters that the last output does not train; classifiers may be unused."""
    named = dict(inner.named_parameters())
    learning = {key: value for key, value in named.items() if value.requires_grad}
    inner.zero_grad()
    try:
        last.sum().backward()  # checkpoints with use_reentrant=True refuse torch.autograd.grad
    except RuntimeError as error:  # of the user's operations
        raise UserValueError(
            f"the backbone must have a gradient, but that of {name} raises {first_line(error)}; "
            "correct its forward."
        ) from error
    unused = [key for key, each in learning.items() if each.grad is None and not is_head(key)]
    inner.zero_grad()

    warnings = []
    frozen = [key for key in named if key not in learning]
    for keys, reason in ((frozen, "have requires_grad=False"), (unused, "are not used")):
        if keys:
            more = ", ..." if len(keys) > _MOST_NAMED else ""
            warnings.append(
                f"{len(keys)} of {len(named)} parameters of the backbone {reason} and keep their "
                f"values ({', '.join(keys[:_MOST_NAMED])}{more})."
            )
    return warnings


def _classifier(inner: nn.Module, last: Tensor) -> list[str]:
    """Warn of outputs (N, C) that are a classifier's, by the name and size of a parameter."""
    if last.dim() != 2:
        return []
    *_, final = inner.modules()  # hidden layers of a head have others behind them
    for key, value in inner.named_parameters():
        is_final = inner.get_submodule(key.rpartition(".")[0]) is final
        if is_final and is_head(key) and value.dim() == 2 and len(value) == last.shape[1]:
            return [
                f"the {last.shape[1]} features of the backbone are the outputs of its classifier "
                f"{key.rpartition('.')[0]}; return the features in front of it."
            ]
    return []


@torch.no_grad()
def _mixing(network: nn.Module, images: Tensor) -> list[str]:
    """Warn if features of an image (2, C, ...) change with the batch, or from call to call."""
    network.eval()
    try:
        (together,) = network(images)
        (alone,) = network(images[:1])
        difference = (together[:1] - alone).abs().max()
    except Exception as error:  # of the user's code
        return [
            "in evaluation mode the features of the backbone cannot be computed for one image: "
            f"{first_line(error)}. Let its forward take any number of images."
        ]
    if difference <= _SAME * together.abs().max():
        return []
    return [
        "in evaluation mode the features of an image differ from batch to batch. Let dropout "
        "follow self.training, and let BatchNorm keep statistics."
    ]


@torch.no_grad()
def _normalising(network: nn.Module, images: Tensor) -> list[str]:
    """Warn if the output follows a buffer such as ``pixel_mean``: images come normalised."""
    network.eval()
    (before,) = network(images)
    for name, buffer in network.named_buffers():
        kind = name.rpartition(".")[2]
        if kind not in _MEANS or buffer.numel() != images.shape[1]:
            continue

        # An expanded buffer cannot be changed in place.
        kept = buffer.data
        buffer.data = (kept + 1).to(kept.dtype)
        (after,) = network(images)
        buffer.data = kept
        if not torch.equal(before, after):
            return [
                f"the backbone normalises images itself, by its buffer {kind}, and gets them "
                "normalised. Return the part behind that; or rename the buffer, and set mean = "
                "(0, 0, 0) and std = (1, 1, 1) of the network for images from 0 to 1."
            ]
    return []


def num_fixed_norms(network: nn.Module) -> int:
    """Return how many BatchNorm layers of a network in training mode learn no statistics."""

    def is_fixed(part: nn.Module) -> bool:
        fixed = isinstance(part, _BatchNorm) and part.track_running_stats and not part.training
        return fixed or type(part).__name__.startswith("FrozenBatchNorm")

    return sum(map(is_fixed, network.modules()))


def has_trained_norms(network: nn.Module) -> bool | None:
    """Whether normalisation layers differ from their initial state; None if none can."""
    norms = [part for part in network.modules() if isinstance(part, _NORMS)]
    found = [moved for moved in map(_has_moved, norms) if moved is not None]
    return any(found) if found else None


def _has_moved(norm: Any) -> bool | None:
    """Whether a layer has different scales, or has seen batches; None if it has neither."""
    scales = norm.weight
    seen = getattr(norm, "num_batches_tracked", None)
    if scales is None and seen is None:
        return None
    return bool(seen) or (scales is not None and bool((scales != scales.flatten()[0]).any()))
