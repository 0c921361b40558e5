import pytest
import torch
from helpers.datasets.image_folders import coordinates
from mmengine.dataset import worker_init_fn
from torch.utils.data import DataLoader

from mmssprl.datasets.transforms.pyramid_crop import PyramidCrop
from mmssprl.pyramid import ViewLayout


class Images:
    """One and the same image, without crop seeds."""

    def __init__(self):
        self.transform = PyramidCrop(ViewLayout(8, levels=()))

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.transform({"img": coordinates(100, 100)})["inputs"][0]


@pytest.mark.parametrize(
    "init", [None, lambda i: worker_init_fn(i, 2, 0, 5)], ids=["torch", "mmengine"]
)
def test_unseeded_workers_differ_from_each_other_and_go_on(init):
    dataset = Images()
    dataset[0]  # a generator already used here must not be what both workers inherit
    crops = DataLoader(dataset, 1, num_workers=2, worker_init_fn=init)
    assert len({tuple(crop.flatten().tolist()) for crop in crops}) == 8


def test_unseeded_crops_follow_torchs_seed():
    torch.manual_seed(11)
    first = [Images()[0] for _ in range(2)]
    torch.manual_seed(12)
    other = Images()[0]
    assert torch.equal(first[0], first[1])
    assert not torch.equal(first[0], other)
