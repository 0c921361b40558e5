"""Label images: reading VOC's and SBD's, and writing them.

Legend: H, W height and width in pixels. Labels are class indices: 0 background, 1 to 20 VOC's
classes in alphabetical order, 255 ignored.
"""

from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import loadmat

from mmssprl.preparation.voc_files import CLASSES

from ..datasets.image_opening import open_image
from ..errors import UserFileNotFoundError, UserValueError
from ..system.outputs import whole_file

IGNORED = 255
_ALLOWED = frozenset({*range(len(CLASSES) + 1), IGNORED})
_INDEX_MODES = ("L", "P")


def read_mat_labels(path: Path) -> np.ndarray:
    """Read the labels of an SBD file ``cls/NAME.mat``, field Segmentation of the struct GTcls.

    Returns:
        uint8 (H, W).

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no MATLAB file, has no such field, or labels that are none.
    """
    if not path.is_file():
        raise UserFileNotFoundError(
            f"every image of SBD's lists must have labels, but there is no {path}; unpack "
            "benchmark.tgz again."
        )
    try:
        labels = loadmat(str(path), variable_names=["GTcls"])["GTcls"]["Segmentation"][0, 0]
    except Exception as error:  # scipy raises ValueError, TypeError, KeyError, zlib.error, ...
        raise UserValueError(
            f"{path}: must be a MATLAB file with a struct GTcls and its field Segmentation, but "
            f"reading it fails ({type(error).__name__}: {error}); unpack benchmark.tgz again."
        ) from error
    return _checked(np.asarray(labels), path)


def read_png_labels(path: Path) -> np.ndarray:
    """Read a label image: the indices, not the colours of its palette.

    Returns:
        uint8 (H, W).

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no image of indices, or has labels that are none.
    """
    if not path.is_file():
        raise UserFileNotFoundError(
            f"every image of VOC's lists must have labels, but there is no {path}; unpack VOC2012 "
            "again."
        )
    try:
        with open_image(path) as image:
            mode, labels = image.mode, np.asarray(image)
    except Exception as error:  # decoders raise OSError, SyntaxError, zlib.error, ...
        raise UserValueError(
            f"{path}: must be a complete image, but it cannot be decoded ({error}); unpack or "
            "make it again."
        ) from error
    if mode not in _INDEX_MODES:
        raise UserValueError(
            f"{path}: must be an image of class indices (mode {' or '.join(_INDEX_MODES)}), but "
            f"has mode {mode}; unpack or make it again."
        )
    return _checked(labels, path)


def check_size(labels: np.ndarray, path: Path, image: Path) -> None:
    """Compare labels with their image, of which only the header is read.

    Args:
        labels: (H, W).
        path: The file that the labels are from, for the message.
        image: The image. Its size as stored counts, before an EXIF orientation is applied.

    Raises:
        ValueError: Height or width differs, or ``image`` is no image.
    """
    try:
        with open_image(image) as file:
            width, height = file.size
    except Exception as error:
        raise UserValueError(
            f"{image}: must be an image, but cannot be opened ({error}); unpack VOC2012 again."
        ) from error
    if labels.shape != (height, width):
        raise UserValueError(
            f"{path}: must be as large as {image}, {height} x {width} (height x width), but is "
            f"{labels.shape[0]} x {labels.shape[1]}; unpack both again."
        )


def write_png_labels(labels: np.ndarray, path: Path) -> None:
    """Write labels (H, W) uint8 as a gray PNG; it appears under its name when it is complete."""
    # Gray, without VOC's palette: whatever reads it, cv2 included, gets the indices.
    with whole_file(path, "wb", synced=False) as file:
        Image.fromarray(labels).save(file, format="PNG")


def _checked(labels: np.ndarray, path: Path) -> np.ndarray:
    if labels.ndim != 2 or labels.dtype.kind not in "ui":
        raise UserValueError(
            f"{path}: labels must be a table of whole numbers, but are {labels.dtype} of shape "
            f"{labels.shape}; unpack or make the file again."
        )
    unknown = sorted(set(np.unique(labels).tolist()) - _ALLOWED)
    if unknown:
        raise UserValueError(
            f"{path}: labels must be 0 to {len(CLASSES)} or {IGNORED}, but there are "
            f"{unknown[:5]}; unpack or make the file again."
        )
    return labels.astype(np.uint8)
