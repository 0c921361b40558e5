import pytest
import torch
from helpers.models import small_contrast
from helpers.models.small_contrast import DETCO, DETCO_LAYOUT, make_model, ungrouped
from reference import nce, unit
from scipy.stats import ks_2samp

from mmssprl.datasets.transforms import PyramidCrop
from mmssprl.models import DetCo
from mmssprl.visualization.views import crop_boxes

T, WEIGHTS = 0.2, DETCO["level_weights"]


def make_detco(**fields):
    return make_model("DetCo", **fields)


def views_of(seed=0):
    return small_contrast.views_of(seed=seed, sizes=(32, 36))


def by_loops(model, views):
    """The terms of the first step in float64, row by row, and the keys that are pushed."""
    model = ungrouped(model)
    images, crops = views
    jigsaws = [model._cut(crop, 0, side) for side, crop in enumerate(crops)]
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
                values = [nce(a[n], b[n], rows[queue], T) for n in range(len(a))]
                terms[f"loss_{kind}_{i}"] = weight * sum(values).item() / len(a)
            keys.append((k, kl))
    return terms, keys


def unit_rows(rows):
    return torch.stack([unit(row) for row in rows])


@pytest.mark.parametrize("own_crops", [True, False])
def test_a_step_equals_the_loops(own_crops):
    model = make_detco() if own_crops else make_detco(layout={"image_px": 36, "levels": []})
    views = views_of() if own_crops else views_of()[1:] * 2
    model, views = model.double(), [v.double() for v in views]
    terms, keys = by_loops(model, views)
    losses = model.loss(views if own_crops else views[:1])
    assert losses.keys() == terms.keys() == model.loss_terms().keys()
    assert len(terms) == 9
    for name, value in terms.items():
        assert losses[name].item() == pytest.approx(value, abs=1e-12), name
    for i, (key, part_key) in enumerate(keys):
        for queue, rows in ((model.image_queues[i], key), (model.patch_queues[i], part_key)):
            torch.testing.assert_close(queue.keys[:4], rows, atol=1e-12, rtol=0)


def test_each_term_reads_its_own_queue():
    """A queue that is filled with one query makes only the terms that read it worse."""
    plain = make_detco().eval()
    losses = {name: value.item() for name, value in plain.loss(views_of()).items()}
    for kind, reading in (("image_queues", ("gg", "lg")), ("patch_queues", ("ll",))):
        for i in range(3):
            model = make_detco().eval()
            getattr(model, kind)[i].keys.zero_()
            changed = model.loss(views_of())
            found = {name for name, value in changed.items() if value.item() != losses[name]}
            assert found == {f"loss_{k}_{i}" for k in reading}


def test_a_weight_scales_its_three_terms_alone():
    losses = make_detco().loss(views_of())
    for i in range(3):
        weights = [w * (3 if i == k else 1) for k, w in enumerate(WEIGHTS)]
        for name, value in make_detco(level_weights=weights).loss(views_of()).items():
            factor = 3 if name.endswith(str(i)) else 1
            assert value.item() == pytest.approx(factor * losses[name].item(), rel=1e-5)


def test_gradients_of_patches_reach_their_head_alone():
    model = make_detco()
    losses = model.loss(views_of())
    sum(value for name, value in losses.items() if "_lg_" in name).backward()
    assert all(p.grad.abs().sum() > 0 for p in model.neck.of_patches.parameters())
    assert all(p.grad is None for p in model.neck.of_images.parameters())
    assert all(p.grad is None for p in model.key_encoder.parameters())
    assert all(p.grad.abs().sum() > 0 for p in model.backbone.parameters())


def test_squares_come_from_all_cells_in_another_order_for_each_image():
    model = make_detco()
    # Each pixel tells its row and its column.
    place = torch.arange(36.0)
    crop = torch.stack([place[:, None].expand(36, 36), place.expand(36, 36), torch.zeros(36, 36)])
    cut = model._cut(crop.expand(8, 3, 36, 36), step=3, side=0)
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
    again = model._cut(crop.expand(8, 3, 36, 36), step=3, side=0)
    assert torch.equal(cut, again)
    for other in ({"step": 4, "side": 0}, {"step": 3, "side": 1}):
        assert not torch.equal(cut, model._cut(crop.expand(8, 3, 36, 36), **other))


def test_swapped_patches_change_the_patches_embedding_alone():
    neck = make_detco().neck
    images = [torch.randn(2, head[0].in_features) for head in neck.of_images]
    patches = [torch.randn(2, 9, x.shape[1]) for x in images]
    swapped = [x[:, [1, 0, *range(2, 9)]] for x in patches]
    (whole, parts), (same, other) = neck(images, patches), neck(images, swapped)
    for i in range(3):
        assert torch.equal(whole[i], same[i])
        assert (parts[i] - other[i]).abs().max() > 1e-3


def test_patches_of_an_image_stay_in_one_group_of_batch_norm():
    """With two groups, what is in images 2 and 3 changes no statistic of images 0 and 1."""
    model = make_detco(bn_groups=2).train()
    first, second = views_of(), views_of(seed=1)
    mixed = [torch.cat([a[:, :2], b[:, 2:]], dim=1) for a, b in zip(first, second, strict=True)]
    jigsaws = [model._cut(v[1][0], 0, 0) for v in (first, mixed)]
    rows = [
        model._features(model.backbone, v[0][:1], j[None])
        for v, j in zip((first, mixed), jigsaws, strict=True)
    ]
    for kind in range(2):
        for a, b in zip(rows[0][kind], rows[1][kind], strict=True):
            assert torch.equal(a[:2], b[:2])
            assert not torch.equal(a[2:], b[2:])


def test_the_two_jigsaws_are_crops_of_their_own():
    cut = PyramidCrop(DETCO_LAYOUT)
    centres = []
    for seed in range(300):

        def crop(image, seed=seed):
            return cut({"img": image, "crop_seed": (seed, 0, 0)})["inputs"]

        boxes = crop_boxes(crop, 100, 120)[1]  # (2, 4)
        centres.append(boxes[:, ::2].mean(axis=1))
    first, second = zip(*centres, strict=True)
    assert ks_2samp(first, second).pvalue > 0.01
    assert sum(abs(a - b) > 1 for a, b in centres) > 200


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"level_weights": (1,) * 4}, "1 to 3 numbers"),
        ({"patch_px": 13}, "patch_px.*12.*13"),
        ({"symmetric": True}, "symmetric.*False"),
        ({"layout": {**DETCO_LAYOUT, "num_small": 3}}, "num_small=3"),
    ],
)
def test_bad_settings(fields, message):
    with pytest.raises(ValueError, match=message):
        make_detco(**fields)


def test_settings_of_a_training_are_checked_by_its_queues():
    model = make_detco()
    assert isinstance(model, DetCo)
    with pytest.raises(ValueError, match="queue_length.*12"):
        model.check_training(num_images=11, batch_size=4)
    assert model.health()["queue_fill"] == 0
    model.loss(views_of())
    assert model.health()["queue_fill"] == pytest.approx(1 / 3)
