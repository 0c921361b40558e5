"""An image of blocks of one colour each, and its bytes in a format."""

import io

import numpy as np

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
