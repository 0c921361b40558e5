"""How near our crops, jitters and blurs come to torchvision's and PIL's, on real pixels.

Legend: N crops, px their side.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path

import crop_boxes
import loaders
import numpy as np
import torch
from PIL import Image, ImageFilter
from torch import Generator, Tensor
from torchvision.transforms.v2 import functional as F

from mmssprl.datasets.image_reading import read_image
from mmssprl.datasets.transforms.pyramid_crop import PyramidCrop
from mmssprl.functional import photometric
from mmssprl.pyramid import ViewLayout

Box = tuple[int, int, int, int]
"""Top, left, height and width in pixels."""

_NOISE_ERROR = 1.0
"""Mean difference in levels up to which two crops of noise show the same box; others: 20 and up."""

_STEPS = {
    photometric.BRIGHTNESS: F.adjust_brightness,
    photometric.CONTRAST: F.adjust_contrast,
    photometric.SATURATION: F.adjust_saturation,
    photometric.HUE: F.adjust_hue,
}


def share_within_one_level(paths: Sequence[str | Path]) -> float:
    """Compare resized crops with PIL's antialiased bilinear resize of the same box.

    Every size of the released recipe is cut from every image: 224, 96, 314 and 383 px, each with
    its share of the area.

    Args:
        paths: Images.

    Returns:
        Share of the pixels whose channels all differ by at most one level of 255.

    Raises:
        RuntimeError: The box of a crop cannot be told.
    """
    recipe = loaders.RELEASED
    sizes = {recipe.image_px: recipe.image_area, recipe.small_px: recipe.small_area}
    sizes.update({level.resize_px: level.area for level in recipe.levels})
    near = total = 0
    for index, path in enumerate(paths):
        image = read_image(path)
        _, height, width = image.shape
        coordinates = crop_boxes.coordinate_image(height, width)
        noise = np.random.default_rng(index).integers(0, 256, (height, width, 3), np.uint8)
        for px, area in sizes.items():
            crop = PyramidCrop(ViewLayout(image_px=px, image_area=area, levels=()))
            seed = (0, 0, index)
            # The crops follow from the seed and the size of the image: other images tell where.
            near_box = crop_boxes.find_box(_first_crop(crop, coordinates, seed), height, width)
            box = _exact_box(near_box, noise, _first_crop(crop, noise, seed), path)
            expected = _pil_crop(image.permute(1, 2, 0).numpy(), box, px)
            found = _first_crop(crop, image, seed)
            worst = np.abs(found.astype(int) - expected.astype(int)).max(axis=2)
            near += int((worst <= 1).sum())
            total += worst.size
    return near / total


def jitter_difference(paths: Sequence[str | Path]) -> float:
    """Compare our jitters with torchvision's functions on float images, step by step in order.

    Returns:
        The greatest difference of a channel of a pixel, of images in [0, 1].
    """
    crops = _crops(paths)
    params = photometric.draw_color_jitter(
        len(crops), **loaders.JITTER, prob=1.0, generator=Generator().manual_seed(0)
    )
    ours = photometric.apply_color_jitter(crops.float() / 255, params)
    greatest = 0.0
    for i, (order, factors) in enumerate(zip(*params, strict=True)):
        expected = crops[i].float() / 255
        for step in order.tolist():
            expected = _STEPS[step](expected, float(factors[step]))
        greatest = max(greatest, float((ours[i] - expected).abs().max()))
    return greatest


def blur_difference(paths: Sequence[str | Path]) -> tuple[float, float]:
    """Compare our blurs with PIL's of the same radius, which rounds between its passes.

    Returns:
        The greatest difference of a channel of a pixel, in levels of 255, and the share of the
        channels of pixels that differ by at most 2 levels.
    """
    crops = _crops(paths)
    params = photometric.draw_gaussian_blur(
        len(crops), sigma=loaders.BLUR_RADIUS, prob=1.0, generator=Generator().manual_seed(0)
    )
    ours = photometric.apply_gaussian_blur(crops.float() / 255, params) * 255
    expected = np.stack(
        [
            np.asarray(
                Image.fromarray(crop.permute(1, 2, 0).numpy()).filter(
                    ImageFilter.GaussianBlur(sigma)
                )
            )
            for crop, sigma in zip(crops, params.sigma.tolist(), strict=True)
        ]
    )
    difference = np.abs(ours.permute(0, 2, 3, 1).numpy() - expected)
    return float(difference.max()), float((difference <= 2).mean())


def _crops(paths: Sequence[str | Path]) -> Tensor:
    """Return crops (N, 3, 96, 96), uint8, several of each image."""
    layout = ViewLayout(
        image_px=loaders.RELEASED.small_px, image_area=loaders.RELEASED.image_area, levels=()
    )
    crop = PyramidCrop(layout)
    packed = [
        crop({"img": read_image(path), "crop_seed": (0, 0, i)})["inputs"][0]
        for i, path in enumerate(paths)
    ]
    return torch.cat(packed)


def _first_crop(
    crop: PyramidCrop, image: Tensor | np.ndarray, seed: tuple[int, int, int]
) -> np.ndarray:
    packed = crop({"img": image, "crop_seed": seed})["inputs"]
    return packed[0][0].permute(1, 2, 0).numpy()


def _exact_box(
    near_box: tuple[float, float, float, float],
    noise: np.ndarray,
    found: np.ndarray,
    path: str | Path,
) -> Box:
    """Return the box of whole pixels whose resize is the crop ``found`` of an image of noise."""
    top, left, height, width = (round(edge) for edge in near_box)
    shifts = sorted(itertools.product((0, -1, 1), repeat=4), key=np.count_nonzero)
    for i, j, k, m in shifts:
        box = (top + i, left + j, height + k, width + m)
        inside = box[0] + box[2] <= len(noise) and box[1] + box[3] <= noise.shape[1]
        # Of noise, a box that is off by one pixel gives another crop altogether.
        if min(box) >= 0 and inside:
            crop = _pil_crop(noise, box, len(found)).astype(np.float32)
            if np.abs(crop - found).mean() <= _NOISE_ERROR:
                return box
    raise RuntimeError(
        f"{path}: a crop must be the resize of a box near {near_box}, but none gives it; "
        "PyramidCrop must draw the same boxes for the same crop_seed and image size."
    )


def _pil_crop(image: np.ndarray, box: Box, px: int) -> np.ndarray:
    top, left, height, width = box
    crop = Image.fromarray(image[top : top + height, left : left + width])
    return np.asarray(crop.resize((px, px), Image.Resampling.BILINEAR))
