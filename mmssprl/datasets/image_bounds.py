"""How large an image file may be, told from its first bytes, before anything is decoded."""

MAX_PIXELS = 178_956_970
"""Pixels of the largest image that is decoded, such as 13,377 x 13,377: pillow's own limit. To
decode it takes some 2 GiB."""

MAX_BYTES = 8 * MAX_PIXELS
"""Bytes of the largest file that is read: those of as many pixels of four channels of 16 bits."""

_PIXELS_PER_JPEG_BYTE = 512
"""No JPEG of Huffman codes has more pixels in a byte: each 8 x 8 of them take a bit at least."""

_MOST_SCANS = 100
"""Of a progressive JPEG. Encoders make some 10; a scan of a few bytes takes the time of an image
to decode, so that a small file could take hours."""

_NO_LENGTH = {0x00, 0x01, *range(0xD0, 0xD8)}
"""Markers of a JPEG that nothing belongs to."""
_ARITHMETIC = {0xC9, 0xCA}
_BEFORE_PIXELS = {0xC0, 0xC1, 0xC2, *_ARITHMETIC}
"""Markers before width and height: of the kinds of JPEG that libjpeg decodes."""
_PROGRESSIVE = {0xC2, 0xCA}
_AT_SCAN_OR_END = {0xD9, 0xDA}


class OutOfBoundsError(ValueError):
    """An image that is not worth the memory or the time that decoding it would take."""


def check_pixels(width: int, height: int, *, jpeg_bytes: int | None = None) -> None:
    """Refuse an image of more than ``MAX_PIXELS``, or of more than its file can hold.

    Args:
        width, height: In pixels, as the header says.
        jpeg_bytes: Bytes of the file if it is a JPEG of Huffman codes; in other formats a blank
            image takes next to none.

    Raises:
        OutOfBoundsError: It has more.
    """
    said = f"its header says {width:,} x {height:,} px"
    if width * height > MAX_PIXELS:
        raise OutOfBoundsError(
            f"{said}, and at most {MAX_PIXELS:,} px are decoded (scale it down or cut it into "
            "tiles)"
        )
    if jpeg_bytes is not None and width * height > _PIXELS_PER_JPEG_BYTE * jpeg_bytes:
        raise OutOfBoundsError(f"{said}, more than {jpeg_bytes:,} bytes can hold")


def check_jpeg(data: bytes) -> None:
    """Refuse a JPEG that is too large, or whose sides are forged, as libjpeg reads its header.

    A file without such a header passes: libjpeg says what is wrong with it.

    Args:
        data: The whole file.

    Raises:
        OutOfBoundsError: More than ``MAX_PIXELS``, more pixels than the file can hold, or too many
            scans.
    """
    found = _find_frame(data)
    if found is None:
        return
    marker, width, height = found
    check_pixels(width, height, jpeg_bytes=None if marker in _ARITHMETIC else len(data))
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
