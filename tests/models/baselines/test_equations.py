"""A step of each method equals loops over rows, cells, levels and boxes, in float64."""

import copy

import pytest
import torch
from helpers.models.small_contrast import OWN, PX, make_model, step_of, views_of
from reference import mean_nce, nce, pooled_by_loops, unit, unit_rows
from torch.nn import functional as F
from torch.utils._pytree import tree_map_only

from mmssprl.functional.jigsaws import cut_jigsaws
from mmssprl.models import GroupedBatchNorm, NegativeQueue

pytestmark = pytest.mark.fence

T = 0.2


def densecl_by_loops(model, views, samples):
    """Both terms, and the keys k and tbar, cell by cell."""
    maps = [model.backbone(v)[-1].flatten(2) for v in views[0]]  # (B, C, S) each
    mlp, conv = model.neck.mlp, model.neck.mlp2
    first, second = conv[0], conv[2]
    totals, keys = [0.0, 0.0], []
    num_images, _, num_cells = maps[0].shape
    for b in range(num_images):
        query, key = ([m[b, :, i] for i in range(num_cells)] for m in maps)
        z = [unit(mlp(sum(cells) / num_cells)) for cells in (query, key)]
        totals[0] += nce(z[0], z[1], model.queue.keys, T) / num_images
        convolved = [
            [
                second.weight[:, :, 0, 0] @ torch.relu(first.weight[:, :, 0, 0] @ cell + first.bias)
                + second.bias
                for cell in cells
            ]
            for cells in (query, key)
        ]
        for i in range(num_cells):
            likeness = [float(unit(query[i]) @ unit(cell)) for cell in key]
            j = likeness.index(max(likeness))
            term = nce(unit(convolved[0][i]), unit(convolved[1][j]), model.dense_queue.keys, T)
            totals[1] += term / num_images / num_cells
        # The mean before the norm enters the second queue.
        keys.append(torch.stack([z[1], unit(sum(convolved[1]) / num_cells)]))
    weights = 1 - model.loss_lambda, model.loss_lambda
    terms = [weight * total for weight, total in zip(weights, totals, strict=True)]
    return dict(zip(("loss_nce", "loss_dense"), terms, strict=True)), torch.stack(keys, dim=1)


def detco_by_loops(model, views, samples):
    """All terms, row by row, and the keys for each queue."""
    images, crops = views[0], views[-1]
    num = len(crops[0])
    jigsaws = [cut_jigsaws(crop, 3, 10, seed=i, num_drawn=num) for i, crop in enumerate(crops)]
    whole = [[x.mean(dim=(2, 3)) for x in model.backbone(v)] for v in images]
    parts = []
    for jigsaw in jigsaws:  # (B, P, 3, px, px)
        outputs = model.backbone(jigsaw.flatten(0, 1))
        parts.append([x.mean(dim=(2, 3)).unflatten(0, jigsaw.shape[:2]) for x in outputs])
    terms, keys = {}, []
    for i, weight in enumerate(OWN["DetCo"]["level_weights"]):
        q, k = (unit_rows(model.neck.of_images[i](side[i])) for side in whole)
        heads = model.neck.of_patches[i]
        ql, kl = (
            unit_rows(torch.stack([heads(torch.cat([*row])) for row in side[i]])) for side in parts
        )
        rows = model.image_queues[i].keys, model.patch_queues[i].keys
        for kind, a, b, queue in (("gg", q, k, 0), ("ll", ql, kl, 1), ("lg", ql, k, 0)):
            terms[f"loss_{kind}_{i}"] = weight * mean_nce(a, b, rows[queue], T)
        keys.append((k, kl))
    return terms, [key for of_side in zip(*keys, strict=True) for key in of_side]


def embedded_in_levels(model, canvases, boxes):
    """z (B, L, D): the pyramid written out, RoIAlign cell by cell; boxes (B, L, 4)."""
    neck, maps, num_levels = model.neck, model.backbone(canvases), 2
    laterals = [
        norm(F.conv2d(each, conv.weight))
        for each, (conv, norm) in zip(maps, neck.fpn.inner_blocks, strict=True)
    ]
    merged = laterals[1].repeat_interleave(2, 2).repeat_interleave(2, 3) + laterals[0]
    levels = [
        norm(F.conv2d(each, conv.weight, padding=1))
        for each, (conv, norm) in zip((merged, laterals[1]), neck.fpn.layer_blocks, strict=True)
    ]
    # The norm of the head sees the rows of all levels together.
    rows = torch.stack(
        [
            torch.stack([pooled_by_loops(c, boxes[b, i], PX, 7, 2) for c in levels[i][b]])
            for b in range(len(canvases))
            for i in range(num_levels)
        ]
    )
    convolution, norm, _, _, first, _, last = neck.head
    rows = torch.relu(norm(F.conv2d(rows, convolution.weight, padding=1)))
    hidden = torch.relu(rows.flatten(1) @ first.weight.T + first.bias)
    z = (hidden @ last.weight.T + last.bias).view(len(canvases), num_levels, -1)
    return torch.stack([unit_rows(image) for image in z])


def insloc_by_loops(model, views, samples):
    """The term of each level, and the keys of each."""
    own, anchors = samples["boxes"].unbind(2)  # (2, B, 4) each
    of_queries = torch.stack([own[0], anchors[0]], dim=1)
    of_keys = torch.stack([own[1], own[1]], dim=1)
    queries = embedded_in_levels(model, views[0][0], of_queries)
    keys = embedded_in_levels(model, views[0][1], of_keys)
    terms = {
        f"loss_nce_p{i + 2}": mean_nce(queries[:, i], keys[:, i], queue.keys, T)
        for i, queue in enumerate(model.queues)
    }
    return terms, keys.unbind(1)


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


def maskco_by_loops(model, views, samples):
    """The loss, box by box, and the keys (B, D)."""
    (views,), (places,) = views, samples["places"]
    model.key_encoder.update(model.momentum)
    backbone, neck, *mask_heads = model.key_encoder.copies
    views, num = views.clone(), views.shape[1]
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
        total += nce(embedded(0, i, 0), keys[-1], [*model.queue.keys, *others], T) / num
    return {"loss_nce": total}, [torch.stack(keys)]


LOOPS = {
    "DenseCL": densecl_by_loops,
    "DetCo": detco_by_loops,
    "InsLoc": insloc_by_loops,
    "MaskCo": maskco_by_loops,
}
CASES = [
    ("DenseCL", {"loss_lambda": 0.0}),
    ("DenseCL", {"loss_lambda": 0.3}),
    ("DetCo", {}),
    ("DetCo", {"layout": {"image_px": 36, "levels": []}}),
    ("InsLoc", {}),
    ("MaskCo", {}),
    ("MaskCo", {"mph_on_key": True}),
    ("MaskCo", {"mask_channels": 0}),
]


def ungrouped(module):
    """A copy with one BatchNorm group, so that a test can run it on any part of a batch."""
    module = copy.deepcopy(module)
    for norm in module.modules():
        if isinstance(norm, GroupedBatchNorm):
            norm.num_groups = 1
    return module


def assert_step_equals(model, step, terms, keys, tolerance):
    """Compare the terms of a step, and the keys (B, D) that enter each queue, with a reference."""
    queues = [part for part in model.modules() if isinstance(part, NegativeQueue)]
    before = [queue.keys.clone() for queue in queues]
    losses = model.loss(*step)
    assert losses.keys() == terms.keys()
    for name, value in terms.items():
        assert losses[name].item() == pytest.approx(value, abs=tolerance), name
    for queue, rows, others in zip(queues, keys, before, strict=True):
        found = queue.keys[: len(rows)]
        torch.testing.assert_close(found, rows.to(found.dtype), atol=tolerance, rtol=0)
        assert torch.equal(queue.keys[len(rows) :], others[len(rows) :])
        assert queue.num_pushed == len(rows)


@pytest.mark.parametrize(("kind", "fields"), CASES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
def test_a_step_equals_the_loops(kind, fields, dtype, tolerance):
    model = make_model(kind, **fields).to(dtype)
    if kind == "MaskCo":  # a key network of its own; in the first step that of others is a copy
        assert (len(model.key_encoder.copies) > 2) == ("mph_on_key" in fields)
        model.key_encoder.update(0.0)
        with torch.no_grad():
            for parameter in model.key_encoder.parameters():
                parameter.mul_(1.1).add_(0.01)
    views, samples = step_of(kind, num_others=0 if "mask_channels" in fields else 2)
    views = views[1:] if kind == "DetCo" and fields else views
    with torch.no_grad():
        doubles = tree_map_only(torch.Tensor, torch.Tensor.double, (views, samples))
        terms, keys = LOOPS[kind](ungrouped(model).double(), *doubles)
    assert terms.keys() == model.loss_terms().keys() or kind == "DenseCL"
    step = tree_map_only(torch.Tensor, lambda x: x.to(dtype), (views, samples))
    assert_step_equals(model, step, {n: float(x) for n, x in terms.items()}, keys, tolerance)


@pytest.mark.parametrize("bn_groups", [1, 2])
def test_a_step_of_moco_equals_the_equations(bn_groups, monkeypatch):
    model = make_model(bn_groups=bn_groups)
    (views,) = views_of()
    start = ungrouped(model)  # in the first step the key network is a copy
    negatives = model.queue.keys.clone()
    order = torch.tensor([3, 0, 2, 1])
    drawn = []
    draw = "mmssprl.models.baselines.moco.draw_order"
    monkeypatch.setattr(draw, lambda *args: drawn.append(args[:3]) or order)

    def embedded(backbone, neck, views):
        """norm(h(pool f(x))) of (B, 3, px, px)."""
        return unit_rows(neck((backbone(views)[-1].mean(dim=(2, 3)),))[0])

    # Each group separately: slices for the queries, permuted images for the keys.
    groups = torch.arange(4).chunk(bn_groups)
    key = torch.empty(4, 4)
    with torch.no_grad():
        query = torch.cat([embedded(start.backbone, start.neck, views[0, g]) for g in groups])
        for g in order.chunk(bn_groups):
            key[g] = embedded(start.backbone, start.neck, views[1, g])
    expected = mean_nce(query.double(), key.double(), negatives.double(), T)
    assert_step_equals(model, ([views],), {"loss_nce": expected}, [key], tolerance=2e-6)
    model.loss([views])
    assert drawn == [(1, 4, bn_groups), (2, 4, bn_groups)]  # a permutation per step
