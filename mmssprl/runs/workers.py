"""Processes that stay for many runs, so that each does not import everything anew."""

import os
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from .run import RunFailedError


class Workers:
    """Processes with one CPU thread each and no GPU; a context manager.

    Args:
        num_workers: Processes.
        log_file: Gets all that they print.
    """

    def __init__(self, num_workers: int, log_file: Path) -> None:
        self.log_file = log_file
        self._pool = ProcessPoolExecutor(
            num_workers, get_context("spawn"), initializer=_start, initargs=(log_file,)
        )

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def start(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Have one of them call a function that pickle finds by its name."""
        return self._pool.submit(function, *args)

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Do the same, and wait for what it returns.

        Raises:
            RunFailedError: It raised an error, whose traceback is in the log file.
        """
        try:
            return self.start(function, *args).result()
        except Exception as error:
            with self.log_file.open("a") as file:
                traceback.print_exception(error, file=file)
            kind = type(error).__name__
            said = " ".join(str(error).split())
            raise RunFailedError(f"{kind}: {said} (see {self.log_file})") from error


def _start(log_file: Path) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import torch

    descriptor = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    torch.set_num_threads(1)
