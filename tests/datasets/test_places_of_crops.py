import torch
from helpers.datasets.image_folders import coordinates
from helpers.functional.photometric_cases import ONLY_FLIPPED

from mmssprl.datasets import stack_views
from mmssprl.datasets.transforms import PyramidCrop
from mmssprl.models import PyramidPreprocessor
from mmssprl.pyramid import PyramidLevel, ViewLayout

LEVELS = (PyramidLevel(2, 40, 16), PyramidLevel(3, 40, 12, num_sampled=4))
PLACED = ViewLayout(20, num_small=2, small_px=12, small_area=(0.2, 0.4), levels=LEVELS)
WIDTH = 250
HEIGHT = 180


def samples(with_places=True):
    transform = PyramidCrop(PLACED, with_places=with_places)
    image = coordinates(HEIGHT, WIDTH)
    return [transform({"img": image, "crop_seed": (0, i)}) for i in range(3)]


def largest_error(crops, places):
    """Error of places in pixels, by the coordinates in the middle of crops (..., 3, px, px)."""
    px = crops.shape[-1]
    centres = (torch.arange(px) + 0.5) / px
    errors = []
    for channel, first in ((0, 0), (1, 1)):  # x is in red, y in green
        start = places[..., first, None]
        end = places[..., first + 2, None]
        expected = start + centres * (end - start) - 0.5  # pixel i is centred at i + 0.5
        shown = crops[..., channel, :, :].float().mean(-2 if channel == 0 else -1)
        # Resizing bends the ramp at the borders of a crop.
        errors.append((shown - expected)[..., px // 4 : -(px // 4)].abs().max())
    return float(max(errors))


def preprocess(batch, training):
    torch.manual_seed(0)
    return PyramidPreprocessor(PLACED, **ONLY_FLIPPED)(batch, training=training)


def test_crops_do_not_depend_on_whether_places_are_returned():
    for sample, plain in zip(samples(), samples(with_places=False), strict=True):
        assert plain.keys() == {"inputs"}
        assert all(map(torch.equal, sample["inputs"], plain["inputs"]))


def test_flips_do_not_depend_on_whether_places_are_given():
    batch = stack_views(samples())
    without = preprocess({"inputs": batch["inputs"]}, training=True)
    assert without["data_samples"] is None
    inputs = preprocess(batch, training=True)["inputs"]
    assert all(map(torch.equal, inputs, without["inputs"]))


def test_places_are_parts_of_the_image_in_the_order_of_a_batch():
    batch = stack_views(samples())["data_samples"]["places"]
    untouched = preprocess(stack_views(samples()), training=False)["data_samples"]["places"]
    for given, same in zip(batch, untouched, strict=True):
        assert torch.equal(same, given.transpose(0, 1))
        assert given.min() >= 0
        assert (given[..., 2:] <= torch.tensor([WIDTH, HEIGHT])).all()


def test_places_are_shown_by_their_flipped_crops():
    batch = stack_views(samples())
    out = preprocess(batch, training=True)
    groups = zip(
        *(out["inputs"], out["data_samples"]["places"], batch["data_samples"]["places"]),
        strict=True,
    )
    mirrored = []
    for crops, boxes, given in groups:
        assert boxes.shape == (*crops.shape[:2], 4)
        assert largest_error(crops, boxes) < 1
        is_mirrored = boxes[..., :1] > boxes[..., 2:3]
        mirrored.append(is_mirrored.flatten())
        unmirrored = torch.where(is_mirrored, boxes[..., [2, 1, 0, 3]], boxes)
        assert torch.equal(unmirrored, given.transpose(0, 1))
    assert 0.3 < torch.cat(mirrored).float().mean() < 0.7
