"""One run of `pretrain` on 12 images, with names that HTML and shells mind, for all tests."""

import contextlib
import io
import shutil

import numpy as np
import pytest
from helpers.pretraining.paces import stub_pace
from PIL import Image

from mmssprl.cli import main

HOSTILE = "<img src=x onerror=alert(1)>&amp;\"'$x$.jpg"


@pytest.fixture(scope="module")
def no_pictures():
    """Draw the pictures of a report, but do not render them, which takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mmssprl.drawing.embedded.data_uri", lambda picture, kind: "data:")
        yield


@pytest.fixture(scope="package")
def trained(tmp_path_factory):
    """Work dir, what `pretrain` said, and the folder of the images."""
    folder = tmp_path_factory.mktemp("a user's")
    photos = folder / "my photos"
    noise = np.random.default_rng(0)
    for i in range(12):
        name = HOSTILE if i == 3 else f"{i:02}.jpg"
        path = photos / ("cats" if i % 2 else "dogs") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Noise takes the most bytes.
        Image.fromarray(noise.integers(0, 256, (60, 80, 3), dtype=np.uint8)).save(path)
    words = ["pretrain", str(photos), "--work-dir", str(folder / "run"), "--probe", str(photos)]
    words += ["--method", "ssprl", "--backbone", "timm/test_resnet", "--image-px", "32"]
    words += ["--epochs", "3", "--batch-size", "4", "--num-workers", "0"]
    words += ["--cfg-options", "default_hooks.checkpoint.max_keep_ckpts=1"]
    words += ["default_hooks.logger.interval=1"]  # of each step, as on a CPU
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as said:
        stub_pace(patch)
        assert main(words) == 0
    return folder / "run", said.getvalue(), photos


@pytest.fixture
def run(trained, tmp_path):
    """A copy of the work dir, to be changed."""
    return shutil.copytree(trained[0], tmp_path / "run")
