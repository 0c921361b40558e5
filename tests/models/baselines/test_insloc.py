import pytest
import torch
from helpers.models.small_contrast import (
    PX,
    assert_step_equals,
    canvases_of,
    make_model,
    ungrouped,
)
from reference import mean_nce, pooled_by_loops, unit_rows
from torch.nn import functional as F

from mmssprl.models.baselines import InsLocNeck

pytestmark = pytest.mark.fence

T, LEVELS = 0.2, 2


def embedded_by_loops(backbone, neck, canvases, boxes):
    """z (B, L, D) in float64: the pyramid written out, RoIAlign cell by cell; boxes (B, L, 4)."""
    maps = backbone(canvases)
    laterals = [
        neck.fpn.inner_blocks[i][1](F.conv2d(maps[i], neck.fpn.inner_blocks[i][0].weight))
        for i in range(LEVELS)
    ]
    merged = laterals[1].repeat_interleave(2, 2).repeat_interleave(2, 3) + laterals[0]
    cut = {}
    for i, level in enumerate((merged, laterals[1])):
        conv, norm = neck.fpn.layer_blocks[i]
        level = norm(F.conv2d(level, conv.weight, padding=1))
        for b in range(len(canvases)):
            channels = [pooled_by_loops(level[b, c], boxes[b, i], PX, 7, 2) for c in range(6)]
            cut[b, i] = torch.stack(channels)
    # The norm of the head sees the rows of all levels together.
    rows = torch.stack([cut[b, i] for b in range(len(canvases)) for i in range(LEVELS)])
    convolution, norm, _, _, first, _, last = neck.head
    rows = torch.relu(norm(F.conv2d(rows, convolution.weight, padding=1)))
    hidden = torch.relu(rows.flatten(1) @ first.weight.T + first.bias)
    return (hidden @ last.weight.T + last.bias).view(len(canvases), LEVELS, -1)


@torch.no_grad()
def losses_by_loops(model, canvases, boxes, queues):
    """The terms of the first step, whose key network is a copy, and the keys of each level."""
    model = ungrouped(model).double()
    own, anchors = boxes.double().unbind(2)  # (2, B, 4) each
    of_queries = torch.stack([own[0], anchors[0]], dim=1)
    of_keys = torch.stack([own[1], own[1]], dim=1)
    queries = embedded_by_loops(model.backbone, model.neck, canvases[0].double(), of_queries)
    keys = embedded_by_loops(model.backbone, model.neck, canvases[1].double(), of_keys)
    queries, keys = (torch.stack([unit_rows(image) for image in z]) for z in (queries, keys))
    terms = [mean_nce(queries[:, i], keys[:, i], queues[i], T) for i in range(LEVELS)]
    return dict(zip(("loss_nce_p2", "loss_nce_p3"), terms, strict=True)), keys.unbind(1)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
def test_a_step_equals_the_loops_over_levels(dtype, tolerance):
    model = make_model("InsLoc").to(dtype)
    (canvases,), samples = canvases_of()
    queues = [queue.keys.double().clone() for queue in model.queues]
    expected, keys = losses_by_loops(model, canvases, samples["boxes"], queues)
    step = [canvases.to(dtype)], {"boxes": samples["boxes"].to(dtype)}
    assert_step_equals(model, step, expected, keys, tolerance)


@torch.no_grad()
def test_published_initialisation():
    neck = InsLocNeck(512, 4, num_fcs=1)
    for block in (*neck.fpn.inner_blocks, *neck.fpn.layer_blocks):
        assert block[0].bias is None
        weight = block[0].weight
        size = weight[0, 0].numel()
        bound = (6 / (size * (weight.shape[0] + weight.shape[1]))) ** 0.5
        assert 0.98 * bound < weight.abs().max() <= bound
        assert len(block) == 2  # no ReLU
    convolution, last = neck.head[0], neck.head[-1]
    assert convolution.weight.std().item() == pytest.approx((2 / (9 * 256)) ** 0.5, rel=0.02)
    assert last.weight.std().item() == pytest.approx(0.01, rel=0.03)
