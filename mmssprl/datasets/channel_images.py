"""Read TIFF, PNG and .npy images of any number of channels, with their values as stored.

Legend: C channels, H, W height and width in pixels.
"""

import contextlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor

from ..pixels import Pixels
from .image_reading import (
    ImageReadError,
    check_file,
    check_pixels,
    open_image,
    read_errors,
    read_image,
)

CHANNEL_SUFFIXES = (".npy", ".png", ".tif", ".tiff")
_TYPES = ("uint8", "uint16", "int16", "float32")
_LARGEST = 1e30
"""Values above it are no measurements: geographic tools write the least float for "no data"."""
_NO_DATA = 42113
"""Tag of GDAL: the value of pixels without data, as text."""
_OUTER_PERCENT = 2
"""Percentage of the darkest and of the brightest values that pictures clip."""


def read_as(path: str | Path, like: Any = None) -> Tensor:
    """Read an image as ``Pixels`` say, or as the training of a backbone or config read it.

    It is uint8 RGB (3, H, W) as of ``read_image``, or (C, H, W) with the values as stored: uint8,
    or float32 for all other types. ImageReadError if its channels or type are different.
    """
    pixels = Pixels.build(like)
    if pixels is None:
        return read_image(path)
    array = read_array(path)
    if (found := pixels_of(array)) != pixels:
        raise ImageReadError(path, f"it has {found}, and not {pixels}")
    return torch.from_numpy(np.array(array, pixels.view_dtype, order="C")).permute(2, 0, 1)


def read_array(path: str | Path) -> np.ndarray:
    """Read the values (H, W, C) of a TIFF, PNG or .npy file.

    The pages of a TIFF are channels if they have one channel and the same size and type; otherwise
    the first page is read.
    """
    readers = {".npy": _read_npy, ".png": _read_png, ".tif": _read_tiff, ".tiff": _read_tiff}
    suffix = Path(path).suffix.lower()
    if suffix not in readers:
        raise ImageReadError(path, f"its name ends in none of {', '.join(CHANNEL_SUFFIXES)}")
    with read_errors(path):
        check_file(path)
        array = readers[suffix](path)
    array = array[..., None] if array.ndim == 2 else array

    reason = ""
    if array.ndim != 3 or not array.size:
        reason = f"its shape is {array.shape}, and not (H, W, C) or (H, W)"
    elif array.dtype.name not in _TYPES:
        reason = f"its values are {array.dtype.name}, and none of {', '.join(_TYPES)}"
    elif array.dtype.kind == "f" and not (np.abs(array) < _LARGEST).all():
        reason = f"it holds NaN, infinity or values beyond ±{_LARGEST:g}, which stand for no data"
    if reason:
        raise ImageReadError(path, reason)
    return array


def pixels_of(array: np.ndarray) -> Pixels:
    """Return the channels and the type of an array (H, W, C)."""
    return Pixels(array.shape[-1], array.dtype.name)


def _read_npy(path: str | Path) -> np.ndarray:
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except ValueError as error:
        reason = "it is not a complete array of numbers from numpy.save (pickled objects?)"
        raise ImageReadError(path, reason) from error
    if array.ndim in (2, 3):
        check_pixels(*array.shape[1::-1])
    return array


def _read_png(path: str | Path) -> np.ndarray:
    with open_image(path) as image:  # only checked: PIL reads 16-bit colours as 8-bit
        image.verify()
    array: Any = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_UNCHANGED)
    if array is None:
        raise ValueError("OpenCV cannot decode it")
    return array if array.ndim == 2 else array[..., [2, 1, 0, 3][: array.shape[2]]]  # BGR, BGRA


def _read_tiff(path: str | Path) -> np.ndarray:
    from tifffile import TiffFile  # OpenCV silently confuses the channels of many TIFFs

    with TiffFile(path) as file:
        pages: list[Any] = list(file.pages)
        first = pages[0]
        check_pixels(first.imagewidth, first.imagelength)
        if first.samplesperpixel > 1:
            array = first.asarray()
            array = np.moveaxis(array, 0, -1) if first.axes.startswith("S") else array
        else:
            is_stack = len({(page.shape, page.dtype) for page in pages}) == 1
            channels = pages if is_stack else pages[:1]
            array = np.stack([page.asarray() for page in channels], axis=-1)
        _refuse_no_data(array, str(first.tags.valueof(_NO_DATA, default="")), path)
        return array


def _refuse_no_data(array: np.ndarray, said: str, path: str | Path) -> None:
    """Raise ImageReadError if pixels have the value that stands for no data, other than 0.

    Unsigned values are left: 255 is white in most images.
    """
    if array.dtype.kind == "u":
        return
    value = 0.0
    with contextlib.suppress(ValueError):
        value = float(said.strip("\0 "))
    if value and (array == value).any():
        raise ImageReadError(
            path, f"it has pixels without data (nodata is {value:g}), which would count as values"
        )


def as_picture(images: Tensor, like: Tensor | None = None) -> Tensor:
    """Convert images (..., C, H, W) to uint8 RGB (..., 3, H, W) for people.

    The first three channels become red, green and blue, or the first one gray. Each is scaled to
    the range of its values in ``like``, images of C channels; ``images`` by default. RGB images of
    uint8 are returned unchanged.
    """
    measured = images if like is None else like
    is_rgb = measured.dtype == torch.uint8 and measured.shape[-3] == 3
    if is_rgb and like is None:
        return images

    shown = [0, 1, 2] if images.shape[-3] >= 3 else [0, 0, 0]
    low, high = torch.tensor([0.0, 255.0])
    if not is_rgb:
        values = measured[..., shown, :, :].float().movedim(-3, 0).flatten(1).numpy()
        ends = np.percentile(values, (_OUTER_PERCENT, 100 - _OUTER_PERCENT), axis=1)
        low, high = torch.from_numpy(ends).float().view(2, 3, 1, 1)
    scaled = (images[..., shown, :, :] - low) * (255 / (high - low).clamp(min=1e-12))
    return scaled.round().clamp(0, 255).to(torch.uint8)
