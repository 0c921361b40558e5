import pytest
import torch
from helpers.models.small_contrast import MASKCO, PX, make_model, regions_of, ungrouped
from reference import nce, pooled_by_loops, unit
from torch.nn import functional as F

pytestmark = pytest.mark.fence

T = 0.2


def predicted(head, maps):
    """M written out: 1x1, two 3x3, 1x1, BatchNorm and ReLU between, and the residual."""
    if not hasattr(head, "layers"):
        return maps
    layers, x = list(head.layers), maps
    for i, padding in ((0, 0), (3, 1), (6, 1)):
        x = torch.relu(layers[i + 1](F.conv2d(x, layers[i].weight, padding=padding)))
    return maps + F.conv2d(x, layers[9].weight, layers[9].bias)


def in_view(box, place):
    """A box of the image in pixels of a view, by hand."""
    x1, y1, x2, y2 = map(float, box)
    left, top, right, bottom = map(float, place)
    xs = sorted((x - left) / (right - left) * PX for x in (x1, x2))
    ys = [(y - top) / (bottom - top) * PX for y in (y1, y2)]
    return xs[0], ys[0], xs[1], ys[1]


@torch.no_grad()
def by_loops(model, views, samples, queue):
    """The loss of a step with its own update of the key network, and the keys (B, D)."""
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
        model.key_encoder.update(0.0)  # copies, which are made unlike what they follow
        with torch.no_grad():
            for parameter in model.key_encoder.parameters():
                parameter.mul_(1.1).add_(0.01)
        queue = model.queue.keys.double().clone()
        expected, keys = by_loops(model, views, samples, queue)
        found = {"places": [samples["places"][0].to(dtype)], "boxes": samples["boxes"].to(dtype)}
        losses = model.loss([views.to(dtype)], found)
        assert losses.keys() == {"loss_nce"}
        assert losses["loss_nce"].item() == pytest.approx(expected, abs=tolerance)
        # The key alone is queued, and no other box.
        torch.testing.assert_close(model.queue.keys[:4].double(), keys, atol=tolerance, rtol=0)
        assert torch.equal(model.queue.keys[4:].double(), queue[4:])
        assert model.queue.num_pushed == 4


def test_views_without_boxes_and_backbones_without_a_map_are_refused():
    with pytest.raises(ValueError, match="MaskCo needs boxes .*'RegionPairCrop'.*'PyramidPrep"):
        make_model("MaskCo").loss(regions_of()[0])
    vectors = {"type": "mmpretrain.VisionTransformer", "arch": "deit-tiny", "img_size": 32}
    vectors |= {"patch_size": 16, "out_type": "avg_featmap"}
    neck = {**MASKCO["neck"], "in_channels": 192}
    model = make_model("MaskCo", backbone=vectors, neck=neck)
    with pytest.raises(ValueError, match="MaskCo: .* must be a map .*out_type='featmap'"):
        model.loss(*regions_of())
