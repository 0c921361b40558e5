import pytest
import torch
from image_folders import coordinates
from mmengine.dataset import worker_init_fn
from torch.utils.data import DataLoader

from mmssprl.datasets.transforms.pyramid_crop import PyramidCrop
from mmssprl.pyramid import ViewLayout


class Images:
    """One and the same image, with crop seeds or without."""

    def __init__(self, seeded):
        self.seeded = seeded
        self.transform = PyramidCrop(ViewLayout(8, levels=()))

    def __len__(self):
        return 8

    def __getitem__(self, index):
        results = {"img": coordinates(100, 100)}
        if self.seeded:
            results["crop_seed"] = (0, 0, index)
        return self.transform(results)["inputs"][0]


def load(dataset, num_workers, **options):
    return list(DataLoader(dataset, 1, num_workers=num_workers, **options))


def test_seeded_crops_do_not_depend_on_the_number_of_workers():
    alone, shared = load(Images(True), 0), load(Images(True), 2)
    assert len(alone) == 8
    assert all(torch.equal(a, b) for a, b in zip(alone, shared, strict=True))


@pytest.mark.parametrize(
    "init", [None, lambda i: worker_init_fn(i, 2, 0, 5)], ids=["torch", "mmengine"]
)
def test_unseeded_workers_differ_from_each_other_and_go_on(init):
    dataset = Images(False)
    dataset[0]  # a generator already used here must not be what both workers inherit
    crops = load(dataset, 2, worker_init_fn=init)
    assert len({tuple(crop.flatten().tolist()) for crop in crops}) == 8


def test_unseeded_crops_follow_torchs_seed():
    torch.manual_seed(11)
    first = [Images(False)[0] for _ in range(2)]
    torch.manual_seed(12)
    other = Images(False)[0]
    assert torch.equal(first[0], first[1])
    assert not torch.equal(first[0], other)
