import torch
from helpers.datasets.image_folders import coordinates
from helpers.functional.photometric_cases import ONLY_FLIPPED
from torch.utils.data import DataLoader

from mmssprl.datasets import stack_views
from mmssprl.datasets.transforms import PyramidCrop
from mmssprl.models import PyramidPreprocessor
from mmssprl.pyramid import PyramidLevel, ViewLayout

LEVELS = (PyramidLevel(2, 40, 16), PyramidLevel(3, 40, 12, num_sampled=4))
LAYOUT = ViewLayout(20, num_small=2, small_px=12, small_area=(0.2, 0.4), levels=LEVELS)
WIDTH, HEIGHT = 250, 180


def samples(with_places=True):
    transform, image = PyramidCrop(LAYOUT, with_places=with_places), coordinates(HEIGHT, WIDTH)
    return [transform({"img": image, "crop_seed": (0, i)}) for i in range(3)]


def largest_error(crops, places):
    """Error of places in pixels, by the coordinates in the middle of crops (..., 3, px, px)."""
    px = crops.shape[-1]
    centres = (torch.arange(px) + 0.5) / px
    errors = []
    for channel, first in ((0, 0), (1, 1)):  # x is in red, y in green
        start, end = places[..., first, None], places[..., first + 2, None]
        expected = start + centres * (end - start) - 0.5  # pixel i is centred at i + 0.5
        shown = crops[..., channel, :, :].float().mean(-2 if channel == 0 else -1)
        # Resizing bends the ramp at the borders of a crop.
        errors.append((shown - expected)[..., px // 4 : -(px // 4)].abs().max())
    return float(max(errors))


def test_crops_show_their_places_with_or_without_them():
    for sample, plain in zip(samples(), samples(with_places=False), strict=True):
        assert plain.keys() == {"inputs"}
        assert all(map(torch.equal, sample["inputs"], plain["inputs"]))
        places = sample["data_samples"]["places"]
        assert [tuple(boxes.shape) for boxes in places] == [(2, 4), (2, 4), (8, 4), (8, 4)]
        for crops, boxes in zip(sample["inputs"], places, strict=True):
            assert largest_error(crops, boxes) < 1
            assert (boxes[:, :2] >= 0).all()
            assert (boxes[:, 2:] <= torch.tensor([WIDTH, HEIGHT])).all()


def test_places_follow_their_crops_into_batches_and_flips():
    torch.manual_seed(0)
    preprocessor = PyramidPreprocessor(LAYOUT, **ONLY_FLIPPED)
    batch = stack_views(samples())
    out = preprocessor(batch, training=True)
    torch.manual_seed(0)
    again = PyramidPreprocessor(LAYOUT, **ONLY_FLIPPED)
    without = again({"inputs": batch["inputs"]}, training=True)
    assert without["data_samples"] is None
    assert all(map(torch.equal, out["inputs"], without["inputs"]))
    places, before = out["data_samples"]["places"], batch["data_samples"]["places"]
    untouched = preprocessor(batch, training=False)["data_samples"]["places"]
    mirrored = []
    for crops, boxes, given, same in zip(out["inputs"], places, before, untouched, strict=True):
        assert torch.equal(same, given.transpose(0, 1))
        assert boxes.shape == (*crops.shape[:2], 4)
        assert largest_error(crops, boxes) < 1
        is_mirrored = boxes[..., :1] > boxes[..., 2:3]
        mirrored.append(is_mirrored.flatten())
        unmirrored = torch.where(is_mirrored, boxes[..., [2, 1, 0, 3]], boxes)
        assert torch.equal(unmirrored, given.transpose(0, 1))
    assert 0.3 < torch.cat(mirrored).float().mean() < 0.7


SMALL = ViewLayout(image_px=8, levels=[{"grid": 2, "resize_px": 8, "patch_px": 4}])
CHANNEL_LAST = [(2, (384, 192, 1, 24, 3)), (8, (384, 48, 1, 12, 3))]
"""Crops per sample and strides of a batch, by hand: 8 and 4 px, 3 channels side by side."""


def test_values_of_default_collate_but_channel_last_in_a_worker():
    images = torch.randint(256, (3, 3, 20, 30), dtype=torch.uint8)
    crop = PyramidCrop(SMALL)
    samples = [crop({"img": images[i], "crop_seed": (0, 0, i)}) for i in range(3)]
    (batch,) = DataLoader(samples, batch_size=3, num_workers=1, collate_fn=stack_views)
    assert [(t.shape[1], t.stride()) for t in batch["inputs"]] == CHANNEL_LAST
    (plain,) = DataLoader(samples, batch_size=3, num_workers=1)
    assert all(map(torch.equal, batch["inputs"], plain["inputs"]))
    assert plain["inputs"][0].stride() != CHANNEL_LAST[0][1]  # the reason it exists
