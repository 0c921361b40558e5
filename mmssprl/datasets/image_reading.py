"""The one door to images: those of documented formats and sane sizes are read as RGB.

Legend: H, W height and width in pixels, after the EXIF orientation is applied.
"""

import contextlib
import importlib
import io
import os
import re
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

READ_HEIC = "pip install pillow-heif to read HEIC"
with contextlib.suppress(ImportError):  # where it is installed, pillow reads HEIC
    importlib.import_module("pillow_heif").register_heif_opener()
Image.init()
if "EPS" in Image.ID:  # a program, which pillow hands to Ghostscript, for mmcv too
    Image.ID.remove("EPS")
FORMATS = tuple(
    name
    for name in ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF", "AVIF", "HEIF")
    if name in Image.OPEN
)
"""As pillow calls them; of its other decoders none is asked, whatever a file is called."""

MAX_PIXELS = 178_956_970
"""Pixels of the largest image, such as 13,377 x 13,377: what pillow opens."""
TOO_LARGE = f"at most {MAX_PIXELS:,} px are decoded (scale it down or cut it into tiles)"

_JPEG = ("JPEG", "MPO")
_IMAGE_START = re.compile(
    rb"\xff\xd8\xff|\x89PNG|GIF8|BM|II[*+]\0|MM\0[*+]|RIFF....WEBP|....ftyp|....jP  "
    rb"|\xff\x4f\xff\x51|P[1-7Ff]\s|#\?R|\x76\x2f\x31\x01|\x59\xa6\x6a\x95",
    re.DOTALL,
)
"""How the files begin that OpenCV decodes: also JPEG 2000, PNM, HDR, EXR and Sun."""
_HEIC_STARTS = (b"ftypheic", b"ftypheix", b"ftypmif1")
"""Behind the length of the first box, in files of every name: phones write .heic, people .jpg."""
_MOST_OF_16_BIT = 65535


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


def can_read(suffix: str) -> bool:
    """Whether pillow, as it is installed here, reads files of a suffix such as ".avif"."""
    return Image.registered_extensions().get(suffix) in FORMATS


def read_image(path: str | Path) -> Tensor:
    """Read and decode one image file; the content decides on the format, not the name.

    JPEG goes through torchvision's libjpeg, everything else through PIL. Gray becomes three
    equal channels, CMYK and palettes become RGB, 16 bits become the upper 8, transparency is
    dropped without compositing, the EXIF orientation is applied, and of an animation or of several
    pages the first one counts. Pixels of 32 bits, whose range no file tells, are refused. Damage
    in the middle of JPEG data that libjpeg resynchronises from is only warned of by libjpeg.

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
    with open_image(data.tobytes(), path) as image:
        if image.format not in _JPEG:
            return _decode_with_pil(image)
        return decode_jpeg(
            torch.from_numpy(data), mode=ImageReadMode.RGB, apply_exif_orientation=True
        )


def check_header(data: bytes, path: str | Path) -> None:
    """Refuse the bytes of an image that ``open_image`` refuses, for another decoder.

    What is neither named nor begins like an image passes.
    """
    if _IMAGE_START.match(data) or can_read(Path(path).suffix.lower()):
        with open_image(data, path):
            pass


@contextlib.contextmanager
def open_image(source: str | Path | bytes, path: str | Path = "") -> Iterator[Image.Image]:
    """Open an image file, given by its path or its bytes; nothing of it is decoded yet.

    ImageReadError, also of decoding in the block, calls the file ``path``, or as ``source`` does.
    """
    with errors_told(path or ("the image" if isinstance(source, bytes) else source)):
        if not isinstance(source, bytes):
            check_file(source)
        with io.BytesIO(source) if isinstance(source, bytes) else open(source, "rb") as file:
            is_heic = file.read(12)[4:] in _HEIC_STARTS
            try:
                image = Image.open(file, formats=FORMATS)
            except UnidentifiedImageError as error:  # whose own text is of a stream without a name
                known = READ_HEIC if is_heic else "it is in no image format that is known here"
                raise ValueError(known) from error
            yield image


def check_file(path: str | Path) -> None:
    """Refuse what is no regular file: a pipe would be waited for, and a device may have no end."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ImageReadError(path, "it is no regular file (a pipe, a device or a folder)")


@contextlib.contextmanager
def errors_told(path: str | Path) -> Iterator[None]:
    """Raise ImageReadError for whatever decoders raise: OSError, SyntaxError, zlib.error, ..."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        reason = f"it cannot be decoded ({error})"
        if isinstance(error, Image.DecompressionBombError):
            reason = TOO_LARGE
        elif isinstance(error, OSError) and error.strerror:
            reason = f"it cannot be opened ({error.strerror})"
        raise ImageReadError(path, " ".join(reason.split())) from error


def _decode_with_pil(image: Image.Image) -> Tensor:
    ImageOps.exif_transpose(image, in_place=True)
    if image.mode.startswith("I"):  # 16-bit gray, on which convert("RGB") clips at 255
        gray = np.asarray(image)
        if gray.min() < 0 or gray.max() > _MOST_OF_16_BIT:
            raise ValueError("pixels of 32 bits have no known range, save it with 8 or 16 bits")
        image = Image.fromarray((gray >> 8).astype(np.uint8))
    elif image.mode == "F":
        raise ValueError("floating-point pixels have no known range, save it with 8 or 16 bits")
    elif "transparency" in image.info:  # straight to RGB, PIL warns of what is wanted here
        image = image.convert("RGBA")
    rgb = image if image.mode == "RGB" else image.convert("RGB")
    return torch.from_numpy(np.array(rgb)).permute(2, 0, 1)
