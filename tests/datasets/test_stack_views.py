import torch
from torch.utils.data import DataLoader

from mmssprl.datasets import stack_views
from mmssprl.datasets.transforms import PyramidCrop
from mmssprl.pyramid import ViewLayout

LAYOUT = ViewLayout(image_px=8, levels=[{"grid": 2, "resize_px": 8, "patch_px": 4}])
CHANNEL_LAST = [(2, (384, 192, 1, 24, 3)), (8, (384, 48, 1, 12, 3))]
"""Crops per sample and strides of a batch, by hand: 8 and 4 px, 3 channels side by side."""


def test_the_values_are_default_collate_s_with_the_channel_last_in_a_worker():
    images = torch.randint(256, (3, 3, 20, 30), dtype=torch.uint8)
    crop = PyramidCrop(LAYOUT)
    samples = [crop({"img": images[i], "crop_seed": (0, 0, i)}) for i in range(3)]
    (batch,) = DataLoader(samples, batch_size=3, num_workers=1, collate_fn=stack_views)
    assert [(t.shape[1], t.stride()) for t in batch["inputs"]] == CHANNEL_LAST
    (plain,) = DataLoader(samples, batch_size=3, num_workers=1)
    assert all(map(torch.equal, batch["inputs"], plain["inputs"]))
    assert plain["inputs"][0].stride() != CHANNEL_LAST[0][1]  # the reason it exists
