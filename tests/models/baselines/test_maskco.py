import pytest
import torch
from helpers.models.small_contrast import (
    PX,
    assert_step_equals,
    make_model,
    regions_of,
    ungrouped,
)
from reference import nce, pooled_by_loops, unit
from torch.nn import functional as F

pytestmark = pytest.mark.fence

T = 0.2


def predicted(head, maps):
    """M written out: 1x1, two 3x3 and 1x1 convolutions, BatchNorm and ReLU between, residual."""
    if not hasattr(head, "layers"):
        return maps
    layers, x = list(head.layers), maps
    for i, padding in ((0, 0), (3, 1), (6, 1)):
        x = torch.relu(layers[i + 1](F.conv2d(x, layers[i].weight, padding=padding)))
    return maps + F.conv2d(x, layers[9].weight, layers[9].bias)


def in_view(box, place):
    """Convert a box of the image to pixels of a view, by hand."""
    x1, y1, x2, y2 = map(float, box)
    left, top, right, bottom = map(float, place)
    xs = sorted((x - left) / (right - left) * PX for x in (x1, x2))
    ys = [(y - top) / (bottom - top) * PX for y in (y1, y2)]
    return xs[0], ys[0], xs[1], ys[1]


@torch.no_grad()
def by_loops(model, views, samples, queue):
    """The loss of a step, including its update of the key network, and the keys (B, D)."""
    model, views = ungrouped(model).double(), views.double().clone()
    model.key_encoder.update(model.momentum)
    backbone, neck, *mask_heads = model.key_encoder.copies
    (places,), num = samples["places"], views.shape[1]
    boxes = [
        [[in_view(b, places[v, i]) for b in samples["boxes"][i]] for i in range(num)]
        for v in (0, 1)
    ]
    for i in range(num):
        x1, y1, x2, y2 = boxes[0][i][0]
        for row in range(PX):
            for column in range(PX):
                if x1 < column + 0.5 < x2 and y1 < row + 0.5 < y2:
                    views[0, i, :, row, column] = 0
    maps = predicted(model.mask_head, model.backbone(views[0])[-1]), backbone(views[1])[-1]
    for mask_head in mask_heads:
        maps = maps[0], predicted(mask_head, maps[1])

    def embedded(v, i, r):
        cut = [pooled_by_loops(channel, boxes[v][i][r], PX, 7, 2).mean() for channel in maps[v][i]]
        return unit((neck if v else model.neck).mlp(torch.stack(cut)))

    total, keys = 0.0, []
    for i in range(num):
        keys.append(embedded(1, i, 0))
        others = [embedded(1, i, r) for r in range(1, len(samples["boxes"][i]))]
        total += nce(embedded(0, i, 0), keys[-1], [*queue, *others], T) / num
    return float(total), torch.stack(keys)


@pytest.mark.parametrize(
    ("fields", "num_others"),
    [({}, 2), ({}, 0), ({"mph_on_key": True}, 1), ({"mask_channels": 0}, 3)],
)
def test_a_step_equals_the_loops_over_boxes(fields, num_others):
    (views,), samples = regions_of(num_others=num_others)
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        model = make_model("MaskCo", **fields).to(dtype)
        assert (len(model.key_encoder.copies) > 2) == ("mph_on_key" in fields)
        model.key_encoder.update(0.0)  # copies the weights, which are changed below
        with torch.no_grad():
            for parameter in model.key_encoder.parameters():
                parameter.mul_(1.1).add_(0.01)
        queue = model.queue.keys.double().clone()
        expected, keys = by_loops(model, views, samples, queue)
        found = {"places": [samples["places"][0].to(dtype)], "boxes": samples["boxes"].to(dtype)}
        step = [views.to(dtype)], found
        assert_step_equals(model, step, {"loss_nce": expected}, [keys], tolerance)
