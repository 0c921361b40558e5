"""A backbone with pooling, and the preparation of its images.

Legend: B images, C features, H, W height and width, R crops of each image, M_s cells of scale s,
px side of the input.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from torch import Tensor, nn
from torchvision.transforms import v2

from ..console.wording import first_line
from ..datasets.long_images import middle
from ..errors import UserError, UserValueError, called
from ..functional.pooling import pool
from ..models import ModuleBackbone
from ..pixels import IMAGENET_MEAN, IMAGENET_STD, Normalisation, Pixels
from ..pyramid import ViewLayout, check_px
from ..system.environment import choose_device
from ..weights import Source, find_config, load_network
from ..weights.pooled import GIVE_SIZE, takes

DEFAULT_IMAGE_PX = 224
RESIZE_RATIO = 256 / 224
"""Shorter side before the centre crop / side of the crop, from the paper's test protocol."""


class FeatureBackbone(nn.Module):
    """Map normalised images (B, 3, H, W) to features (B, C).

    The features are the global average pool of the backbone's last output, as in ``probe`` and in
    timm with ``num_classes=0``. The model can be trained further.

    Args:
        backbone: Takes float32 (B, 3, H, W); its last output is (B, C, H', W') or (B, C).
        layout: Views of its training; None if the config has none.
        image_px: Side of the input; None takes the layout's image views, the size of a network of
            timm that takes one size only, or 224.
        mean: Per channel, in 0-255, subtracted before the division by ``std``.
        std: Per channel, in 0-255.
        pixels: Kind of pixels if images are not 8 bit RGB; ``mean`` and ``std`` are of these.
    """

    def __init__(
        self,
        backbone: nn.Module,
        *,
        layout: ViewLayout | None = None,
        image_px: int | None = None,
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
        pixels: Pixels | None = None,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.layout = layout
        if image_px is None:
            own = layout.image_px if layout else getattr(backbone, "fixed_px", None)
            image_px = own or DEFAULT_IMAGE_PX
        check_px("image_px", image_px)
        self.image_px = image_px
        self.mean = tuple(map(float, mean))
        self.std = tuple(map(float, std))
        self.pixels = pixels

    @classmethod
    def of_config(
        cls, backbone: nn.Module, cfg: Config, *, image_px: int | None = None
    ) -> "FeatureBackbone":
        """Wrap a backbone with views and normalisation of its config."""
        layout = cfg.model.get("layout") or cfg.get("layout")
        own = Normalisation.of_config(cfg)
        return cls(
            backbone,
            layout=ViewLayout.build(layout) if layout else None,
            image_px=image_px,
            mean=own.mean,
            std=own.std,
            pixels=own.pixels,
        )

    @cached_property
    def num_features(self) -> int:
        """The number of features C, found with one image of zeros."""
        device = next((value.device for value in self.parameters()), torch.device("cpu"))
        image = torch.zeros(1, len(self.mean), self.image_px, self.image_px, device=device)
        with borrowed(self), torch.no_grad():
            return self(image).shape[1]

    def forward_features(self, images: Tensor) -> Tensor:
        """Return the last feature map (B, C, H', W') of normalised images (B, 3, H, W).

        A backbone that pools, such as a ViT with its class token, returns (B, C).
        """
        outputs = self.backbone(images)
        return outputs if isinstance(outputs, Tensor) else outputs[-1]

    def feature_map(self, images: Tensor) -> Tensor:
        """Return the last map (B, C, H', W') of normalised images, of a transformer its tokens.

        Raises ValueError if there is none.
        """
        network: Any = self.backbone
        own = getattr(network, "out_type", None)  # of transformers and of timm
        try:
            if own is not None:
                network.out_type = "featmap"
            found = self.forward_features(images)
        finally:
            if own is not None:
                network.out_type = own
        if found.ndim != 4:
            raise UserValueError(
                "weights must be of a backbone that gives a feature map, but this one gives a "
                f"vector of {found.shape[1]} features; use a network without pooling and "
                "classifier (of timm: num_classes=0, global_pool=''), or another, such as a ResNet."
            )
        return found

    def forward(self, images: Tensor) -> Tensor:
        """Return features (B, C) of normalised images (B, 3, H, W), see ``image_transform``."""
        return pool(self.forward_features(images))

    def normalise(self, images: Tensor) -> Tensor:
        """Normalise images (..., C, H, W), which are uint8 RGB or ``pixels``, for ``forward``."""
        shift = torch.tensor(self.mean, device=images.device).view(-1, 1, 1)
        scale = torch.tensor(self.std, device=images.device).view(-1, 1, 1)
        return (images - shift) / scale


@called("weights", field="WEIGHTS")
@called("config (--config)", field="--config")
def load_backbone(
    weights: str | Path,
    config: str | Path | Config | None = None,
    *,
    image_px: int | None = None,
    device: str | torch.device = "cpu",
    seed: int = 0,
) -> FeatureBackbone:
    """Build a backbone with weights, in eval mode.

    Args:
        weights: Backbone weights (of ``pretrain``, ``export`` or ``convert``), a training
            checkpoint, ``'random'``, ``'supervised'`` (torchvision's, for ResNets), timm/NAME,
            timm/NAME:FILE, or package.module:function, which returns a network with its weights.
        config: Config with ``model.backbone``; None takes ``NAME.json`` next to the weights.
        image_px: Side of the input; None takes the config's image views, the size of a network of
            timm that takes one size only, or 224.
        device: 'cpu', 'cuda', 'cuda:1', or 'auto' (a GPU if there is one).
        seed: Seed of random weights.

    Raises:
        ValueError: Weights and config do not fit, there is no config, or no such device.
        FileNotFoundError: A file does not exist.
    """
    place = choose_device(device)
    file = str(weights)
    if not isinstance(config, Config):
        config = find_config(file, None if config is None else str(config))
    backbone = load_network(file, config, seed=seed)
    model = FeatureBackbone.of_config(backbone, config, image_px=image_px)
    usual = Normalisation()
    # The config is of other weights.
    if Source.of(file).is_supervised and usual.fits(model.pixels):
        own = usual.for_pixels(model.pixels)
        model.mean = own.mean
        model.std = own.std
    model.eval()  # not chained: mmpretrain's returns None
    return model.to(place)


@contextmanager
def borrowed(model: nn.Module, device: torch.device | None = None) -> Iterator[None]:
    """Put a model on a device in eval mode for a block, then restore both."""
    training = [module for module in model.modules() if module.training]
    home = next((value.device for value in model.parameters()), None)
    model.eval()
    try:
        model.to(device)
        yield
    finally:
        model.to(home)
        for module in training:
            module.training = True


@contextmanager
def explain_size(model: FeatureBackbone, images: Tensor) -> Iterator[None]:
    """Name the size of ``images`` and the option for it, if a network refuses them in a block.

    The size is the reason if the network takes images of its own ``img_size``. Errors in a network
    of the user are named; others pass.
    """
    sizes = tuple(images.shape[-2:])
    own: Any = getattr(model.backbone, "img_size", None)
    try:
        yield
    except (UserError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # each network refuses sizes in its own way
        if isinstance(model.backbone, ModuleBackbone):
            raise UserValueError(
                f"the network must take float32 images {tuple(images.shape)}, but "
                f"{model.backbone.model_name} raises {first_line(error)}; {GIVE_SIZE}, "
                "or correct its function."
            ) from error
        if own is None or own == sizes:
            raise
        if not takes(model.backbone, images.new_zeros(1, images.shape[1], *own)):
            raise
        raise UserValueError(
            f"the network must take images of {sizes[0]} x {sizes[1]} px, but raises "
            f"{first_line(error)}; {GIVE_SIZE}, such as {own[0]}."
        ) from error


def image_transform(model: FeatureBackbone) -> v2.Transform:
    """Return the transform of an image to the input of a model, as in ``probe`` and ``embed``.

    It takes a PIL image, an array (H, W, 3), or a uint8 tensor (3, H, W), RGB or gray; an array
    (H, W, C) if the model has ``pixels``. It resizes the shorter side to 256/224 px, crops the
    centre, normalises, and returns float32 (3, px, px). Stack the results for ``model``.
    """
    px = model.image_px
    to_float = v2.ToDtype(torch.float32)
    colours = v2.RGB() if model.pixels is None else to_float
    cut = [v2.Resize([round(px * RESIZE_RATIO)], antialias=True), v2.CenterCrop([px, px])]
    normalise = [to_float, v2.Normalize(model.mean, model.std), v2.ToPureTensor()]
    return v2.Compose([v2.ToImage(), colours, v2.Lambda(middle), *cut, *normalise])
