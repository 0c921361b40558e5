import torch
from torch.utils.data import DataLoader

from mmssprl.datasets import stack_views
from mmssprl.datasets.transforms import PyramidCrop
from mmssprl.pyramid import ViewLayout

LAYOUT = ViewLayout(image_px=8, levels=[{"grid": 2, "resize_px": 8, "patch_px": 4}])
CHANNEL_LAST = [(2, (384, 192, 1, 24, 3)), (8, (384, 48, 1, 12, 3))]
"""Crops per sample and strides of a batch, by hand: 8 and 4 px, 3 channels side by side."""


class Samples(torch.utils.data.Dataset):
    """Three samples with known crops."""

    def __init__(self):
        self.crop = PyramidCrop(LAYOUT)

    def __len__(self):
        return 3

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        image = torch.randint(256, (3, 20, 30), generator=generator, dtype=torch.uint8)
        return self.crop.transform({"img": image, "crop_seed": (0, 0, index)})


def test_the_values_are_default_collate_s_with_the_channel_last_in_a_worker():
    loader = DataLoader(Samples(), batch_size=3, num_workers=1, collate_fn=stack_views)
    (batch,) = loader
    assert [(t.shape[1], t.stride()) for t in batch["inputs"]] == CHANNEL_LAST
    (plain,) = DataLoader(Samples(), batch_size=3, num_workers=1)
    assert all(map(torch.equal, batch["inputs"], plain["inputs"]))
    assert plain["inputs"][0].stride() != CHANNEL_LAST[0][1]  # the reason it exists
