"""Jitter, grayscale and blur against torchvision, PIL, float64 and hand-computed values."""

import math

import numpy as np
import pytest
import torch
from helpers.functional.photometric_cases import (
    RECIPE,
    blurred,
    grayed,
    jitter_params,
    jittered,
    levels,
    random_images,
    rng,
)
from PIL import ImageFilter
from scipy import optimize
from torch import Tensor
from torchvision.transforms import functional as tv

from mmssprl.functional.photometric import (
    BRIGHTNESS,
    CONTRAST,
    HUE,
    SATURATION,
    ColorJitterParams,
    GaussianBlurParams,
    draw_color_jitter,
    draw_gaussian_blur,
    gaussian_blur,
)


def box_blurs(line: np.ndarray, sigma: float) -> np.ndarray:
    """Three fractional boxes with repeated edges, in float64, of variance sigma ** 2."""
    radius = optimize.brentq(lambda r: 3 * box_variance(r) - sigma**2, 0, 4, xtol=1e-14)
    reach = math.floor(radius) + 1
    for _ in range(3):
        padded = np.pad(line, reach, mode="edge")
        line = np.array(
            [
                sum(
                    padded[i + reach + d] * min(1.0, max(0.0, radius + 1 - abs(d)))
                    for d in range(-reach, reach + 1)
                )
                / (2 * radius + 1)
                for i in range(len(line))
            ]
        )
    return line


def box_variance(radius: float) -> float:
    whole = math.floor(radius)
    inner = 2 * sum(d * d for d in range(1, whole + 1))
    return (inner + 2 * (radius - whole) * (whole + 1) ** 2) / (2 * radius + 1)


@pytest.mark.parametrize("sigma", [0.1, 0.7, 1.4, 1.5, 2.0])
def test_blur_is_three_boxes_with_repeated_edges(sigma: float) -> None:
    image = np.random.default_rng(0).random((9, 11))
    expected = np.stack([box_blurs(row, sigma) for row in image])
    expected = np.stack([box_blurs(column, sigma) for column in expected.T]).T
    images = torch.from_numpy(image).float().expand(1, 3, -1, -1)
    found = blurred(images, GaussianBlurParams(torch.tensor([sigma]), 2.0))
    np.testing.assert_allclose(found[0].numpy(), np.stack([expected] * 3), atol=2e-5)


@pytest.mark.parametrize("kind", ["noise", "edges", "smooth"])
def test_blur_is_pils_but_for_its_rounding(kind: str) -> None:
    num = 100
    if kind == "smooth":
        small = torch.rand(num, 3, 6, 6, generator=rng())
        images = levels(torch.nn.functional.interpolate(small, size=(24, 30), mode="bilinear"))
    else:
        images = torch.randint(0, 256, (num, 3, 24, 30), generator=rng(), dtype=torch.uint8)
        images = images // 128 * 255 if kind == "edges" else images
    params = draw_gaussian_blur(num, sigma=(0.1, 2.0), prob=1.0, generator=rng(1))
    pil = [
        tv.pil_to_tensor(tv.to_pil_image(image).filter(ImageFilter.GaussianBlur(sigma.item())))
        for image, sigma in zip(images, params.sigma, strict=True)
    ]
    difference = blurred(images, params).int() - torch.stack(pil).int()
    # PIL rounds six times, we round once.
    assert difference.abs().max() <= 3
    assert (difference.abs() <= 2).float().mean() > 0.995
    assert abs(difference.float().mean()) < 0.02


def test_blur_keeps_constants_and_sizes_below_its_reach() -> None:
    for height, width in ((1, 1), (2, 5), (7, 3)):
        images = torch.rand(4, 3, 1, 1, generator=rng()).expand(-1, -1, height, width)
        found = gaussian_blur(images, sigma=(2.0, 5.0), prob=1.0, generator=rng())
        torch.testing.assert_close(found, images.contiguous(), rtol=0, atol=1e-6)


TV_OPERATIONS = (tv.adjust_brightness, tv.adjust_contrast, tv.adjust_saturation, tv.adjust_hue)


def tv_jitter(images: Tensor, params: ColorJitterParams) -> Tensor:
    jittered = []
    for image, order, factors in zip(images, params.order.tolist(), params.factors, strict=True):
        for operation in order:
            image = TV_OPERATIONS[operation](image, factors[operation].item())
        jittered.append(image)
    return torch.stack(jittered)


@pytest.mark.parametrize(
    ("operation", "values"),
    [
        (BRIGHTNESS, (0.0, 0.2, 1.8, 5.0)),
        (CONTRAST, (0.0, 0.2, 1.8, 5.0)),
        (SATURATION, (0.0, 0.2, 1.8, 5.0)),
        (HUE, (-0.5, -0.2, 0.03, 1 / 6, 0.5)),
    ],
)
def test_each_operation_is_torchvisions(operation: int, values: tuple[float, ...]) -> None:
    images = random_images(24)
    for value in values:
        factors = [1.0, 1.0, 1.0, 0.0]
        factors[operation] = value
        params = jitter_params([0, 1, 2, 3], factors, len(images))
        expected = torch.stack([TV_OPERATIONS[operation](image, value) for image in images])
        torch.testing.assert_close(jittered(images, params), expected, rtol=0, atol=2e-5, msg=str)


def test_jitter_in_any_order_is_torchvisions() -> None:
    images = random_images(120)
    params = draw_color_jitter(120, **{**RECIPE, "hue": 0.5}, prob=1.0, generator=rng())
    assert len(params.order.unique(dim=0)) == 24
    torch.testing.assert_close(
        jittered(images, params), tv_jitter(images, params), rtol=0, atol=2e-5
    )


def test_grayscale_weights() -> None:
    images = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    gray = grayed(images[:, :, None, None], torch.tensor([True, True, True, False]))
    expected = [[0.2989] * 3, [0.587] * 3, [0.114] * 3, [1.0, 0.0, 0.0]]
    torch.testing.assert_close(gray[:, :, 0, 0], torch.tensor(expected))
