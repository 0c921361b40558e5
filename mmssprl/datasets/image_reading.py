"""Read an image file as RGB, or say why it cannot be read.

Legend: H, W height and width in pixels, after the EXIF orientation is applied.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor
from torchvision.io import ImageReadMode, decode_jpeg

from ..console.wording import on_one_line
from ..errors import UserFileNotFoundError, UserValueError
from .image_opening import (
    MAX_PIXELS,
    READ_HEIC,
    OutOfBoundsError,
    can_read,
    check_file,
    check_jpeg,
    open_image,
)

_JPEG_START = b"\xff\xd8\xff"
_IMAGE_START = re.compile(
    rb"\x89PNG|GIF8|BM|II[*+]\0|MM\0[*+]|RIFF....WEBP|....ftyp|....jP  |\xff\x4f\xff\x51|P[1-7Ff]\s"
    rb"|#\?R|\x76\x2f\x31\x01|\x59\xa6\x6a\x95",
    re.DOTALL,
)
"""How the files begin that OpenCV decodes, without JPEG: also JPEG 2000, PNM, HDR, EXR and Sun."""
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


def read_image(path: str | Path) -> Tensor:
    """Read and decode one image file.

    JPEG goes through torchvision's libjpeg, everything else through PIL. Gray becomes three
    equal channels, CMYK and palettes become RGB, 16 bits become the upper 8, transparency is
    dropped without compositing (as PIL's ``convert("RGB")`` does), the EXIF orientation is
    applied, and of an animation or of several pages the first one counts. Pixels of 32 bits, whose
    range no file tells, are refused, and so is what is out of the bounds of ``image_opening``.

    A file that ends too early is an error; nothing is filled with gray. Damage in the middle of
    JPEG data that libjpeg resynchronises from is only warned of by libjpeg and not seen here.

    Args:
        path: File in any format that torchvision or PIL reads; the content decides, not the name.

    Returns:
        uint8 (3, H, W), RGB in [0, 255], on the CPU. A JPEG lies in memory as H, W, channel.

    Raises:
        ImageReadError: The file cannot be opened or decoded completely; names path and reason.
    """
    try:
        check_file(path)
        data = np.fromfile(path, dtype=np.uint8)
    except OutOfBoundsError as error:
        raise ImageReadError(path, str(error)) from error
    except OSError as error:
        raise ImageReadError(path, f"it cannot be opened ({error.strerror})") from error
    return decode_image(data, path)


def decode_image(data: np.ndarray, path: str | Path) -> Tensor:
    """Decode the bytes (N,) uint8 of one file, which errors call ``path``, as ``read_image``."""
    if not data.size:
        raise ImageReadError(path, "it is empty")
    content = data.tobytes()
    with _errors_told(path, content):
        if content.startswith(_JPEG_START):
            check_jpeg(content)
            return decode_jpeg(
                torch.from_numpy(data), mode=ImageReadMode.RGB, apply_exif_orientation=True
            )
        return _decode_with_pil(content)


def check_header(data: bytes, path: str | Path) -> None:
    """Refuse a whole file that ``decode_image`` would refuse by its header, for another decoder.

    A damaged JPEG passes, and what neither is named nor begins like an image.
    """
    with _errors_told(path, data):
        if data.startswith(_JPEG_START):
            check_jpeg(data)
        elif _IMAGE_START.match(data) or can_read(Path(path).suffix.lower()):
            with open_image(data):
                pass


@contextlib.contextmanager
def _errors_told(path: str | Path, data: bytes) -> Iterator[None]:
    """Raise ImageReadError for whatever decoders raise: OSError, SyntaxError, zlib.error, ..."""
    try:
        yield
    except OutOfBoundsError as error:
        raise ImageReadError(path, str(error)) from error
    except Image.DecompressionBombError as error:
        reason = f"it has more than the {MAX_PIXELS:,} px that are decoded"
        raise ImageReadError(path, f"{reason} (scale it down or cut it into tiles)") from error
    except UnidentifiedImageError as error:  # whose own text is of a stream without a name
        is_heic = data[4:12] in _HEIC_STARTS
        known = "it is in no image format that is known here"
        reason = f"it cannot be decoded ({READ_HEIC if is_heic else known})"
        raise ImageReadError(path, reason) from error
    except Exception as error:
        reason = " ".join(f"it cannot be decoded ({error})".split())
        raise ImageReadError(path, reason) from error


def require_files(paths: Sequence[str], ann_file: str) -> None:
    """Raise FileNotFoundError unless all images are there that an annotation file names."""
    missing = missing_files(paths)
    if missing:
        raise UserFileNotFoundError(
            f"{ann_file}: every image that it names must exist, but {len(missing)} of "
            f"{len(paths)} do not, for example {missing[:3]}; correct data_root or data_prefix, "
            "or remove them from the file."
        )


def missing_files(paths: Sequence[str]) -> list[str]:
    """Return the paths at which there is nothing."""
    # Each folder is listed once: to ask for each file takes long on a network drive.
    listings: dict[str, frozenset[str]] = {}
    missing = []
    for path in paths:
        folder, slash, name = path.rpartition("/")
        folder += slash
        if folder not in listings:
            try:
                listings[folder] = frozenset(os.listdir(folder or os.curdir))
            except OSError:
                listings[folder] = frozenset()
        # A drive that ignores case, or a folder that may be entered but not listed.
        if name not in listings[folder] and not os.path.exists(path):
            missing.append(path)
    return missing


def _decode_with_pil(data: bytes) -> Tensor:
    with open_image(data) as image:
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
