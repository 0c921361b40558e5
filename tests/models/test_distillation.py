"""Pyramid distillation against loops in float64, its health, and what it refuses."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.datasets.noise_images import write_noise
from helpers.models.small_ssprl import BACKBONE, LAYOUT, model_cfg, packed_batch
from helpers.models.two_ranks import NUM_RANKS, assert_mean_equals, on_two_ranks
from PIL import Image
from reference import mean_over_box
from torch.nn import functional as F

from mmssprl.datasets import UnlabeledImages, stack_views
from mmssprl.datasets.transforms import TeacherCrop
from mmssprl.distillation import TeacherHook
from mmssprl.distillation.maps import MAPS, keep_maps
from mmssprl.distillation.teacher import load_teacher
from mmssprl.engine.runner import CPUDistributedDataParallel
from mmssprl.errors import UserValueError
from mmssprl.models.pyramid_model import last_outputs
from mmssprl.pyramid import ViewLayout
from mmssprl.registry import MODELS

HEIGHT, WIDTH, ROWS, COLUMNS, SIZE = 60, 90, 3, 2, 4  # cells that are no squares


NECK = {"type": "MultiHeadNeck", "in_channels": 8, "hid_channels": 16, "out_channels": SIZE}
KINDS = ("PyramidDistillation", "AnchoredSSPRL")


def build(kind="PyramidDistillation", **settings):
    torch.manual_seed(0)
    parts = {"layout": LAYOUT, "backbone": BACKBONE, "neck": NECK}
    if kind == "AnchoredSSPRL":
        parts = {**model_cfg(BACKBONE, 8), "anchor_neck": NECK}
    return MODELS.build({**parts, **settings, "type": kind})


def batch(seed=0):
    """A batch whose crops lie at random places, with maps of six cells in a file of eight."""
    generator = torch.Generator().manual_seed(seed)
    data = packed_batch(LAYOUT, seed=seed)
    corner = torch.tensor([WIDTH, HEIGHT] * 2)
    data["data_samples"] = {
        "places": [
            torch.rand(2, group.num_crops, 4, generator=generator).sort(-1).values * corner
            for group in ViewLayout.build(LAYOUT).groups
        ],
        "maps": torch.randn(2, 8, SIZE, generator=generator).half(),
        "sizes": torch.tensor([[HEIGHT, WIDTH, ROWS, COLUMNS]] * 2),
    }
    return data


def target(samples, image, place):
    x1, y1, x2, y2 = place.double().tolist()
    box = [x1 * COLUMNS / WIDTH, y1 * ROWS / HEIGHT, x2 * COLUMNS / WIDTH, y2 * ROWS / HEIGHT]
    values = samples["maps"][image, : ROWS * COLUMNS].double().numpy()
    mean = mean_over_box(values, box, ROWS, COLUMNS)
    return torch.from_numpy(mean / np.linalg.norm(mean))


@pytest.mark.fence
@pytest.mark.parametrize("dense_weight", [0.0, 0.3])
def test_the_loss_equals_loops_in_float64(dense_weight):
    model = build(dense_weight=dense_weight, alpha=0.7)
    data = model.data_preprocessor(batch(), training=True)
    inputs, samples = data["inputs"], data["data_samples"]
    mirrored = [places[..., 0] > places[..., 2] for places in samples["places"]]
    assert any(each.any() for each in mirrored)
    assert not all(each.all() for each in mirrored)
    found = model.loss(inputs, samples)

    def last(crops):
        return model.backbone(crops.flatten(0, 1))[-1].unflatten(0, crops.shape[:2])

    maps = [last(crops) for crops in inputs]
    scales = model.layout.split([each.mean((-2, -1)) for each in maps])
    embeddings = [each.detach().double() for each in model.neck(scales)]
    for scale, places in enumerate(model.layout.split(samples["places"])):
        cosines = [
            embeddings[scale][v, p, b] @ target(samples, b, places[v, p, b])
            for v, p, b in np.ndindex(*places.shape[:3])
        ]
        expected = (1 - dense_weight) * 0.7 * (1 - sum(cosines) / len(cosines))
        assert found[f"loss_distill_s{scale}"].item() == pytest.approx(expected.item(), abs=2e-6)
    if not dense_weight:
        assert "loss_cells" not in found
        return
    side = maps[0].shape[-1]
    cosines = []
    patches = maps[0][:2].flatten(3).permute(0, 3, 1, 2)  # (2, k^2, B, C)
    (cells,) = model.dense_neck([patches])
    for v, b, row, column in np.ndindex(2, 2, side, side):
        x1, y1, x2, y2 = samples["places"][0][v, b].double()
        x, y = (x2 - x1) / side, (y2 - y1) / side
        corner = torch.stack([x1 + column * x, y1 + row * y])
        place = torch.cat([corner, corner + torch.stack([x, y])])
        cell = cells[v, row * side + column, b].detach().double()
        cosines.append(cell @ target(samples, b, place))
    expected = dense_weight * (1 - sum(cosines) / len(cosines))
    assert found["loss_cells"].item() == pytest.approx(expected.item(), abs=2e-6)


@pytest.mark.parametrize("dense_weight", [0.0, 0.3])
def test_an_anchored_loss_is_that_of_ssprl_and_of_a_distillation(dense_weight):
    anchored = build("AnchoredSSPRL", dense_weight=dense_weight)
    alone = build(dense_weight=dense_weight)
    alone.backbone, alone.neck = anchored.backbone, anchored.anchor_neck
    alone.dense_neck = anchored.anchor_dense_neck
    ssprl = MODELS.build(model_cfg(BACKBONE, 8))
    ssprl.backbone, ssprl.neck, ssprl.head = anchored.backbone, anchored.neck, anchored.head
    data = anchored.data_preprocessor(batch(), training=True)
    given = data["inputs"], data["data_samples"]
    torch.testing.assert_close(anchored.loss(*given), ssprl.loss(*given) | alone.loss(*given))
    assert anchored.loss_terms() == ssprl.loss_terms() | alone.loss_terms()
    assert set(anchored.health()) == set(ssprl.health()) | set(alone.health())
    assert anchored.examine().keys() == ssprl.examine().keys()


def test_an_anchored_backbone_is_compiled_as_that_of_ssprl(monkeypatch):
    runs = []
    monkeypatch.setattr("mmssprl.models.distillation.compiled", lambda run: runs.append(run) or run)
    data = build().data_preprocessor(batch(), training=True)
    losses = [
        build("AnchoredSSPRL", compile_backbone=compiles).loss(data["inputs"], data["data_samples"])
        for compiles in (False, True)
    ]
    assert runs == [last_outputs]
    torch.testing.assert_close(*losses)


@pytest.mark.parametrize(("kind", "atol"), zip(KINDS, (1e-5, 5e-5), strict=True))
def test_chunks_change_nothing_but_statistics(kind, atol):
    models = [build(kind, num_chunks=chunks) for chunks in (1, 2)]
    data = models[0].data_preprocessor(batch(), training=False)
    losses = []
    for model in models:
        model.backbone.eval()  # the statistics are those of a part
        terms = model.loss(data["inputs"], data["data_samples"])
        sum(terms.values()).backward()
        losses.append(terms)
    for name, value in losses[0].items():
        torch.testing.assert_close(value, losses[1][name])
    for one, two in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(one.grad, two.grad, atol=atol, rtol=1e-3)


def test_health_has_the_cosine_to_own_and_to_other_targets():
    model = build()
    data = model.data_preprocessor(batch(), training=False)
    terms = model.loss(data["inputs"], data["data_samples"])
    health = model.health()
    drawn = {
        key.removeprefix("loss_"): 1 - terms[key] / term.weight
        for key, term in model.loss_terms().items()
    }
    assert {f"cosine_{name}" for name in drawn} < set(health)
    for name, cosine in drawn.items():
        torch.testing.assert_close(health[f"cosine_{name}"], cosine.detach())
        assert health[f"cosine_shuffled_{name}"] != health[f"cosine_{name}"]
    assert {"effective_rank", "alignment"} < set(model.examine())
    samples = data["data_samples"]
    shuffled = {**samples, "maps": samples["maps"].flip(0)}
    shuffled["places"] = [places.flip(1) for places in samples["places"]]
    model.loss(data["inputs"], shuffled)
    for name in drawn:  # two images: the other's target is the shuffled one
        torch.testing.assert_close(
            model.health()[f"cosine_{name}"], health[f"cosine_shuffled_{name}"]
        )


def test_an_image_without_a_map_gives_no_gradient():
    model = build(dense_weight=0.0)
    data = model.data_preprocessor(batch(), training=False)
    data["data_samples"]["maps"].zero_()
    terms = model.loss(data["inputs"], data["data_samples"])
    assert all(term.item() == 1.0 for term in terms.values())
    sum(terms.values()).backward()
    assert not any(value.grad.any() for value in model.parameters())


def test_autocast_leaves_targets_in_float32():
    model = build()
    data = model.data_preprocessor(batch(), training=False)
    with torch.autocast("cpu", torch.bfloat16):
        (found,) = model.teacher_head.targets(
            [data["data_samples"]["places"][0][:, None]], data["data_samples"]
        )
    assert found.dtype == torch.float32
    norms = F.normalize(found, dim=-1)
    torch.testing.assert_close(found, norms)


def test_what_it_refuses():
    with pytest.raises(UserValueError, match=r"dense_weight must be from 0 to 1, but got 1.5"):
        build(dense_weight=1.5)
    with pytest.raises(UserValueError, match="alpha must be from 0 to inf, but got -1"):
        build(alpha=-1)
    model = build()
    data = model.data_preprocessor(packed_batch(LAYOUT), training=False)
    with pytest.raises(UserValueError, match="needs its maps .*TeacherHook"):
        model.loss(data["inputs"], data["data_samples"])


def test_a_student_that_is_the_teacher_reaches_its_targets(tmp_path):
    """Of whole images its own features say all; of shuffled ones they say nothing."""
    (tmp_path / "images").mkdir()
    generator = torch.Generator().manual_seed(0)
    for index in range(16):
        colours = torch.randint(0, 256, (4, 4, 3), generator=generator, dtype=torch.uint8)
        image = Image.fromarray(colours.numpy()).resize((32, 32), Image.Resampling.BILINEAR)
        image.save(tmp_path / "images" / f"{index}.png")
    layout = {"image_px": 32, "image_area": (1.0, 1.0), "levels": []}
    network = "helpers.models.own_nets:maps"
    torch.manual_seed(0)
    teacher = load_teacher(network)
    neck = {"type": "MultiHeadNeck", "in_channels": 12, "hid_channels": 128, "out_channels": 8}
    plain = {f"{name}_prob": 0.0 for name in ("jitter", "grayscale", "blur")}
    model = build(
        layout=layout,
        backbone={"type": "ModuleBackbone", "network": network},
        neck=neck,
        data_preprocessor=plain,
    )
    model.backbone.load_state_dict(teacher.network.backbone.state_dict())
    crop = TeacherCrop(layout)
    images = UnlabeledImages(str(tmp_path / "images"), pipeline=[crop])
    state = keep_maps(tmp_path / "maps", teacher, images, px=32, size=8)
    crop.take_maps(tmp_path / "maps" / MAPS, state["num_cells"], 8)
    data = stack_views([images[index] for index in range(16)])
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for _ in range(200):
        views = model.data_preprocessor(data, training=True)
        optimizer.zero_grad()
        sum(model.loss(views["inputs"], views["data_samples"]).values()).backward()
        optimizer.step()
    health = model.health()
    assert health["cosine_distill_s0"] > 0.9
    assert health["cosine_cells"] > 0.9
    assert health["cosine_shuffled_distill_s0"] < 0.5
    assert health["cosine_shuffled_cells"] < 0.5


def step(images, wrap=lambda model: model, kind="PyramidDistillation"):
    """Losses and gradients of some images of a batch, without statistics of a batch."""
    model = build(kind).train()
    for norm in model.modules():
        if isinstance(norm, torch.nn.BatchNorm1d | torch.nn.BatchNorm2d):
            norm.eval()
    data = model.data_preprocessor(batch(), training=False)
    samples = data["data_samples"]
    own = {name: samples[name][images] for name in ("maps", "sizes")}
    own["places"] = [each[:, images] for each in samples["places"]]
    losses = wrap(model)([each[:, images] for each in data["inputs"]], own, mode="loss")
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


@pytest.mark.dist
@pytest.mark.fence
@pytest.mark.parametrize("kind", KINDS)
def test_two_ranks_equal_one_process_and_read_one_file(kind, tmp_path):
    (tmp_path / "images").mkdir()
    write_noise(tmp_path / "images")
    ranks = on_two_ranks(partial(work, folder=tmp_path, kind=kind), tmp_path)
    assert_mean_equals([found for found, _ in ranks], step(slice(NUM_RANKS), kind=kind))
    torch.testing.assert_close(ranks[0][1], ranks[1][1])
    assert ranks[0][1].any()
