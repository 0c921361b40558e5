import pytest
import torch
from helpers.models.small_contrast import (
    OWN,
    assert_step_equals,
    make_model,
    step_of,
    ungrouped,
)
from reference import mean_nce, unit_rows

from mmssprl.functional.jigsaws import cut_jigsaws

pytestmark = pytest.mark.fence

T, WEIGHTS = 0.2, OWN["DetCo"]["level_weights"]


def by_loops(model, views):
    """The terms of the first step in float64, row by row, and the keys for each queue."""
    model = ungrouped(model)
    images, crops = views
    num = len(crops[0])
    jigsaws = [cut_jigsaws(crop, 3, 10, seed=i, num_drawn=num) for i, crop in enumerate(crops)]
    with torch.no_grad():
        whole = [[x.mean(dim=(2, 3)) for x in model.backbone(v)] for v in images]
        parts = []
        for jigsaw in jigsaws:  # (B, P, 3, px, px)
            outputs = model.backbone(jigsaw.flatten(0, 1))
            parts.append([x.mean(dim=(2, 3)).unflatten(0, jigsaw.shape[:2]) for x in outputs])
        terms, keys = {}, []
        for i, weight in enumerate(WEIGHTS):
            q, k = (unit_rows(model.neck.of_images[i](side[i])) for side in whole)
            ql, kl = (
                unit_rows(
                    torch.stack([model.neck.of_patches[i](torch.cat([*row])) for row in side[i]])
                )
                for side in parts
            )
            rows = model.image_queues[i].keys, model.patch_queues[i].keys
            for kind, a, b, queue in (("gg", q, k, 0), ("ll", ql, kl, 1), ("lg", ql, k, 0)):
                terms[f"loss_{kind}_{i}"] = weight * mean_nce(a, b, rows[queue], T)
            keys.append((k, kl))
    return terms, [*zip(*keys, strict=True)]


@pytest.mark.parametrize("own_crops", [True, False])
def test_a_step_equals_the_loops(own_crops):
    fields = {} if own_crops else {"layout": {"image_px": 36, "levels": []}}
    model = make_model("DetCo", **fields).double()
    views = [v.double() for v in step_of("DetCo")[0]]
    views = views if own_crops else views[1:] * 2
    terms, (image_keys, patch_keys) = by_loops(model, views)
    assert terms.keys() == model.loss_terms().keys()
    assert len(terms) == 9
    step = (views if own_crops else views[:1],)
    assert_step_equals(model, step, terms, [*image_keys, *patch_keys], tolerance=1e-12)


def test_squares_come_from_all_cells_in_another_order_for_each_image():
    # Each pixel contains its row and its column.
    place = torch.arange(36.0)
    crop = torch.stack([place[:, None].expand(36, 36), place.expand(36, 36), torch.zeros(36, 36)])
    crops = crop.expand(8, 3, 36, 36)
    cut = cut_jigsaws(crops, 3, 10, seed=3, num_drawn=8)
    assert cut.shape == (8, 9, 3, 10, 10)
    orders = set()
    for patches in cut:
        corners = patches[:, :2, 0, 0].int()  # (P, 2)
        assert ((corners % 12) <= 2).all()  # 10 of 12 px
        cells = corners // 12
        order = tuple((3 * cells[:, 0] + cells[:, 1]).tolist())
        assert sorted(order) == list(range(9))
        orders.add(order)
        assert torch.equal(patches[:, 0, :, 0] - patches[:, 0, :1, 0], place[:10].expand(9, 10))
        assert torch.equal(patches[:, 1, 0] - patches[:, 1, 0, :1], place[:10].expand(9, 10))
    assert len(orders) > 6
    assert torch.equal(cut[2:], cut_jigsaws(crops[2:], 3, 10, seed=3, skip=2, num_drawn=8))
    assert not torch.equal(cut, cut_jigsaws(crops, 3, 10, seed=4, num_drawn=8))
