"""One training at a time in a work dir."""

import errno
import fcntl
import logging
import os
import socket
from datetime import datetime
from pathlib import Path
from typing import IO

from mmengine.logging import print_log

from ..errors import UserRuntimeError

FILE = ".lock"
"""In the work dir; it stays there, and means nothing while no process holds it."""
_HELD = (errno.EACCES, errno.EAGAIN)


def hold_work_dir(work_dir: str | Path) -> IO[str]:
    """Take a work dir for the training of this process, until the file returned is closed.

    The operating system holds the lock: it ends with the process, however that ends, and over NFS
    with its machine. Loader processes do not inherit it.

    Raises:
        RuntimeError: Another process trains there; says which and since when.
    """
    folder = Path(work_dir)
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / FILE).open("a+", encoding="utf-8")
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            file.seek(0)
            holder = file.read().strip() or "a process"
            file.close()
            raise UserRuntimeError(
                f"one run at a time must train in a work dir, but {holder} trains in {work_dir}; "
                "wait for its end or end it, or give another --work-dir."
            ) from error
        print_log(
            f"the file system of {work_dir} has no locks ({error.strerror}): start no second run "
            "there.",
            logger="current",
            level=logging.WARNING,
        )
    now = datetime.now().astimezone().isoformat(" ", "seconds")
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}, since {now}")
    file.flush()
    return file
