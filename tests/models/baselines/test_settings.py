import pytest
from helpers.models.small_contrast import DETCO_LAYOUT, LAYOUT, make_model, model_cfg


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("MoCo", {"momentum": 1.0}, "momentum.*1.0"),
        ("MoCo", {"temperature": 0}, "temperature.*0"),
        ("MoCo", {"bn_groups": 0}, "bn_groups.*0"),
        ("MoCo", {"layout": {**LAYOUT, "num_small": 6}}, "num_small=6"),
        ("DenseCL", {"loss_lambda": 1.5}, "loss_lambda.*1.5"),
        ("DenseCL", {"dense_start_epoch": -1}, "dense_start_epoch.*-1"),
        ("DenseCL", {"neck": {**model_cfg()["neck"], "num_grid": 2}}, "num_grid"),
        ("DetCo", {"level_weights": (1,) * 4}, "3 numbers"),
        ("DetCo", {"patch_px": 13}, "patch_px.*12.*13"),
        ("DetCo", {"layout": {**DETCO_LAYOUT, "num_small": 3}}, "num_small=3"),
        ("MaskCo", {"mask_channels": 0, "mph_on_key": True}, "mph_on_key must be False without M"),
    ],
)
def test_bad_settings_are_refused(kind, fields, message):
    with pytest.raises(ValueError, match=message):
        make_model(kind, **fields)
