"""Images and parameters for the tests of the photometric operations."""

import torch

from mmssprl.functional.photometric import apply_photometric
from mmssprl.functional.photometric_params import PhotometricParams, draw_photometric

RECIPE = {"brightness": 0.8, "contrast": 0.8, "saturation": 0.8, "hue": 0.2}
PLAIN = {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}
ONLY_FLIPPED = {"jitter_prob": 0.0, "grayscale_prob": 0.0, "blur_prob": 0.0, **PLAIN}
"""Settings of a preprocessor."""


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def levels(images):
    return images.mul(255).round().to(torch.uint8)


def random_images(num, height=12, width=14):
    """Noise images, with black, white, gray, saturated colours and near-grays among them."""
    images = torch.rand(num, 3, height, width, generator=rng(7))
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 3)
    images[: len(corners)] = corners[:, :, None, None]
    images[8] = 0.5
    images[9] = images[9].round()
    images[10] = 0.4 + images[10] * 1e-3
    return images


def draw(num, sigma=(0.1, 2.0), seed=3, generator=None, **solarize):
    """Draw all operations, with probabilities that give all combinations."""
    return draw_photometric(
        num,
        flip={"prob": 0.5},
        jitter={**RECIPE, "hue": 0.5, "prob": 0.8},
        grayscale={"prob": 0.2},
        blur={"sigma": sigma, "prob": 0.7},
        **solarize,
        generator=generator or rng(seed),
    )


def apply_params(images, params=None, **parts):
    """Apply the parameters, or some parts of them, without normalising."""
    return apply_photometric(images, params or PhotometricParams(**parts), **PLAIN)
