"""The one door to images: those of documented formats and sane sizes are read as RGB.

Legend: H, W height and width in pixels, after the EXIF orientation is applied.
"""

import contextlib
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor
from torchvision.io import ImageReadMode, decode_jpeg

from ..console.wording import on_one_line
from ..errors import UserError, UserValueError

Image.init()
if "EPS" in Image.ID:  # a program, which pillow hands to Ghostscript, for mmcv too
    Image.ID.remove("EPS")
FORMATS = tuple(
    name
    for name in ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF", "PPM", "AVIF")
    if name in Image.OPEN
)
"""As pillow calls them; of its other decoders none is asked, whatever a file is called."""

MAX_PIXELS = 178_956_970
"""Pixels of the largest image that is decoded, such as 13,377 x 13,377: pillow's own limit."""
MAX_BYTES = 8 * MAX_PIXELS
"""Bytes of the largest file that is read: those of as many pixels of four channels of 16 bits."""
_LARGE_BYTES = 2**20
"""Bytes of a JPEG from which on its sides are looked at before it is decoded."""
_JPEG_START = b"\xff\xd8\xff"
_MOST_OF_16_BIT = 65535
_SMALLER = "scale it down or cut it into tiles"


class OutOfBoundsError(ValueError):
    """A file that is not read: too large, or no regular one."""


class ImageReadError(UserValueError):
    """A file that is missing, empty, truncated, too large to decode, or no image: the reason."""

    def __init__(self, path: str | Path, reason: str) -> None:
        super().__init__(path, reason)  # as args, so that it crosses processes
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return on_one_line(
            f"{self.path}: must be a complete image, but {self.reason}; replace or remove the file."
        )


def read_image(path: str | Path) -> Tensor:
    """Read and decode one image file.

    JPEG goes through torchvision's libjpeg, everything else through PIL. Gray becomes three
    equal channels, CMYK and palettes become RGB, 16 bits become the upper 8, transparency is
    dropped without compositing (as PIL's ``convert("RGB")`` does), the EXIF orientation is
    applied, and of an animation or of several pages the first one counts. Pixels of 32 bits, whose
    range no file tells, are refused, and so is what is out of bounds.

    A file that ends too early is an error; nothing is filled with gray. Damage in the middle of
    JPEG data that libjpeg resynchronises from is only warned of by libjpeg and not seen here.

    Args:
        path: File in any format that torchvision or PIL reads; the content decides, not the name.

    Returns:
        uint8 (3, H, W), RGB in [0, 255], on the CPU. A JPEG lies in memory as H, W, channel.

    Raises:
        ImageReadError: The file cannot be opened or decoded completely; names path and reason.
    """
    with errors_told(path):
        check_file(path)
        data = np.fromfile(path, dtype=np.uint8)
    return decode_image(data, path)


def decode_image(data: np.ndarray, path: str | Path) -> Tensor:
    """Decode the bytes (N,) uint8 of one file, which errors call ``path``, as ``read_image``."""
    if not data.size:
        raise ImageReadError(path, "it is empty")
    content = data.tobytes()
    if not content.startswith(_JPEG_START):
        return _decode_with_pil(content, path)
    if len(content) > _LARGE_BYTES:
        with open_image(content, path):
            pass
    with errors_told(path):
        return decode_jpeg(
            torch.from_numpy(data), mode=ImageReadMode.RGB, apply_exif_orientation=True
        )


@contextlib.contextmanager
def open_image(source: str | Path | bytes, path: str | Path = "") -> Iterator[Image.Image]:
    """Open an image file, given by its path or its bytes; nothing of it is decoded yet.

    Errors, also those of decoding in the block, call the file ``path``, or as ``source`` does.

    Raises:
        ImageReadError: It is damaged, of no documented format, or too large.
    """
    with errors_told(path or ("the image" if isinstance(source, bytes) else source)):
        if not isinstance(source, bytes):
            check_file(source)
        with io.BytesIO(source) if isinstance(source, bytes) else open(source, "rb") as file:
            try:
                image = Image.open(file, formats=FORMATS)
            except UnidentifiedImageError as error:  # whose own text is of a stream without a name
                raise ValueError("it is in no image format that is known here") from error
            check_pixels(*image.size)
            yield image


def check_file(path: str | Path) -> None:
    """Refuse what is no regular file of at most ``MAX_BYTES``.

    To open a pipe would wait for ever, and a device may have no end.
    """
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise OutOfBoundsError("it is no regular file (a pipe, a device or a folder)")
    if status.st_size > MAX_BYTES:
        raise OutOfBoundsError(
            f"it has {status.st_size:,} bytes, and at most {MAX_BYTES:,} are read"
        )


def check_pixels(width: int, height: int) -> None:
    """Refuse an image of more than ``MAX_PIXELS``."""
    if width * height > MAX_PIXELS:
        raise OutOfBoundsError(
            f"its header says {width:,} x {height:,} px, and at most {MAX_PIXELS:,} px are decoded "
            f"({_SMALLER})"
        )


@contextlib.contextmanager
def errors_told(path: str | Path) -> Iterator[None]:
    """Raise ImageReadError for whatever decoders raise: OSError, SyntaxError, zlib.error, ..."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        reason = f"it cannot be decoded ({error})"
        if isinstance(error, OutOfBoundsError):
            reason = str(error)
        elif isinstance(error, Image.DecompressionBombError):
            reason = f"it has more than the {MAX_PIXELS:,} px that are decoded ({_SMALLER})"
        elif isinstance(error, OSError) and error.strerror:
            reason = f"it cannot be opened ({error.strerror})"
        raise ImageReadError(path, " ".join(reason.split())) from error


def _decode_with_pil(data: bytes, path: str | Path) -> Tensor:
    with open_image(data, path) as image:
        ImageOps.exif_transpose(image, in_place=True)
        if image.mode.startswith("I"):  # 16-bit gray, on which convert("RGB") clips at 255
            gray = np.asarray(image)
            if gray.min() < 0 or gray.max() > _MOST_OF_16_BIT:
                raise ValueError("pixels of 32 bits have no known range, save it with 8 or 16 bits")
            return _as_tensor(Image.fromarray((gray >> 8).astype(np.uint8)).convert("RGB"))
        if image.mode == "F":
            raise ValueError("floating-point pixels have no known range, save it with 8 or 16 bits")
        if "transparency" in image.info:  # straight to RGB, PIL warns of what is wanted here
            return _as_tensor(image.convert("RGBA").convert("RGB"))
        return _as_tensor(image if image.mode == "RGB" else image.convert("RGB"))


def _as_tensor(image: Image.Image) -> Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)
