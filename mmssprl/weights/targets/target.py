"""What every target of an export consists of.

Legend: N images, C features, H, W height and width of the last feature map; (N, C) for backbones
that pool themselves.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config
from torch import Tensor, nn

from ...functional.pooling import pool

Features = tuple[Tensor, Tensor]
"""The last feature map (N, C, H, W) or (N, C), and the pooled features (N, C)."""


@dataclass(frozen=True)
class Source:
    """What is exported.

    Args:
        backbone: mmpretrain backbone, an ``nn.Module`` whose fields depend on its type, in eval
            mode and filled from the checkpoint.
        cfg: Config that describes it.
        state: The tensors to write, by our names: the backbone's, or those of the whole model.
    """

    backbone: Any
    cfg: Config
    state: Mapping[str, Tensor]

    @property
    def in_channels(self) -> int:
        """Channels of the images."""
        return self.cfg.model.backbone.get("in_channels", 3)

    @property
    def architecture(self) -> str:
        """Type of the backbone, with the depth of a ResNet: ``ResNet-50``; or timm's name."""
        depth = getattr(self.backbone, "depth", None)
        name = getattr(self.backbone, "model_name", type(self.backbone).__name__)
        return f"{name}-{depth}" if isinstance(depth, int) else name


@dataclass(frozen=True)
class Loaded:
    """A written file, read back into the model that it is meant for.

    Args:
        model: The model's name, for the report.
        run: Images (N, in_channels, H, W) to features.
        file: The tensors of the file, by its own names; None where a file has no names.
        state: The tensors of the model after loading, by the file's names; None as ``file``.
        notes: What a user of the file should know, one sentence each.
    """

    model: str
    run: Callable[[Tensor], Features]
    file: Mapping[str, Tensor] | None
    state: Mapping[str, Tensor] | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Target:
    """A format that others read.

    Args:
        name: As users type it.
        suffixes: Of its files, the default first.
        write: Writes a new file.
        load: Reads the file back into the target's own model, or, where that package is not
            installed, into ours, and says so in its notes.
        wanted: Fields of the ResNets that the target can hold; None for every backbone.
        own: Backbones that hold the target's own networks, whatever is wanted of ResNets.
        check: Raises ValueError where the target cannot be written here at all.
        rename: Our name of a tensor to the file's; None for one that the format leaves out.
        own_keys: Tensors of the target's model that no backbone has, its classifier.
        tolerance: Largest difference of features, relative to the largest feature.
    """

    name: str
    suffixes: tuple[str, ...]
    write: Callable[[Source, Path], None]
    load: Callable[[Path, Source], Loaded]
    wanted: Mapping[str, Any] | None = None
    own: tuple[type[nn.Module], ...] = ()
    check: Callable[[], None] = lambda: None
    rename: Callable[[str], str | None] = lambda name: name
    own_keys: tuple[str, ...] = ()
    tolerance: float = 1e-5  # of float32 sums in another order; the same kernels give exactly 0


def last_and_pooled(model: nn.Module) -> Callable[[Tensor], Features]:
    """Run an OpenMMLab backbone: its last output, and that pooled as in training."""

    def run(images: Tensor) -> Features:
        outputs = model(images)
        last = outputs if isinstance(outputs, Tensor) else outputs[-1]
        return last, pool(last)

    return run
