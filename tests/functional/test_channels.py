import torch

from mmssprl.functional.channels import augment_channels
from mmssprl.functional.photometric import (
    ColorJitterParams,
    GaussianBlurParams,
    PhotometricParams,
    apply_photometric,
)

MEAN, STD = [30.0, 2.0, 7.0, 0.5, -3.0], [4.0, 1.0, 2.0, 0.1, 9.0]


def test_changes_depend_on_neither_unit_nor_other_channels():
    z = torch.randn(3, 5, 12, 10, generator=torch.Generator().manual_seed(0))
    factors = torch.tensor([[1.0, 1, 1, 0], [1.25, 1, 9, 0.3], [1, 0.5, 9, 0.3]])
    params = PhotometricParams(
        flip=torch.tensor([True, False, False]),
        jitter=ColorJitterParams(torch.arange(4).expand(3, 4), factors),
    )
    half = (z[2] + z[2].mean(dim=(1, 2), keepdim=True)) / 2
    expected = torch.stack([z[0].flip(-1), z[1] + 0.5, half])
    for zero in (0, 273):
        mean = torch.tensor(MEAN) + zero
        images = z * torch.tensor(STD)[:, None, None] + mean[:, None, None]
        found = augment_channels(images, params, mean=mean.tolist(), std=STD)
        torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)


def test_the_blur_is_that_of_photographs_on_every_channel():
    photos = torch.rand(2, 3, 3, 24, 20, generator=torch.Generator().manual_seed(0))
    sigma = torch.tensor([0.0, 1.5, 0.0, 0.4, 2.0, 1.0])
    params = PhotometricParams(blur=GaussianBlurParams(sigma, 2.0))
    mean, std = [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]
    expected = apply_photometric(photos, params, mean=mean, std=std)
    six = augment_channels(torch.cat([photos] * 2, dim=2), params, mean=mean * 2, std=std * 2)
    torch.testing.assert_close(six, torch.cat([expected] * 2, dim=2))
