import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers.functional.photometric_cases import PLAIN, draw, levels, random_images

import mmssprl
from mmssprl.functional import _cpu_batch, _cpu_kernels
from mmssprl.functional.photometric import apply_photometric
from mmssprl.system.environment import torch_threads


def send_fused(images, params, sender):
    sender.send(apply_photometric(images, params, **PLAIN).numpy().tobytes())


def test_threads_and_forks_change_no_bit():
    images, params = levels(random_images(61)), draw(61)
    alone = apply_photometric(images, params, **PLAIN)
    receiver, sender = multiprocessing.Pipe(duplex=False)
    fork = multiprocessing.get_context("fork")
    child = fork.Process(target=send_fused, args=(images, params, sender))
    with torch_threads(3):
        assert torch.equal(apply_photometric(images, params, **PLAIN), alone)
        assert _cpu_batch._pool.cache_info().currsize == 1  # the child is forked beside its threads
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


def test_numba_is_not_imported_before_it_is_used():
    done = python("import sys, mmssprl.functional.photometric; print('numba' in sys.modules)")
    assert done.stdout.strip() == "False", done.stderr


def test_the_process_that_compiles_gets_the_bits_of_those_that_load(tmp_path):
    # 6 x 6 pixels: what a vector leaves over is rounded like the rest, or not.
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


def test_nowhere_to_write_a_cache_is_no_error(tmp_path):
    package = tmp_path / "mmssprl"
    shutil.copytree(Path(mmssprl.__file__).parent, package)
    folder = package / "functional"
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    # No folders, which stops root too.
    (folder / "__pycache__").touch()
    (tmp_path / "file").touch()
    blocked = str(tmp_path / "file")
    done = python(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.dont_write_bytecode = True\n"
        "from mmssprl.functional._cpu_kernels import augment; print(augment.stats.cache_path)",
        NUMBA_CACHE_DIR=blocked,
        XDG_CACHE_HOME=blocked,
        HOME=blocked,
    )
    assert done.stdout.strip() == "None", done.stderr


@pytest.mark.parametrize("error", [OSError, EOFError, pickle.UnpicklingError])
def test_a_cache_that_fails_is_done_without(error, monkeypatch):
    def fail(*arguments):
        raise error("full disk or damaged file")

    images, params = random_images(12), draw(12)
    expected = apply_photometric(images, params, **PLAIN)
    monkeypatch.setattr(_cpu_kernels, "augment_uncached", _cpu_kernels.augment)
    monkeypatch.setattr(_cpu_kernels, "augment", fail)
    assert torch.equal(apply_photometric(images, params, **PLAIN), expected)
