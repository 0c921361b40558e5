"""The one door to pillow: the documented formats, within the bounds."""

import contextlib
import importlib
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from .image_bounds import MAX_BYTES, OutOfBoundsError, check_pixels

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


def can_read(suffix: str) -> bool:
    """Whether pillow, as it is installed here, reads files of a suffix such as ".avif"."""
    return Image.registered_extensions().get(suffix) in FORMATS


def check_file(path: str | Path) -> int:
    """Return a file's bytes, and refuse what is too large to read, or no file.

    Raises:
        OSError: There is nothing at the path.
        OutOfBoundsError: It is no regular file behind all links, for to open a pipe would wait for
            ever, and a device may have no end; or more than ``MAX_BYTES``.
    """
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise OutOfBoundsError("it is no regular file (a pipe, a device or a folder)")
    if status.st_size > MAX_BYTES:
        raise OutOfBoundsError(
            f"it has {status.st_size:,} bytes, and at most {MAX_BYTES:,} are read"
        )
    return status.st_size


@contextlib.contextmanager
def open_image(source: str | Path | bytes) -> Iterator[Image.Image]:
    """Open an image file, of which nothing is decoded yet.

    Args:
        source: A path, or a whole file.

    Raises:
        OutOfBoundsError: As ``check_file`` and ``check_pixels``.
        Exception: What pillow's plugins raise at a file that is damaged, or of another format.
    """
    num_bytes = len(source) if isinstance(source, bytes) else check_file(source)
    file = io.BytesIO(source) if isinstance(source, bytes) else source
    with Image.open(file, formats=FORMATS) as image:
        check_pixels(*image.size, kind=image.format or "", num_bytes=num_bytes)
        yield image
