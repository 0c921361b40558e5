"""Images by their names: of a folder, of tar files, of a list of paths, or in memory."""

import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from ..datasets import UnlabeledImages
from ..datasets.image_index import TAR_SUFFIX
from ..datasets.image_reading import read_image
from ..errors import UserFileNotFoundError, UserTypeError, UserValueError, called

ImageSource = str | Path | Image.Image | np.ndarray | Iterable[Any] | UnlabeledImages
"""What ``Images`` takes."""


class Images:
    """Images in the order of their names.

    Args:
        source: Folder of images or of tar files, searched recursively; a tar file; an image; a list
            of paths, of PIL images, or of uint8 arrays (H, W, 3), also as one array (N, H, W, 3);
            or a data set that has found its images. Images in memory are called "0", "1", ...
        argument: What the caller calls ``source``, for errors.

    Attributes:
        root: What the names are relative to; None for images in memory.

    Raises:
        FileNotFoundError: There is no such file or folder.
        TypeError: A source, or an item of a list, of another kind.
        ValueError: There are no images in it, arrays that are no images, or a tar file that cannot
            be read.
    """

    def __init__(self, source: ImageSource, argument: str = "images") -> None:
        self.root: Path | None = None
        self._dataset: UnlabeledImages | None = None
        self._items: list[str | np.ndarray] = []
        if isinstance(source, str | Path):
            path = Path(source)
            if not path.exists():
                raise UserFileNotFoundError(
                    f"{argument} must be a folder of images or of tar files, a tar file or an "
                    f"image, but there is no {path}; correct the path."
                )
            if path.is_file() and path.suffix != TAR_SUFFIX:
                self.root, self.names, self._items = path.parent, [path.name], [str(path)]
                return
            with called(argument):
                source = UnlabeledImages(str(path))
        if isinstance(source, UnlabeledImages):
            self.root, self._dataset = Path(source.data_prefix["img_path"]), source
            self.names = list(source.names)
            return
        if isinstance(source, Image.Image) or getattr(source, "ndim", 0) == 3:
            source = [source]
        if not isinstance(source, Iterable):
            raise UserTypeError(
                f"{argument} must be a folder, a file, or a list of paths, PIL images or arrays, "
                f"but got a {type(source).__name__}."
            )
        self._items = [_item(each, f"{argument}[{i}]") for i, each in enumerate(source)]
        if not self._items:
            raise UserValueError(f"{argument} must hold at least one image, but got an empty list.")
        self.names = [item for item in self._items if isinstance(item, str)]
        if len(self.names) == len(self._items):
            self.root = Path()
        else:
            self.names = [str(i) for i in range(len(self._items))]

    def __len__(self) -> int:
        return len(self.names)

    def paths(self, names: Iterable[str]) -> list[str]:
        """Return the whole paths of some of them; of those in memory the names."""
        root = self.root and self.root.resolve()
        return [name if root is None else str(root / name) for name in names]

    def load(self, index: int) -> Tensor:
        """Decode one image: uint8 RGB (3, H, W), or raise ``ImageReadError``."""
        if self._dataset is not None:
            return self._dataset.load_image(index)
        item = self._items[index]
        if isinstance(item, str):
            return read_image(item)
        return torch.from_numpy(item).permute(2, 0, 1)

    def sizes(self) -> list[int]:
        """Return what tells one version of each image from another; nothing for tar files.

        It is the bytes of a file, -1 for a link to none, and a check sum in memory.
        """
        if self._dataset is not None:
            if self._dataset.tars is not None:
                return []
            return [self._dataset.size_of(index) for index in range(len(self))]
        return [
            Path(item).stat().st_size if isinstance(item, str) else zlib.crc32(item.data)
            for item in self._items
        ]


def _item(item: Any, argument: str) -> str | np.ndarray:
    """Return a path, or pixels (H, W, 3) that may be written to, as torch wants them."""
    if isinstance(item, str | Path):
        if not Path(item).is_file():
            raise UserFileNotFoundError(f"{argument} must be an image file, but {item} is none.")
        return str(item)
    if isinstance(item, Image.Image):
        if item.mode[0] in "IF":  # convert() would cut off what is above 255
            raise UserValueError(
                f"{argument} must have 8 bits a channel, but its mode is {item.mode}; scale it."
            )
        return np.array(ImageOps.exif_transpose(item).convert("RGB"))
    if not isinstance(item, np.ndarray):
        raise UserTypeError(
            f"{argument} must be a path, a PIL image or a uint8 array (H, W, 3), but got a "
            f"{type(item).__name__}."
        )
    if item.dtype != np.uint8 or item.ndim != 3 or item.shape[2] != 3 or not item.size:
        raise UserValueError(
            f"{argument} must be uint8 (H, W, 3), but got {item.dtype} {item.shape}; convert it."
        )
    return np.require(item, requirements=["C", "W"])
