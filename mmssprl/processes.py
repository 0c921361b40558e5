"""Start a tool in several processes, and say in one place why one of them has failed.

torchrun ends with a page about its own state, and each process has an error of its own, most of
them about the loss of the others. Here each process writes its error into a folder, and what the
first one wrote is told.
"""

import json
import logging
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from .errors import UserRuntimeError, message_for_user

_FOLDER = "MMSSPRL_ERRORS"
"""Names the folder of errors in the environment of the processes."""


def is_first_process() -> bool:
    """Whether this is rank 0, as far as a launcher's variables tell before the group is joined."""
    return int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", 0))) == 0


def is_reported() -> bool:
    """Whether what started this process wants to be told of its error by ``report``."""
    return _FOLDER in os.environ


def report(error: Exception) -> None:
    """Tell what started this process why it ends."""
    message = message_for_user(error)
    text = {"message": message or traceback.format_exc(), "is_mistake": message is not None}
    folder = Path(os.environ[_FOLDER])
    (folder / f"{time.time_ns()}_{os.environ.get('RANK', 0)}.json").write_text(json.dumps(text))


def run_processes(arguments: Sequence[str]) -> None:
    """Run torchrun, which starts the processes, until all of them have ended.

    Args:
        arguments: Of torchrun.

    Raises:
        UserRuntimeError: A mistake of the user, as the first process has told it; or a process was
            ended from outside.
        RuntimeError: A bug, with the traceback of the first process.
        SystemExit: This process was told to end, by Ctrl-C for example.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    with TemporaryDirectory() as folder, _quietly(folder):
        try:
            run(parse_args(list(arguments)))
        except ChildFailedError as error:
            errors = sorted(Path(folder).glob("*.json"), key=lambda path: path.name)
            if not errors:
                rank, failure = error.get_first_failure()
                raise UserRuntimeError(_silent_end(rank, failure.exitcode)) from None
            first = json.loads(errors[0].read_text())
            kind = UserRuntimeError if first["is_mistake"] else RuntimeError
            raise kind(first["message"]) from None
        except SignalException as error:  # it has ended the processes
            raise SystemExit(128 + error.sigval) from None


def _silent_end(rank: int, status: int) -> str:
    if status < 0:
        return (
            f"every process must end by itself, but process {rank} was ended by "
            f"{signal.Signals(-status).name}; SIGKILL most likely means that memory ran out: lower "
            "train_dataloader.batch_size."
        )
    return f"process {rank} ended with exit code {status}; see what it has said above."


@contextmanager
def _quietly(folder: str) -> Iterator[None]:
    """Name the folder to the processes, and undo what torchrun leaves behind in this one."""
    handlers = {}
    if threading.current_thread() is threading.main_thread():  # torchrun sets none elsewhere
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
        handlers = {number: signal.getsignal(number) for number in numbers}
    os.environ[_FOLDER] = folder
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # torchrun's own state, at every level
    try:
        yield
    finally:
        logging.disable(level)
        del os.environ[_FOLDER]
        for number, handler in handlers.items():
            signal.signal(number, handler)
