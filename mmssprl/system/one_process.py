"""Call a function in a process of its own, whose memory is free again afterwards."""

import os
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children, get_context
from typing import Any

from .stopping import end_with_parent


def call_in_process(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function that pickle finds by its name in a new process, and wait for it.

    Ctrl-C in a terminal reaches both processes. It is only told here: the new process ends without
    a traceback.

    Raises:
        BrokenProcessPool: The process was ended.
    """
    with ProcessPoolExecutor(1, get_context("spawn"), end_with_parent, (os.getpid(),)) as pool:
        try:
            # The process inherits the mask; an interrupt meanwhile waits until it is undone.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                future = pool.submit(function, *args)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            return future.result()
        except KeyboardInterrupt:
            for child in active_children():
                child.terminate()
            raise
