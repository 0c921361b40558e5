"""The loaders that are compared: ours and the released recipe's by torchvision and PIL.

Crops and their numbers follow the released recipe (method: 2 x 224, 6 x 96, 2 x 4 x 112 and
2 x 9 x 96 px); the code of the other side is written for this comparison. Each side loads an
image by the number of its file.
"""

import random
from collections.abc import Sequence
from itertools import product
from typing import Any

import torch
from PIL import Image, ImageFilter
from torch import Tensor
from torch.utils.data import default_collate
from torchvision import transforms as T

from mmssprl.datasets import UnlabeledImages
from mmssprl.models.pyramid_preprocessor import PyramidPreprocessor
from mmssprl.pyramid import NUM_PYRAMIDS, PyramidLevel, ViewLayout

RELEASED = ViewLayout(num_small=6)  # 34 crops, the released recipe

JITTER = {"brightness": 0.8, "contrast": 0.8, "saturation": 0.8, "hue": 0.2}
JITTER_PROB = 0.8
GRAYSCALE_PROB = 0.2
BLUR_PROB = 0.5
FLIP_PROB = 0.5
BLUR_RADIUS = (0.1, 2.0)
MEAN = (0.485, 0.456, 0.406)
STD = (0.228, 0.224, 0.225)
BATCH_SIZE = 8  # images that our preprocessor augments at once


def pil_blur(image: Image.Image) -> Image.Image:
    """Blur by PIL's Gaussian of a random radius; torchvision has no such blur."""
    return image.filter(ImageFilter.GaussianBlur(random.uniform(*BLUR_RADIUS)))


class TorchvisionLoader:
    """The recipe by PIL images through torchvision: lists of float32 crops (3, px, px)."""

    def __init__(self, paths: Sequence[str], layout: ViewLayout) -> None:
        self.paths = paths
        self._finish = T.Compose(
            [
                T.RandomHorizontalFlip(FLIP_PROB),
                T.RandomApply([T.ColorJitter(**JITTER)], JITTER_PROB),
                T.RandomGrayscale(GRAYSCALE_PROB),
                T.RandomApply([pil_blur], BLUR_PROB),
                T.ToTensor(),
                T.Normalize(MEAN, STD),
            ]
        )
        self._whole = [T.RandomResizedCrop(layout.image_px, scale=layout.image_area)] * NUM_PYRAMIDS
        small = T.RandomResizedCrop(layout.small_px, scale=layout.small_area)
        self._whole += [small] * layout.num_small
        self._levels = [
            (
                level,
                T.RandomResizedCrop(level.resize_px, scale=level.area),
                T.RandomCrop(level.patch_px),
            )
            for level in layout.levels
        ]

    def __getitem__(self, index: int) -> list[Tensor]:
        """Read an image and cut it."""
        with Image.open(self.paths[index]) as file:
            image = file.convert("RGB")
        crops = [self._finish(crop(image)) for crop in self._whole]
        for level, resized_crop, patch_crop in self._levels:
            resized = resized_crop(image)
            size = level.cell_px
            cells = [
                resized.crop((x * size, y * size, (x + 1) * size, (y + 1) * size))
                for y, x in _visit(level)
            ]
            for _ in range(NUM_PYRAMIDS):
                crops += [self._finish(patch_crop(cell)) for cell in cells]
        return crops


def image_paths(dataset: UnlabeledImages) -> list[str]:
    """Return the files of a data set in its order."""
    return [dataset.get_data_info(i)["img_path"] for i in range(len(dataset))]


def our_preprocessor(layout: ViewLayout) -> PyramidPreprocessor:
    """Return our preprocessor with the recipe's settings."""
    settings: dict[str, Any] = {
        **JITTER,
        "flip_prob": FLIP_PROB,
        "jitter_prob": JITTER_PROB,
        "grayscale_prob": GRAYSCALE_PROB,
        "blur_prob": BLUR_PROB,
        "blur_sigma": BLUR_RADIUS,
    }
    return PyramidPreprocessor(layout=layout, **settings)


def load_on_cpu(
    dataset: UnlabeledImages,
    preprocessor: PyramidPreprocessor,
    indices: Sequence[int],
) -> None:
    """Load images as ours and do all photometric work as well: float32 crops, normalised."""
    for start in range(0, len(indices), BATCH_SIZE):
        samples = [dataset[i] for i in indices[start : start + BATCH_SIZE]]
        preprocessor(default_collate(samples), training=True)


def _visit(level: PyramidLevel) -> list[tuple[int, int]]:
    """Return (row, column) of the cells in a random order of rows and of columns."""
    rows = torch.randperm(level.grid).tolist()
    columns = torch.randperm(level.grid).tolist()
    return list(product(rows, columns))
