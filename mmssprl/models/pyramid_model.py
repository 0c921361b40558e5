"""Base of the models that run all views of a layout through one backbone.

Legend: N_g crops per image in resolution group g, B images per rank, C features.
"""

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..errors import UserValueError
from ..functional import embedding_spread, measure_views
from ..functional.pooling import pool
from ..pyramid import NUM_PYRAMIDS, ViewLayout
from ..registry import MODELS
from .protocol import PretrainingModel, check_divides

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
_COMPILED_VARIANTS = 64
"""One per view size and mode. Above the limit, torch's own is 8, a network runs uncompiled."""


class PyramidModel(PretrainingModel):
    """A backbone that sees all views of a layout, at once or in chunks, and a neck.

    Args:
        layout, backbone, neck, data_preprocessor, num_chunks, init_cfg: As in ``SSPRL``.
        parts: Configs of the method's other modules, such as its head.

    Raises:
        ValueError: ``num_chunks < 1``.
    """

    takes_num_chunks = True
    layout: ViewLayout

    def __init__(
        self,
        layout: ViewLayout | Mapping,
        backbone: Mapping,
        neck: Mapping,
        data_preprocessor: Mapping | None = None,
        num_chunks: int = 1,
        init_cfg: dict | None = None,
        **parts: Mapping,
    ) -> None:
        if not isinstance(num_chunks, int) or num_chunks < 1:
            raise UserValueError(
                f"{type(self).__name__}: num_chunks must be an integer >= 1, but got "
                f"{num_chunks!r}."
            )
        views = ViewLayout.build(layout)
        parts = {"neck": neck, **parts}
        parts["data_preprocessor"] = {"type": "PyramidPreprocessor", **(data_preprocessor or {})}
        super().__init__(
            backbone=MODELS.build(dict(backbone)),
            init_cfg=init_cfg,
            **{name: MODELS.build({"layout": views, **part}) for name, part in parts.items()},
        )
        self.layout = views
        self.num_chunks = num_chunks
        self._views: Tensor | None = None  # (2, B, D), embeddings of the last step's image views
        # A quarter faster on a CPU, and the layout that tensor cores use. Values do not change.
        self.backbone.to(memory_format=torch.channels_last)

    def in_chunks(self, run: Callable[[nn.Module, Tensor], Tensor], crops: Tensor) -> Tensor:
        """Run the backbone on crops (N_g, B, 3, px, px); with gradients in ``num_chunks`` parts.

        The backward pass recomputes the activations of one part at a time. Values and gradients are
        the same as if the parts ran one after the other. Each part updates the running statistics
        of norm layers once.
        """
        if self.num_chunks == 1 or not torch.is_grad_enabled():
            return run(self.backbone, crops)
        check_divides("num_chunks", self.num_chunks, crops.shape[1])
        parts = [
            checkpoint(
                run,
                self.backbone,
                part,
                use_reentrant=False,
                context_fn=lambda: (contextlib.nullcontext(), _SpareStatistics(self.backbone)),
            )
            for part in crops.chunk(self.num_chunks, dim=1)
        ]
        return torch.cat(parts, dim=1)

    def keep_views(self, embeddings: Sequence[Tensor]) -> None:
        """Keep the embeddings (V_0, P, B, D) of the image for ``health`` and ``examine``."""
        # (V_0, 1, B, D) -> (2, B, D), without small views, which would increase the spread.
        self._views = embeddings[0][:NUM_PYRAMIDS].detach().flatten(1, 2)

    def health(self) -> dict[str, float | Tensor]:
        """Return the spread of the image views' embeddings, see ``functional.health``."""
        if self._views is None:
            return {}
        return {"embedding_spread": embedding_spread(self._views.flatten(0, 1))}

    def examine(self) -> dict[str, Tensor]:
        """Return ``measure_views`` of the image views."""
        return {} if self._views is None else measure_views(*self._views)

    def check_training(
        self, num_images: int, batch_size: int, last_batch_size: int | None = None
    ) -> None:
        """Check that ``num_chunks`` divides the batches."""
        check_divides("num_chunks", self.num_chunks, batch_size, last_batch_size)


def crop_features(backbone: nn.Module, crops: Tensor) -> Tensor:
    """Run a backbone on crops (N_g, B, 3, px, px) and pool to features (N_g, B, C)."""
    return pool(crop_outputs(backbone, crops)).unflatten(0, crops.shape[:2])


def crop_outputs(backbone: nn.Module, crops: Tensor) -> Any:
    """Run a backbone on crops (N_g, B, 3, px, px); return its outputs, with N_g B rows."""
    # (N_g, B, 3, px, px) -> (N_g B, 3, px, px). Flattening with the channel last needs no copy of a
    # batch of the preprocessor, which has this memory format; a chunk of a batch is copied.
    images = crops.movedim(2, -1).flatten(0, 1).movedim(-1, 1)
    return backbone(images.contiguous(memory_format=torch.channels_last))


def last_outputs(backbone: nn.Module, crops: Tensor) -> Tensor:
    """Run a backbone on crops (N_g, B, 3, px, px); return its last output (N_g, B, C, ...)."""
    last: Tensor = crop_outputs(backbone, crops)[-1]
    return last.unflatten(0, crops.shape[:2])


@functools.cache
def compiled(run: Callable[[nn.Module, Tensor], Tensor]) -> Callable[[nn.Module, Tensor], Tensor]:
    """Return ``run``, compiled once per view size and mode."""
    # Compile a function, not a module, to keep models, state dicts and copies as they are.
    config = torch._dynamo.config
    config.cache_size_limit = max(config.cache_size_limit, _COMPILED_VARIANTS)
    return torch.compile(run, dynamic=False)


class _SpareStatistics:
    """Context in which norm layers in training mode write running statistics to spare buffers.

    With ``track_running_stats=False`` a layer saves other tensors for its backward pass, which
    ``checkpoint`` refuses, and torch.compile compiles again.
    """

    def __init__(self, network: nn.Module) -> None:
        self._network = network

    def __enter__(self) -> None:
        self._own = []
        for layer in self._network.modules():
            # Layers in evaluation mode read their statistics and never write them.
            if layer.training:
                buffers = layer.named_buffers(recurse=False)
                self._own += [(layer, name, each) for name, each in buffers if name in _STATISTICS]

        for layer, name, buffer in self._own:
            setattr(layer, name, torch.zeros_like(buffer))

    def __exit__(self, *error: object) -> None:
        for layer, name, buffer in self._own:
            setattr(layer, name, buffer)
