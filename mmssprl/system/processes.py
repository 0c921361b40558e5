"""Start several processes, call a function in a new process, and find the typed command."""

import json
import logging
import os
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing import active_children, get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import psutil

from ..console.messages import message_for_user
from ..console.wording import program
from ..errors import UserError, UserRuntimeError, UserValueError
from .stopping import SAVED, end_with_parent, signals

COMMAND = "MMSSPRL_COMMAND"
"""Environment variable with the command line that started this process, shell-quoted."""
_ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
"""Environment variable with the file from which torch's launcher reads this process's error."""
_COLLECTIVES = ("all_gather", "all_reduce", "all_to_all", "barrier", "broadcast", "reduce_scatter")
_LOST_S = 2.0
"""Delay of an error that another process has caused; torch compares whole seconds."""


def command_of_process() -> list[str]:
    """Return the command that started this process, as the user typed it."""
    typed = os.environ.get(COMMAND)
    if typed:
        return shlex.split(typed)
    if "TORCHELASTIC_RUN_ID" in os.environ:
        launcher = psutil.Process().parent()  # torchrun itself
        return launcher.cmdline() if launcher else []
    if program() == "mmssprl":  # without the path
        return ["mmssprl", *sys.argv[1:]]
    return list(sys.orig_argv)


def to_resume(command: Sequence[str]) -> list[str]:
    """Return a command of tools/train.py with ``--resume``, without a checkpoint."""
    kept = [w for w in command if w != "--overwrite" and not w.startswith("--resume=")]
    if "--resume" in kept:
        place = kept.index("--resume")
        value = kept[place + 1 : place + 2]  # a checkpoint, another option or nothing
        del kept[place : place + 1 + (value != [] and not value[0].startswith("-"))]
    return [*kept, "--resume"]


def call_in_process(function: Callable[..., Any], *args: Any) -> Any:
    """Call a picklable function in a new process, which frees its memory when it ends.

    The user's main module is not imported there, as it may lack a ``__name__`` guard.
    """
    with ProcessPoolExecutor(1, get_context("spawn"), end_with_parent, (os.getpid(),)) as pool:
        try:
            # The new process inherits the mask; an interrupt here waits until it is undone.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            program = sys.modules["__main__"]
            sys.modules["__main__"] = ModuleType("__main__")
            try:
                future = pool.submit(function, *args)
            finally:
                sys.modules["__main__"] = program
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            return future.result()
        except KeyboardInterrupt:
            for child in active_children():
                child.terminate()
            raise


def require_single_process(tool: str) -> None:
    """Raise ValueError if torchrun started several processes that no --launcher connects.

    Each would do all the work. Tasks of srun may be runs with a work dir each; its lock tells.
    """
    number = os.environ.get("WORLD_SIZE", "1")
    if "TORCHELASTIC_RUN_ID" in os.environ and number != "1":
        raise UserValueError(
            f"without --launcher one process must do all the work, but torchrun started {number}; "
            f"use tools/dist_{tool}.sh, or give torchrun tools/{tool}.py ... --launcher pytorch. A "
            "command that one of torchrun's processes starts needs TORCHELASTIC_RUN_ID unset."
        )


def is_reported() -> bool:
    """Whether ``run_processes`` started this process and reads its error from ``report``."""
    return COMMAND in os.environ and _ERROR_FILE in os.environ


def report(error: Exception) -> None:
    """Write the error for torch's launcher, which reports the first failure."""
    message = message_for_user(error)
    if message is None and isinstance(error, RuntimeError):
        time.sleep(_LOST_S)  # probably another process died: let it report first
    written = {"message": message or traceback.format_exc(), "timestamp": int(time.time())}
    Path(os.environ[_ERROR_FILE]).write_text(json.dumps(written))


def run_processes(arguments: Sequence[str], resume_by: Sequence[str] | None = None) -> None:
    """Start processes with the arguments of torchrun, and pass signals on to them.

    ``resume_by`` is the command that resumes the run, by default the one of this process.

    Raises:
        UserRuntimeError: The first process that failed, by its rank, with its error.
        SystemExit: A signal stopped the processes.
    """
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    os.environ[COMMAND] = shlex.join(command_of_process() if resume_by is None else resume_by)
    logging.disable(logging.ERROR)  # the error below has what torch logs
    try:
        with TemporaryDirectory() as folder, signals.watched():
            signals.note(launches=True)
            # Signals are ours: torch would kill a process that saves for longer than 30 s.
            own = [f"--log_dir={folder}", "--signals_to_handle=SIGQUIT"]
            run.run(run.parse_args([*own, *arguments]))
    except ChildFailedError as error:
        if SAVED in (failure.exitcode for failure in error.failures.values()):
            raise SystemExit(SAVED) from None  # all ranks have saved
        if signals.number:
            raise SystemExit(128 + signals.number) from None
        rank, failure = error.get_first_failure()
        killed = "; if memory ran out, lower train_dataloader.batch_size"
        raise UserRuntimeError(
            f"process {rank} (exit code {failure.exitcode}): {failure.message.rstrip()}"
            f"{killed if failure.exitcode == -signal.SIGKILL else ''}"
        ) from None
    finally:
        logging.disable(logging.NOTSET)
        del os.environ[COMMAND]
        signals.interrupt()


def timeout_of(cfg: Mapping[str, Any]) -> timedelta | None:
    """Return the timeout of a config's process group; None is torch's default."""
    seconds = ((cfg.get("env_cfg") or {}).get("dist_cfg") or {}).get("timeout")
    return None if seconds is None else timedelta(seconds=seconds)


@contextmanager
def explain_collectives(cfg: Mapping[str, Any]) -> Iterator[None]:
    """Turn the timeout of a collective into one line.

    Raises:
        UserRuntimeError: Another process has not answered within the timeout of the config.
    """
    from torch import distributed  # not at the top: a launcher starts fast
    from torch.distributed.constants import default_pg_timeout

    try:
        yield
    except RuntimeError as error:
        text = str(error).lower()
        is_of_other = isinstance(error, UserError) or "cuda error" in text
        if "timed out" not in text or is_of_other or not distributed.is_initialized():
            raise

        rank = distributed.get_rank()
        num_ranks = distributed.get_world_size()
        others = f"rank {1 - rank}" if num_ranks == 2 else f"the other {num_ranks - 1} ranks"
        seconds = (timeout_of(cfg) or default_pg_timeout).total_seconds()
        raise UserRuntimeError(
            f"rank {rank} waited {seconds:,.0f} s for {others} in {_collective_of(error)}; end a "
            "process that hangs and resume, or raise env_cfg.dist_cfg.timeout if it was only slow."
        ) from error


def _collective_of(error: RuntimeError) -> str:
    """Return the collective in which an error was raised, by the functions that called it."""
    frames = traceback.walk_tb(error.__traceback__)
    called = [frame.f_code.co_name.strip("_") for frame, _ in frames]
    found = [name for name in called if _is_collective(name)]
    return found[-1] if found else "all_reduce"  # of gradients, or asked for in an earlier step


def _is_collective(function: str) -> bool:
    return any(word in function for word in _COLLECTIVES)
