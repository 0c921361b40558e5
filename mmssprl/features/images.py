"""The images of a folder, of tar files, or a single one, by their names."""

from pathlib import Path

from torch import Tensor

from ..datasets import UnlabeledImages
from ..datasets.image_index import TAR_SUFFIX
from ..datasets.image_reading import read_image
from ..errors import UserFileNotFoundError, called


class Images:
    """Images in the order of their names, which are relative to their folder.

    Args:
        source: Folder of images or of tar files, searched recursively; a tar file; an image; or a
            data set that has found its images.
        argument: What the user calls ``source``, for errors.

    Raises:
        FileNotFoundError: There is no such file or folder.
        ValueError: There are no images in it, or a tar file that cannot be read.
    """

    def __init__(self, source: str | Path | UnlabeledImages, argument: str = "DIR") -> None:
        self._dataset: UnlabeledImages | None = None
        if isinstance(source, UnlabeledImages):
            self.root, self._dataset = Path(source.data_prefix["img_path"]), source
            self.names = list(source.names)
            return
        path = Path(source)
        if not path.exists():
            raise UserFileNotFoundError(
                f"{argument} must be a folder of images or of tar files, a tar file or an image, "
                f"but there is no {path}; correct the path."
            )
        self.root = path
        if path.is_file() and path.suffix != TAR_SUFFIX:
            self.root, self.names = path.parent, [path.name]
            return
        with called(argument):
            self._dataset = UnlabeledImages(str(path))
        self.names = list(self._dataset.names)

    def __len__(self) -> int:
        return len(self.names)

    def path(self, index: int) -> str:
        """Return the path of one image; that of one in a tar file is no file's."""
        return str(self.root / self.names[index])

    def load(self, index: int) -> Tensor:
        """Decode one image: uint8 (3, H, W), RGB.

        Raises:
            ImageReadError: It is unreadable.
        """
        if self._dataset is None:
            return read_image(self.path(index))
        return self._dataset.load_image(index)

    def sizes(self) -> list[int]:
        """Return the bytes of each file, -1 for a link to none; nothing for images in tar files."""
        if self._dataset is None:
            return [Path(self.path(0)).stat().st_size]
        if self._dataset.tars is not None:
            return []
        return [self._dataset.size_of(index) for index in range(len(self))]
