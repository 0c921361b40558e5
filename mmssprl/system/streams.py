"""Standard output and error that cannot be written: a closed pipe or terminal, a full disk."""

import errno
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO


class Stream:
    """A stream that is given up at its first error: whatever follows is dropped.

    Attributes:
        is_needed: End the process at that error; otherwise it goes on, and says so on stderr.
    """

    def __init__(self, stream: TextIO) -> None:
        if isinstance(stream, io.TextIOWrapper):
            # A file's name that is no UTF-8 would end a command at the line that prints it.
            stream.reconfigure(errors="backslashreplace")
        self._stream = stream
        self.is_needed = False

    def write(self, text: str) -> int:
        """Write, and return the number of characters."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        """Write what waits in a buffer."""
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
        if sys.stderr is self:
            return
        if not self.is_needed:
            print(f"going on without standard output: {error.strerror}", file=sys.stderr)
        elif error.errno == errno.EPIPE:
            raise SystemExit(128 + signal.SIGPIPE)  # without a word, as others behind `| head`
        else:
            reason = f"{error.strerror}; send it elsewhere."
            print(f"error: standard output cannot be written: {reason}", file=sys.stderr)
            raise SystemExit(2)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def guarded_streams() -> Iterator[Stream]:
    """Let no error of standard output or error end what runs inside; yields standard output.

    Those that are closed become the null device, or the next file that is opened would take their
    number, and get what is printed.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the lowest one that is free: its own
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, "r" if name == "stdin" else "w", closefd=False))  # noqa: SIM115
    before = sys.stdout, sys.stderr
    stdout = Stream(sys.stdout)
    sys.stdout, sys.stderr = stdout, Stream(sys.stderr)  # type: ignore[assignment]
    try:
        yield stdout
    finally:
        try:
            stdout.flush()
        finally:
            sys.stdout, sys.stderr = before
