"""A step of each method equals loops over rows, cells, levels and boxes, in float64."""

import copy

import numpy as np
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


def projected(conv, cell):
    """h2 of one cell (C,), with the 1 x 1 convolutions written out."""
    first = conv[0]
    second = conv[2]
    hidden = torch.relu(first.weight[:, :, 0, 0] @ cell + first.bias)
    return second.weight[:, :, 0, 0] @ hidden + second.bias


def nearest(cell, others):
    """The index of the cell that is most like another one."""
    likeness = [float(unit(cell) @ unit(other)) for other in others]
    return likeness.index(max(likeness))


def densecl_by_loops(model, views, samples):
    """Both terms, and the keys k and tbar, cell by cell."""
    query_maps, key_maps = (model.backbone(v)[-1].flatten(2) for v in views[0])  # (B, C, S) each
    num_images, _, num_cells = query_maps.shape
    neck = model.neck
    image_term = 0.0
    dense_term = 0.0
    keys = []
    for b in range(num_images):
        query = list(query_maps[b].T)
        key = list(key_maps[b].T)
        q = unit(neck.mlp(sum(query) / num_cells))
        k = unit(neck.mlp(sum(key) / num_cells))
        image_term += nce(q, k, model.queue.keys, T) / num_images

        of_query = [projected(neck.mlp2, cell) for cell in query]
        of_key = [projected(neck.mlp2, cell) for cell in key]
        for i in range(num_cells):
            t = of_key[nearest(query[i], key)]
            term = nce(unit(of_query[i]), unit(t), model.dense_queue.keys, T)
            dense_term += term / num_images / num_cells
        # The mean before the norm enters the second queue.
        keys.append(torch.stack([k, unit(sum(of_key) / num_cells)]))

    share = model.loss_lambda
    terms = {"loss_nce": (1 - share) * image_term, "loss_dense": share * dense_term}
    return terms, torch.stack(keys, dim=1)


def pooled_levels(backbone, images):
    """The means (N, C_i) of the map of each level."""
    return [each.mean(dim=(2, 3)) for each in backbone(images)]


def pooled_patches(backbone, jigsaw):
    """The means of each level, of the patches of a jigsaw (B, P, 3, px, px): (B, P, C_i)."""
    levels = pooled_levels(backbone, jigsaw.flatten(0, 1))
    return [each.unflatten(0, jigsaw.shape[:2]) for each in levels]


def joined_by_rows(head, patches):
    """Unit vectors (B, D) of the patches (B, P, C) of each image, side by side."""
    return unit_rows(torch.stack([head(torch.cat([*row])) for row in patches]))


def detco_by_loops(model, views, samples):
    """All terms, row by row, and the keys for each queue."""
    images = views[0]
    crops = views[-1]
    num = len(crops[0])
    jigsaws = [cut_jigsaws(crop, 3, 10, seed=i, num_drawn=num) for i, crop in enumerate(crops)]
    whole = [pooled_levels(model.backbone, each) for each in images]
    parts = [pooled_patches(model.backbone, each) for each in jigsaws]

    terms = {}
    image_keys = []
    patch_keys = []
    for i, weight in enumerate(OWN["DetCo"]["level_weights"]):
        q, k = (unit_rows(model.neck.of_images[i](side[i])) for side in whole)
        ql, kl = (joined_by_rows(model.neck.of_patches[i], side[i]) for side in parts)
        image_rows = model.image_queues[i].keys
        patch_rows = model.patch_queues[i].keys
        terms[f"loss_gg_{i}"] = weight * mean_nce(q, k, image_rows, T)
        terms[f"loss_ll_{i}"] = weight * mean_nce(ql, kl, patch_rows, T)
        terms[f"loss_lg_{i}"] = weight * mean_nce(ql, k, image_rows, T)
        image_keys.append(k)
        patch_keys.append(kl)
    return terms, [*image_keys, *patch_keys]


def merged_levels(neck, maps):
    """The two levels of a feature pyramid, written out."""
    laterals = [
        norm(F.conv2d(each, conv.weight))
        for each, (conv, norm) in zip(maps, neck.fpn.inner_blocks, strict=True)
    ]
    merged = laterals[1].repeat_interleave(2, 2).repeat_interleave(2, 3) + laterals[0]
    return [
        norm(F.conv2d(each, conv.weight, padding=1))
        for each, (conv, norm) in zip((merged, laterals[1]), neck.fpn.layer_blocks, strict=True)
    ]


def embedded_in_levels(model, canvases, boxes):
    """z (B, L, D): the pyramid written out, RoIAlign cell by cell; boxes (B, L, 4)."""
    neck = model.neck
    levels = merged_levels(neck, model.backbone(canvases))
    # The norm of the head sees the rows of all levels together.
    rows = []
    for b, i in np.ndindex(len(canvases), len(levels)):
        cut = [pooled_by_loops(channel, boxes[b, i], PX, 7, 2) for channel in levels[i][b]]
        rows.append(torch.stack(cut))

    convolution, norm, _, _, first, _, last = neck.head
    convolved = torch.relu(norm(F.conv2d(torch.stack(rows), convolution.weight, padding=1)))
    hidden = torch.relu(convolved.flatten(1) @ first.weight.T + first.bias)
    z = (hidden @ last.weight.T + last.bias).view(len(canvases), len(levels), -1)
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
    layers = list(head.layers)
    x = maps
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


def masked(view, box):
    """A view (3, PX, PX) with zeros where the centre of a pixel is inside a box."""
    x1, y1, x2, y2 = box
    view = view.clone()
    for row, column in np.ndindex(PX, PX):
        if x1 < column + 0.5 < x2 and y1 < row + 0.5 < y2:
            view[:, row, column] = 0
    return view


def maskco_by_loops(model, views, samples):
    """The loss, box by box, and the keys (B, D)."""
    query_views, key_views = views[0]
    query_places, key_places = samples["places"][0]
    model.key_encoder.update(model.momentum)
    backbone, neck, *mask_heads = model.key_encoder.copies

    def embedded(projection, maps, box):
        cut = [pooled_by_loops(channel, box, PX, 7, 2).mean() for channel in maps]
        return unit(projection.mlp(torch.stack(cut)))

    of_images = zip(samples["boxes"], query_places, strict=True)
    regions = [in_view(boxes[0], place) for boxes, place in of_images]
    pairs = zip(query_views, regions, strict=True)
    query_views = torch.stack([masked(view, region) for view, region in pairs])
    query_maps = predicted(model.mask_head, model.backbone(query_views)[-1])
    key_maps = backbone(key_views)[-1]
    for mask_head in mask_heads:
        key_maps = predicted(mask_head, key_maps)

    total = 0.0
    keys = []
    for i, boxes in enumerate(samples["boxes"]):
        query = embedded(model.neck, query_maps[i], regions[i])
        key, *others = (embedded(neck, key_maps[i], in_view(box, key_places[i])) for box in boxes)
        total += nce(query, key, [*model.queue.keys, *others], T) / len(key_views)
        keys.append(key)
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
    if kind == "MaskCo":  # its own key network; in the first step those of others are copies
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
