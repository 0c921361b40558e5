"""Read an image file as RGB, or say why it cannot be read.

Legend: H, W height and width in pixels, after the EXIF orientation is applied.
"""

import contextlib
import importlib
import io
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor
from torchvision.io import ImageReadMode, decode_jpeg

from ..errors import UserFileNotFoundError, UserValueError
from ..wording import on_one_line
from .image_bounds import MAX_BYTES, MAX_PIXELS, OutOfBoundsError, check_jpeg, check_pixels

_JPEG_START = b"\xff\xd8\xff"
_OTHER_STARTS = (b"\x89PNG", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"RIFF", b"\0\0\0\x0cjP")
"""Of the other formats that opencv decodes, too, and pillow knows by their begin."""
_HEIC_STARTS = (b"ftypheic", b"ftypheix", b"ftypmif1")
"""Behind the length of the first box, in files of every name: phones write .heic, people .jpg."""
_MOST_OF_16_BIT = 65535
_BOUNDS = (OutOfBoundsError, Image.DecompressionBombError)

READ_HEIC = "pip install pillow-heif to read HEIC"
with contextlib.suppress(ImportError):  # where it is installed, pillow reads HEIC
    importlib.import_module("pillow_heif").register_heif_opener()
Image.init()
if "EPS" in Image.ID:  # a program, which pillow hands to Ghostscript whatever the file is called
    Image.ID.remove("EPS")


def can_read(suffix: str) -> bool:
    """Whether pillow, as it is installed here, reads files of a suffix such as ".avif"."""
    return suffix in Image.registered_extensions()


class ImageReadError(UserValueError):
    """A file that is missing, empty, truncated, too large to decode, or no image.

    Args:
        path: The file.
        reason: What is wrong with it, one line.
    """

    def __init__(self, path: str | Path, reason: str) -> None:
        super().__init__(path, reason)  # as args, so that it crosses processes
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return on_one_line(
            f"{self.path}: must be a complete image, but {self.reason}; replace or remove the file."
        )


def read_image(path: str | Path) -> Tensor:
    """Read and decode one image file, see ``decode_image``.

    Args:
        path: File in any format that torchvision or PIL reads; the content decides, not the name.

    Returns:
        uint8 (3, H, W), RGB in [0, 255], on the CPU. A JPEG lies in memory as H, W, channel.

    Raises:
        ImageReadError: The file cannot be opened or decoded completely; names path and reason.
    """
    try:
        size = require_regular(path)
        if size > MAX_BYTES:
            raise ImageReadError(path, f"it has {size:,} bytes, and at most {MAX_BYTES:,} are read")
        data = np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        raise ImageReadError(path, f"it cannot be opened ({error.strerror})") from error
    return decode_image(data, path)


def require_regular(path: str | Path) -> int:
    """Return the size in bytes of a file that may be opened.

    Raises:
        OSError: It is not there.
        ImageReadError: It is no regular file behind all links: to open a pipe would wait for ever,
            and a device may have no end.
    """
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise ImageReadError(path, "it is no regular file (a pipe, a device or a folder)")
    return status.st_size


def decode_image(data: np.ndarray, path: str | Path) -> Tensor:
    """Decode the bytes of one image file.

    JPEG goes through torchvision's libjpeg, everything else through PIL. Gray becomes three
    equal channels, CMYK and palettes become RGB, 16 bits become the upper 8, transparency is
    dropped without compositing (as PIL's ``convert("RGB")`` does), the EXIF orientation is
    applied, and of an animation or of several pages the first one counts. Pixels of 32 bits, whose
    range no file tells, are refused.

    Images of more than ``MAX_PIXELS``, JPEGs whose header says more pixels than the file can hold,
    and those of very many scans are refused before they are decoded.

    A file that ends too early is an error; nothing is filled with gray. Damage in the middle of
    JPEG data that libjpeg resynchronises from is only warned of by libjpeg and not seen here.

    Args:
        data: uint8 (N,), writable, the whole file; its content decides the format.
        path: What to call the image in an error.

    Returns:
        uint8 (3, H, W), RGB in [0, 255], on the CPU. A JPEG lies in memory as H, W, channel.

    Raises:
        ImageReadError: The data are empty, too large, or cannot be decoded completely; names path
            and reason.
    """
    if not data.size:
        raise ImageReadError(path, "it is empty")
    with _told_of_bounds(path):
        try:
            if data[: len(_JPEG_START)].tobytes() == _JPEG_START:
                check_jpeg(data.tobytes())
                return decode_jpeg(
                    torch.from_numpy(data), mode=ImageReadMode.RGB, apply_exif_orientation=True
                )
            return _decode_with_pil(data.tobytes())
        except _BOUNDS:
            raise
        except UnidentifiedImageError as error:  # whose own text is of a stream without a name
            is_heic = data[4:12].tobytes() in _HEIC_STARTS
            known = "it is in no image format that is known here"
            reason = f"it cannot be decoded ({READ_HEIC if is_heic else known})"
            raise ImageReadError(path, reason) from error
        except Exception as error:  # of decoders: OSError, SyntaxError, zlib.error, struct.error
            reason = " ".join(f"it cannot be decoded ({error})".split())
            raise ImageReadError(path, reason) from error


def check_header(data: bytes, path: str | Path) -> None:
    """Refuse what ``decode_image`` would refuse from its header, for another decoder.

    Args:
        data: A whole file. What is no image passes, and what is wrong with one in other ways.
        path: What to call it in an error.

    Raises:
        ImageReadError: It has too many pixels, or more than the file can hold, or too many scans.
    """
    with _told_of_bounds(path):
        if data.startswith(_JPEG_START):
            check_jpeg(data)
        elif data.startswith(_OTHER_STARTS):
            with contextlib.suppress(OSError, SyntaxError), Image.open(io.BytesIO(data)) as file:
                check_pixels(*file.size)


@contextlib.contextmanager
def _told_of_bounds(path: str | Path) -> Iterator[None]:
    try:
        yield
    except OutOfBoundsError as error:
        raise ImageReadError(path, str(error)) from error
    except Image.DecompressionBombError as error:
        reason = f"it has more than the {MAX_PIXELS:,} px that are decoded"
        raise ImageReadError(path, f"{reason} (scale it down or cut it into tiles)") from error


def require_files(paths: Sequence[str], ann_file: str) -> None:
    """Check that the images an annotation file names are there.

    Args:
        paths: The images, as they will be opened.
        ann_file: The file that names them, for the message.

    Raises:
        FileNotFoundError: Some are missing; names how many and the first three.
    """
    missing = missing_files(paths)
    if missing:
        raise UserFileNotFoundError(
            f"{ann_file}: every image that it names must exist, but {len(missing)} of "
            f"{len(paths)} do not, for example {missing[:3]}; correct data_root or data_prefix, "
            "or remove them from the file."
        )


def missing_files(paths: Sequence[str]) -> list[str]:
    """Return the paths at which there is nothing.

    Lists each folder once instead of asking for each file, which is what makes this affordable
    for a hundred thousand files on a network drive.
    """
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
    with Image.open(io.BytesIO(data)) as file:
        check_pixels(*file.size)
        image = ImageOps.exif_transpose(file)
    if image.mode.startswith("I"):  # 16-bit gray, on which convert("RGB") clips at 255
        gray = np.asarray(image)
        if gray.min() < 0 or gray.max() > _MOST_OF_16_BIT:
            raise ValueError("pixels of 32 bits have no known range, save it with 8 or 16 bits")
        image = Image.fromarray((gray >> 8).astype(np.uint8))
    elif image.mode == "F":
        raise ValueError("floating-point pixels have no known range, save it with 8 or 16 bits")
    if "transparency" in image.info:  # straight to RGB, PIL warns of what is wanted here
        image = image.convert("RGBA")
    return torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)
