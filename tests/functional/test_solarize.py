"""Solarizing, and probabilities that differ between parts of a batch."""

import pytest
import torch
from helpers.functional.photometric_cases import RECIPE, rng

from mmssprl.functional import photometric
from mmssprl.functional.photometric import (
    PhotometricParams,
    apply_params,
    draw_mask,
    draw_photometric,
)

DRAWS = {
    "flip": {"prob": 0.5},
    "jitter": {**RECIPE, "prob": 0.8},
    "grayscale": {"prob": 0.2},
    "blur": {"sigma": (0.1, 2.0), "prob": 0.5},
}


@pytest.fixture(params=[True, False], ids=["kernels", "masks"])
def path(request, monkeypatch):
    monkeypatch.setattr(photometric, "params_are_free", lambda images: request.param)


@pytest.mark.usefixtures("path")
def test_inverts_the_bright_half_of_the_chosen_samples():
    image = torch.tensor([0, 127, 128, 255], dtype=torch.uint8).expand(2, 3, 1, 4)
    chosen = torch.tensor([False, True])
    solarized = apply_params(image, PhotometricParams(solarize=chosen))
    assert solarized[:, 0, 0].tolist() == [[0, 127, 128, 255], [0, 127, 127, 0]]
    exact = apply_params(
        torch.tensor([0.25, 0.5, 0.75]).expand(2, 3, 1, 3), PhotometricParams(solarize=chosen)
    )
    assert exact[1, 2, 0].tolist() == [0.25, 0.5, 0.25]


def test_does_not_change_what_is_drawn_before_it_and_draws_nothing_when_off():
    plain, off, on = rng(), rng(), rng()
    without = draw_photometric(30, **DRAWS, generator=plain)
    explicit = draw_photometric(30, **DRAWS, solarize=None, generator=off)
    solarizing = draw_photometric(30, **DRAWS, solarize={"prob": 0.5}, generator=on)
    assert without.solarize is None
    assert explicit.solarize is None
    assert solarizing.solarize.any()
    assert torch.equal(without.blur.sigma, solarizing.blur.sigma)
    assert torch.equal(without.jitter.factors, solarizing.jitter.factors)
    assert torch.equal(plain.get_state(), off.get_state())
    assert not torch.equal(plain.get_state(), on.get_state())


def test_parts_of_a_batch_have_their_own_probability():
    several, one = rng(), rng()
    mask = draw_mask(3000, prob=(0.0, 1.0, 0.3), generator=several)
    assert not mask[:1000].any()
    assert mask[1000:2000].all()
    # The draw is that of one probability, so only the part with another one changes.
    assert torch.equal(mask[2000:], draw_mask(3000, prob=0.3, generator=one)[2000:])
    assert torch.equal(several.get_state(), one.get_state())


@pytest.mark.parametrize(
    ("prob", "message"),
    [
        ((0.5, 1.5), r"\[0, 1\].*1.5"),
        ((0.5, 0.5, 0.5), "4 samples.*0.5, 0.5, 0.5"),
        ((), "one number"),
    ],
)
def test_parts_that_do_not_fit(prob, message):
    with pytest.raises(ValueError, match=message):
        draw_mask(4, prob=prob, generator=rng())
