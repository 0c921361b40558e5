"""The features by which an exported file is compared with its backbone."""

import math
from collections.abc import Callable, Iterable, Iterator

import torch
from mmengine.config import Config
from mmengine.utils import to_2tuple
from torch import Tensor, nn

from ..console.wording import first_line
from ..errors import UserValueError
from ..functional.pooling import pool
from ..models import ModuleBackbone
from ..pyramid import ViewLayout
from .description import USUAL_PX, channels_of

Features = tuple[Tensor, Tensor]
"""The last output (N, C, H, W) or (N, C), and the pooled features (N, C)."""

GIVE_SIZE = "give a size that it takes by image_px (--image-px)"
_OTHER_SIZES = ((64, 96), (160, 192), (173, 211))
"""Height and width; the last ones are odd, because many networks pad such maps."""


class Pooled(nn.Module):
    """Return the last output of a backbone, and the same pooled as in training."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, images: Tensor) -> Features:
        """Take normalised images (N, C, H, W)."""
        outputs = self.backbone(images)
        last = outputs if isinstance(outputs, Tensor) else outputs[-1]
        return last, pool(last)


@torch.no_grad()
def largest_difference(
    run: Callable[[Tensor], Features], backbone: nn.Module, batches: Iterable[Tensor]
) -> float:
    """Compare the features that ``run`` reads from a file with the features of its backbone.

    The difference is relative to the largest feature; infinity for other shapes and NaN.
    """
    pooled = Pooled(backbone)
    largest = 0.0
    for images in batches:
        for got, want in zip(run(images), pooled(images), strict=True):
            if got.shape != want.shape:
                return math.inf

            difference = float((got - want).abs().max() / want.abs().max().clamp(min=1e-12))
            if not math.isfinite(difference):
                return math.inf
            largest = max(largest, difference)
    return largest


def random_images(backbone: nn.Module, cfg: Config) -> Iterator[Tensor]:
    """Yield two batches of images of the size of the training.

    If the network refuses it, or there is none, of the size that it was built for, or 224 px. A
    traced graph can hold the batch size as a constant, so the second batch has another one.
    """
    spec = cfg.model.backbone
    layout = cfg.model.get("layout")
    channels = spec.get("in_channels") or (spec.get("options") or {}).get("in_chans")
    channels = channels or channels_of(cfg)
    px = ViewLayout.build(layout).image_px if layout else USUAL_PX
    sizes = [(px, px)]
    built_for = getattr(backbone, "img_size", None)
    if built_for is not None:
        height, width = map(int, built_for)
        sizes = [*sizes, (height, width)] if layout else [(height, width)]

    # The last one stays, so that an error of a network that takes no size is its own.
    while len(sizes) > 1 and not takes(backbone, torch.zeros(2, channels, *sizes[0])):
        sizes.pop(0)
    generator = torch.Generator().manual_seed(0)
    for num in (2, 3):
        yield torch.randn(num, channels, *sizes[0], generator=generator)


def images_of_other_sizes(backbone: nn.Module, channels: int) -> list[Tensor]:
    """Return batches of several sizes, or none if a network does not take all of them."""
    generator = torch.Generator().manual_seed(0)
    batches = [torch.randn(3, channels, *size, generator=generator) for size in _OTHER_SIZES]
    return batches if all(takes(backbone, images) for images in batches) else []


def accepted_px(backbone: nn.Module, px: int) -> int:
    """Return ``px``, or else the size that a network, in evaluation mode, names as its own.

    Raises:
        ValueError: The network takes neither.
    """
    own, *_ = to_2tuple(getattr(backbone, "img_size", px))
    for side in (px, own):
        reason = refusal(backbone, torch.zeros(2, 3, side, side))
        if not reason:
            return int(side)

    name = f"the {type(backbone).__name__}"
    remedy = GIVE_SIZE
    if isinstance(backbone, ModuleBackbone):
        name = backbone.model_name
        remedy = f"{GIVE_SIZE}, or correct its function"
    raise UserValueError(
        f"the network must take float32 images (2, 3, {own}, {own}), but {name} raises {reason}; "
        f"{remedy}."
    )


def takes(backbone: nn.Module, images: Tensor) -> bool:
    """Whether a network, in evaluation mode, has features of images of this size."""
    return not refusal(backbone, images)


@torch.no_grad()
def refusal(backbone: nn.Module, images: Tensor) -> str:
    """Return what a network, in evaluation mode, raises for images; '' if it has features."""
    try:
        Pooled(backbone)(images)
    except Exception as error:  # each network refuses sizes in its own way
        return first_line(error)
    return ""
