import copy
import re

import pytest
import torch
from helpers.models.small_ssprl import packed_batch
from mmengine.model import BaseModel
from mmengine.runner.checkpoint import _load_checkpoint_to_model

from mmssprl.functional import _device, photometric
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
def test_batches_become_view_major_and_normalised(training):
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
def test_compile_reaches_the_devices_path(compile, monkeypatch):
    plain, compiled = [], []
    monkeypatch.setattr(photometric, "params_are_free", lambda images: False)
    augment, by_order = _device.augment_by_masks, _device.augment_sorted
    monkeypatch.setattr(
        _device, "compiled_augment", lambda: lambda *args: compiled.append(1) or augment(*args)
    )
    monkeypatch.setattr(_device, "augment_sorted", lambda *args: plain.append(1) or by_order(*args))
    step(build(compile=compile))
    assert (len(compiled), len(plain)) == ((3, 0) if compile else (0, 3))


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
    ("views", "groups"),
    [
        ({"levels": [{"grid": 2, "resize_px": 16, "patch_px": 6}]}, r"\[2, 8\]"),
        ({"levels": (), "num_small": 2, "small_px": 4}, r"\[2, 2\]"),
    ],
)
def test_probabilities_per_view_need_two_views(views, groups):
    with pytest.raises(ValueError, match=rf"blur_prob.*\(1.0, 0.1\).*{groups}"):
        PyramidPreprocessor({"image_px": 8, **views}, blur_prob=(1.0, 0.1))


def test_strengths_of_jitter_and_blur_reach_them():
    data = batch(1)
    plain = build(**OFF)(data, training=True)["inputs"][0]
    zero = {"brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "hue": 0.0}
    for name in zero:
        settings = {**OFF, **zero, "jitter_prob": 1.0}
        assert torch.equal(build(**settings)(data, training=True)["inputs"][0], plain)
        changed = build(**{**settings, name: 0.4})(data, training=True)["inputs"][0]
        assert not torch.isclose(changed, plain).all()
    unblurred = build(**{**OFF, "blur_prob": 1.0, "blur_sigma": (0, 0)})
    torch.testing.assert_close(unblurred(data, training=True)["inputs"][0], plain)


def test_seed_rank_and_step_decide_and_only_in_training(monkeypatch):
    one, same, other = build(0), build(0), build(1)
    first = step(one)
    plain, again = (one(batch())["inputs"] for _ in range(2))
    assert all(map(torch.equal, plain, again))
    assert one.num_batches == 1
    torch.rand(5)  # the global generator has no effect after construction
    assert torch.equal(step(same), first)
    assert not torch.equal(step(other), first)
    assert not torch.equal(step(one), first)
    monkeypatch.setattr(pyramid_preprocessor, "get_rank", lambda: 1)
    assert not torch.equal(step(build(0)), first)


class Model(BaseModel):
    def forward(self, inputs, data_samples=None, mode="tensor"):
        """Do nothing."""


def test_resumed_run_goes_on_identically():
    run = Model(data_preprocessor=build(0))
    for _ in range(3):
        step(run.data_preprocessor)
    checkpoint = copy.deepcopy({"state_dict": run.state_dict()})
    assert set(checkpoint["state_dict"]) == {"data_preprocessor._extra_state"}
    resumed = Model(data_preprocessor=build(5))
    _load_checkpoint_to_model(resumed, checkpoint, strict=True)
    for _ in range(2):
        assert torch.equal(step(resumed.data_preprocessor), step(run.data_preprocessor))
    assert resumed.data_preprocessor.num_batches == 5


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
    expected = "[('B', 2, 3, 12, 12), ('B', 8, 3, 6, 6), ('B', 18, 3, 8, 8)]"
    data = {"inputs": change(batch()["inputs"])}
    with pytest.raises(ValueError, match=re.escape(expected)) as error:
        build()(data, training=True)
    assert found in str(error.value)
    assert "PyramidCrop" in str(error.value)


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
