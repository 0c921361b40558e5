"""Jitter and grayscale against torchvision, PIL and hand-computed colours."""

import pytest
import torch
from helpers.functional.photometric_cases import (
    RECIPE,
    grayed,
    jitter_params,
    jittered,
    random_images,
    rng,
)
from torch import Tensor
from torchvision.transforms import functional as tv

from mmssprl.functional.photometric import (
    BRIGHTNESS,
    CONTRAST,
    HUE,
    SATURATION,
    ColorJitterParams,
    draw_color_jitter,
)

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
