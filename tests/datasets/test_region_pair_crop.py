import numpy as np
import pytest
import torch
from helpers.datasets.image_folders import coordinates
from helpers.functional.photometric_cases import ONLY_FLIPPED
from torch.nn.functional import interpolate
from torchvision.ops import box_iou

from mmssprl.datasets import stack_views
from mmssprl.datasets.transforms import PasteCrop, RegionPairCrop
from mmssprl.functional.boxes import boxes_in_crop, pool_boxes
from mmssprl.models import PyramidPreprocessor

PX = 48
LAYOUT = {"image_px": PX, "image_area": (0.2, 1.0), "levels": []}


def cut(seed, **fields):
    transform = RegionPairCrop(LAYOUT, box_px=(12, 24), **fields)
    return transform({"img": coordinates(180, 250), "crop_seed": (seed,)})


def in_views(samples):
    """Boxes (2, B, R, 4) in pixels of the views."""
    (places,) = samples["places"]
    return boxes_in_crop(samples["boxes"][None], places[:, :, None], PX)


def batch_of(num):
    return stack_views([cut(seed) for seed in range(num)])


def test_both_boxes_show_the_same_content():
    torch.manual_seed(0)
    out = PyramidPreprocessor(LAYOUT, **ONLY_FLIPPED)(batch_of(40), training=True)
    (views,) = out["inputs"]
    samples = out["data_samples"]
    boxes = in_views(samples)[:, :, :1]
    shown = [pool_boxes(views[v], boxes[v], PX, cells=4) for v in range(2)]
    (places,) = samples["places"]
    mirrored = places[..., 0] > places[..., 2]
    assert mirrored.any()
    for v in range(2):  # mirrored back, both are one crop of the image
        shown[v] = torch.where(mirrored[v][:, None, None, None], shown[v].flip(-1), shown[v])

    inner = [each[:, :2, 1:-1, 1:-1] for each in shown]
    assert (inner[0] - inner[1]).abs().max() < 1
    # And it is where the box says.
    centre = (samples["boxes"][:, 0, :2] + samples["boxes"][:, 0, 2:]) / 2 - 0.5
    assert (inner[0].mean((2, 3)) - centre).abs().max() < 1


@pytest.fixture(scope="module")
def boxes():
    """Boxes (2, 200, 4, 4) in pixels of the views of many images."""
    out = PyramidPreprocessor(LAYOUT, **ONLY_FLIPPED)(batch_of(200), training=False)
    return in_views(out["data_samples"])


def test_boxes_are_inside_the_views(boxes):
    first = boxes[0, :, 0]
    torch.testing.assert_close(first, first.round(), atol=1e-4, rtol=0)  # of whole pixels
    for inside in (first, boxes[1]):
        assert inside.min() > -1e-3
        assert inside.max() < PX + 1e-3


def test_sides_are_drawn_from_the_whole_range(boxes):
    first = boxes[0, :, 0]
    for region in (first, boxes[1, :, 1:].flatten(0, 1)):
        sides = (region[:, 2:] - region[:, :2]).round()
        assert (sides.min(), sides.max()) == (12, 24)
        assert {0.0, float(PX)} <= {x.item() for x in region.round().unique()}


def test_others_avoid_the_first_box(boxes):
    ious = torch.cat([box_iou(image[:1], image[1:]) for image in boxes[1]])
    assert ious.shape == (200, 3)
    assert (ious < 0.3).float().mean() > 0.98
    assert (ious > 0.05).any()


def test_others_are_drawn_independently(boxes):
    assert not torch.isclose(boxes[1, :, 1], boxes[1, :, 2]).all(1).any()


def test_there_may_be_no_others():
    assert cut(0, num_others=0)["data_samples"]["boxes"].shape == (1, 4)


def overlap(seed):
    """The share of the larger view that both show."""
    first, second = cut(seed)["data_samples"]["places"][0].double()
    low = torch.maximum(first, second)[:2]
    high = torch.minimum(first, second)[2:]
    sizes = [float((p[2:] - p[:2]).prod()) for p in (first, second)]
    return float((high - low).clamp(min=0).prod()) / max(sizes)


def test_views_share_enough_or_are_the_same():
    shares = [overlap(seed) for seed in range(150)]
    assert min(shares) >= 0.4
    assert min(shares) < 0.45
    assert np.mean(np.array(shares) == 1) < 0.02


@pytest.mark.parametrize("box_px", [(0, 9), (20, 24), (12, 11), (12,)])
def test_sides_that_do_not_fit_are_refused(box_px):
    with pytest.raises(ValueError, match=r"box_px must be .* low at most 0.4 of image_px=48"):
        RegionPairCrop(LAYOUT, box_px=box_px)


@pytest.mark.parametrize("seed", range(5))
def test_canvases_are_black_except_for_the_crop(seed):
    image = coordinates(200, 250) // 2 + 100
    results = PasteCrop(LAYOUT)({"img": image, "crop_seed": (seed,)})
    assert results.keys() == {"inputs", "data_samples"}
    assert results["data_samples"].keys() == {"boxes"}
    (canvases,) = results["inputs"]
    boxes = results["data_samples"]["boxes"]
    assert (canvases.shape, canvases.dtype) == ((3, 3, PX, PX), torch.uint8)
    assert canvases.permute(0, 2, 3, 1).is_contiguous()

    for canvas, (x1, y1, x2, y2) in zip(canvases[:2], boxes.int().tolist(), strict=True):
        inside = torch.zeros(PX, PX, dtype=torch.bool)
        inside[y1:y2, x1:x2] = True
        assert (canvas[:, ~inside] == 0).all()
        crop = canvas[:2, y1:y2, x1:x2].double()
        assert crop.min() >= 100

        # One crop of the image: coordinates rise evenly, by the crop's size over the box's.
        width = crop[0, 5, 5:-5].diff().mean() * (x2 - x1)
        height = crop[1, 5:-5, 5].diff().mean() * (y2 - y1)
        assert 0.17 < 4 * width * height / (200 * 250) < 1.03
        assert 0.95 * (x2 - x1) / (y2 - y1) < width / height < 1.05 * (x2 - x1) / (y2 - y1)

    whole = interpolate(image[None], (PX, PX), mode="bilinear", antialias=True)
    assert torch.equal(canvases[2], whole[0])
    assert not torch.equal(boxes[0], boxes[1])


@pytest.mark.parametrize("make", [RegionPairCrop(LAYOUT, (12, 24)), PasteCrop(LAYOUT)])
def test_the_seed_decides_everything(make):
    first, again, other = (
        make({"img": coordinates(50, 70), "crop_seed": (seed,)}) for seed in (3, 3, 4)
    )
    assert torch.equal(first["inputs"][0], again["inputs"][0])
    boxes = [each["data_samples"]["boxes"] for each in (first, again, other)]
    assert torch.equal(boxes[0], boxes[1])
    assert not torch.equal(boxes[0], boxes[2])
