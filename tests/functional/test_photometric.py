import math

import numpy as np
import pytest
import torch
from helpers.functional.photometric_cases import (
    RECIPE,
    apply_params,
    draw,
    levels,
    random_images,
    rng,
)
from PIL import ImageFilter
from scipy import stats
from torchvision.transforms import functional as tv

from mmssprl.functional import _cpu_batch
from mmssprl.functional.channels import augment_channels
from mmssprl.functional.photometric import augment_on_device
from mmssprl.functional.photometric_params import (
    ColorJitterParams,
    GaussianBlurParams,
    PhotometricParams,
    draw_color_jitter,
    draw_gaussian_blur,
    draw_mask,
)

pytestmark = pytest.mark.fence


@pytest.mark.gpu
def test_gpu_agrees_with_cpu():
    images = random_images(60)
    on_gpu = apply_params(images.cuda(), draw(60)).cpu()
    torch.testing.assert_close(on_gpu, apply_params(images, draw(60)), rtol=0, atol=1e-5)


def test_apply_probability_is_per_sample():
    num = 4000
    prob = 0.3
    params = draw_color_jitter(num, **RECIPE, prob=prob, generator=rng())
    identity = torch.tensor([1.0, 1.0, 1.0, 0.0])
    jittered = (params.factors != identity).all(dim=1)
    assert torch.equal(jittered, (params.factors != identity).any(dim=1))
    blurred = draw_gaussian_blur(num, sigma=(0.1, 2.0), prob=prob, generator=rng(1)).sigma > 0
    decided = draw_mask(num, prob=prob, generator=rng(2))
    for chosen in (jittered, blurred, decided):
        assert stats.binomtest(int(chosen.sum()), num, prob).pvalue > 1e-3


def test_parameters_have_the_recipes_distributions():
    num = 4000
    params = draw_color_jitter(
        num, brightness=0.8, contrast=0.4, saturation=1.5, hue=0.2, prob=1.0, generator=rng()
    )
    blur = draw_gaussian_blur(num, sigma=(0.1, 2.0), prob=1.0, generator=rng(1))
    bounds = [(0.2, 1.8), (0.6, 1.4), (0.0, 2.5), (-0.2, 0.2), (0.1, 2.0)]
    for drawn, (low, high) in zip((*params.factors.unbind(1), blur.sigma), bounds, strict=True):
        assert stats.kstest(drawn.numpy(), stats.uniform(low, high - low).cdf).pvalue > 1e-3
    orders, counts = params.order.unique(dim=0, return_counts=True)
    assert orders.sort(dim=1).values.unique(dim=0).tolist() == [[0, 1, 2, 3]]
    assert len(orders) == math.factorial(4)
    assert stats.chisquare(counts.numpy()).pvalue > 1e-3
    assert np.abs(np.corrcoef(params.factors.T.numpy()) - np.eye(4)).max() < 0.06


@pytest.mark.parametrize(
    ("drawing", "settings", "message"),
    [
        (draw_color_jitter, {**RECIPE, "prob": 0.5, "brightness": -0.1}, "brightness.*-0.1"),
        (draw_color_jitter, {**RECIPE, "prob": 0.5, "saturation": math.inf}, "saturation.*inf"),
        (draw_color_jitter, {**RECIPE, "prob": 0.5, "hue": 0.6}, "hue.*0.6"),
        (draw_gaussian_blur, {"sigma": (-1.0, 1.0), "prob": 0.5}, "sigma.*low.*high"),
        (draw_gaussian_blur, {"sigma": (2.0, 1.0), "prob": 0.5}, "sigma.*low.*high"),
        (draw_gaussian_blur, {"sigma": (1.0,), "prob": 0.5}, "sigma.*low.*high"),
    ],
)
def test_bad_settings_are_refused(drawing, settings, message):
    with pytest.raises(ValueError, match=message):
        drawing(4, **settings, generator=rng())


def test_parameters_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="5 here, but got .*2"):
        apply_params(torch.rand(5, 3, 4, 4), grayscale=torch.ones(2, dtype=torch.bool))
    not_a_number = GaussianBlurParams(torch.tensor([1.0, math.nan]), 2.0)
    with pytest.raises(ValueError, match="sigma.*nan"):
        apply_params(torch.rand(2, 3, 4, 4), blur=not_a_number)
    empty = torch.rand(0, 3, 4, 4)
    none = draw_color_jitter(0, **RECIPE, prob=1.0, generator=rng())
    assert apply_params(empty, jitter=none).shape == empty.shape


@pytest.mark.parametrize("augment", [_cpu_batch.augment, augment_on_device])
def test_solarizing_inverts_the_bright_half_of_the_chosen_samples(augment, monkeypatch):
    monkeypatch.setattr(_cpu_batch, "augment", augment)
    image = torch.tensor([0, 127, 128, 255], dtype=torch.uint8).expand(2, 3, 1, 4)
    chosen = torch.tensor([False, True])
    solarized = levels(apply_params(image, solarize=chosen))
    assert solarized[:, 0, 0].tolist() == [[0, 127, 128, 255], [0, 127, 127, 0]]
    image = torch.tensor([0.25, 0.5, 0.75]).expand(2, 3, 1, 3)
    exact = apply_params(image, solarize=chosen)
    assert exact[1, 2, 0].tolist() == [0.25, 0.5, 0.25]


def test_parts_of_a_batch_have_their_own_probability():
    several = rng()
    one = rng()
    mask = draw_mask(3000, prob=(0.0, 1.0, 0.3), generator=several)
    assert not mask[:1000].any()
    assert mask[1000:2000].all()
    # The random numbers are the same as for one probability.
    assert torch.equal(mask[2000:], draw_mask(3000, prob=0.3, generator=one)[2000:])
    assert torch.equal(several.get_state(), one.get_state())


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
    difference = levels(apply_params(images, blur=params)).int() - torch.stack(pil).int()
    # PIL rounds six times, this package once.
    assert difference.abs().max() <= 3
    assert (difference.abs() <= 2).float().mean() > 0.995
    assert abs(difference.float().mean()) < 0.02


def test_blur_has_the_variance_of_its_sigma():
    sigma = torch.tensor([0.1, 0.7, 1.4, 1.5, 2.0])
    images = torch.zeros(5, 3, 9, 41)
    images[..., 20] = 1
    found = apply_params(images, blur=GaussianBlurParams(sigma, 2.0))[:, 0, 4]
    squares = (torch.arange(41) - 20.0) ** 2
    torch.testing.assert_close((found * squares).sum(dim=1), sigma**2, rtol=1e-5, atol=1e-6)


def test_jitter_in_any_order_is_torchvisions():
    operations = tv.adjust_brightness, tv.adjust_contrast, tv.adjust_saturation, tv.adjust_hue
    images = random_images(120)
    params = draw_color_jitter(120, **{**RECIPE, "hue": 0.5}, prob=1.0, generator=rng())
    assert len(params.order.unique(dim=0)) == 24
    expected = []
    for image, order, factors in zip(images, params.order.tolist(), params.factors, strict=True):
        for operation in order:
            image = operations[operation](image, factors[operation].item())
        expected.append(image)
    torch.testing.assert_close(
        apply_params(images, jitter=params), torch.stack(expected), rtol=0, atol=2e-5
    )


def test_changes_depend_on_neither_unit_nor_other_channels():
    means = [30.0, 2.0, 7.0, 0.5, -3.0, 9.0]
    stds = [4.0, 1.0, 2.0, 0.1, 9.0, 3.0]
    z = torch.randn(4, 6, 12, 10, generator=rng())
    factors = torch.tensor([[1.0, 1, 1, 0], [1.25, 1, 9, 0.3], [1, 0.5, 9, 0.3], [1, 1, 1, 0]])
    params = PhotometricParams(
        flip=torch.tensor([True, False, False, False]),
        jitter=ColorJitterParams(torch.arange(4).expand(4, 4), factors),
        blur=GaussianBlurParams(torch.tensor([0.0, 0.0, 0.0, 1.5]), 2.0),
    )
    half = (z[2] + z[2].mean(dim=(1, 2), keepdim=True)) / 2
    alone = GaussianBlurParams(torch.tensor([1.5, 1.5]), 2.0)
    photos = apply_params(z[3].unflatten(0, (2, 3)), blur=alone)
    expected = torch.stack([z[0].flip(-1), z[1] + 0.5, half, photos.flatten(0, 1)])
    for zero in (0, 273):
        mean = torch.tensor(means) + zero
        images = z * torch.tensor(stds)[:, None, None] + mean[:, None, None]
        found = augment_channels(images, params, mean=mean.tolist(), std=stds)
        torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)
