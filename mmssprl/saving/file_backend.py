"""mmengine's files on local disks, written whole, and images within the bounds of this package.

mmengine opens a checkpoint under its own name and writes: what stops it leaves a torn file there.
Here its documented extension point, ``register_backend``, gets a back-end for the same places whose
files are there completely or not at all. It holds for the whole process, so for every checkpoint
of every hook and package that writes through mmengine, and for every image that mmcv reads.
"""

import os
from pathlib import Path

from mmengine.fileio import LocalBackend, register_backend

from ..datasets.image_reading import check_header
from ..errors import UserOSError
from ..system.disk_space import explain_full_disk
from ..system.outputs import whole_file


@register_backend("local", prefixes="", force=True)
class WholeFileBackend(LocalBackend):
    """mmengine's LocalBackend, which writes through ``whole_file`` and looks at images first."""

    def get(self, filepath: str | Path) -> bytes:
        """Read bytes.

        Raises:
            OSError: It cannot be read, or is no regular file: a pipe or a device may have no end.
            ImageReadError: An image that is too large to decode, whose header lies, or of a format
                that this package does not read.
        """
        if os.path.exists(filepath) and not os.path.isfile(filepath):
            raise UserOSError(
                f"{filepath}: must be a file, but is no regular file; correct the path."
            )
        data = super().get(filepath)
        check_header(data, filepath)
        return data

    def put(self, obj: bytes, filepath: str | Path) -> None:
        """Write bytes.

        Raises:
            OSError: It cannot be written; on a full disk with the size needed and what is free.
        """
        path = Path(filepath)
        path.parent.mkdir(parents=True, exist_ok=True)
        with explain_full_disk(path, len(obj)), whole_file(path, "wb") as file:
            file.write(obj)

    def put_text(self, obj: str, filepath: str | Path, encoding: str = "utf-8") -> None:
        """Write text; errors are those of ``put``."""
        self.put(obj.encode(encoding), filepath)
