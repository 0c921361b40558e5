"""Read images of documented formats and sane sizes as RGB.

Legend: H, W height and width in pixels, after the EXIF orientation is applied.
"""

import contextlib
import io
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor
from torchvision.io import ImageReadMode, decode_jpeg

from ..console.wording import on_one_line
from ..errors import UserError, UserValueError

Image.init()
if "EPS" in Image.ID:  # a program that pillow would run in Ghostscript, for mmcv too
    Image.ID.remove("EPS")
FORMATS = tuple(
    name
    for name in ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF", "PPM", "AVIF")
    if name in Image.OPEN
)
"""Pillow's names of the formats that are decoded, whatever the file name."""

MAX_PIXELS = 178_956_970
"""Largest number of pixels, such as 13,377 x 13,377: pillow's own limit."""
DARK = 15
"""Largest value (8 bits) of a nearly black image; 12 bits that are stored in 16 reach it."""
MOST_DARK = 0.1
"""Fraction of nearly black images above which they are reported."""
MAX_BYTES = 8 * MAX_PIXELS
"""Largest size of a file in bytes: four channels of 16 bits for ``MAX_PIXELS``."""
_LARGE_BYTES = 2**20
"""Size of a JPEG file (bytes) above which the header is checked before decoding."""
_JPEG_START = b"\xff\xd8\xff"
_ORIENTATION = 0x0112  # of EXIF
_SIDEWAYS = (5, 6, 7, 8)
"""Orientations that swap width and height."""
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What undoes each orientation; pillow's own function fails where it writes damaged EXIF."""


class OutOfBoundsError(ValueError):
    """A file is too large, or not a regular file."""


class ImageReadError(UserValueError):
    """A file is missing, empty, truncated, too large or not an image; ``reason`` says which."""

    def __init__(self, path: str | Path, reason: str) -> None:
        super().__init__(path, reason)  # pickled as args
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return on_one_line(
            f"{self.path}: must be a complete image, but {self.reason}; replace or remove the file."
        )


def stored_size(image: Image.Image) -> tuple[tuple[int, int], int]:
    """Return width and height (px) of the stored pixels, and the EXIF orientation, 1 to 8."""
    orientation = _orientation(image)
    # Pillow gives the size of a TIFF as it is shown.
    is_shown = image.format == "TIFF" and orientation in _SIDEWAYS
    width, height = image.size
    return ((height, width) if is_shown else (width, height)), orientation


def _orientation(image: Image.Image) -> int:
    """Return the EXIF orientation, 1 without one or with EXIF that is damaged."""
    with contextlib.suppress(Exception):  # of many kinds
        orientation = image.getexif().get(_ORIENTATION, 1)
        return orientation if orientation in _TURNS else 1
    return 1


def read_image(path: str | Path) -> Tensor:
    """Read and decode one image file.

    JPEG is decoded by torchvision's libjpeg, other formats by PIL. Gray becomes three equal
    channels, CMYK and palettes become RGB, and of 16 bits the upper 8 are kept. Transparency is
    dropped without compositing, as by PIL's ``convert("RGB")``. EXIF orientation is applied. Of an
    animation or several pages, the first is read. 32-bit pixels are refused, because their range is
    unknown.

    Truncated files are errors. libjpeg only warns about damage inside JPEG data that it can
    resynchronise from; it is not detected here.

    Args:
        path: File in one of ``FORMATS``, whatever its name.

    Returns:
        uint8 (3, H, W), RGB in [0, 255], on the CPU. A JPEG is channel-last in memory.

    Raises:
        ImageReadError: The file cannot be opened or decoded completely.
    """
    return decode_image(read_file(path), path)


def read_file(path: str | Path) -> np.ndarray:
    """Return the bytes (N,) uint8 of an image file; ImageReadError if it cannot be read."""
    with read_errors(path):
        check_file(path)
        return np.fromfile(path, dtype=np.uint8)


def decode_image(data: np.ndarray, path: str | Path) -> Tensor:
    """Decode the bytes (N,) uint8 of one file as ``read_image`` does; errors call it ``path``."""
    if not data.size:
        raise ImageReadError(path, "it is empty")
    if data[: len(_JPEG_START)].tobytes() != _JPEG_START:
        return _decode_with_pil(data.tobytes(), path)
    if data.size > _LARGE_BYTES:
        with open_image(data.tobytes(), path):
            pass
    with read_errors(path):
        return decode_jpeg(
            torch.from_numpy(data), mode=ImageReadMode.RGB, apply_exif_orientation=True
        )


@contextlib.contextmanager
def open_image(source: str | Path | bytes, path: str | Path = "") -> Iterator[Image.Image]:
    """Open an image file from its path or bytes without decoding it.

    Errors call it ``path``, or ``source`` by default, including errors of decoding in the block.
    """
    with read_errors(path or ("the image" if isinstance(source, bytes) else source)):
        if not isinstance(source, bytes):
            check_file(source)
        with io.BytesIO(source) if isinstance(source, bytes) else open(source, "rb") as file:
            try:
                image = Image.open(file, formats=FORMATS)
            except UnidentifiedImageError as error:  # its own text names the stream
                raise ValueError(
                    "it is in no supported image format, or a TIFF that needs channels"
                ) from error
            check_pixels(*image.size)
            yield image


def check_file(path: str | Path) -> None:
    """Raise OutOfBoundsError unless it is a regular file of at most ``MAX_BYTES``.

    Opening a pipe would wait forever, and a device may never end.
    """
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise OutOfBoundsError("it is not a regular file (a pipe, a device or a folder)")
    if status.st_size > MAX_BYTES:
        raise OutOfBoundsError(f"it has {status.st_size:,} bytes, more than {MAX_BYTES:,}")


def check_pixels(width: int, height: int) -> None:
    """Raise OutOfBoundsError for an image of more than ``MAX_PIXELS``."""
    if width * height > MAX_PIXELS:
        raise OutOfBoundsError(
            f"it has {width:,} x {height:,} px, more than {MAX_PIXELS:,} px (cut it into tiles)"
        )


@contextlib.contextmanager
def read_errors(path: str | Path) -> Iterator[None]:
    """Raise ImageReadError for all errors of decoders: OSError, SyntaxError, zlib.error, ..."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        reason = f"it cannot be decoded ({error})"
        if isinstance(error, OutOfBoundsError):
            reason = str(error)
        elif isinstance(error, Image.DecompressionBombError):
            reason = f"it has more than {MAX_PIXELS:,} px (cut it into tiles)"
        elif isinstance(error, OSError) and error.strerror:
            reason = f"it cannot be opened ({error.strerror})"
        raise ImageReadError(path, " ".join(reason.split())) from error


def dark_warning(dark: Sequence[str], num_images: int) -> str:
    """Return a warning about nearly black images, given by their paths."""
    return (
        f"{len(dark)} of {num_images} images are nearly black, for example {dark[0]}: no value is "
        f"above {DARK} of 255. Of 16 bits only the upper 8 are used; if the images have 12 bits, "
        "scale them, or pre-train with channels."
    )


def _decode_with_pil(data: bytes, path: str | Path) -> Tensor:
    image: Image.Image
    with open_image(data, path) as image:
        image.load()  # turns a TIFF, and reads EXIF behind the pixels of a PNG
        turn = _TURNS.get(_orientation(image))
        if turn is not None:
            image = image.transpose(turn)
        if image.mode.startswith(("I", "F")):  # convert("RGB") would clip 16-bit gray at 255
            image = Image.fromarray(_upper_bits(image))
        elif "transparency" in image.info:  # PIL warns when converting directly to RGB
            image = image.convert("RGBA")
        pixels = np.array(image if image.mode == "RGB" else image.convert("RGB"))
    return torch.from_numpy(pixels).permute(2, 0, 1)


def _upper_bits(image: Image.Image) -> np.ndarray:
    """Return the upper 8 of 16 bits; ValueError for pixels of unknown range."""
    gray = np.asarray(image)
    if image.mode == "F" or gray.min() < 0 or gray.max() > np.iinfo(np.uint16).max:
        kind = "floating-point pixels" if image.mode == "F" else "pixels of 32 bits"
        raise ValueError(f"{kind} have no known range, save it with 8 or 16 bits")
    return (gray >> 8).astype(np.uint8)
