"""One step of mmpretrain's SwAV and of ours, on the same crops."""

import pytest

from tools.speed.common.models import build_model, random_batch
from tools.speed.step import swav


def small_swav():
    cfg = swav.image_only_config()
    cfg.model.backbone.update(depth=18, stem_channels=8, base_channels=8)
    cfg.model.neck.in_channels = 64
    cfg.model.layout.update(image_px=48, small_px=32)
    ours = build_model(cfg)
    return cfg, ours, random_batch(ours.layout, 3)


def test_swav_gets_our_crops_and_computes_our_loss():
    cfg, ours, batch = small_swav()
    assert [tuple(c.shape) for c in swav.swav_batch(batch)["inputs"]] == [
        *[(3, 3, 48, 48)] * 2,
        *[(3, 3, 32, 32)] * 6,
    ]
    assert swav.check_same(ours, swav.build_swav(cfg, ours), batch) > 1


def test_swav_of_other_settings_or_crops_is_refused():
    cfg, ours, batch = small_swav()
    cfg.model.head.temperature = 0.2
    with pytest.raises(RuntimeError, match="must compute the same loss, but ours is"):
        swav.check_same(ours, swav.build_swav(cfg, ours), batch)
    other = swav.build_swav(cfg, ours)
    other.data_preprocessor.mean += 1
    with pytest.raises(RuntimeError, match="must compute the same loss"):
        swav.check_same(ours, other, batch)
