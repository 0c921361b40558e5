import math

import numpy as np
import pytest
import torch
from helpers.functional.photometric_cases import (
    RECIPE,
    blurred,
    jittered,
    levels,
    random_images,
    rng,
)
from PIL import ImageFilter
from scipy import optimize
from torchvision.transforms import functional as tv

from mmssprl.functional.channels import augment_channels
from mmssprl.functional.photometric import apply_photometric
from mmssprl.functional.photometric_params import (
    ColorJitterParams,
    GaussianBlurParams,
    PhotometricParams,
    draw_color_jitter,
    draw_gaussian_blur,
)


def box(radius):
    """Offsets and weights, in float64, of a box that ends within pixels."""
    reach = math.floor(radius) + 1
    offsets = np.arange(-reach, reach + 1)
    return offsets, np.clip(radius + 1 - abs(offsets), 0, 1) / (2 * radius + 1)


def box_blurs(line, sigma):
    """Three box blurs with repeated edges, with a total variance of sigma ** 2."""

    def excess(radius):
        offsets, weights = box(radius)
        return 3 * (weights * offsets**2).sum() - sigma**2

    _, weights = box(optimize.brentq(excess, 0, 4, xtol=1e-14))
    for _ in range(3):
        line = np.convolve(np.pad(line, len(weights) // 2, mode="edge"), weights, mode="valid")
    return line


@pytest.mark.parametrize("sigma", [0.1, 0.7, 1.4, 1.5, 2.0])
def test_blur_is_three_boxes_with_repeated_edges(sigma):
    image = np.random.default_rng(0).random((9, 11))
    expected = np.stack([box_blurs(row, sigma) for row in image])
    expected = np.stack([box_blurs(column, sigma) for column in expected.T]).T
    images = torch.from_numpy(image).float().expand(1, 3, -1, -1)
    found = blurred(images, GaussianBlurParams(torch.tensor([sigma]), 2.0))
    np.testing.assert_allclose(found[0].numpy(), np.stack([expected] * 3), atol=2e-5)


@pytest.mark.parametrize("has_edges", [False, True])
def test_blur_is_pils_but_for_its_rounding(has_edges):
    num = 100
    images = torch.randint(0, 256, (num, 3, 24, 30), generator=rng(), dtype=torch.uint8)
    images = images // 128 * 255 if has_edges else images
    params = draw_gaussian_blur(num, sigma=(0.1, 2.0), prob=1.0, generator=rng(1))
    pil = [
        tv.pil_to_tensor(tv.to_pil_image(image).filter(ImageFilter.GaussianBlur(sigma.item())))
        for image, sigma in zip(images, params.sigma, strict=True)
    ]
    difference = levels(blurred(images, params)).int() - torch.stack(pil).int()
    # PIL rounds six times, this package once.
    assert difference.abs().max() <= 3
    assert (difference.abs() <= 2).float().mean() > 0.995
    assert abs(difference.float().mean()) < 0.02


TV_OPERATIONS = (tv.adjust_brightness, tv.adjust_contrast, tv.adjust_saturation, tv.adjust_hue)


def test_jitter_in_any_order_is_torchvisions():
    images = random_images(120)
    params = draw_color_jitter(120, **{**RECIPE, "hue": 0.5}, prob=1.0, generator=rng())
    assert len(params.order.unique(dim=0)) == 24
    expected = []
    for image, order, factors in zip(images, params.order.tolist(), params.factors, strict=True):
        for operation in order:
            image = TV_OPERATIONS[operation](image, factors[operation].item())
        expected.append(image)
    torch.testing.assert_close(jittered(images, params), torch.stack(expected), rtol=0, atol=2e-5)


MEAN, STD = [30.0, 2.0, 7.0, 0.5, -3.0, 9.0], [4.0, 1.0, 2.0, 0.1, 9.0, 3.0]


def test_changes_depend_on_neither_unit_nor_other_channels():
    z = torch.randn(4, 6, 12, 10, generator=torch.Generator().manual_seed(0))
    factors = torch.tensor([[1.0, 1, 1, 0], [1.25, 1, 9, 0.3], [1, 0.5, 9, 0.3], [1, 1, 1, 0]])
    params = PhotometricParams(
        flip=torch.tensor([True, False, False, False]),
        jitter=ColorJitterParams(torch.arange(4).expand(4, 4), factors),
        blur=GaussianBlurParams(torch.tensor([0.0, 0.0, 0.0, 1.5]), 2.0),
    )
    half = (z[2] + z[2].mean(dim=(1, 2), keepdim=True)) / 2
    alone = PhotometricParams(blur=GaussianBlurParams(torch.tensor([1.5, 1.5]), 2.0))
    photos = apply_photometric(z[3].unflatten(0, (2, 3)), alone, mean=[0.0] * 3, std=[1.0] * 3)
    expected = torch.stack([z[0].flip(-1), z[1] + 0.5, half, photos.flatten(0, 1)])
    for zero in (0, 273):
        mean = torch.tensor(MEAN) + zero
        images = z * torch.tensor(STD)[:, None, None] + mean[:, None, None]
        found = augment_channels(images, params, mean=mean.tolist(), std=STD)
        torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)
