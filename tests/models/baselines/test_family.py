import pytest
import torch
from helpers.models.small_contrast import (
    DETCO_LAYOUT,
    KINDS,
    LAYOUT,
    OF_MOCO,
    make_model,
    model_cfg,
    step_of,
    views_of,
)

from mmssprl.functional.jigsaws import cut_jigsaws
from mmssprl.models import GroupedBatchNorm
from mmssprl.models.baselines import InsLocNeck

pytestmark = pytest.mark.fence

LEVEL = {"grid": 2, "resize_px": 32, "patch_px": 16}


@pytest.mark.parametrize("kind", KINDS)
def test_every_part_but_the_keys_is_trained(kind):
    model = make_model(kind)
    losses = model.loss(*step_of(kind))
    for name, term in losses.items():
        (grad,) = torch.autograd.grad(term, model.backbone.conv1.weight, retain_graph=True)
        assert grad.any(), name
    sum(losses.values()).backward()
    for name, parameter in model.named_parameters():
        if name.startswith(("key_encoder", "target")):
            assert parameter.grad is None, name
        else:
            assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_saved_twice(kind):
    places = [value.data_ptr() for value in make_model(kind).state_dict().values()]
    assert len({*places}) == len(places)  # keys are copies


@pytest.mark.parametrize("kind", KINDS)
def test_evaluation_changes_nothing(kind):
    model = make_model(kind)
    model.loss(*step_of(kind))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.eval().loss(*step_of(kind, seed=1))
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


@pytest.mark.parametrize("kind", OF_MOCO)
@pytest.mark.parametrize(
    ("sizes", "match"),
    [
        ((100, 12), "12 keys.*queue_length"),
        ((11, 4), "11 images.*12.*queue_length"),
        ((100, 5), "bn_groups=2, but got 5"),
        ((100, 8, 3), "bn_groups=2, but got 3; .*drop_last=True"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(kind, sizes, match):
    model = make_model(kind, bn_groups=2)
    model.check_training(num_images=12, batch_size=10)
    model.check_training(num_images=100, batch_size=8, last_batch_size=4)
    with pytest.raises(ValueError, match=match):
        model.check_training(*sizes)


@pytest.mark.parametrize(
    ("kind", "sizes", "message"),
    [
        ("BYOL", (4, 1), "BYOL: .* two images .* got 1; .*batch_size.*drop_last"),
        ("BYOL", (1, None), "two images .* got 1"),
        ("InsLoc", (4, 2), "InsLoc: .* three images .* got 2; .*drop_last"),
    ],
)
def test_a_step_needs_enough_images(kind, sizes, message):
    with pytest.raises(ValueError, match=message):
        make_model(kind).check_training(100, *sizes)


@pytest.mark.parametrize(
    ("kind", "message"),
    [("InsLoc", "'PasteCrop'.*'PastePreprocessor'"), ("MaskCo", "'RegionPairCrop'.*'PyramidPrep")],
)
def test_views_without_boxes_are_refused(kind, message):
    with pytest.raises(ValueError, match=f"{kind} needs boxes .*{message}"):
        make_model(kind).loss(step_of(kind)[0])


@pytest.mark.parametrize("kind", ["DenseCL", "MaskCo"])
def test_backbones_without_a_map_are_refused(kind):
    vectors = {"type": "mmpretrain.VisionTransformer", "arch": "deit-tiny", "patch_size": 8}
    px = model_cfg(kind)["layout"]["image_px"]
    neck = {**model_cfg(kind)["neck"], "in_channels": 192}
    backbone = {**vectors, "img_size": px, "out_type": "cls_token"}
    with pytest.raises(ValueError, match=rf"{kind}: .* a map .*\(4, 192\).*out_type='featmap'"):
        make_model(kind, backbone=backbone, neck=neck).loss(*step_of(kind))


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("BYOL", {"base_momentum": 1.0}, r"base_momentum.*1\.0"),
        ("BYOL", {"layout": {**LAYOUT, "levels": [LEVEL]}}, "BYOL.*num_small=0"),
        ("BYOL", {"layout": {**LAYOUT, "num_small": 2}}, "BYOL.*num_small=0"),
        ("MoCo", {"momentum": 1.0}, "momentum.*1.0"),
        ("MoCo", {"temperature": 0}, "temperature.*0"),
        ("MoCo", {"bn_groups": 0}, "bn_groups.*0"),
        ("MoCo", {"layout": {**LAYOUT, "num_small": 6}}, "num_small=6"),
        ("DenseCL", {"loss_lambda": 1.5}, "loss_lambda.*1.5"),
        ("DenseCL", {"dense_start_epoch": -1}, "dense_start_epoch.*-1"),
        ("DenseCL", {"neck": {**model_cfg()["neck"], "num_grid": 2}}, "num_grid"),
        ("DetCo", {"level_weights": (1,) * 4}, "3 numbers"),
        ("DetCo", {"patch_px": 13}, "patch_px.*12.*13"),
        ("DetCo", {"layout": {**DETCO_LAYOUT, "num_small": 3}}, "num_small=3"),
        ("MaskCo", {"mask_channels": 0, "mph_on_key": True}, "mph_on_key must be False without M"),
    ],
)
def test_bad_settings_are_refused(kind, fields, message):
    with pytest.raises(ValueError, match=message):
        make_model(kind, **fields)


def late_dense():
    return make_model("DenseCL", loss_lambda=0.4, dense_start_epoch=2)


def test_the_start_of_the_dense_term_needs_the_length_of_an_epoch():
    with pytest.raises(RuntimeError, match="dense_start_epoch=2.*PretrainHook"):
        late_dense().loss(views_of())


def test_terms_have_the_weights_of_the_end_outside_of_training():
    weights = {name: term.weight for name, term in late_dense().loss_terms().items()}
    assert weights == {"loss_nce": 0.6, "loss_dense": 0.4}


def test_the_dense_term_starts_with_its_epoch():
    model = late_dense()
    model.on_epoch_length(2)
    shares = []
    described = []
    for step in range(6):
        losses = model.loss(views_of(seed=step))
        shares.append((model.current_lambda, bool(losses["loss_dense"] > 0)))
        described.append({name: (t.weight, t.since) for name, t in model.loss_terms().items()})
    assert shares == [(0.0, False)] * 4 + [(0.4, True)] * 2
    both = {"loss_nce": (0.6, 4), "loss_dense": (0.4, 4)}
    assert described == [{"loss_nce": (1.0, 0)}] * 4 + [both] * 2
    assert model.dense_queue.fill == 1  # filled since the first step


@pytest.fixture(scope="module")
def crops():
    """Eight equal crops (8, 3, 36, 36); each pixel contains its row and its column."""
    place = torch.arange(36.0)
    crop = torch.stack([place[:, None].expand(36, 36), place.expand(36, 36), torch.zeros(36, 36)])
    return crop.expand(8, 3, 36, 36)


def jigsaws_of(crops, seed=3, **options):
    return cut_jigsaws(crops, 3, 10, seed=seed, num_drawn=8, **options)


def test_squares_are_cut_whole_from_their_cells(crops):
    cut = jigsaws_of(crops)
    assert cut.shape == (8, 9, 3, 10, 10)
    corners = cut[:, :, :2, 0, 0].int()  # (B, P, 2)
    assert ((corners % 12) <= 2).all()  # 10 of 12 px
    steps = torch.arange(10.0).expand(8, 9, 10, 10)
    assert torch.equal(cut[:, :, 0] - cut[:, :, 0, :1], steps.mT)
    assert torch.equal(cut[:, :, 1] - cut[:, :, 1, :, :1], steps)


def test_squares_come_from_all_cells_in_another_order_for_each_image(crops):
    cells = jigsaws_of(crops)[:, :, :2, 0, 0].int() // 12  # (B, P, 2)
    orders = {tuple(order) for order in (3 * cells[..., 0] + cells[..., 1]).tolist()}
    assert all(sorted(order) == list(range(9)) for order in orders)
    assert len(orders) > 6


def test_a_rank_cuts_its_part_of_the_jigsaws_of_a_step(crops):
    assert torch.equal(jigsaws_of(crops)[2:], jigsaws_of(crops[2:], skip=2))


def test_the_next_step_cuts_other_jigsaws(crops):
    assert not torch.equal(jigsaws_of(crops), jigsaws_of(crops, seed=4))


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
    of_convolution = neck.head[0].weight.std().item()
    assert of_convolution == pytest.approx((2 / (9 * 256)) ** 0.5, rel=0.02)
    assert neck.head[-1].weight.std().item() == pytest.approx(0.01, rel=0.03)


@pytest.mark.parametrize(
    ("bn_groups", "num_ranks", "num_warnings"), [(1, 1, 1), (2, 1, 0), (1, 2, 0)]
)
def test_one_group_in_all_is_warned_of(bn_groups, num_ranks, num_warnings, monkeypatch):
    logged = []
    grouping = "mmssprl.models.grouped_batch_norm"
    monkeypatch.setattr(f"{grouping}.print_log", lambda text, **_: logged.append(text))
    monkeypatch.setattr(f"{grouping}.dist.get_world_size", lambda: num_ranks)
    model = make_model(queue_length=20, bn_groups=bn_groups)
    model.check_training(num_images=20, batch_size=4)
    assert ["batch_size=4" in text for text in logged] == [True] * num_warnings


def test_groups_that_sync_bn_joined_are_refused():
    model = make_model(bn_groups=2)
    norms = sum(isinstance(m, GroupedBatchNorm) for m in model.modules())
    assert norms == 2 * 5
    joined = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)
    with pytest.raises(ValueError, match="sync_bn=None"):
        joined.check_training(num_images=100, batch_size=4)
