import math

import pytest
import torch
from helpers.models.small_contrast import ungrouped
from helpers.models.small_regions import BACKBONE, MASKCO, PX, make_model, regions_of
from reference import nce, pooled_by_loops, unit
from torch.nn import functional as F

from mmssprl.functional.boxes import boxes_in_crop, pixels_in_boxes

T = 0.2


def build(**fields):
    return make_model(MASKCO, **fields)


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
    """The loss of the first step, in which the key network is a copy, and the keys (B, D)."""
    model, views = ungrouped(model).double(), views.double().clone()
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
    maps = predicted(model.mask_head, model.backbone(views[0])[-1]), model.backbone(views[1])[-1]
    if len(model.key_encoder.copies) > 2:
        maps = maps[0], predicted(model.mask_head, maps[1])

    def embedded(v, i, r):
        cut = [pooled_by_loops(channel, boxes[v][i][r], PX, 7, 2).mean() for channel in maps[v][i]]
        return unit(model.neck.mlp(torch.stack(cut)))

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
        model = build(**fields).to(dtype)
        queue = model.queue.keys.double()
        expected, keys = by_loops(model, views, samples, queue)
        found = {"places": [samples["places"][0].to(dtype)], "boxes": samples["boxes"].to(dtype)}
        losses = model.loss([views.to(dtype)], found)
        assert losses.keys() == {"loss_nce"}
        assert losses["loss_nce"].item() == pytest.approx(expected, abs=tolerance)
        # The key alone is queued, and no other box.
        torch.testing.assert_close(model.queue.keys[:4].double(), keys, atol=tolerance, rtol=0)
        assert torch.equal(model.queue.keys[4:].double(), queue[4:])
        assert model.queue.num_pushed == 4


@pytest.mark.parametrize("num_others", [0, 3])
def test_other_boxes_enter_the_denominator(num_others):
    # All embeddings are one vector: every logit is the same.
    model = build()
    torch.nn.init.zeros_(model.neck.mlp[-1].weight)
    torch.nn.init.ones_(model.neck.mlp[-1].bias)
    model.queue.keys.fill_(0.5)
    losses = model.loss(*regions_of(num_others=num_others))
    assert losses["loss_nce"].item() == pytest.approx(math.log(1 + 12 + num_others), abs=1e-5)


def sides(model, inputs, samples):
    return model._sides(inputs, samples)


def test_the_mask_is_zero_and_all_else_as_it_was():
    inputs, samples = regions_of()
    (queries, of_query), (keys, of_keys) = sides(build(), inputs, samples)
    (places,) = samples["places"]
    boxes = boxes_in_crop(samples["boxes"][None], places[:, :, None], PX)
    mask = pixels_in_boxes(boxes[0, :, 0], PX)[:, None].expand(4, 3, PX, PX)
    assert 20 < mask[:, 0].sum() < 4 * 500
    assert (queries[0][mask] == 0).all()
    assert torch.equal(queries[0][~mask], inputs[0][0][~mask])
    assert torch.equal(keys[0], inputs[0][1])
    assert torch.equal(of_query[0], boxes[0, :, :1])
    assert torch.equal(of_keys[0], boxes[1])


def test_nothing_under_the_mask_reaches_the_query():
    inputs, samples = regions_of()
    views = inputs[0].requires_grad_()
    (queries, _), _ = sides(build(), inputs, samples)
    masked = queries[0].detach() == 0
    build().loss([views], samples)["loss_nce"].backward()
    assert (views.grad[0][masked] == 0).all()
    assert (views.grad[0][~masked] != 0).float().mean() > 0.5
    assert (views.grad[1] == 0).all()  # no gradient into keys


@pytest.mark.parametrize("on_key", [False, True])
def test_m_is_on_the_querys_side(on_key):
    def embeddings(change):
        model = build(mph_on_key=on_key).eval()
        model.key_encoder.update(0.9)  # copies
        if change is not None:
            torch.nn.init.ones_(change(model).layers[-1].bias)
        seen = []
        model._contrast = lambda queries, keys: seen.extend([queries[0], keys[0]]) or {}
        model.loss(*regions_of())
        return seen

    def changed(change):
        pairs = zip(embeddings(None), embeddings(change), strict=True)
        return [not torch.equal(*pair) for pair in pairs]

    assert changed(lambda model: model.mask_head) == [True, False]
    names = {name for name, _ in build(mph_on_key=on_key).key_encoder.named_parameters()}
    assert any(name.startswith("copies.2") for name in names) == on_key
    if on_key:
        assert changed(lambda model: model.key_encoder.copies[2]) == [False, True]


def test_the_average_of_m_follows_it():
    model = build(mph_on_key=True, bn_groups=2)
    model.loss(*regions_of())
    old = model.key_encoder.copies[2].layers[0].weight.clone()
    assert torch.equal(old, model.mask_head.layers[0].weight)
    with torch.no_grad():
        model.mask_head.layers[0].weight.add_(1)
    model.loss(*regions_of())
    torch.testing.assert_close(model.key_encoder.copies[2].layers[0].weight, old + 0.1)
    norms = [m for m in model.modules() if hasattr(m, "num_groups")]
    assert {norm.num_groups for norm in norms} == {2}
    assert any(norm is model.mask_head.layers[1] for norm in norms)


@pytest.mark.parametrize("num_others", [0, 2])
def test_every_part_is_trained_and_nothing_of_the_keys(num_others):
    model = build()
    model.loss(*regions_of(num_others=num_others))["loss_nce"].backward()
    for name, parameter in model.named_parameters():
        if name.startswith("key_encoder"):
            assert parameter.grad is None, name
        else:
            assert parameter.grad.abs().max() > 0, name


def test_health_and_terms_are_those_of_moco():
    model = build()
    model.check_training(100, 4)
    model.loss(*regions_of())
    assert model.health().keys() == {"embedding_spread", "queue_top1", "queue_fill"}
    assert model.examine().keys() == {"effective_rank", "alignment", "alignment_others"}
    assert model.loss_terms()["loss_nce"].num_classes == 13


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"symmetric": True}, "MaskCo: symmetric must be False"),
        ({"mask_channels": 0, "mph_on_key": True}, "mph_on_key must be False without M"),
    ],
)
def test_what_does_not_fit_is_refused(fields, match):
    with pytest.raises(ValueError, match=match):
        build(**fields)


def test_views_without_boxes_and_backbones_without_a_map_are_refused():
    with pytest.raises(ValueError, match="MaskCo needs boxes .*'RegionPairCrop'.*'PyramidPrep"):
        build().loss(regions_of()[0])
    vectors = {"type": "mmpretrain.VisionTransformer", "arch": "deit-tiny", "img_size": 32}
    vectors |= {"patch_size": 16, "out_type": "avg_featmap"}
    model = build(backbone=vectors, neck={**MASKCO["neck"], "in_channels": 192})
    with pytest.raises(ValueError, match="MaskCo: .* must be a map .*out_type='featmap'"):
        model.loss(*regions_of())
    assert BACKBONE["num_stages"] == 2
