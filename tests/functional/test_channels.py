import torch

from mmssprl.functional.channels import augment_channels
from mmssprl.functional.photometric import apply_photometric
from mmssprl.functional.photometric_params import (
    ColorJitterParams,
    GaussianBlurParams,
    PhotometricParams,
)

MEAN, STD = [30.0, 2.0, 7.0, 0.5, -3.0, 9.0], [4.0, 1.0, 2.0, 0.1, 9.0, 3.0]


def test_changes_depend_on_neither_unit_nor_other_channels():
    z = torch.randn(4, 6, 12, 10, generator=torch.Generator().manual_seed(0))
    factors = torch.tensor([[1.0, 1, 1, 0], [1.25, 1, 9, 0.3], [1, 0.5, 9, 0.3], [1, 1, 1, 0]])
    params = PhotometricParams(
        flip=torch.tensor([True, False, False, False]),
        jitter=ColorJitterParams(torch.arange(4).expand(4, 4), factors),
        blur=GaussianBlurParams(torch.tensor([0.0, 0.0, 0.0, 1.5]), 2.0),
    )
    half = (z[2] + z[2].mean(dim=(1, 2), keepdim=True)) / 2
    alone = PhotometricParams(blur=GaussianBlurParams(torch.tensor([1.5, 1.5]), 2.0))
    photos = apply_photometric(z[3].unflatten(0, (2, 3)), alone, mean=[0.0] * 3, std=[1.0] * 3)
    expected = torch.stack([z[0].flip(-1), z[1] + 0.5, half, photos.flatten(0, 1)])
    for zero in (0, 273):
        mean = torch.tensor(MEAN) + zero
        images = z * torch.tensor(STD)[:, None, None] + mean[:, None, None]
        found = augment_channels(images, params, mean=mean.tolist(), std=STD)
        torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)
