"""Several processes of a tool, a function in a process of its own, and the command as typed."""

import json
import logging
import os
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from multiprocessing import active_children, get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import psutil

from ..console.messages import message_for_user
from ..console.wording import program
from ..errors import UserRuntimeError
from .stopping import SAVED, end_with_parent, signals

COMMAND = "MMSSPRL_COMMAND"
"""Names the variable with the command line that has started this process, in a shell's words."""
_ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
"""Names the file, in the environment of a process, whose text torch's launch tells as its error."""
_LOST_S = 2.0
"""torch compares whole seconds."""


def command_of_process() -> list[str]:
    """Return the command that a person, or a script, has typed to start this process."""
    typed = os.environ.get(COMMAND)
    if typed:
        return shlex.split(typed)
    if "TORCHELASTIC_RUN_ID" in os.environ:
        launcher = psutil.Process().parent()  # torchrun itself
        return launcher.cmdline() if launcher else []
    if program() == "mmssprl":  # not by the path that the shell has found
        return ["mmssprl", *sys.argv[1:]]
    return list(sys.orig_argv)


def to_resume(command: Sequence[str]) -> list[str]:
    """Return a command of tools/train.py so that it resumes from the newest checkpoint."""
    kept = [w for w in command if w != "--overwrite" and not w.startswith("--resume=")]
    if "--resume" in kept:
        place = kept.index("--resume")
        value = kept[place + 1 : place + 2]  # a checkpoint, another option or nothing
        del kept[place : place + 1 + (value != [] and not value[0].startswith("-"))]
    return [*kept, "--resume"]


def call_in_process(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function that pickle finds by its name in a new process, whose memory is free again.

    The user's own program is not run again there, as a new process of Python otherwise does: it
    may call a function of ours without asking for its ``__name__``. Ctrl-C in a terminal reaches
    both processes, and is only told here.
    """
    with ProcessPoolExecutor(1, get_context("spawn"), end_with_parent, (os.getpid(),)) as pool:
        try:
            # The process inherits the mask; an interrupt meanwhile waits until it is undone.
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


def is_reported() -> bool:
    """Whether ``run_processes`` started this process, and waits for its error by ``report``."""
    return COMMAND in os.environ and _ERROR_FILE in os.environ


def report(error: Exception) -> None:
    """Tell torch's elastic launch, which names the first failure, why this process ends."""
    message = message_for_user(error)
    if message is None and isinstance(error, RuntimeError):
        time.sleep(_LOST_S)  # most likely another process is lost: its end is to be seen first
    text = message or traceback.format_exc()
    written = {"message": text, "timestamp": int(time.time())}
    Path(os.environ[_ERROR_FILE]).write_text(json.dumps(written))


def run_processes(arguments: Sequence[str], resume_by: Sequence[str] | None = None) -> None:
    """Start processes of a script by torch's elastic launch, and pass signals on to them.

    ``arguments`` are those of torchrun; ``resume_by`` is the command that resumes the run, None for
    this process's.

    Raises:
        UserRuntimeError: The first process that failed, by its rank, with its error.
        SystemExit: The processes were told to end.
    """
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    os.environ[COMMAND] = shlex.join(command_of_process() if resume_by is None else resume_by)
    logging.disable(logging.ERROR)  # what torch logs is in the error below
    try:
        with TemporaryDirectory() as folder, signals.watched():
            signals.note(launches=True)
            # Signals are ours: torch would kill a process that saves for longer than 30 s.
            own = [f"--log_dir={folder}", "--signals_to_handle=SIGQUIT"]
            run.run(run.parse_args([*own, *arguments]))
    except ChildFailedError as error:
        if SAVED in (failure.exitcode for failure in error.failures.values()):
            raise SystemExit(SAVED) from None  # all of them waited for that
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
    """Return how long a process of a config's run waits for another; None leaves it to torch."""
    seconds = ((cfg.get("env_cfg") or {}).get("dist_cfg") or {}).get("timeout")
    return None if seconds is None else timedelta(seconds=seconds)
