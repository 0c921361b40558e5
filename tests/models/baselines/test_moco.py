import copy
import itertools

import pytest
import torch
from helpers.models.small_contrast import (
    LAYOUT,
    largest_difference,
    make_model,
    mmpretrain_twin,
    ungrouped,
    views_of,
)
from reference import nce
from torch.nn import functional as F

from mmssprl.models import GroupedBatchNorm

T = 0.2


def embedded(backbone, neck, views):
    """norm(h(pool f(x))) of (B, 3, px, px)."""
    return F.normalize(neck((backbone(views)[-1].mean(dim=(2, 3)),))[0], dim=1)


def nce_by_loops(query, key, negatives):
    rows = zip(query.double(), key.double(), strict=True)
    return float(sum(nce(q, k, negatives.double(), T) for q, k in rows)) / len(query)


@pytest.mark.parametrize("bn_groups", [1, 2])
def test_a_step_equals_the_equations(bn_groups, monkeypatch):
    model = make_model(bn_groups=bn_groups)
    (views,) = views_of()
    start = ungrouped(model)  # key weights are the query's in the first step
    negatives = model.queue.keys.clone()
    order = torch.tensor([3, 0, 2, 1])
    monkeypatch.setattr("mmssprl.models.baselines.moco.draw_order", lambda *_: order)
    loss = model.loss([views])["loss_nce"]
    # Each group alone: slices for the queries, the permuted images for the keys.
    groups = torch.arange(4).chunk(bn_groups)
    key = torch.empty(4, 4)
    with torch.no_grad():
        query = torch.cat([embedded(start.backbone, start.neck, views[0, g]) for g in groups])
        for g in order.chunk(bn_groups):
            key[g] = embedded(start.backbone, start.neck, views[1, g])
    assert loss.item() == pytest.approx(nce_by_loops(query, key, negatives), abs=1e-6)
    # The keys enter the queue after the loss.
    torch.testing.assert_close(model.queue.keys[:4], key)
    assert torch.equal(model.queue.keys[4:], negatives[4:])


@pytest.mark.parametrize("symmetric", [False, True])
def test_keys_of_a_group_come_from_all_groups_of_queries(symmetric):
    model = make_model(bn_groups=4, queue_length=192, symmetric=symmetric)
    batch = 32
    # Every image has its number as its value, in both views.
    views = torch.arange(float(batch)).view(-1, 1, 1, 1).expand(2, batch, 3, 16, 16)
    groups = []
    """(V, B), the group of each image in each direction: of queries and keys in turn."""

    def keep(backbone, inputs):
        images = inputs[0][:, 0, 0, 0].view(-1, batch)  # (V B, 3, px, px) -> (V, B)
        slices = torch.arange(images.numel()) * backbone.bn1.num_groups // images.numel()
        groups.append(slices.view_as(images).gather(1, images.argsort()))

    for backbone in (model.backbone, model.key_encoder.copies[0]):
        backbone.register_forward_pre_hook(keep)
    for _ in range(3):
        model.loss([views])
    queries, keys = groups[::2], groups[1::2]
    for query, key in zip(queries, keys, strict=True):
        for group in (query, key):
            counts = group.flatten().bincount()
            assert counts.tolist() == [batch // 4] * len(counts)
            assert len(counts) == 4 * len(group)
        # Two of the eight in each group: a key is normalised with one other of its query's group.
        for of_query, of_key in zip(query % 4, key % 4, strict=True):
            assert (4 * of_query + of_key).bincount().tolist() == [2] * 16
        assert torch.equal(query, queries[0])
    # Every step deals them out anew.
    assert all((a != b).float().mean() > 0.5 for a, b in itertools.combinations(keys, 2))


def test_equals_mmpretrain_over_steps_of_sgd():
    model = make_model()
    queues = {"queue": "queue"}
    twin = mmpretrain_twin(model, queues)
    assert largest_difference(model, twin, queues) < 1e-12


@pytest.mark.parametrize("bn_groups", [1, 2])
def test_symmetric_is_the_mean_of_both_directions(bn_groups):
    both = make_model(symmetric=True, bn_groups=bn_groups)
    one = make_model(bn_groups=bn_groups)
    (views,) = views_of()
    losses = [copy.deepcopy(one).loss([x])["loss_nce"] for x in (views, views.flip(0))]
    loss = both.loss([views])["loss_nce"]
    torch.testing.assert_close(loss, sum(losses) / 2)
    one.loss([views])
    torch.testing.assert_close(both.queue.keys[:4], one.queue.keys[:4])
    assert (both.queue.num_pushed, one.queue.num_pushed) == (8, 4)
    with pytest.raises(ValueError, match="12 keys.*queue_length"):
        both.check_training(num_images=100, batch_size=6)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"momentum": 1.0}, "momentum.*1.0"),
        ({"temperature": 0}, "temperature.*0"),
        ({"bn_groups": 0}, "bn_groups.*0"),
        ({"layout": {**LAYOUT, "num_small": 6}}, "num_small=6"),
    ],
)
def test_bad_settings(fields, message):
    with pytest.raises(ValueError, match=message):
        make_model(**fields)


VIT = {"type": "VisionTransformer", "arch": "deit-tiny", "out_type": "cls_token"}
VIT_MODEL = {
    "backbone": {**VIT, "img_size": 16, "patch_size": 8},
    "neck": {"in_channels": 192, "hid_channels": 8, "out_channels": 4},
}


@pytest.mark.parametrize(
    ("fields", "num_ranks", "warns"),
    [
        ({}, 1, True),
        ({"symmetric": True}, 1, True),
        ({"bn_groups": 2}, 1, False),
        ({}, 2, False),
        (VIT_MODEL, 1, False),
    ],
)
def test_one_group_in_all_is_warned_of(fields, num_ranks, warns, monkeypatch):
    told = []
    grouping = "mmssprl.models.grouped_batch_norm"
    monkeypatch.setattr(f"{grouping}.print_log", lambda text, **_: told.append(text))
    monkeypatch.setattr(f"{grouping}.dist.get_world_size", lambda: num_ranks)
    make_model(queue_length=20, **fields).check_training(num_images=20, batch_size=4)
    assert len(told) == warns
    for text in told:
        assert "model.bn_groups=1" in text
        assert "batch_size=4" in text


def test_groups_that_sync_bn_joined_are_refused():
    model = make_model(bn_groups=2)
    norms = sum(isinstance(m, GroupedBatchNorm) for m in model.modules())
    assert norms == 2 * 5
    joined = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)
    with pytest.raises(ValueError, match="sync_bn=None"):
        joined.check_training(num_images=100, batch_size=4)
