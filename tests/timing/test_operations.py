import pytest

from mmssprl.config.shipped import shipped
from mmssprl.timing.operations import flops_per_image

CROP = 24.29e9
"""Forward and backward passes of a ResNet-50 on 224 x 224 px."""


@pytest.mark.parametrize(
    ("config", "crops"),
    [
        ("ssprl/ssprl", 7.41),
        ("ssprl/ssprl-image-only", 2.0),
        ("baselines/byol", 2.67),
        ("baselines/mocov2", 1.34),
    ],
)
def test_a_resnet50_is_counted_in_crops_of_224_px(config, crops):
    path = shipped(f"configs/{config}_resnet50_2xb64-coslr-200e_coco.py")
    # Heads come on top.
    assert flops_per_image(path) == pytest.approx(crops * CROP, rel=0.02)
