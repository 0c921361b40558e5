"""Processes that train until they are killed, forked from one that has imported everything."""

import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .tiny import CHANNEL


class Child:
    """A process that runs a function and tells its progress.

    Args:
        function: What it does; its output goes to ``log``.
        log: File that it adds to.

    Attributes:
        steps: Steps done when it was last heard of.
        begun_at: Steps that it went on from; None before it has.
    """

    def __init__(self, function: Callable[[], object], log: Path) -> None:
        self.steps = 0
        self.begun_at: int | None = None
        self._rest = b""
        self._reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _be_child(function, log, self._reading, writing)
        os.close(writing)

    def events(self, timeout_s: float = 120.0) -> Iterator[str]:
        """Yield the letters of what it tells, until it ends.

        Raises:
            TimeoutError: It has said nothing for so long, and was killed.
        """
        while True:
            if not select.select([self._reading], [], [], timeout_s)[0]:
                os.kill(self.pid, signal.SIGKILL)
                raise TimeoutError(f"after step {self.steps} a training hangs")
            data = os.read(self._reading, 65536)
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                letter, step = line.decode().split()
                self.steps = int(step)
                if letter == "r":
                    self.begun_at = self.steps
                yield letter
            if not data:
                return

    def kill(self) -> None:
        """End it by SIGKILL, and take note of what it has told."""
        os.kill(self.pid, signal.SIGKILL)
        for _ in self.events():
            pass

    def wait(self) -> int:
        """Return how it has ended: an exit code, or the number of a signal below 0."""
        for _ in self.events():
            pass
        os.close(self._reading)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _be_child(function: Callable[[], object], log: Path, reading: int, writing: int) -> None:
    os.close(reading)
    os.environ[CHANNEL] = str(writing)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    status = 1
    try:
        function()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


@contextmanager
def killed_at(number: int) -> Iterator[list[str]]:
    """End this process by SIGKILL right before one of the operations that files are kept by.

    They are the waits for the disk, and the changes of names.

    Args:
        number: Of the operation, from 0 on; one that never comes ends nothing.

    Yields:
        Names of the operations so far.
    """
    names: list[str] = []
    own = {name: getattr(os, name) for name in ("fsync", "replace", "rename", "unlink", "remove")}

    def count(name: str) -> None:
        names.append(name)
        if len(names) > number:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(10)

    def counted(name: str) -> Callable:
        def call(*args: object, **options: object) -> object:
            count(name)
            return own[name](*args, **options)

        return call

    for name in own:
        setattr(os, name, counted(name))
    try:
        yield names
    finally:
        for name, function in own.items():
            setattr(os, name, function)
