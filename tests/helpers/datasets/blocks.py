"""An image of blocks of one colour each, its bytes in a format, and images that EXIF turns."""

import io

import numpy as np
from PIL import Image

# The corners differ, so that no orientation can pass for another.
COLORS = np.array(
    [[[200, 30, 40], [20, 180, 60]], [[40, 50, 220], [230, 220, 30]], [[10, 10, 10], [250] * 3]],
    np.uint8,
)
BLOCKS = COLORS.repeat(16, 0).repeat(16, 1)  # (48, 32, 3)


def encode(image, format="PNG", **options):
    if format == "JPEG":  # at this quality blocks of one color are kept within 6 levels
        options = {"quality": 95, "subsampling": 0, **options}
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def turned(image, orientation):
    """What a camera stores so that the viewer shows ``image`` (EXIF 2.3, 4.6.4 A); the tag."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    ways = ("FLIP_LEFT_RIGHT", "ROTATE_180", "FLIP_TOP_BOTTOM")
    ways += ("TRANSPOSE", "ROTATE_90", "TRANSVERSE", "ROTATE_270")
    if orientation > 1:
        image = image.transpose(Image.Transpose[ways[orientation - 2]])
    return image, exif
