"""The rows of the loader: time against others, what crosses processes, fidelity to PIL.

Legend: N crops, px their side.
"""

from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from PIL import Image, ImageFilter
from torch import Generator, Tensor
from torch.utils._pytree import tree_leaves
from torchvision.transforms.v2 import functional as F

from mmssprl.datasets import UnlabeledImages
from mmssprl.datasets.image_reading import read_image
from mmssprl.datasets.transforms import pyramid_crop
from mmssprl.functional import photometric, photometric_params
from mmssprl.pyramid import ViewLayout

from . import loaders
from .gates import Gate, Row, interleave, measured, quartiles, ratio
from .models import device_path, our_loader

_STEPS = {
    photometric_params.BRIGHTNESS: F.adjust_brightness,
    photometric_params.CONTRAST: F.adjust_contrast,
    photometric_params.SATURATION: F.adjust_saturation,
    photometric_params.HUE: F.adjust_hue,
}
_PLAIN: Any = {"mean": (0.0,) * 3, "std": (1.0,) * 3}


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
    params = photometric_params.draw_color_jitter(
        len(crops), **loaders.JITTER, prob=1.0, generator=Generator().manual_seed(0)
    )
    ours = photometric.apply_photometric(
        crops.float() / 255, photometric_params.PhotometricParams(jitter=params), **_PLAIN
    )
    greatest = 0.0
    for i, (order, factors) in enumerate(zip(*params, strict=True)):
        expected = crops[i].float() / 255
        for step in order.tolist():
            expected = _STEPS[step](expected, float(factors[step]))
        greatest = max(greatest, float((ours[i] - expected).abs().max()))
    return greatest


def _blurred(images: Tensor, params: photometric_params.GaussianBlurParams) -> Tensor:
    return photometric.apply_photometric(
        images, photometric_params.PhotometricParams(blur=params), **_PLAIN
    )


def blur_share(paths: Sequence[str]) -> float:
    """Return the share of values of our blurs within 2 levels of PIL's, which rounds midway."""
    crops = _crops(paths)
    params = photometric_params.draw_gaussian_blur(
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


SIDES = {
    "torchvision": "torchvision/PIL loader of the released recipe",
    "mmpretrain": "mmpretrain's MultiView pipeline",
    "ours": "our loader: decode and uint8 crops",
    "ours_cpu": "our loader and all photometric work on the CPU",
    "decode": "decoding alone",
}
_COMPARISONS = {
    "C1": ("torchvision", "ours", "Ours leaves all photometric work to the device; see C2."),
    "C3": ("ours", "decode", ""),
    "C2": ("torchvision", "ours_cpu", "Equal work: float32 crops, recoloured and normalised."),
    "C13": (
        *("mmpretrain", "ours"),
        "Theirs does all photometric work, as it is shipped. Patch crops were added to it, without "
        "MultiView's deep copies.",
    ),
}
"""Gate -> the slow side, the fast one, and a note."""
_FEWEST_IMAGES = 16


def rows(images: Path, quick: bool, log: Callable[[str], None]) -> list[Row]:
    """Time and compare the loaders, and the pixels of ours with torchvision's and PIL's."""
    dataset = our_loader(images, loaders.RELEASED)
    paths = loaders.image_paths(dataset)
    if len(paths) < _FEWEST_IMAGES:
        raise RuntimeError(
            f"images must be a folder of at least {_FEWEST_IMAGES} images, but {images} holds "
            f"{len(paths)}; name another with --images."
        )
    log("fidelity against torchvision and PIL")
    some = paths[: 8 if quick else 32]
    jitter, blur = jitter_difference(some), blur_share(some)
    with device_path():
        jitter, blur = max(jitter, jitter_difference(some)), min(blur, blur_share(some))
    worse = "The worse of the paths of CPU and device."
    rounding = f"{worse} PIL rounds to levels six times on the way, ours does not."
    found = [
        measured("C14_crop", share_within_one_level(some)),
        measured("C14_jitter", jitter, note=worse),
        measured("C14_blur", blur, note=rounding),
    ]
    num_rounds = 3 if quick else 16
    log(f"34 crops, {len(SIDES)} loaders, {num_rounds} rounds")
    found += speed_rows(time_loaders(images, loaders.RELEASED, num_rounds))
    return found + crossing_rows(dataset)


def time_loaders(images: Path, layout: ViewLayout, num_rounds: int) -> dict[str, list[float]]:
    """Return seconds per image of every loader; in one round all load the same images."""
    dataset = our_loader(images, layout)
    paths = loaders.image_paths(dataset)
    preprocessor = loaders.our_preprocessor(layout)
    # Whole batches only, so that an image costs the same in every round.
    size = 2 * loaders.BATCH_SIZE
    batches = [range(i, i + size) for i in range(0, len(paths) - size + 1, size)]

    def each(load: Callable[[int], object]) -> Callable[[], None]:
        """Return what loads the images of the next batch one by one."""
        endless = cycle(batches)

        def load_all() -> None:
            for index in next(endless):
                load(index)

        return load_all

    on_cpu = cycle(batches)
    work: dict[str, Callable[[], object]] = {
        "torchvision": each(loaders.TorchvisionLoader(paths, layout).__getitem__),
        "mmpretrain": each(loaders.MultiViewLoader(paths, layout).__getitem__),
        "ours": each(dataset.__getitem__),
        "ours_cpu": lambda: loaders.load_on_cpu(dataset, preprocessor, next(on_cpu)),
        "decode": each(lambda index: read_image(paths[index])),
    }
    seconds = interleave(work, num_rounds)
    return {name: [value / size for value in values] for name, values in seconds.items()}


def speed_rows(seconds: dict[str, list[float]]) -> list[Row]:
    """Return the ratios of the sides of ``time_loaders``, and milliseconds per image of each."""
    found = [
        measured(row_id, *ratio(seconds[slow], seconds[fast]), note=note)
        for row_id, (slow, fast, note) in _COMPARISONS.items()
    ]
    for side, values in seconds.items():
        is_loader = side != "decode"
        what = f"{SIDES[side]}{', 34 crops' * is_loader}: CPU time per image"
        milliseconds = quartiles([1000 * value for value in values])
        row_id = f"{side}{'_34' * is_loader}_ms"
        found.append(measured(row_id, *milliseconds, info=Gate(what, "ms", better="lower")))
    return found


def crossing_rows(dataset: UnlabeledImages) -> list[Row]:
    """Count what a sample of 34 crops sends from a worker to the main process."""
    their_tensors = loaders.TorchvisionLoader(loaders.image_paths(dataset), loaders.RELEASED)[0]
    our_tensors = [leaf for leaf in tree_leaves(dataset[0]) if isinstance(leaf, Tensor)]
    our_bytes, their_bytes = _shared_bytes(our_tensors), _shared_bytes(their_tensors)
    sizes = f"{our_bytes:,} against {their_bytes:,} bytes, 34 crops."
    tensors = f"Exact; the torchvision/PIL loader has {len(their_tensors)}."
    return [
        measured("C5", our_bytes / their_bytes, note=f"Exact: {sizes}"),
        measured("C6", len(our_tensors), note=tensors),
    ]


def _shared_bytes(tensors: Sequence[Tensor]) -> int:
    """Count what a worker shares: whole storages, also of a tensor that shows only a part."""
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
