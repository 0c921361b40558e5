"""How near our crops, jitters and blurs come to torchvision's and PIL's, on real pixels.

Legend: N crops, px their side.
"""

from collections.abc import Sequence
from unittest import mock

import numpy as np
import torch
from PIL import Image, ImageFilter
from torch import Generator, Tensor
from torchvision.transforms.v2 import functional as F

from mmssprl.datasets.image_reading import read_image
from mmssprl.datasets.transforms import pyramid_crop
from mmssprl.functional import photometric
from mmssprl.pyramid import ViewLayout

from . import loaders

_STEPS = {
    photometric.BRIGHTNESS: F.adjust_brightness,
    photometric.CONTRAST: F.adjust_contrast,
    photometric.SATURATION: F.adjust_saturation,
    photometric.HUE: F.adjust_hue,
}


def share_within_one_level(paths: Sequence[str]) -> float:
    """Compare resized crops with PIL's antialiased bilinear resize of the same box.

    Every size of the released recipe is cut from every image: 224, 96, 314 and 383 px, each with
    its share of the area. Returns the share of the pixels whose channels all differ by at most one
    level of 255.
    """
    recipe = loaders.RELEASED
    sizes = {recipe.image_px: recipe.image_area, recipe.small_px: recipe.small_area}
    sizes.update({level.resize_px: level.area for level in recipe.levels})
    draw = pyramid_crop.draw_box
    near: list[np.ndarray] = []
    boxes: list[tuple[int, int, int, int]] = []

    def recorded(*args: object) -> tuple[int, int, int, int]:
        boxes.append(draw(*args))  # type: ignore[arg-type]
        return boxes[-1]

    with mock.patch.object(pyramid_crop, "draw_box", recorded):
        for index, path in enumerate(paths):
            image = read_image(path)
            for px, area in sizes.items():
                layout = ViewLayout(image_px=px, image_area=area, levels=())
                boxes.clear()
                for found, box in zip(_cut(layout, image, index), boxes, strict=True):
                    crop = found.permute(1, 2, 0).numpy().astype(int)
                    worst = np.abs(crop - _pil_crop(image, box, px)).max(axis=2)
                    near.append((worst <= 1).ravel())
    return float(np.concatenate(near).mean())


def jitter_difference(paths: Sequence[str]) -> float:
    """Return the greatest difference, of 1, between our jitters and torchvision's."""
    crops = _crops(paths)
    params = photometric.draw_color_jitter(
        len(crops), **loaders.JITTER, prob=1.0, generator=Generator().manual_seed(0)
    )
    ours = photometric.apply_params(
        crops.float() / 255, photometric.PhotometricParams(jitter=params)
    )
    greatest = 0.0
    for i, (order, factors) in enumerate(zip(*params, strict=True)):
        expected = crops[i].float() / 255
        for step in order.tolist():
            expected = _STEPS[step](expected, float(factors[step]))
        greatest = max(greatest, float((ours[i] - expected).abs().max()))
    return greatest


def _blurred(images: Tensor, params: photometric.GaussianBlurParams) -> Tensor:
    return photometric.apply_params(images, photometric.PhotometricParams(blur=params))


def blur_share(paths: Sequence[str]) -> float:
    """Return the share of values of our blurs within 2 levels of PIL's, which rounds midway."""
    crops = _crops(paths)
    params = photometric.draw_gaussian_blur(
        len(crops), sigma=loaders.BLUR_RADIUS, prob=1.0, generator=Generator().manual_seed(0)
    )
    ours = _blurred(crops.float() / 255, params) * 255
    near = []
    for crop, blurred, sigma in zip(crops, ours, params.sigma.tolist(), strict=True):
        image = Image.fromarray(crop.permute(1, 2, 0).numpy())
        expected = np.asarray(image.filter(ImageFilter.GaussianBlur(sigma)))
        near.append(np.abs(blurred.permute(1, 2, 0).numpy() - expected) <= 2)
    return float(np.mean(near))


def _crops(paths: Sequence[str]) -> Tensor:
    """Return crops (N, 3, 96, 96), uint8, several of each image."""
    recipe = loaders.RELEASED
    layout = ViewLayout(image_px=recipe.small_px, image_area=recipe.image_area, levels=())
    return torch.cat([_cut(layout, read_image(path), i) for i, path in enumerate(paths)])


def _cut(layout: ViewLayout, image: Tensor, index: int) -> Tensor:
    """Return the image views (2, 3, px, px) of one image."""
    crop = pyramid_crop.PyramidCrop(layout)
    return crop({"img": image, "crop_seed": (0, 0, index)})["inputs"][0]


def _pil_crop(image: Tensor, box: tuple[int, int, int, int], px: int) -> np.ndarray:
    top, left, height, width = box
    crop = image[:, top : top + height, left : left + width].permute(1, 2, 0)
    return np.asarray(Image.fromarray(crop.numpy()).resize((px, px), Image.Resampling.BILINEAR))
