"""Remember unreadable images across workers, ranks and resumed runs."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import torch
from mmengine.logging import print_log

from ..console.wording import on_one_line
from ..errors import UserRuntimeError
from ..system.locks import wait_for


class BadImages:
    """The unreadable images found so far, and the limit at which training stops.

    Loader workers share the flags, ranks and runs share the list file. A fraction ``max_share`` in
    [0, 1] of the images may be unreadable, and at least one unless it is 0.
    """

    def __init__(self, num_images: int, max_share: float) -> None:
        self.num_images = num_images
        self.max_share = max_share
        self._flags = torch.zeros(num_images, dtype=torch.uint8).share_memory_()
        self._list: Path | None = None

    def __contains__(self, index: int) -> bool:
        return bool(self._flags[index])

    def keep_list(self, path: str | Path) -> None:
        """List bad images in the file ``path``, as lines ``image path<TAB>reason``.

        Images that an earlier run listed count; RuntimeError if too many are bad.
        """
        self._list = Path(path)
        self._list.parent.mkdir(parents=True, exist_ok=True)
        if self._list.exists():
            with _opened(self._list) as (_, listed):
                self._check_share(len(listed))

    def add(self, index: int, image_path: str, reason: str) -> None:
        """Flag, list and log an image once; RuntimeError if too many are bad."""
        image_path = on_one_line(image_path)
        reason = on_one_line(reason)
        is_new = index not in self
        self._flags[index] = 1

        num_listed = 0
        if self._list is not None:
            with _opened(self._list) as (file, listed):
                is_new = image_path not in listed
                if is_new:
                    file.write(f"{image_path}\t{reason}\n")
                num_listed = len(listed | {image_path})

        if is_new:
            text = f"{image_path}: {reason}; replaced by another image."
            print_log(text, logger="current", level=logging.WARNING)
        self._check_share(max(num_listed, int(self._flags.count_nonzero())))

    def _check_share(self, num_bad: int) -> None:
        if num_bad > most_bad(self.num_images, self.max_share) or num_bad >= self.num_images:
            raise UserRuntimeError(
                f"max_bad_share={self.max_share}: too many images are unreadable, {num_bad} of "
                f"{self.num_images} ({num_bad / self.num_images:.1%}). Repair the images in "
                f"{self._list or 'the warnings'} and delete that list, or raise max_bad_share."
            )


def most_bad(num_images: int, max_share: float) -> float:
    """Return how many images may be unreadable."""
    return max(1, max_share * num_images) if max_share else 0


@contextmanager
def _opened(path: Path) -> Iterator[tuple[TextIO, set[str]]]:
    """Lock a list while it is read and appended to; yield the file and the images in it."""
    with wait_for(path), path.open("a+", encoding="utf-8", errors="surrogateescape") as file:
        file.seek(0)
        yield file, {line.split("\t")[0] for line in file}
