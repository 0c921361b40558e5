"""Processes of a tool, which say in one place why one of them has failed; and the typed command.

Each process writes its error into a folder, and that of the first one to end is told here: most
errors of the others are about its loss.
"""

import argparse
import json
import math
import os
import shlex
import signal
import socket
import subprocess
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
from typing import Any, NoReturn

import psutil

from ..console.wording import program
from ..errors import UserRuntimeError, message_for_user
from .outputs import write_whole
from .stopping import SAVED, end_with_parent, signals

COMMAND = "MMSSPRL_COMMAND"
"""Names the variable with the command line that has started this process, in a shell's words."""
_FOLDER = "MMSSPRL_ERRORS"
"""Names the folder of errors in the environment of the processes."""
_GRACE_S = 5.0
"""What the other processes have to tell their errors, once one has failed."""
_POLL_S = 0.1


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
    """Whether what started this process wants to be told of its error by ``report``."""
    return _FOLDER in os.environ


def report(error: Exception) -> None:
    """Tell what started this process why it ends."""
    message = message_for_user(error)
    text = {
        "message": message or traceback.format_exc(),
        "is_mistake": message is not None,
        # What gloo and NCCL raise where another process does not answer; others are surely bugs.
        "may_have_waited": isinstance(error, RuntimeError),
    }
    path = Path(os.environ[_FOLDER]) / f"{os.environ.get('RANK', 0)}.json"
    write_whole(path, json.dumps(text))


def run_processes(arguments: Sequence[str], resume_by: Sequence[str] | None = None) -> None:
    """Start processes of a script as torchrun does, pass signals on, and wait for their end.

    ``arguments`` are those of torchrun that name processes and hosts, then the script and its own;
    ``resume_by`` is the command that resumes the run, None for this process's.

    Raises:
        UserRuntimeError: A mistake of the user, as the first process has told it; or a process was
            ended from outside or does not answer.
        RuntimeError: A bug, with the traceback of the first process.
        SystemExit: The processes were told to end.
    """
    args = _parse(arguments)
    command = shlex.join(command_of_process() if resume_by is None else resume_by)
    with TemporaryDirectory() as folder, signals.watched():
        signals.note(quiet=True)
        common = {**os.environ, _FOLDER: folder, COMMAND: command}
        processes = [
            subprocess.Popen(
                [sys.executable, args.script, *args.script_args],
                env={**common, **_environment(args, i)},
            )
            for i in range(args.nproc_per_node)
        ]
        signals.children = processes
        try:
            first = _wait(processes)
            if first is None:
                return
            if SAVED in [process.poll() for process in processes]:
                raise SystemExit(SAVED)  # all of them waited for that
            if signals.number:
                raise SystemExit(128 + signals.number)
            _explain(first, processes, Path(folder), args.node_rank * args.nproc_per_node)
        finally:
            for process in processes:
                process.kill()
                process.wait()
            signals.children = ()
            signals.interrupt()


def _wait(processes: Sequence[subprocess.Popen]) -> int | None:
    """Wait until all have ended well, or one has not and the others had time to; return that."""
    passed_on, first, deadline = 0, None, math.inf
    while True:
        codes = [process.poll() for process in processes]
        bad = [i for i, code in enumerate(codes) if code]
        if bad and first is None:
            first = min(bad, key=lambda i: codes[i] or 0)  # one that a signal has ended, if any
            deadline = time.monotonic() + _GRACE_S
        if None not in codes or time.monotonic() > deadline:
            return first
        if signals.number and not passed_on:
            passed_on = signals.number
            for process in processes:
                process.send_signal(passed_on)
        time.sleep(_POLL_S)


def _explain(
    first: int, processes: Sequence[subprocess.Popen], folder: Path, first_rank: int
) -> NoReturn:
    """Raise what was told first, or how the first process to end has ended without a word."""
    reports = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    if folder / f"{first_rank + first}.json" not in reports:
        code = processes[first].returncode
        ended = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        raise UserRuntimeError(
            f"every process must tell its error, but process {first_rank + first} {ended} without "
            "a word; if that was SIGKILL, memory ran out: lower train_dataloader.batch_size."
        )
    told = json.loads(reports[0].read_text())
    if told["is_mistake"]:
        raise UserRuntimeError(told["message"])
    hung = [i for i, process in enumerate(processes) if process.poll() is None]
    if not hung or not told["may_have_waited"]:
        raise RuntimeError(told["message"])
    print(told["message"], file=sys.stderr)  # mostly that it has waited for another in vain
    raise UserRuntimeError(
        "every process must answer within env_cfg.dist_cfg.timeout seconds, but process "
        f"{first_rank + hung[0]} (pid {processes[hung[0]].pid}) still ran when process "
        f"{reports[0].stem} had ended with the error above; raise the timeout, or look at its "
        "machine. --resume resumes the run."
    )


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="launch.py", allow_abbrev=False)
    parser.add_argument("--standalone", action="store_true")
    parser.add_argument("--nnodes", type=int, default=1)
    parser.add_argument("--node_rank", type=int, default=0)
    parser.add_argument("--nproc_per_node", type=int, default=1)
    parser.add_argument("--master_addr", default="127.0.0.1")
    parser.add_argument("--master_port", type=int)
    parser.add_argument("script")
    parser.add_argument("script_args", nargs=argparse.REMAINDER)
    args = parser.parse_args(arguments)
    if args.standalone or args.master_port is None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            args.master_port = free.getsockname()[1]
    return args


def _environment(args: argparse.Namespace, local_rank: int) -> dict[str, str]:
    """Return what torch and mmengine read to find the other processes, as torchrun sets it."""
    count = args.nproc_per_node
    environment = {
        "RANK": args.node_rank * count + local_rank,
        "LOCAL_RANK": local_rank,
        "WORLD_SIZE": args.nnodes * count,
        "LOCAL_WORLD_SIZE": count,
        "GROUP_RANK": args.node_rank,
        "MASTER_ADDR": args.master_addr,
        "MASTER_PORT": args.master_port,
    }
    if count > 1:  # else each would take all cores
        environment["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", 1)
    return {name: str(value) for name, value in environment.items()}


def timeout_of(cfg: Mapping[str, Any]) -> timedelta | None:
    """Return how long a process of a config's run waits for another; None leaves it to torch."""
    seconds = ((cfg.get("env_cfg") or {}).get("dist_cfg") or {}).get("timeout")
    return None if seconds is None else timedelta(seconds=seconds)
