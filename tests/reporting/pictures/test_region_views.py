import numpy as np
import pytest
from helpers.reporting.tiny_views import ramp

from mmssprl.pretraining.methods import BY_KEY
from mmssprl.reporting.pictures.views import cut_views, draw_views

PLAIN = {"flip_prob": 0.0, "jitter_prob": 0.0, "grayscale_prob": 0.0, "blur_prob": 0.0}


def config_of(method, **augmentation):
    cfg = BY_KEY[method].config_at("scenes")
    cfg.model.data_preprocessor.update({**PLAIN, **augmentation})
    return cfg


@pytest.mark.parametrize("flip", [0.0, 1.0])
def test_a_pasted_crop_is_marked_where_it_is(flip):
    (drawn,) = cut_views(config_of("insloc", flip_prob=flip), ramp())
    found = [(region.view, region.name) for region in drawn.regions]
    assert found == [(0, "crop"), (1, "crop"), (0, "anchor")]
    for view in range(2):
        x1, y1, x2, y2 = drawn.regions[view].boxes[0, 0].int().tolist()
        canvas = drawn.cut[view, 0][:, :: -1 if flip else 1]
        is_inside = np.zeros((64, 64), bool)
        is_inside[y1:y2, x1:x2] = True
        np.testing.assert_array_equal(canvas[..., 2] > 0, is_inside)
        pasted = canvas[y1:y2, x1:x2].astype(float)
        np.testing.assert_allclose(drawn.augmented[view, 0][y1:y2, x1:x2], pasted, atol=1)
    names = [axes.texts[0].get_text() for axes in draw_views(config_of("insloc"), ramp()).axes]
    assert names[3:] == ["crop, in black anchor", "crop"]


@pytest.fixture(scope="module")
def masked():
    """The views of MaskCo: a region is hidden in the first, and read in the second."""
    (drawn,) = cut_views(config_of("maskco"), ramp())
    assert [region.view for region in drawn.regions] == [0, 1, 1]
    return drawn


def place_of(region):
    left, top, right, bottom = region.boxes[0, 0].round().int().tolist()
    return np.s_[top:bottom, left:right]


def test_a_mask_hides_its_region(masked):
    seen = masked.augmented[0, 0].astype(int)
    cut = masked.cut[0, 0]
    is_hidden = np.zeros(cut.shape[:2], bool)
    is_hidden[place_of(masked.regions[0])] = True
    assert len(np.unique(seen[is_hidden], axis=0)) == 1
    np.testing.assert_allclose(seen[~is_hidden], cut[~is_hidden], atol=1)


def test_the_other_view_has_the_masked_region(masked):
    first, same, others = masked.regions
    hidden = masked.cut[0, 0][place_of(first)]
    shown = masked.augmented[1, 0][place_of(same)]
    np.testing.assert_allclose(shown.mean(axis=(0, 1)), hidden.mean(axis=(0, 1)), atol=4)
    assert others.boxes.shape == (1, 3, 4)
