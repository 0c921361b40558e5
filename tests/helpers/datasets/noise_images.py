"""A folder of images for trainings of seconds."""

import pytest
import torch
from PIL import Image


def write_noise(folder, count=10):
    """Write images of noise; return the folder."""
    generator = torch.Generator().manual_seed(0)
    for i in range(count):
        pixels = torch.randint(0, 256, (24, 32, 3), generator=generator, dtype=torch.uint8)
        Image.fromarray(pixels.numpy()).save(folder / f"{i}.png")
    return folder


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return write_noise(tmp_path_factory.mktemp("images"))
