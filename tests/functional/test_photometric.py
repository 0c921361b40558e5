import math

import numpy as np
import pytest
import torch
from helpers.functional.photometric_cases import (
    RECIPE,
    apply_params,
    draw,
    grayed,
    jittered,
    levels,
    random_images,
    rng,
)
from scipy import stats

from mmssprl.functional import photometric
from mmssprl.functional.photometric_params import (
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
    num, prob = 4000, 0.3
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


def test_other_numbers_of_parameters_are_refused():
    with pytest.raises(ValueError, match="5 here, but got .*2"):
        grayed(torch.rand(5, 3, 4, 4), torch.ones(2, dtype=torch.bool))
    empty = torch.rand(0, 3, 4, 4)
    none = draw_color_jitter(0, **RECIPE, prob=1.0, generator=rng())
    assert jittered(empty, none).shape == empty.shape


@pytest.mark.parametrize("free", [True, False], ids=["kernels", "masks"])
def test_solarizing_inverts_the_bright_half_of_the_chosen_samples(free, monkeypatch):
    monkeypatch.setattr(photometric, "params_are_free", lambda images: free)
    image = torch.tensor([0, 127, 128, 255], dtype=torch.uint8).expand(2, 3, 1, 4)
    chosen = torch.tensor([False, True])
    solarized = levels(apply_params(image, PhotometricParams(solarize=chosen)))
    assert solarized[:, 0, 0].tolist() == [[0, 127, 128, 255], [0, 127, 127, 0]]
    image = torch.tensor([0.25, 0.5, 0.75]).expand(2, 3, 1, 3)
    exact = apply_params(image, PhotometricParams(solarize=chosen))
    assert exact[1, 2, 0].tolist() == [0.25, 0.5, 0.25]


def test_parts_of_a_batch_have_their_own_probability():
    several, one = rng(), rng()
    mask = draw_mask(3000, prob=(0.0, 1.0, 0.3), generator=several)
    assert not mask[:1000].any()
    assert mask[1000:2000].all()
    # The random numbers are the same as for one probability.
    assert torch.equal(mask[2000:], draw_mask(3000, prob=0.3, generator=one)[2000:])
    assert torch.equal(several.get_state(), one.get_state())
