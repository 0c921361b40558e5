"""Images and a finished training that several modules look at."""

import pytest
import torch
from PIL import Image
from pretrain_runner import make_runner
from toy_checkpoint import toy_training, work  # noqa: F401  (fixtures)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    generator = torch.Generator().manual_seed(0)
    for i in range(10):
        pixels = torch.randint(0, 256, (24, 32, 3), generator=generator, dtype=torch.uint8)
        Image.fromarray(pixels.numpy()).save(folder / f"{i}.png")
    return folder


@pytest.fixture(scope="module")
def trained(images, tmp_path_factory):
    work_dir = tmp_path_factory.mktemp("whole")
    runner = make_runner(images, work_dir, max_epochs=4)
    runner.train()
    return runner, work_dir
