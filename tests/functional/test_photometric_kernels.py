import contextlib
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers.functional.photometric_cases import (
    RECIPE,
    apply_params,
    draw,
    levels,
    random_images,
    rng,
)
from torchvision.transforms import functional as tv

import mmssprl
from mmssprl.functional import _cpu_batch, _cpu_kernels, _device
from mmssprl.functional.photometric import apply_photometric, augment_on_device
from mmssprl.functional.photometric_params import (
    ColorJitterParams,
    GaussianBlurParams,
    PhotometricParams,
    draw_color_jitter,
    draw_gaussian_blur,
    draw_mask,
)
from mmssprl.system.environment import torch_threads

SIZES = [(12, 14), (1, 40), (33, 1), (13, 13), (40, 96)]


def on_a_device(images, params):
    """Augment on a device by both ways, sorted and by masks."""
    before = images.clone()
    plain = (1.0, 1.0, 1.0), (0.0, 0.0, 0.0)
    ways = (_device.augment_sorted, _device.augment_by_masks)
    found = [augment(images, params, *plain) for augment in ways]
    assert torch.equal(images, before)
    return found


@pytest.mark.parametrize(
    ("height", "width", "sigma"),
    [
        *((*size, (0.1, 2.0)) for size in SIZES),
        *((*size, (2.0, 7.0)) for size in SIZES),
        (3, 1040, (0.1, 7.0)),  # a width that exceeds a block
    ],
)
def test_a_device_gives_the_values_of_the_kernels(height, width, sigma):
    images = random_images(60, height, width)[-4 if width > 1000 else 0 :]
    for given in (images, levels(images), *(images[:num] for num in range(3))):
        num = len(given)
        params = draw(num, sigma)._replace(solarize=torch.arange(num) % 5 == 0)
        fused = apply_params(given, params)
        assert fused.dtype == torch.float32
        # Near half the range, a difference in the last bit decides about solarizing.
        decided = (fused - 0.5).abs() > 1e-5
        with torch.autocast("cpu", torch.bfloat16, enabled=given is not images):
            of_devices = on_a_device(given, params)
        for found in of_devices:
            torch.testing.assert_close(found[decided], fused[decided], rtol=0, atol=1e-5)


def test_devices_read_no_value_of_a_parameter(monkeypatch):
    # Reading a value of a tensor on "meta" is an error. "meta" has no autocast.
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())
    params = draw(40)._replace(solarize=torch.arange(40) % 5 == 0)
    images = levels(random_images(40)).to("meta")
    found = apply_params(images, params)
    assert found.device.type == "meta"
    assert found.is_contiguous(memory_format=torch.channels_last)


def test_the_same_draws_in_the_same_order():
    generator = rng(3)
    drawn = draw(50, generator=generator, solarize={"prob": 0.5})
    again = rng(3)
    expected = [draw_mask(50, prob=0.5, generator=again)]
    expected += draw_color_jitter(50, **{**RECIPE, "hue": 0.5}, prob=0.8, generator=again)
    expected.append(draw_mask(50, prob=0.2, generator=again))
    expected.append(draw_gaussian_blur(50, sigma=(0.1, 2.0), prob=0.7, generator=again).sigma)
    expected.append(draw_mask(50, prob=0.5, generator=again))
    found = [drawn.flip, *drawn.jitter, drawn.grayscale, drawn.blur.sigma, drawn.solarize]
    assert all(map(torch.equal, found, expected))
    assert torch.equal(generator.get_state(), again.get_state())


@pytest.mark.parametrize("augment", [_cpu_batch.augment, augment_on_device])
def test_what_is_left_out_changes_no_bit(augment, monkeypatch):
    monkeypatch.setattr(_cpu_batch, "augment", augment)
    images = random_images(12, 9, 8)
    nothing = torch.zeros(12, dtype=torch.bool)
    jitter = ColorJitterParams(
        torch.tensor([3, 2, 1, 0]).expand(12, 4), torch.tensor([1.0, 1.0, 1.0, 0.0]).expand(12, 4)
    )
    blur = GaussianBlurParams(torch.zeros(12), 2.0)
    identity = PhotometricParams(nothing, jitter, nothing, blur)
    mean = (0.485, 0.456, 0.406)
    std = (0.229, 0.224, 0.225)
    for params in (PhotometricParams(), identity):
        assert torch.equal(apply_params(images, params), images)
        exact = levels(images).double() / 255
        fused = apply_photometric(levels(images), params, mean=mean, std=std)
        normalised = tv.normalize(exact, mean, std)
        torch.testing.assert_close(fused.double(), normalised, rtol=0, atol=1e-6)


def layouts(images):
    """The values of ``images`` (N, 3, H, W) in different memory layouts."""
    num, _, height, width = images.shape
    yield images.to(memory_format=torch.channels_last)
    yield images.transpose(2, 3).contiguous().transpose(2, 3)
    yield torch.nn.functional.pad(images, (2, 3, 1, 4))[:, :, 1 : 1 + height, 2 : 2 + width]
    padded = torch.nn.functional.pad(images, (2, 3, 1, 4)).to(memory_format=torch.channels_last)
    yield padded[:, :, 1 : 1 + height, 2 : 2 + width]
    yield images.repeat_interleave(2, dim=3)[..., ::2]
    yield images.flip(1).contiguous()[:, [2, 1, 0]]
    yield torch.cat([images, images], dim=1)[:, 3:]
    yield images.view(num // 4, 4, 3, height, width).transpose(0, 1).contiguous().transpose(0, 1)


@pytest.fixture(params=[True, False], ids=["levels", "float"])
def images(request):
    images = random_images(12, 9, 7)
    return levels(images) if request.param else images


def test_input_may_have_any_memory_layout(images):
    expected = apply_params(images, draw(12))
    count = 0
    for given in layouts(images):
        assert torch.equal(given.flatten(0, -4), images)
        result = apply_params(given, draw(12))
        assert torch.equal(result.flatten(0, -4), expected)
        count += 1
    assert count == 8


def test_input_does_not_change(images):
    count = 0
    for given in layouts(images):
        before = given.clone()
        apply_params(given, draw(12))
        assert torch.equal(given, before)
        count += 1
    assert count == 8


def test_input_may_be_one_image_many_times(images):
    one = images[:1]
    same = apply_params(one.expand(12, -1, -1, -1), draw(12))
    assert torch.equal(same, apply_params(one.repeat(12, 1, 1, 1), draw(12)))


def send_fused(images, params, sender):
    sender.send(apply_params(images, params).numpy().tobytes())


def test_threads_change_no_bit():
    images = levels(random_images(61))
    alone = apply_params(images, draw(61))
    with torch_threads(3):
        assert torch.equal(apply_params(images, draw(61)), alone)


def test_a_fork_of_a_process_with_threads_changes_no_bit():
    images = levels(random_images(61))
    params = draw(61)
    alone = apply_params(images, params)
    receiver, sender = multiprocessing.Pipe(duplex=False)
    fork = multiprocessing.get_context("fork")
    child = fork.Process(target=send_fused, args=(images, params, sender))
    with torch_threads(3):
        apply_params(images, params)
        assert _cpu_batch._pool.cache_info().currsize == 1  # threads run when the child is forked
        child.start()
    arrived = receiver.poll(60)
    if not arrived:
        child.kill()
    assert arrived
    assert receiver.recv() == alone.numpy().tobytes()
    child.join(60)
    assert child.exitcode == 0


def python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.slow
def test_the_process_that_compiles_gets_the_bits_of_those_that_load(tmp_path):
    # 6 x 6 pixels, so that vector loops have a remainder, which may round differently.
    code = (
        "import hashlib, torch\n"
        "from mmssprl.functional.photometric import PhotometricParams, apply_photometric\n"
        "images = torch.arange(4 * 3 * 36, dtype=torch.uint8).view(4, 6, 6, 3).movedim(-1, 1)\n"
        "params = PhotometricParams(flip=torch.tensor([False, True, False, True]))\n"
        "result = apply_photometric(images, params, mean=(0.4, 0.5, 0.6), std=(0.3, 0.2, 0.1))\n"
        "print(hashlib.sha256(result.contiguous().numpy().tobytes()).hexdigest())\n"
    )
    first, second = (python(code, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert list(tmp_path.rglob("*.nbi"))
    assert len(first.stdout.strip()) == 64, first.stderr
    assert first.stdout == second.stdout


def test_numba_is_imported_at_first_use_even_without_a_cache(tmp_path):
    package = tmp_path / "mmssprl"
    shutil.copytree(Path(mmssprl.__file__).parent, package)
    folder = package / "functional"
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    # Files instead of folders, which stop root, too.
    (folder / "__pycache__").touch()
    (tmp_path / "file").touch()
    blocked = str(tmp_path / "file")
    done = python(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.dont_write_bytecode = True\n"
        "import mmssprl.functional.photometric; print('numba' in sys.modules)\n"
        "from mmssprl.functional._cpu_kernels import augment; print(augment.stats.cache_path)",
        NUMBA_CACHE_DIR=blocked,
        XDG_CACHE_HOME=blocked,
        HOME=blocked,
    )
    assert done.stdout.split() == ["False", "None"], done.stderr


@pytest.mark.parametrize("error", [OSError, EOFError, pickle.UnpicklingError])
def test_a_failing_cache_is_not_used(error, monkeypatch):
    def fail(*arguments):
        raise error("full disk or damaged file")

    images = random_images(12)
    params = draw(12)
    expected = apply_params(images, params)
    monkeypatch.setattr(_cpu_kernels, "augment_uncached", _cpu_kernels.augment)
    monkeypatch.setattr(_cpu_kernels, "augment", fail)
    assert torch.equal(apply_params(images, params), expected)
