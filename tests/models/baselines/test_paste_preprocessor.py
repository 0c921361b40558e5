import itertools

import numpy as np
import pytest
import torch
from helpers.functional.photometric_cases import ONLY_FLIPPED
from torchvision.ops import box_iou

from mmssprl.models import PastePreprocessor
from mmssprl.models.baselines.paste_preprocessor import choose_anchors, make_anchors

PX = 16


def build(**kwargs):
    torch.manual_seed(0)
    return PastePreprocessor({"image_px": PX, "levels": []}, **{**ONLY_FLIPPED, **kwargs})


def batch_of(num):
    rng = np.random.default_rng(0)
    canvases = rng.integers(0, 256, (num, 3, 3, PX, PX)).astype(np.uint8)
    low = rng.integers(0, 8, (num, 2, 2))
    high = low + rng.integers(1, 9, (num, 2, 2))
    boxes = np.concatenate([low, high], -1).astype(np.float32)
    boxes[0] = (0, 0, PX, PX), (0, 3, PX, 4)  # the whole canvas; a single row
    data = {"inputs": [torch.from_numpy(canvases)]}
    return {**data, "data_samples": {"boxes": torch.from_numpy(boxes)}}, canvases, boxes


def shifts_of(views, canvases, boxes):
    """The backgrounds of views (2, B, 3, PX, PX), as shifts of the batch, by a paste in numpy."""
    found = []
    for v in range(2):
        for shift in range(1, 5):
            expected = np.roll(canvases[:, 2], shift, axis=0)
            for b, (x1, y1, x2, y2) in enumerate(boxes[:, v].astype(int)):
                expected[b, :, y1:y2, x1:x2] = canvases[b, v, :, y1:y2, x1:x2]
            if np.array_equal(views[v].round().numpy(), expected):
                found.append(shift)
    return tuple(found)


def test_crops_are_pasted_on_two_other_images():
    data, canvases, boxes = batch_of(5)
    preprocessor = build(flip_prob=0.0)
    drawn = set()
    for _ in range(100):
        out = preprocessor(data, training=True)
        own = out["data_samples"]["boxes"][:, :, 0]
        assert torch.equal(own.transpose(0, 1), torch.tensor(boxes))
        drawn.add(shifts_of(out["inputs"][0], canvases, boxes))
    assert drawn == set(itertools.permutations(range(1, 5), 2))


def test_nothing_is_drawn_outside_of_training():
    data, canvases, boxes = batch_of(5)
    out = build(flip_prob=0.0)(data)
    assert shifts_of(out["inputs"][0], canvases, boxes) == (1, 2)
    crops, anchors = out["data_samples"]["boxes"].unbind(2)
    assert torch.equal(anchors, crops)


def test_the_background_of_a_single_image_is_the_image_itself():
    data, canvases, _ = batch_of(1)
    assert np.array_equal(build(flip_prob=0.0)(data)["inputs"][0][0, 0].round(), canvases[0, 0])


def test_a_box_is_mirrored_with_its_canvas():
    data, _, boxes = batch_of(6)
    data["inputs"][0][:, :2] = 255
    data["inputs"][0][:, 2] = 0
    flips = []
    preprocessor = build()
    for _ in range(4):
        out = preprocessor(data, training=True)
        (views,) = out["inputs"]
        found = out["data_samples"]["boxes"][:, :, 0]
        for v in range(2):
            for b in range(6):
                x1, y1, x2, y2 = found[v, b].int().tolist()
                expected = torch.zeros(PX, PX)
                expected[y1:y2, x1:x2] = 255
                torch.testing.assert_close(views[v, b, 0], expected)
                flips.append(found[v, b].tolist() != boxes[b, v].tolist())
    assert 0.2 < np.mean(flips) < 0.7


def test_anchors_that_overlap_well_are_equally_likely():
    anchors = make_anchors(64)
    box = torch.tensor([10.0, 12.0, 45.0, 50.0])
    near = (box_iou(box[None], anchors)[0] > 0.5).nonzero()[:, 0]
    assert len(near) > 10
    drawn = (torch.arange(1000) + 0.5) / 1000
    chosen = choose_anchors(box.expand(1000, 4), anchors, drawn)
    counts = [(chosen == anchors[i]).all(1).sum().item() for i in near]
    assert sum(counts) == 1000
    assert max(counts) - min(counts) <= 1


def test_other_inputs_are_refused():
    data, _, _ = batch_of(4)
    for wrong in (
        {"inputs": data["inputs"]},
        {"inputs": [data["inputs"][0][:, :2]], "data_samples": data["data_samples"]},
        {"inputs": data["inputs"], "data_samples": {"places": []}},
    ):
        with pytest.raises(ValueError, match="canvases, with boxes .* type='PasteCrop'"):
            build()(wrong, training=True)
