import functools

import numpy as np
import pytest
import torch
from helpers.models.small_cells import (
    LAYOUT,
    SWAV,
    Pixels,
    batch_of,
    head_and_embeddings,
    make_model,
    step,
)
from helpers.models.small_ssprl import BACKBONE
from helpers.models.two_ranks import assert_mean_equals, on_two_ranks
from reference import cross_entropy, sinkhorn, unit

from mmssprl.datasets import stack_views
from mmssprl.datasets.transforms import PyramidCrop
from mmssprl.functional.boxes import cut_to_crop
from mmssprl.models import ssprl
from tools.dev.speed.runs import SyncCounter


def pixel_model(**options):
    """A model whose features are pixels that are only mirrored, and what its heads get by scale."""
    layout = {**LAYOUT, "image_px": 64, "small_px": 32, "small_area": (0.05, 0.3)}
    plain = dict.fromkeys(("jitter_prob", "grayscale_prob", "blur_prob"), 0.0)
    neck = {"type": "MultiHeadNeck", "in_channels": 3, "hid_channels": 16, "out_channels": 8}
    preprocessor = {**plain, "mean": (0, 0, 0), "std": (1, 1, 1)}
    model = make_model(layout, neck=neck, data_preprocessor=preprocessor, **options)
    model.backbone, seen = Pixels(), {}
    embed = model.neck.embed
    model.neck.embed = lambda s, x: seen.setdefault(s, []).append(x) or embed(s, x)
    return model, seen


def ramp_batch(model):
    """Views of an image that tells x in red and y in green, and the places where they were cut."""
    ramp = torch.zeros(3, 200, 200, dtype=torch.uint8)
    ramp[0], ramp[1] = torch.arange(200), torch.arange(200)[:, None]
    crop = PyramidCrop(model.layout, with_places=True)
    samples = [crop({"img": ramp, "crop_seed": (seed,)}) for seed in range(8)]
    return stack_views(samples), [torch.cat(s["data_samples"]["places"]).tolist() for s in samples]


def test_a_cell_shows_what_its_small_view_shows_mirrored_or_not():
    model, seen = pixel_model()
    batch, places = ramp_batch(model)
    data = model.data_preprocessor(batch, training=True)
    mirrored = [each[..., 0] > each[..., 2] for each in data["data_samples"]["places"]]
    assert all(0 < each.sum() < each.numel() for each in mirrored)
    model(**data, mode="loss")
    num_whole = 0
    for image, (*views, small) in enumerate((*p[:2], p[2:]) for p in places):
        small.sort(key=lambda box: -(box[2] - box[0]) * (box[3] - box[1]))
        # Of scale 1 are the two largest, of scale 2 the next one, and one of none.
        for (x1, y1, x2, y2), (scale, m) in zip(small, [(1, 0), (1, 1), (2, 0)], strict=False):
            of_small, of_cells = (each[:, m, image, :2] for each in seen[scale])
            centre = torch.tensor([x1 + x2, y1 + y2]) / 2 - 0.5
            torch.testing.assert_close(of_small[0], centre, rtol=0, atol=1)
            for cell, (left, top, right, bottom) in zip(of_cells, views, strict=True):
                if left <= x1 and top <= y1 and x2 <= right and y2 <= bottom:
                    torch.testing.assert_close(cell, centre, rtol=0, atol=1)
                    num_whole += 1
    assert num_whole > 10


def test_boxes_are_cut_off_or_moved_into_the_crop():
    boxes = [[2.0, 2, 6, 6], [-4, 0, 6, 4], [-5, 0, 5, 4], [20, -9, 24, -5], [-1, -1, 30, 3]]
    cut, is_inside = cut_to_crop(torch.tensor(boxes), 10, least=0.6)
    assert is_inside.tolist() == [True, True, False, False, False]
    expected = [[2, 2, 6, 6], [0, 0, 6, 4], [0, 0, 10, 4], [6, 0, 10, 4], [0, 0, 10, 4]]
    assert cut.tolist() == expected


def test_pairs_have_60_percent_of_their_place_in_the_view_and_are_marked():
    model, encoded = make_model(cutout=0.5), []
    model.backbone.register_forward_pre_hook(lambda module, given: encoded.append(given[0]))
    whole = torch.tensor([0.0, 0, 100, 100]).expand(2, 2, 4)
    small = [[-9.0, 40, 15, 60], [-9, 40, 13, 60], [50, 40, 70, 60], [80, 40, 98, 60]]
    inputs = [torch.ones(2, 2, 3, 32, 32), torch.ones(4, 2, 3, 16, 16)]
    data_samples = {"places": [whole, torch.tensor(small)[:, None].expand(-1, 2, -1)]}
    seen, regions = model.shown(inputs, data_samples)
    found = [(r.view, r.name, (r.boxes[0] * 100 / 32).round().tolist()) for r in regions]
    boxes = {"s = 1": [[0, 40, 15, 60]], "s = 2": [[50, 40, 70, 60]]}
    assert found == [(view, name, boxes[name]) for name in boxes for view in (0, 1)]
    model(inputs, data_samples, mode="loss")
    assert not seen[0].all()
    assert torch.equal(encoded[0], seen[0].flatten(0, 1))


def test_a_frame_around_the_cells_is_cut_out_and_they_are_not():
    boxes = torch.tensor([[2.0, 2, 6, 6], [4, 4, 8, 8]])[None, :, None].repeat(2, 1, 1, 1)
    is_pair = torch.tensor([[True, False], [False, False]])[..., None]
    crops, rest = torch.ones(3, 1, 3, 8, 8), torch.ones(1)
    out, others = make_model(cutout=0.5)._cut_out([crops, rest], boxes, is_pair)
    assert others is rest
    assert bool((out[1:] == 1).all())
    assert bool((out[0, 0, :, 2:6, 2:6] == 1).all())
    assert out[0, 0, 0].sum() == 16  # the frame of 2 px fills the rest


@pytest.mark.parametrize("cell_gradient", [False, True])
def test_image_views_get_gradients_from_cells_only_if_asked(cell_gradient):
    model, _ = pixel_model(head={"cell_gradient": cell_gradient})
    data = model.data_preprocessor(ramp_batch(model)[0], training=True)
    image, small = (each.requires_grad_() for each in data["inputs"])
    losses = model(**data, mode="loss")
    (losses["loss_pyramid_s1"] + losses["loss_cross_s1"]).backward()
    assert bool(small.grad.any())
    assert bool(image.grad is not None and image.grad.any()) == cell_gradient


def expected_terms(head, z, queues):
    """Eq. 1 to 3 by loops in float64, each a mean over what counts."""
    z = [each.double() for each in z]
    prototypes, learners = (
        [part.weight.detach().double() for part in parts]
        for parts in (head.prototypes, head.correlation)
    )

    def cosines(vector, scale):
        return torch.stack([vector @ c for c in prototypes[scale]])

    def codes(rows, scale, queue):
        kept = [i for i, row in enumerate(rows) if row.any()]
        every = [rows[i] for i in kept] + [row.double() for row in queue if row.any()]
        if not kept:
            return {}
        scores = np.array([[float(v) for v in cosines(row, scale)] for row in every])
        found = sinkhorn(scores, head.epsilon, head.num_iters)
        return {i: torch.from_numpy(code) for i, code in zip(kept, found, strict=False)}

    of_image = [codes(z[0][a, 0], 0, ()) for a in (0, 1)]
    terms = {}
    for s in (1, 2):
        small = z[s][2].flatten(0, 1)  # rows m B + b
        found = [codes(z[s][a].flatten(0, 1), s, queues[s][a]) for a in (0, 1)]
        pyramid, cross = [], []
        for a in (0, 1):
            for row, code in found[a].items():
                pyramid.append(cross_entropy(code, cosines(small[row], s), 0.1))
                if head.cell_gradient and row in found[1 - a]:
                    other = z[s][1 - a].flatten(0, 1)[row]
                    pyramid.append(cross_entropy(code, cosines(other, s), 0.1))
            for b in range(4):
                scores = [cosines(small[row], s) for row in found[a] if row % 4 == b]
                if not scores:
                    continue
                if head.variant == "paper":
                    scores = [torch.exp(v / 0.1) / torch.exp(v / 0.1).sum() for v in scores]
                mean = unit(sum(scores) / len(scores))
                predicted = torch.stack([mean @ g for g in learners[s - 1]])
                targets = (a,) if head.variant == "paper" else (0, 1)
                entropies = [cross_entropy(of_image[t][b], predicted, 0.1) for t in targets]
                cross.append(sum(entropies) / len(targets))
        terms[f"loss_pyramid_s{s}"] = 0.25 * sum(pyramid) / max(1, len(pyramid))
        terms[f"loss_cross_s{s}"] = 0.25 * sum(cross) / max(1, len(cross))
    return terms


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("cell_gradient", [False, True])
def test_codes_and_terms_are_those_of_loops_over_the_pairs(variant, cell_gradient):
    options = {"variant": variant, "cell_gradient": cell_gradient, "patch_queue_length": (8, 4)}
    head, _ = head_and_embeddings(**options)
    for seed in range(3):
        _, z = head_and_embeddings(seed)
        is_full = [queue is not None and queue.is_full for queue in head.queues]
        queues = [head.queues[s].features.clone() if is_full[s] else ((), ()) for s in range(3)]
        losses = head.loss(z)
        for name, expected in expected_terms(head, z, queues).items():
            torch.testing.assert_close(losses[name].double(), expected, rtol=1e-5, atol=1e-6)
    assert is_full == [False, True, True]


def test_prototypes_in_use_are_those_that_small_views_choose():
    head, z = head_and_embeddings(without=range(4))
    head.loss(z)
    chosen = (z[1][2] @ head.prototypes[1].weight.T).argmax(dim=-1).unique()
    assert len(chosen) > 1
    assert head.examine()["prototypes_in_use_s1"] == len(chosen) / 4


def test_a_batch_without_any_pair_has_terms_and_gradients_of_zero():
    model = make_model({**LAYOUT}, head={"patch_queue_length": 8})
    losses, grads = step(model, batch_of(with_pairs=False))
    assert [name for name, loss in losses.items() if loss != 0] == ["loss_pyramid_s0"]
    assert all(bool(torch.isfinite(grad).all()) for grad in grads.values())
    parts = ("heads.1", "heads.2", "prototypes.1", "prototypes.2", "correlation")
    names = [name for name in grads if any(part in name for part in parts)]
    assert len(names) == 2 * 6 + 4
    assert not any(grads[name].any() for name in names)
    assert all(bool(torch.isfinite(value)) for value in model.examine().values())
    assert all(loss > 0 for loss in step(model, batch_of(1))[0].values())


@pytest.mark.parametrize("num_chunks", [1, 2])
def test_without_the_weights_of_cells_it_is_swav_bit_for_bit(num_chunks):
    cells = make_model(num_chunks=num_chunks, head={"alpha": 0, "beta": 0})
    swav = make_model(SWAV, num_chunks=num_chunks)
    kept = swav.state_dict().keys() - {"head.assignments.last_use"}
    swav.load_state_dict({n: v for n, v in cells.state_dict().items() if n in kept}, strict=False)
    for seed in range(3):
        losses, grads = step(cells, batch_of(seed))
        expected_losses, expected = step(swav, {**batch_of(seed), "data_samples": None})
        assert torch.equal(sum(losses.values()), expected_losses["loss_pyramid_s0"])
        assert all(torch.equal(grads[name], grad) for name, grad in expected.items())
    trained = cells.state_dict(), swav.state_dict()
    assert all(torch.equal(*(state[name] for state in trained)) for name in kept)


def test_a_step_never_waits_for_its_device():
    model, counter = make_model(cutout=0.2, head={"cell_gradient": True}), SyncCounter()
    step(model, batch_of())  # the first one compares the batches of all ranks
    data = model.data_preprocessor(batch_of(), training=True)
    with counter, counter.patched():
        sum(model(**data, mode="loss").values()).backward()
        model.health()
    assert counter.take() == []


def test_compiled_and_of_another_stage(monkeypatch):
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    ssprl._compiled_features.cache_clear()
    stages = {"num_stages": 2, "strides": (1, 2), "dilations": (1, 1), "out_indices": (0, 1)}
    neck = {"type": "MultiHeadNeck", "in_channels": (16, 8, 8), "out_channels": 8}
    options = {"backbone": {**BACKBONE, **stages}, "neck": neck, "stage": 0}
    eager, compiled = make_model(**options), make_model(**options, compile_backbone=True)
    (expected, _), (losses, _) = (step(each, batch_of()) for each in (eager, compiled))
    ssprl._compiled_features.cache_clear()
    torch.testing.assert_close(losses, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layout": {**LAYOUT, "cells": [3, 2]}}, r"num_small=4 together.*\(3, 2\) and 0 levels"),
        ({"layout": {**LAYOUT, "cells": [0]}}, r"cells must be numbers of small views.*\(0,\)"),
        ({"head": {"type": "SinkhornHead"}}, "head.type must be CellHead, but got SinkhornHead"),
        ({"layout": SWAV, "head": {"type": "CellHead"}}, "CellHead: layout.cells must name small"),
        ({"cutout": -1}, "cutout must be >= 0, but got -1"),
        ({"layout": SWAV, "type": "SSPRLCells"}, "SSPRLCells: layout.cells must be given"),
        ({"type": "SSPRL"}, r"SSPRL: layout.cells must not be given, but got \(2, 1\)"),
        ({"neck": {"type": "MultiHeadNeck", "in_channels": (8, 8)}}, "one for each of 3 scales"),
        (
            {"stage": 1},
            r"output 1 of the backbone must be a map .* outputs are \[\(8, 8,.*set stage",
        ),
    ],
)
def test_bad_input_is_told_in_one_line(options, message):
    with pytest.raises(ValueError, match=message) as error:
        step(make_model(**options), batch_of())
    assert "\n" not in str(error.value)


def test_missing_places_and_vectors_are_told():
    model, _ = pixel_model()
    batch, _ = ramp_batch(model)
    with pytest.raises(ValueError, match="SSPRLCells needs the places .* with_places=True"):
        step(model, {**batch, "data_samples": None})
    model.backbone.forward = lambda images: (images.mean(dim=(2, 3)),)
    with pytest.raises(ValueError, match=r"output -1 .* must be a map .* \[\(16, 3\)\].*featmap"):
        step(model, batch)


def work(rank, images=None):
    """Losses and gradients of three steps: pairs everywhere, on rank 0 alone, and nowhere."""
    images = slice(2 * rank, 2 * rank + 2) if images is None else images
    results = []
    for seed, without in enumerate([(), (2, 3), (0, 1, 2, 3)]):
        head, z = head_and_embeddings(seed, without, cell_gradient=True)
        losses = head.loss([each[:, :, images] for each in z])
        sum(losses.values()).backward()
        grads = [p.grad.clone() for p in head.parameters()]
        results.append(({name: loss.detach() for name, loss in losses.items()}, grads))
    return results


@pytest.mark.dist
def test_two_ranks_equal_one_process(tmp_path):
    ranks = on_two_ranks(work, tmp_path)
    for expected, *of_ranks in zip(work(0, slice(None)), *ranks, strict=True):
        assert_mean_equals(of_ranks, expected)
    losses, _ = expected
    assert losses["loss_pyramid_s1"] == losses["loss_cross_s2"] == 0
