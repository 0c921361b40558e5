"""Remember which images of a data set cannot be read, over workers, ranks and resumed runs."""

import fcntl
import logging
from pathlib import Path
from typing import TextIO

import torch
from mmengine.logging import print_log

from ..console.wording import on_one_line
from ..errors import UserRuntimeError


class BadImages:
    """The images found unreadable so far, and the limit at which training must stop.

    The flags lie in shared memory of the loader's workers, the list file is shared by ranks and
    runs. ``max_share`` of the images in [0, 1] may be unreadable; at least one may, unless it is 0.
    """

    def __init__(self, num_images: int, max_share: float) -> None:
        self.num_images = num_images
        self.max_share = max_share
        self._flags = torch.zeros(num_images, dtype=torch.uint8).share_memory_()
        self._list: Path | None = None

    def __contains__(self, index: int) -> bool:
        return bool(self._flags[index])

    def keep_list(self, path: str | Path) -> None:
        """List bad images in the file ``path``, one line ``image path<TAB>reason`` each.

        Those that an earlier run listed count: RuntimeError if they are too many.
        """
        self._list = Path(path)
        self._list.parent.mkdir(parents=True, exist_ok=True)
        if self._list.exists():
            with _open_locked(self._list) as file:
                self._check_share(len(_read_listed(file)))

    def add(self, index: int, image_path: str, reason: str) -> None:
        """Flag an image, list it and warn of it, once; RuntimeError if too many are bad."""
        image_path, reason = on_one_line(image_path), on_one_line(reason)
        is_new = index not in self
        self._flags[index] = 1
        num_listed = 0
        if self._list is not None:
            with _open_locked(self._list) as file:
                listed = _read_listed(file)
                is_new = image_path not in listed
                if is_new:
                    file.write(f"{image_path}\t{reason}\n")
                    listed.add(image_path)
            num_listed = len(listed)
        if is_new:
            print_log(
                f"{image_path}: {reason}; another image takes its place.",
                logger="current",
                level=logging.WARNING,
            )
        self._check_share(max(num_listed, int(self._flags.count_nonzero())))

    def _check_share(self, num_bad: int) -> None:
        if num_bad > most_bad(self.num_images, self.max_share) or num_bad >= self.num_images:
            raise UserRuntimeError(
                f"max_bad_share={self.max_share}: at most this share of the images may be "
                f"unreadable, but {num_bad} of {self.num_images} "
                f"({num_bad / self.num_images:.1%}) are; repair those in "
                f"{self._list or 'the warnings'} and delete that list, or raise max_bad_share in "
                "the config of the run."
            )


def most_bad(num_images: int, max_share: float) -> float:
    """Return how many images may be unreadable, see ``BadImages``."""
    return max(1, max_share * num_images) if max_share else 0


def _open_locked(path: Path) -> TextIO:
    """Open a list for reading and appending; the lock goes when it is closed, after the flush."""
    file = path.open("a+", encoding="utf-8", errors="surrogateescape")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def _read_listed(file: TextIO) -> set[str]:
    file.seek(0)
    return {line.split("\t")[0] for line in file}
