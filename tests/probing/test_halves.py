"""The probe without labels, on images of every width."""

import numpy as np
import torch
from helpers.datasets.image_folders import build
from PIL import Image

from mmssprl.features.backbone import FeatureBackbone
from mmssprl.features.extract import FeatureOptions
from mmssprl.probing.halves import score_halves

CPU = FeatureOptions(batch_size=3, num_workers=0, device="cpu", progress=False)


def test_an_image_without_two_halves_is_skipped(tmp_path):
    rng = np.random.default_rng(0)
    for number, width in enumerate((48, 1, 2, 40)):
        colour = rng.integers(0, 255, 3)
        pixels = np.broadcast_to(colour, (40, width, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    model = FeatureBackbone(torch.nn.AvgPool2d(8), image_px=32)
    scored = score_halves(model, build(tmp_path), CPU)
    assert scored.values.tolist() == [1, 1, 1]  # of 0, 2 and 3
