import pytest
import torch
from helpers.models.small_contrast import ungrouped
from helpers.models.small_regions import BACKBONE, INSLOC, PX, canvases_of, make_model
from reference import nce, pooled_by_loops, unit
from torch.nn import functional as F

from mmssprl.models.baselines import InsLocNeck

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
    # The head's norm sees the rows of all levels together.
    rows = torch.stack([cut[b, i] for b in range(len(canvases)) for i in range(LEVELS)])
    convolution, norm, _, _, first, _, last = neck.head
    rows = torch.relu(norm(F.conv2d(rows, convolution.weight, padding=1)))
    hidden = torch.relu(rows.flatten(1) @ first.weight.T + first.bias)
    return (hidden @ last.weight.T + last.bias).view(len(canvases), LEVELS, -1)


@torch.no_grad()
def losses_by_loops(model, canvases, boxes, queues):
    """The terms of the first step, in which the key network is a copy, and the keys (B, L, D)."""
    model = ungrouped(model).double()
    own, anchors = boxes.double().unbind(2)  # (2, B, 4) each
    of_queries = torch.stack([own[0], anchors[0]], dim=1)
    of_keys = torch.stack([own[1], own[1]], dim=1)
    queries = embedded_by_loops(model.backbone, model.neck, canvases[0].double(), of_queries)
    keys = embedded_by_loops(model.backbone, model.neck, canvases[1].double(), of_keys)
    terms, num = [], len(queries)
    for i in range(LEVELS):
        rows = [nce(unit(queries[b, i]), unit(keys[b, i]), queues[i], T) for b in range(num)]
        terms.append(float(sum(rows) / num))
    return terms, torch.stack([torch.stack([unit(z) for z in image]) for image in keys])


def test_a_step_equals_the_loops_over_levels():
    model = make_model().double()
    (canvases,), samples = canvases_of()
    queues = [queue.keys.clone() for queue in model.queues]
    expected, keys = losses_by_loops(model, canvases, samples["boxes"], queues)
    boxes = {"boxes": samples["boxes"].double()}
    losses = model.loss([canvases.double()], boxes)
    assert list(losses) == ["loss_nce_p2", "loss_nce_p3"]
    assert [float(x) for x in losses.values()] == pytest.approx(expected, abs=1e-12)
    for i, queue in enumerate(model.queues):
        torch.testing.assert_close(queue.keys[:4], keys[:, i], atol=1e-12, rtol=0)
        assert torch.equal(queue.keys[4:], queues[i][4:])


def test_in_float32_too():
    model = make_model()
    (canvases,), samples = canvases_of()
    queues = [queue.keys.double() for queue in model.queues]
    expected, _ = losses_by_loops(model, canvases, samples["boxes"], queues)
    found = model.loss([canvases], samples)
    assert [float(x) for x in found.values()] == pytest.approx(expected, abs=2e-5)


def terms_of(change=None, **fields):
    """The loss of a step in evaluation mode, as a list, after a change of the model or samples."""
    model = make_model(**fields).eval()
    inputs, samples = canvases_of()
    model.key_encoder.update(0.9)
    if change is not None:
        change(model, samples)
    with torch.no_grad():
        return [float(x) for x in model.loss(inputs, samples).values()]


def changed(before, after):
    return [a != b for a, b in zip(before, after, strict=True)]


def test_only_the_query_of_the_last_level_has_the_anchor():
    def move(view, place):
        def change(model, samples):
            samples["boxes"][view, :, place] = torch.tensor([2.0, 3.0, 20.0, 22.0])

        return change

    plain = terms_of()
    assert changed(plain, terms_of(move(0, 1))) == [False, True]
    assert changed(plain, terms_of(move(1, 1))) == [False, False]
    assert changed(plain, terms_of(move(0, 0))) == [True, False]
    assert changed(plain, terms_of(move(1, 0))) == [True, True]


@pytest.mark.parametrize("level", range(LEVELS))
def test_each_level_has_a_queue_of_its_own(level):
    def mark(model, samples):
        model.queues[level].keys.copy_(model.queues[level].keys.flip(1))

    assert changed(terms_of(), terms_of(mark)) == [i == level for i in range(LEVELS)]


def test_each_level_is_read_at_its_own_stride():
    neck = InsLocNeck(16, num_levels=2, fpn_channels=2, num_convs=0, num_fcs=0, out_channels=98)
    neck.fpn, neck.head = torch.nn.Identity(), torch.nn.Flatten()
    # Maps whose cells hold the x of their centre, in pixels of the canvas.
    maps = []
    for size in (32, 8):
        x = (torch.arange(size) + 0.5) * 64 / size
        maps.append(x.expand(1, 2, size, size).contiguous())
    boxes = torch.tensor([[[8.0, 8.0, 36.0, 36.0], [20.0, 8.0, 48.0, 36.0]]])
    found = neck(maps, boxes, 64).view(2, 2, 7, 7)
    for level, start in enumerate((8.0, 20.0)):
        expected = start + 4 * torch.arange(7) + 2
        torch.testing.assert_close(found[level], expected.expand(2, 7, 7))


def test_every_part_is_trained_and_nothing_of_the_keys():
    model = make_model()
    sum(model.loss(*canvases_of()).values()).backward()
    for name, parameter in model.named_parameters():
        if name.startswith("key_encoder"):
            assert parameter.grad is None, name
        else:
            assert parameter.grad.abs().max() > 0, name
    for part in ("backbone.layer1", "backbone.layer2", "neck.fpn", "neck.head"):
        assert any(name.startswith(part) for name, _ in model.named_parameters())


def test_no_group_of_batch_norm_parts_the_levels_of_an_image():
    model = make_model(bn_groups=2).train()
    maps, boxes = [torch.randn(4, c, s, s) for c, s in ((8, 8), (16, 4))], canvases_of()[1]
    boxes = boxes["boxes"][0]
    both = model.neck(maps, boxes, PX)
    halves = [
        ungrouped(model.neck)([m[i : i + 2] for m in maps], boxes[i : i + 2], PX) for i in (0, 2)
    ]
    torch.testing.assert_close(both, torch.cat(halves))


def test_its_backbone_gives_all_stages_whatever_the_config_says():
    model = make_model(backbone={**BACKBONE, "out_indices": (1,)})
    assert model.backbone.out_indices == (0, 1)
    assert model.key_encoder.copies[0].out_indices == (0, 1)
    names = {name for name, _ in model.named_parameters() if name.startswith("neck.fpn")}
    assert len(names) == 2 * 2 * 3  # a weight, and a norm's two, of lateral and output


@torch.no_grad()
def test_published_initialisation():
    neck = InsLocNeck(512, num_fcs=1)
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


def test_health_is_that_of_the_last_level():
    model = make_model()
    model.loss(*canvases_of())
    health = model.health()
    assert health.keys() == {"embedding_spread", "queue_top1", "queue_fill"}
    assert health["queue_fill"] == 1 / 3
    assert model.examine().keys() == {"effective_rank", "alignment", "alignment_others"}
    assert [term.num_classes for term in model.loss_terms().values()] == [13, 13]


@pytest.mark.parametrize(
    ("sizes", "match"),
    [
        ((100, 2), "InsLoc: .* three images .* got 2"),
        ((100, 4, 2), "got 2; .*drop_last"),
        ((100, 12), "above the 12 keys"),
        ((10, 4), "at most the 10 images"),
        ((100, 5), "multiple of the 2 groups"),
    ],
)
def test_data_that_it_cannot_be_trained_on(sizes, match):
    model = make_model(bn_groups=2)
    model.check_training(100, 4)
    with pytest.raises(ValueError, match=match):
        model.check_training(*sizes)


def test_views_without_boxes_are_refused():
    model = make_model()
    with pytest.raises(ValueError, match="InsLoc needs boxes .*'PasteCrop'.*'PastePreprocessor'"):
        model.loss(canvases_of()[0])
    with pytest.raises(ValueError, match="momentum must be"):
        make_model({**INSLOC, "momentum": 2})
