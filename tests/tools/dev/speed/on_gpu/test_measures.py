"""The measurements of a GPU on a made-up device."""

from types import SimpleNamespace

import pytest
import torch
from fake_gpu import ROUNDS, FakeMeter

from mmssprl.functional.photometric import apply_photometric
from tools.dev.speed.common.models import device_path, random_batch
from tools.dev.speed.on_gpu import measures
from tools.dev.speed.on_gpu.measures import (
    PlainResNet,
    Pretraining,
    against_plain,
    augmentation_difference,
    augmentation_share,
    images_per_second,
    peak_bytes_per_image,
)


def test_g1_by_hand(meter):
    # Ours: 2 images in 1 s, each worth 5 crops: 10 crops/s. Plain: 6 crops in 0.5 s: 12 crops/s.
    ours, plain = meter.worker(1.0, batch=2), meter.worker(0.5, batch=6)
    against, plain_rate = against_plain(meter, ours, plain, ROUNDS, equivalent=5)
    assert against == pytest.approx((10 / 12,) * 3)
    assert plain_rate == pytest.approx((12,) * 3)


def test_g2_is_the_median_over_the_rounds(meter):
    # Rounds of 4 steps: 4 s, 8 s and 2 s for 3 images a step.
    ours = meter.worker(*[1.0] * 4, *[2.0] * 4, *[0.5] * 4, batch=3)
    assert images_per_second(meter, ours, ROUNDS) == pytest.approx((3, 2.25, 4.5))


def test_g6_counts_the_preprocessor_inside_the_step(meter, tiny):
    model = Pretraining(tiny, meter.device, 2).model
    preprocessor = model.data_preprocessor

    class Slow(torch.nn.Module):
        def forward(self, data, training):
            meter.now += 1.0
            return preprocessor(data, training)

    model.data_preprocessor = Slow()
    data = random_batch(model.layout, 2, meter.device)

    def step() -> None:
        model.data_preprocessor(data, training=True)
        meter.now += 3.0

    ours = SimpleNamespace(model=model, step=step)
    share, milliseconds = augmentation_share(meter, ours, ROUNDS)
    assert share == pytest.approx((0.25,) * 3)
    assert milliseconds == pytest.approx((1000,) * 3)
    assert not model.data_preprocessor._forward_hooks
    assert not model.data_preprocessor._forward_pre_hooks


def test_c14_is_the_greatest_difference_in_levels(tiny, monkeypatch):
    ours, device = Pretraining(tiny, torch.device("cpu"), 2), []
    with device_path():
        assert augmentation_difference(ours) == 0  # one path on both sides

    def off_by_three_levels(images, params, **settings):
        result = apply_photometric(images, params, **settings)
        device.append("compile" in settings)
        if device == [True, False, True]:  # the second size on the device
            result[0, 0, 1, 5, 7] += 3 / 255 / settings["std"][1]
        return result

    monkeypatch.setattr(measures, "apply_photometric", off_by_three_levels)
    assert augmentation_difference(ours) == pytest.approx(3, abs=0.01)
    assert device == [True, False] * 2


def test_g10_is_the_peak_of_a_step_after_a_reset():
    meter = FakeMeter(peak=600)
    ours = SimpleNamespace(step=lambda: meter.log.append("step"), batch=4)
    assert peak_bytes_per_image(meter, ours) == 150
    assert meter.log == ["reset", "step", "read"]


def test_a_real_step_trains_and_a_plain_one_too(tiny):
    device = torch.device("cpu")
    for side in (Pretraining(tiny, device, 2), PlainResNet(tiny, device, 2)):
        before = [p.detach().clone() for p in side.model.parameters()]
        side.step()
        after = list(side.model.parameters())
        assert sum(not torch.equal(p, q) for p, q in zip(before, after, strict=True)) > 60
    assert side.crops.shape == (2, 3, 32, 32)
    assert side.crops.is_contiguous(memory_format=torch.channels_last)
    assert not side.mixed


def test_mixed_precision_is_the_config_s(tiny):
    tiny.optim_wrapper.type = "AmpOptimWrapper"
    plain = PlainResNet(tiny, torch.device("cpu"), 2)
    kinds = []
    plain.model.backbone.register_forward_hook(lambda *args: kinds.append(args[-1][-1].dtype))
    plain.step()
    assert kinds == [torch.bfloat16]
