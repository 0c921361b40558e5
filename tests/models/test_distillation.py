"""Pyramid distillation against loops in float64, its health, and what it refuses."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.datasets.noise_images import write_noise
from helpers.models.small_ssprl import BACKBONE, LAYOUT, model_cfg, packed_batch
from helpers.models.two_ranks import NUM_RANKS, assert_mean_equals, on_two_ranks
from reference import mean_over_box

from mmssprl.datasets import UnlabeledImages
from mmssprl.datasets.transforms import TeacherCrop
from mmssprl.distillation import TeacherHook
from mmssprl.engine.runner import CPUDistributedDataParallel
from mmssprl.errors import UserValueError
from mmssprl.models.pyramid_model import last_outputs
from mmssprl.pyramid import ViewLayout
from mmssprl.registry import MODELS

HEIGHT = 60
WIDTH = 90
ROWS = 3
COLUMNS = 2  # cells that are no squares
SIZE = 4
NECK = {"type": "MultiHeadNeck", "in_channels": 8, "hid_channels": 16, "out_channels": SIZE}
KINDS = ("PyramidDistillation", "AnchoredSSPRL")


def build(kind="PyramidDistillation", **settings):
    torch.manual_seed(0)
    parts = {"layout": LAYOUT, "backbone": BACKBONE, "neck": NECK}
    if kind == "AnchoredSSPRL":
        parts = {**model_cfg(BACKBONE, 8), "anchor_neck": NECK}
    return MODELS.build({**parts, **settings, "type": kind})


def step_of(model, training=False):
    """Inputs and data_samples: crops at random places, with maps of six cells in a file of 8."""
    generator = torch.Generator().manual_seed(0)
    corner = torch.tensor([WIDTH, HEIGHT] * 2)
    samples = {
        "places": [
            torch.rand(2, group.num_crops, 4, generator=generator).sort(-1).values * corner
            for group in ViewLayout.build(LAYOUT).groups
        ],
        "maps": torch.randn(2, 8, SIZE, generator=generator).half(),
        "sizes": torch.tensor([[HEIGHT, WIDTH, ROWS, COLUMNS]] * 2),
    }
    data = {**packed_batch(LAYOUT), "data_samples": samples}
    data = model.data_preprocessor(data, training=training)
    return data["inputs"], data["data_samples"]


def target(samples, image, place):
    x1, y1, x2, y2 = place.double().tolist()
    box = [x1 * COLUMNS / WIDTH, y1 * ROWS / HEIGHT, x2 * COLUMNS / WIDTH, y2 * ROWS / HEIGHT]
    values = samples["maps"][image, : ROWS * COLUMNS].double().numpy()
    mean = mean_over_box(values, box, ROWS, COLUMNS)
    return torch.from_numpy(mean / np.linalg.norm(mean))


@pytest.mark.parametrize("kind", KINDS)
def test_the_backbone_runs_in_chunks(kind):
    model = build(kind, num_chunks=2)
    inputs, samples = step_of(model)
    model.loss(inputs, samples)
    assert model.backbone.bn1.num_batches_tracked == 2 * len(inputs)


def maps_of(model, inputs):
    return [model.backbone(x.flatten(0, 1))[-1].unflatten(0, x.shape[:2]) for x in inputs]


def cell_of(box, row, column, side):
    """One of side x side cells of a box."""
    x1, y1, x2, y2 = box.double()
    size = torch.stack([x2 - x1, y2 - y1]) / side
    corner = torch.stack([x1, y1]) + torch.tensor([column, row]) * size
    return torch.cat([corner, corner + size])


def test_some_views_of_a_step_are_mirrored():
    _, samples = step_of(build(), training=True)
    mirrored = [places[..., 0] > places[..., 2] for places in samples["places"]]
    assert any(each.any() for each in mirrored)
    assert not all(each.all() for each in mirrored)


@pytest.mark.fence
@pytest.mark.parametrize("dense_weight", [0.0, 0.3])
def test_the_loss_equals_loops_in_float64(dense_weight):
    model = build(dense_weight=dense_weight)
    inputs, samples = step_of(model, training=True)
    found = model.loss(inputs, samples)

    scales = model.layout.split([each.mean((-2, -1)) for each in maps_of(model, inputs)])
    embeddings = [each.detach().double() for each in model.neck(scales)]
    for scale, places in enumerate(model.layout.split(samples["places"])):
        cosines = [
            embeddings[scale][v, p, b] @ target(samples, b, places[v, p, b])
            for v, p, b in np.ndindex(*places.shape[:3])
        ]
        expected = (1 - dense_weight) * (1 - sum(cosines) / len(cosines))
        assert found[f"loss_distill_s{scale}"].item() == pytest.approx(expected.item(), abs=2e-6)
    assert ("loss_cells" in found) == (dense_weight > 0)


@pytest.mark.fence
def test_the_loss_of_cells_equals_loops_in_float64():
    model = build(dense_weight=0.3)
    inputs, samples = step_of(model, training=True)
    found = model.loss(inputs, samples)

    maps = maps_of(model, inputs)[0]
    side = maps.shape[-1]
    patches = maps[:2].flatten(3).permute(0, 3, 1, 2)  # (2, k^2, B, C)
    (cells,) = model.dense_neck([patches])
    cosines = []
    for v, b, row, column in np.ndindex(2, 2, side, side):
        place = cell_of(samples["places"][0][v, b], row, column, side)
        cell = cells[v, row * side + column, b].detach().double()
        cosines.append(cell @ target(samples, b, place))
    expected = 0.3 * (1 - sum(cosines) / len(cosines))
    assert found["loss_cells"].item() == pytest.approx(expected.item(), abs=2e-6)


@pytest.fixture(params=[0.0, 0.3])
def anchored(request):
    """An anchored model, and an SS-PRL and a distillation that share its modules."""
    model = build("AnchoredSSPRL", dense_weight=request.param)
    alone = build(dense_weight=request.param)
    alone.backbone = model.backbone
    alone.neck = model.anchor_neck
    alone.dense_neck = model.anchor_dense_neck
    ssprl = MODELS.build(model_cfg(BACKBONE, 8))
    for part in ("backbone", "neck", "head"):
        setattr(ssprl, part, getattr(model, part))
    return model, ssprl, alone


def test_an_anchored_loss_joins_the_terms_of_both(anchored):
    model, ssprl, alone = anchored
    given = step_of(model, training=True)
    torch.testing.assert_close(model.loss(*given), ssprl.loss(*given) | alone.loss(*given))
    assert model.loss_terms() == ssprl.loss_terms() | alone.loss_terms()


def test_an_anchored_model_measures_what_both_do(anchored):
    model, ssprl, alone = anchored
    given = step_of(model, training=True)
    for each in anchored:
        each.loss(*given)
    assert set(model.health()) == set(ssprl.health()) | set(alone.health())
    assert model.examine().keys() == ssprl.examine().keys()


def test_an_anchored_backbone_is_compiled_on_demand(anchored, monkeypatch):
    model, *_ = anchored
    runs = []
    monkeypatch.setattr("mmssprl.models.distillation.compiled", lambda run: runs.append(run) or run)
    given = step_of(model, training=True)
    model.loss(*given)
    assert runs == []
    model.compile_backbone = True
    model.loss(*given)
    assert runs == [last_outputs]


def test_the_image_views_are_measured():
    model = build()
    model.loss(*step_of(model))
    assert {"effective_rank", "alignment"} < set(model.examine())


def test_health_has_the_cosine_to_own_targets_next_to_others():
    model = build()
    inputs, samples = step_of(model)
    losses = model.loss(inputs, samples)
    health = model.health()

    places = [each.flip(1) for each in samples["places"]]
    model.loss(inputs, {**samples, "maps": samples["maps"].flip(0), "places": places})
    for key, term in model.loss_terms().items():
        name = key.removeprefix("loss_")
        own = health[f"cosine_{name}"]
        other = health[f"cosine_shuffled_{name}"]
        torch.testing.assert_close(own, 1 - losses[key].detach() / term.weight)
        # Two images: the other's target is the shuffled one.
        torch.testing.assert_close(model.health()[f"cosine_{name}"], other)
        assert own != other


def test_an_image_without_a_map_gives_no_gradient():
    model = build(dense_weight=0.0)
    inputs, samples = step_of(model)
    samples["maps"].zero_()
    terms = model.loss(inputs, samples)
    assert all(term.item() == 1.0 for term in terms.values())
    sum(terms.values()).backward()
    assert not any(value.grad.any() for value in model.parameters())


def test_autocast_changes_no_target():
    model = build()
    _, samples = step_of(model)
    places = [samples["places"][0][:, None]]
    expected = model.teacher_head.targets(places, samples)
    with torch.autocast("cpu", torch.bfloat16):
        found = model.teacher_head.targets(places, samples)
    torch.testing.assert_close(found, expected, atol=0, rtol=0)


def test_a_weight_above_1_is_refused():
    with pytest.raises(UserValueError, match=r"dense_weight must be from 0 to 1, but got 1.5"):
        build(dense_weight=1.5)


def test_a_batch_that_chunks_do_not_divide_is_refused():
    with pytest.raises(UserValueError, match="num_chunks=2, but got 3"):
        build(num_chunks=2).check_training(num_images=9, batch_size=3)


def test_views_without_maps_are_refused():
    model = build()
    with pytest.raises(UserValueError, match="needs its maps .*TeacherHook"):
        model.loss(step_of(model)[0])


def step(images, wrap=lambda model: model, kind="PyramidDistillation"):
    """Losses and gradients of some images of a batch, without statistics of a batch."""
    model = build(kind).train()
    for norm in model.modules():
        if isinstance(norm, torch.nn.BatchNorm1d | torch.nn.BatchNorm2d):
            norm.eval()
    inputs, samples = step_of(model)
    own = {name: samples[name][images] for name in ("maps", "sizes")}
    own["places"] = [each[:, images] for each in samples["places"]]
    losses = wrap(model)([each[:, images] for each in inputs], own, mode="loss")
    sum(losses.values()).backward()
    return {k: v.detach() for k, v in losses.items()}, [p.grad for p in model.parameters()]


def work(rank, folder, kind):
    wrap = partial(CPUDistributedDataParallel, broadcast_buffers=False)
    found = step(slice(rank, rank + 1), wrap, kind)
    crop = TeacherCrop(LAYOUT)
    images = UnlabeledImages(str(folder / "images"), pipeline=[crop])
    runner = SimpleNamespace(
        train_dataloader=SimpleNamespace(dataset=images, num_workers=0),
        model=build(kind),
        cfg={},
        work_dir=str(folder / "run"),
        logger=SimpleNamespace(info=lambda line: None),
    )
    TeacherHook(teacher="helpers.models.own_nets:maps", teacher_px=32).before_train(runner)
    return found, images[3]["data_samples"]["maps"]


@pytest.fixture(scope="module", params=KINDS)
def ranks(request, tmp_path_factory):
    """A kind of model, and the step and a kept map of each rank."""
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "images").mkdir()
    write_noise(folder / "images")
    return request.param, on_two_ranks(partial(work, folder=folder, kind=request.param), folder)


@pytest.mark.dist
@pytest.mark.fence
def test_two_ranks_equal_one_process(ranks):
    kind, results = ranks
    assert_mean_equals([found for found, _ in results], step(slice(NUM_RANKS), kind=kind))


@pytest.mark.dist
@pytest.mark.fence
def test_two_ranks_read_one_file_of_maps(ranks):
    _, ((_, first), (_, second)) = ranks
    torch.testing.assert_close(first, second)
    assert first.any()
