"""Processes that stay for many runs, so that not each run imports everything anew."""

import os
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from ..system.stopping import end_with_parent
from .run import RunFailedError


class Workers(ProcessPoolExecutor):
    """Processes with one CPU thread each and no GPU.

    Args:
        num_workers: Processes.
        log_file: Gets all that they print.
    """

    def __init__(self, num_workers: int, log_file: Path) -> None:
        super().__init__(num_workers, get_context("spawn"), _start, (log_file, os.getpid()))
        self.log_file = log_file

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Have one of them call a function that pickle finds by its name, and wait for it.

        Raises:
            RunFailedError: It raised an error, whose traceback is in the log file.
        """
        try:
            return self.submit(function, *args).result()
        except Exception as error:
            with self.log_file.open("a") as file:
                traceback.print_exception(error, file=file)
            said = " ".join(f"{type(error).__name__}: {error}".split())
            raise RunFailedError(f"{said} (see {self.log_file})") from error


def _start(log_file: Path, parent: int) -> None:
    end_with_parent(parent)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import torch

    descriptor = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    torch.set_num_threads(1)
