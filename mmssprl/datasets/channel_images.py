"""Images of any number of channels and of more than 8 bits: TIFF, PNG and .npy, values as stored.

Legend: C channels, H, W height and width in pixels.
"""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor

from ..pixels import Pixels
from . import image_reading
from .image_reading import ImageReadError, check_pixels

CHANNEL_SUFFIXES = (".npy", ".png", ".tif", ".tiff")
_TYPES = ("uint8", "uint16", "int16", "float32")
_OUTER_PERCENT = 2
"""Darkest and brightest values of a channel that a picture does not tell apart."""


def read_as(path: str | Path, like: Any = None) -> Tensor:
    """Read an image as a backbone or its config was trained, or as ``Pixels`` say.

    It is uint8 RGB (3, H, W) as of ``read_image``, or (C, H, W), as stored: then values of uint8
    stay as they are, and others become float32.

    Raises:
        ImageReadError: It cannot be read, or holds something else.
    """
    pixels = Pixels.build(like)
    if pixels is None:
        return image_reading.read_image(path)
    array = read_array(path)
    if (found := pixels_of(array)) != pixels:
        raise ImageReadError(path, f"it has {found}, and not {pixels}")
    return torch.from_numpy(np.array(array, pixels.view_dtype, order="C")).permute(2, 0, 1)


def read_array(path: str | Path) -> np.ndarray:
    """Read the values (H, W, C) of a TIFF, PNG or .npy file.

    A TIFF's first page counts, but for pages of one channel, size and type: each is a channel.
    """
    readers = {".npy": _read_npy, ".png": _read_png, ".tif": _read_tiff, ".tiff": _read_tiff}
    read = readers.get(Path(path).suffix.lower())
    if read is None:
        raise ImageReadError(path, f"its name ends in none of {', '.join(CHANNEL_SUFFIXES)}")
    with image_reading.errors_told(path):
        image_reading.check_file(path)
        array = read(path)
    array = array[..., None] if array.ndim == 2 else array
    reason = ""
    if array.ndim != 3 or not array.size:
        reason = f"its shape is {array.shape}, and not (H, W, C) or (H, W)"
    elif array.dtype.name not in _TYPES:
        reason = f"its values are {array.dtype.name}, and none of {', '.join(_TYPES)}"
    elif not np.isfinite(array).all():
        reason = "it holds NaN or infinity"
    if reason:
        raise ImageReadError(path, reason)
    return array


def pixels_of(array: np.ndarray) -> Pixels:
    """Return what an array (H, W, C) holds."""
    return Pixels(array.shape[-1], array.dtype.name)


def _read_npy(path: str | Path) -> np.ndarray:
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except ValueError as error:
        reason = "it is no whole array of numbers as numpy.save writes it (such as pickled objects)"
        raise ImageReadError(path, reason) from error
    if array.ndim in (2, 3):
        check_pixels(*array.shape[1::-1])
    return array


def _read_png(path: str | Path) -> np.ndarray:
    with image_reading.open_image(path) as image:  # whose own decoder cuts colours of 16 bits to 8
        image.verify()
    array: Any = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_UNCHANGED)
    if array is None:
        raise ValueError("OpenCV refuses it")
    return array if array.ndim == 2 else array[..., [2, 1, 0, 3][: array.shape[2]]]  # BGR, BGRA


def _read_tiff(path: str | Path) -> np.ndarray:
    from tifffile import TiffFile  # OpenCV mistakes the channels of many TIFFs without a word

    with TiffFile(path) as file:
        pages: list[Any] = list(file.pages)
        first = pages[0]
        check_pixels(first.imagewidth, first.imagelength)
        if first.samplesperpixel > 1:
            array = first.asarray()
            return np.moveaxis(array, 0, -1) if first.axes.startswith("S") else array
        is_stack = len({(page.shape, page.dtype) for page in pages}) == 1
        return np.stack([page.asarray() for page in (pages if is_stack else pages[:1])], axis=-1)


def as_picture(images: Tensor, like: Tensor | None = None) -> Tensor:
    """Show images (..., C, H, W) to people: uint8 RGB (..., 3, H, W); such ones stay as they are.

    Their first three channels become red, green and blue, or the first one gray, each between its
    darkest and brightest values in ``like``, images of C channels; None takes ``images``.
    """
    of = images if like is None else like
    low, high = torch.tensor([0.0, 255.0])
    shown = [0, 1, 2] if images.shape[-3] >= 3 else [0, 0, 0]
    if of.dtype != torch.uint8 or of.shape[-3] != 3:
        values = of[..., shown, :, :].float().movedim(-3, 0).flatten(1).numpy()
        ends = np.percentile(values, (_OUTER_PERCENT, 100 - _OUTER_PERCENT), axis=1)
        low, high = torch.from_numpy(ends).float().view(2, 3, 1, 1)
    elif like is None:
        return images
    scaled = (images[..., shown, :, :] - low) * (255 / (high - low).clamp(min=1e-12))
    return scaled.round().clamp(0, 255).to(torch.uint8)
