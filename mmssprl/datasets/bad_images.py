"""Remember which images of a data set cannot be read, over workers, ranks and resumed runs."""

import fcntl
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

import torch
from mmengine.logging import print_log

from mmssprl.datasets.image_reading import ImageReadError

from ..console.wording import on_one_line
from ..errors import UserRuntimeError


class BadImages:
    """The images found unreadable so far, and the limit at which training must stop.

    The flags lie in shared memory: what one loader worker finds, the others of the same rank do
    not try again. Over ranks and runs the list file, kept under a lock, is what is shared.

    Args:
        num_images: Images of the data set.
        max_share: Share of the images in [0, 1] that may be unreadable. At least one may,
            however few images there are, unless the share is 0.
    """

    def __init__(self, num_images: int, max_share: float) -> None:
        self.num_images = num_images
        self.max_share = max_share
        self._flags = torch.zeros(num_images, dtype=torch.uint8).share_memory_()
        self._list: Path | None = None
        self._not_counted: frozenset[str] = frozenset()
        self._listed: set[str] = set()
        self._end = 0  # how far this process has read the list

    def __contains__(self, index: int) -> bool:
        return bool(self._flags[index])

    def keep_list(
        self,
        path: str | Path,
        image_paths: Iterable[str],
        load_image: Callable[[int], object],
    ) -> None:
        """List bad images in the file ``path``, one line ``image path<TAB>reason`` each.

        What would end the line in a path is written as ``on_one_line`` does.

        Images that an earlier run listed are tried once more: those still bad count from the
        start, while repaired images and lines of other data sets no longer do.

        Args:
            path: The list; made if it is missing, with its folder.
            image_paths: The paths of all images in the order of their indices.
            load_image: Reads the image of an index or raises ``ImageReadError``.

        Raises:
            RuntimeError: The images that are listed and still bad exceed the limit already.
        """
        self._list = Path(path)
        self._list.parent.mkdir(parents=True, exist_ok=True)
        with _open_locked(self._list) as file:
            listed = set(self._read_on(file))
        still_bad = set()
        if listed:
            for index, image_path in enumerate(image_paths):
                if on_one_line(image_path) not in listed:
                    continue
                try:
                    load_image(index)
                except ImageReadError:
                    self._flags[index] = 1
                    still_bad.add(on_one_line(image_path))
        self._not_counted = frozenset(listed - still_bad)
        self._check_share(len(still_bad))

    def add(self, index: int, image_path: str, reason: str) -> None:
        """Flag an image, and list it and warn of it unless that was done before.

        Raises:
            RuntimeError: More images are bad than the limit allows.
        """
        image_path, reason = on_one_line(image_path), on_one_line(reason)
        is_new = index not in self
        self._flags[index] = 1
        if self._list is None:
            num_listed = 0
        else:
            with _open_locked(self._list) as file:
                is_new = image_path not in self._read_on(file)
                if is_new:
                    file.write(f"{image_path}\t{reason}\n")
                    self._listed.add(image_path)
            num_listed = len(self._listed - self._not_counted)
        if is_new:
            print_log(
                f"{image_path}: {reason}; another image takes its place.",
                logger="current",
                level=logging.WARNING,
            )
        self._check_share(max(num_listed, int(self._flags.count_nonzero())))

    def _read_on(self, file: TextIO) -> set[str]:
        """Return all images that are listed; reads only what others added since the last time."""
        if file.seek(0, os.SEEK_END) < self._end:  # somebody has shortened it
            self._listed, self._end = set(), 0
        file.seek(self._end)
        self._listed.update(line.split("\t")[0] for line in iter(file.readline, ""))
        self._end = file.tell()
        return self._listed

    def _check_share(self, num_bad: int) -> None:
        if num_bad > most_bad(self.num_images, self.max_share) or num_bad >= self.num_images:
            where = f"are listed in {self._list}" if self._list else "were named in warnings"
            raise UserRuntimeError(
                f"max_bad_share={self.max_share}: at most this share of the images may be "
                f"unreadable, but {num_bad} of {self.num_images} "
                f"({num_bad / self.num_images:.1%}) are; they {where}: replace or remove them, "
                "or raise max_bad_share in the config of the run (--max-bad-share of a new "
                "pretrain)."
            )


def most_bad(num_images: int, max_share: float) -> float:
    """Return how many images may be unreadable, see ``BadImages``."""
    return max(1, max_share * num_images) if max_share else 0


def _open_locked(path: Path) -> TextIO:
    """Open a list for reading and appending; the lock goes when it is closed, after the flush."""
    file = path.open("a+", encoding="utf-8", errors="surrogateescape")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file
