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
from torch.utils.data import get_worker_info
from torchvision.io import ImageReadMode, decode_jpeg

from ..console.wording import on_one_line
from ..errors import UserError, UserValueError
from ..system.environment import usable_memory

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
"""Pixels of the largest image that is decoded, such as 13,377 x 13,377: pillow's own limit."""
MAX_BYTES = 8 * MAX_PIXELS
"""Bytes of the largest file that is read: those of as many pixels of four channels of 16 bits."""
SMALL_PIXELS = 2**22
"""Images up to this size, such as 2048 x 2048 px, are decoded whatever their bytes and the memory:
the most that one takes is some 100 MiB."""

_PIXELS_PER_BYTE = {"JPEG": 512, "MPO": 512, "PNG": 8256, "GIF": 8256, "BMP": 8256}
"""More than any file can hold. JPEG's Huffman codes take a bit at least for 8 x 8 pixels; deflate
makes at most 1,032 bytes of one, of 8 pixels each; GIF's and BMP's codes less."""
_PIXELS_PER_BYTE_OF_OTHERS = 2**15
"""TIFF, WebP, AVIF and HEIC may take no bits for what has one colour. Of a blank image their
encoders make up to 25,000 pixels a byte (WebP), of one that shows anything far less."""
_BYTES_PER_PIXEL = {"JPEG": 12, "MPO": 12}
_BYTES_PER_PIXEL_OF_OTHERS = 24
"""Memory that decoding takes at most: measured are 11 of a progressive CMYK JPEG and 21 of WebP."""
_SHARE_OF_MEMORY = 0.5
"""What all reading processes of the machine or the container may take at a time, as a share."""
_MOST_SCANS = 100
"""Most scans of a progressive JPEG. Encoders make some 10; a scan of a few bytes takes the time of
an image to decode, so that a small file could take hours."""

_NO_LENGTH = {0x00, 0x01, *range(0xD0, 0xD8)}
"""Markers of a JPEG that nothing belongs to."""
_ARITHMETIC = {0xC9, 0xCA}
_BEFORE_PIXELS = {0xC0, 0xC1, 0xC2, *_ARITHMETIC}
"""Markers before width and height: of the kinds of JPEG that libjpeg decodes."""
_PROGRESSIVE = {0xC2, 0xCA}
_AT_SCAN_OR_END = {0xD9, 0xDA}

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
_SMALLER = "scale it down or cut it into tiles"


class OutOfBoundsError(ValueError):
    """An image that is not worth the memory or the time that decoding it would take."""


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
    with errors_told(path):
        check_jpeg(content)
        return decode_jpeg(
            torch.from_numpy(data), mode=ImageReadMode.RGB, apply_exif_orientation=True
        )


def check_header(data: bytes, path: str | Path) -> None:
    """Refuse a whole file that ``decode_image`` would refuse by its header, for another decoder.

    A damaged JPEG passes, and what neither is named nor begins like an image.
    """
    if data.startswith(_JPEG_START):
        with errors_told(path):
            check_jpeg(data)
    elif _IMAGE_START.match(data) or can_read(Path(path).suffix.lower()):
        with open_image(data, path):
            pass


@contextlib.contextmanager
def open_image(source: str | Path | bytes, path: str | Path = "") -> Iterator[Image.Image]:
    """Open an image file, given by its path or its bytes; nothing of it is decoded yet.

    Errors, also those of decoding in the block, call the file ``path``, or as ``source`` does.

    Raises:
        ImageReadError: It is damaged, of no documented format, or out of bounds, as
            ``check_file`` and ``check_pixels``.
    """
    with errors_told(path or ("the image" if isinstance(source, bytes) else source)):
        num_bytes = len(source) if isinstance(source, bytes) else check_file(source)
        with io.BytesIO(source) if isinstance(source, bytes) else open(source, "rb") as file:
            is_heic = file.read(12)[4:] in _HEIC_STARTS
            try:
                image = Image.open(file, formats=FORMATS)
            except UnidentifiedImageError as error:  # whose own text is of a stream without a name
                known = READ_HEIC if is_heic else "it is in no image format that is known here"
                raise ValueError(known) from error
            check_pixels(*image.size, kind=image.format or "", num_bytes=num_bytes)
            yield image


def check_file(path: str | Path) -> int:
    """Return the bytes of a regular file of at most ``MAX_BYTES``, and refuse anything else.

    To open a pipe would wait for ever, and a device may have no end.
    """
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise OutOfBoundsError("it is no regular file (a pipe, a device or a folder)")
    if status.st_size > MAX_BYTES:
        raise OutOfBoundsError(
            f"it has {status.st_size:,} bytes, and at most {MAX_BYTES:,} are read"
        )
    return status.st_size


def check_pixels(width: int, height: int, *, kind: str, num_bytes: int) -> None:
    """Refuse an image that is too large for this package, for its file, or for the memory.

    The memory is that of the machine, not of the moment, shared by all processes that read images:
    on the same machine, with as many workers, the same images are refused.
    """
    said = f"its header says {width:,} x {height:,} px"
    pixels = width * height
    if pixels > MAX_PIXELS:
        raise OutOfBoundsError(f"{said}, and at most {MAX_PIXELS:,} px are decoded ({_SMALLER})")
    if pixels <= SMALL_PIXELS:
        return
    if pixels > _PIXELS_PER_BYTE.get(kind, _PIXELS_PER_BYTE_OF_OTHERS) * num_bytes:
        raise OutOfBoundsError(f"{said}, more than {num_bytes:,} bytes can hold")
    worker = get_worker_info()
    readers = (worker.num_workers if worker else 1) * int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    memory = usable_memory()
    needed = pixels * _BYTES_PER_PIXEL.get(kind, _BYTES_PER_PIXEL_OF_OTHERS)
    if needed * readers > _SHARE_OF_MEMORY * memory:
        raise OutOfBoundsError(
            f"{said}, which {readers} reading processes with {memory / 2**30:.1f} GiB of memory do "
            f"not decode (take fewer workers, {_SMALLER})"
        )


def check_jpeg(data: bytes) -> None:
    """Refuse a whole JPEG that is out of bounds, by its header as libjpeg reads it.

    A file without such a header passes: libjpeg says what is wrong with it.
    """
    found = _find_frame(data)
    if found is None:
        return
    marker, width, height = found
    kind = "arithmetic JPEG" if marker in _ARITHMETIC else "JPEG"
    check_pixels(width, height, kind=kind, num_bytes=len(data))
    if marker in _PROGRESSIVE and (scans := data.count(b"\xff\xda")) > _MOST_SCANS:
        raise OutOfBoundsError(f"it has {scans:,} scans, and at most {_MOST_SCANS} are decoded")


def _find_frame(data: bytes) -> tuple[int, int, int] | None:
    """Return the marker, width and height of a JPEG's frame, None if there is none."""
    place = 2
    while (place := data.find(b"\xff", place)) >= 0:  # libjpeg, too, skips what is in between
        marker = data[place + 1] if place + 1 < len(data) else 0xD9
        if marker in _AT_SCAN_OR_END:
            return None
        if marker == 0xFF:  # a marker may begin with several
            place += 1
        elif marker in _NO_LENGTH:
            place += 2
        elif marker in _BEFORE_PIXELS:
            # length (2 bytes), precision (1), height (2), width (2)
            height, width = data[place + 5 : place + 7], data[place + 7 : place + 9]
            return marker, int.from_bytes(width, "big"), int.from_bytes(height, "big")
        else:
            place += 2 + int.from_bytes(data[place + 2 : place + 4], "big")
    return None


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
