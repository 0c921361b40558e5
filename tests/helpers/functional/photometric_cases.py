"""Images and parameters that the tests of the photometric operations share."""

import torch
from torch import Tensor

from mmssprl.functional.photometric import (
    ColorJitterParams,
    GaussianBlurParams,
    PhotometricParams,
    apply_params,
    draw_photometric,
)

RECIPE = {"brightness": 0.8, "contrast": 0.8, "saturation": 0.8, "hue": 0.2}
PLAIN = {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def levels(images: Tensor) -> Tensor:
    return images.mul(255).round().to(torch.uint8)


def random_images(num: int, height: int = 12, width: int = 14) -> Tensor:
    """Noise, and among it black, white, gray, the saturated colours and near-grays."""
    images = torch.rand(num, 3, height, width, generator=rng(7))
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 3)
    images[: len(corners)] = corners[:, :, None, None]
    images[8] = 0.5
    images[9] = images[9].round()
    images[10] = 0.4 + images[10] * 1e-3
    return images


def jitter_params(order: list[int], factors: list[float], num: int) -> ColorJitterParams:
    return ColorJitterParams(
        torch.tensor(order).expand(num, -1), torch.tensor(factors).expand(num, -1)
    )


def draw(num: int, sigma: tuple[float, float] = (0.1, 2.0), seed: int = 3) -> PhotometricParams:
    """Everything but the normalisation, with probabilities that meet all combinations."""
    return draw_photometric(
        num,
        flip={"prob": 0.5},
        jitter={**RECIPE, "hue": 0.5, "prob": 0.8},
        grayscale={"prob": 0.2},
        blur={"sigma": sigma, "prob": 0.7},
        generator=rng(seed),
    )


def jittered(images: Tensor, params: ColorJitterParams) -> Tensor:
    return apply_params(images, PhotometricParams(jitter=params))


def blurred(images: Tensor, params: GaussianBlurParams) -> Tensor:
    return apply_params(images, PhotometricParams(blur=params))


def grayed(images: Tensor, mask: Tensor) -> Tensor:
    return apply_params(images, PhotometricParams(grayscale=mask))
