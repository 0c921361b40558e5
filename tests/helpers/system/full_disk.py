"""A full disk, for files that are opened through ``Path``."""

import errno
import os
from pathlib import Path


class Full:
    """A file on such a disk."""

    def __init__(self, file):
        self.file = file

    def write(self, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()


def fill_disk(monkeypatch, start=""):
    """Make writing to files fail whose name begins with ``start``."""
    before = Path.open

    def open_(path, mode="r", *args, **options):
        file = before(path, mode, *args, **options)
        return Full(file) if "w" in mode and path.name.startswith(start) else file

    monkeypatch.setattr(Path, "open", open_)
