import re

import pytest
import torch
from helpers.models.small_ssprl import packed_batch
from mmengine.dataset import pseudo_collate

from mmssprl.functional import _device
from mmssprl.functional.photometric import apply_photometric, augment_on_device
from mmssprl.functional.photometric_params import PhotometricParams
from mmssprl.models import pyramid_preprocessor
from mmssprl.models.pyramid_preprocessor import PyramidPreprocessor
from mmssprl.pyramid import PyramidLevel, ViewLayout

LAYOUT = ViewLayout(image_px=12, levels=(PyramidLevel(2, 16, 6), PyramidLevel(3, 27, 8)))
OFF = {"flip_prob": 0.0, "jitter_prob": 0.0, "grayscale_prob": 0.0, "blur_prob": 0.0}


def build(seed=0, **kwargs):
    torch.manual_seed(seed)
    return PyramidPreprocessor(LAYOUT, **kwargs)


def batch(num_images=3, layout=LAYOUT):
    return packed_batch(layout, num_images, seed=1)


def step(preprocessor):
    """All inputs of one training step, flattened."""
    return torch.cat([t.flatten() for t in preprocessor(batch(), training=True)["inputs"]])


@pytest.mark.parametrize("training", [False, True])
def test_batches_become_normalised_views(training):
    data = batch()
    out = build(mean=(10, 20, 30), std=(1, 2, 4), **OFF)(data, training=training)
    assert out["data_samples"] is None
    assert len(out["inputs"]) == 3
    mean, std = (torch.tensor(t)[:, None, None] for t in ((10, 20, 30), (1, 2, 4)))
    for views, packed in zip(out["inputs"], data["inputs"], strict=True):
        expected = (packed.transpose(0, 1).float() - mean) / std
        torch.testing.assert_close(views, expected, rtol=0, atol=1e-4)
        assert views.flatten(0, 1).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("compile", [False, True])
def test_compile_reaches_the_augmentation_of_each_tensor(compile, monkeypatch):
    asked = []

    def apply(images, params, **options):
        asked.append(options["compile"])
        return apply_photometric(images, params, **options)

    monkeypatch.setattr(pyramid_preprocessor, "apply_photometric", apply)
    step(build(compile=compile))
    assert asked == [compile] * 3


@pytest.mark.parametrize("compile", [False, True])
def test_only_compile_takes_the_compiled_augmentation(compile, monkeypatch):
    compiled = []

    def augment(images, *args):
        compiled.append(images.shape)
        return _device.augment_by_masks(images, *args)

    monkeypatch.setattr(_device, "compiled_augment", lambda: augment)
    images = torch.rand(2, 3, 4, 4)
    scale, shift = (1.0, 1.0, 1.0), (0.0, 0.0, 0.0)
    augment_on_device(images, PhotometricParams(), scale, shift, compile=compile)
    assert bool(compiled) == compile


@pytest.mark.parametrize("name", ["flip", "jitter", "grayscale", "blur", "solarize"])
def test_each_image_view_has_its_own_probability(name):
    layout = ViewLayout(image_px=8, levels=())
    data = batch(4, layout)
    plain = data["inputs"][0].transpose(0, 1) / 255
    for probs in ((0.0, 1.0), [1.0, 0.0]):
        settings = {**OFF, f"{name}_prob": probs}
        preprocessor = PyramidPreprocessor(layout, mean=[0] * 3, std=[255] * 3, **settings)
        views = preprocessor(data, training=True)["inputs"][0]
        for view, before, prob in zip(views, plain, probs, strict=True):
            changed = (view - before).abs().flatten(1).amax(dim=1) > 1e-3
            assert changed.tolist() == [prob == 1] * 4


@pytest.mark.parametrize(
    ("layout", "groups"),
    [
        (LAYOUT, r"\[2, 8, 18\]"),
        (ViewLayout(image_px=8, levels=(), num_small=2, small_px=4), r"\[2, 2\]"),
    ],
)
def test_probabilities_per_view_need_two_views(layout, groups):
    with pytest.raises(ValueError, match=rf"blur_prob.*\(1.0, 0.1\).*{groups}"):
        PyramidPreprocessor(layout, blur_prob=(1.0, 0.1))


STRENGTHS = {"brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "hue": 0.0}


@pytest.mark.parametrize("name", STRENGTHS)
def test_the_jitter_has_its_strengths(name):
    plain = step(build(**OFF))
    settings = {**OFF, **STRENGTHS, "jitter_prob": 1.0}
    assert torch.equal(step(build(**settings)), plain)
    assert not torch.isclose(step(build(**{**settings, name: 0.4})), plain).all()


def test_the_blur_has_its_strength():
    unblurred = build(**{**OFF, "blur_prob": 1.0, "blur_sigma": (0, 0)})
    torch.testing.assert_close(step(unblurred), step(build(**OFF)))


def test_evaluation_draws_nothing():
    one = build()
    plain, again = (one(batch())["inputs"] for _ in range(2))
    assert all(map(torch.equal, plain, again))
    assert one.num_batches == 0


def test_the_seed_decides_what_is_drawn():
    first = step(build(0))
    same = build(0)
    torch.rand(5)  # the global generator has no effect after construction
    assert torch.equal(step(same), first)
    assert not torch.equal(step(build(1)), first)


def test_each_step_draws_again():
    one = build()
    assert not torch.equal(step(one), step(one))


def test_each_rank_draws_its_own(monkeypatch):
    first = step(build())
    monkeypatch.setattr(pyramid_preprocessor, "get_rank", lambda: 1)
    assert not torch.equal(step(build()), first)


def test_draws_are_resumed():
    one = build(0)
    for _ in range(2):
        step(one)
    other = build(1)
    other.load_state_dict(one.state_dict())
    assert other.num_batches == 2
    assert torch.equal(step(other), step(one))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda packed: packed[:2], "(3, 8, 3, 6, 6, 'torch.uint8')]"),
        (lambda packed: [packed[0].float(), *packed[1:]], "(3, 2, 3, 12, 12, 'torch.float32')"),
        (lambda packed: [packed[0][:2], *packed[1:]], "(2, 2, 3, 12, 12, 'torch.uint8')"),
        (lambda packed: packed[0], "but got Tensor"),
    ],
)
def test_inputs_of_another_layout_are_refused(change, found):
    expected = re.escape("[('B', 2, 3, 12, 12), ('B', 8, 3, 6, 6), ('B', 18, 3, 8, 8)]")
    with pytest.raises(ValueError, match=f"{expected}.*{re.escape(found)}.*PyramidCrop"):
        build()({"inputs": change(batch()["inputs"])}, training=True)


def test_samples_that_are_not_stacked_name_the_collate_function():
    samples = [{"inputs": [crops[i] for crops in batch()["inputs"]]} for i in range(3)]
    with pytest.raises(ValueError, match=r"collate_fn=dict\(type='mmssprl.stack_views'\)"):
        build()(pseudo_collate(samples), training=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean": (1, 2)}, r"mean=\(1, 2\)"),
        ({"std": (1, 0, 1)}, r"std=\(1, 0, 1\)"),
        ({"jitter_prob": -1}, "jitter_prob.*-1"),
        ({"solarize_prob": (0.0, 1.2)}, "solarize_prob.*1.2"),
        ({"contrast": -1}, "contrast.*-1"),
        ({"blur_sigma": (2, 1)}, r"sigma.*\(2, 1\)"),
    ],
)
def test_bad_settings_are_refused_when_built(change, message):
    with pytest.raises(ValueError, match=message):
        build(**change)
