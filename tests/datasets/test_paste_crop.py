import pytest
import torch
from helpers.datasets.image_folders import coordinates
from torch.nn.functional import interpolate

from mmssprl.datasets.transforms import PasteCrop

LAYOUT = {"image_px": 64, "image_area": (0.2, 1.0), "levels": []}


def cut(image, seed, layout=LAYOUT):
    results = PasteCrop(layout)({"img": image, "crop_seed": (seed,)})
    (canvases,), samples = results["inputs"], results["data_samples"]
    assert results.keys() == {"inputs", "data_samples"}
    assert samples.keys() == {"boxes"}
    return canvases, samples["boxes"]


@pytest.mark.parametrize("seed", range(5))
def test_canvases_are_black_but_for_the_crop_of_the_image(seed):
    image = coordinates(200, 250) // 2 + 100
    canvases, boxes = cut(image, seed)
    assert (canvases.shape, canvases.dtype) == ((3, 3, 64, 64), torch.uint8)
    assert canvases.permute(0, 2, 3, 1).is_contiguous()
    for canvas, (x1, y1, x2, y2) in zip(canvases[:2], boxes.int().tolist(), strict=True):
        inside = torch.zeros(64, 64, dtype=torch.bool)
        inside[y1:y2, x1:x2] = True
        assert (canvas[:, ~inside] == 0).all()
        crop = canvas[:2, y1:y2, x1:x2].double()
        assert crop.min() >= 100
        # One crop of the image: coordinates rise evenly, by the crop's size over the box's.
        width = crop[0, 5, 5:-5].diff().mean() * (x2 - x1)
        height = crop[1, 5:-5, 5].diff().mean() * (y2 - y1)
        assert 0.17 < 4 * width * height / (200 * 250) < 1.03
        assert 0.95 * (x2 - x1) / (y2 - y1) < width / height < 1.05 * (x2 - x1) / (y2 - y1)
    whole = interpolate(image[None], (64, 64), mode="bilinear", antialias=True)
    assert torch.equal(canvases[2], whole[0])
    assert not torch.equal(boxes[0], boxes[1])


def test_the_seed_decides_and_room_is_told():
    image = coordinates(50, 70)
    again = cut(image, 3), cut(image, 3)
    assert all(map(torch.equal, *again))
    assert not torch.equal(cut(image, 4)[1], again[0][1])
    assert PasteCrop(LAYOUT).num_bytes == again[0][0].nbytes
