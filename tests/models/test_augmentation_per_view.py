"""The two image views augmented with probabilities of their own, as in BYOL."""

import pytest
import torch

from mmssprl.models import PyramidPreprocessor

TWO_VIEWS = {"image_px": 8, "levels": ()}
OFF = {"flip_prob": 0.0, "jitter_prob": 0.0, "grayscale_prob": 0.0, "blur_prob": 0.0}


def views_of(**settings):
    torch.manual_seed(0)
    preprocessor = PyramidPreprocessor(TWO_VIEWS, mean=[0] * 3, std=[255] * 3, **settings)
    generator = torch.Generator().manual_seed(1)
    packed = torch.randint(0, 256, (4, 2, 3, 8, 8), generator=generator, dtype=torch.uint8)
    views = preprocessor({"inputs": [packed]}, training=True)["inputs"][0]
    return views, packed.transpose(0, 1) / 255


@pytest.mark.parametrize("name", ["flip", "jitter", "grayscale", "blur", "solarize"])
def test_each_view_has_its_own_probability(name):
    for probs in ((0.0, 1.0), [1.0, 0.0]):
        views, plain = views_of(**{**OFF, f"{name}_prob": probs})
        for view, before, prob in zip(views, plain, probs, strict=True):
            changed = (view - before).abs().flatten(1).amax(dim=1) > 1e-3
            assert changed.tolist() == [prob == 1] * 4


@pytest.mark.parametrize(
    ("layout", "groups"),
    [
        ({"image_px": 8, "levels": [{"grid": 2, "resize_px": 16, "patch_px": 6}]}, r"\[2, 8\]"),
        ({"image_px": 8, "levels": (), "num_small": 2, "small_px": 4}, r"\[2, 2\]"),
    ],
)
def test_other_views_are_refused(layout, groups):
    with pytest.raises(ValueError, match=rf"blur_prob.*\(1.0, 0.1\).*{groups}"):
        PyramidPreprocessor(layout, blur_prob=(1.0, 0.1))
