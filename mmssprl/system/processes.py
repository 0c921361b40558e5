"""Start a tool in several processes, and say in one place why one of them has failed.

Each process writes its error into a folder, and the one that explains the others' is told here:
most errors of several processes are about the loss of another.
"""

import argparse
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from ..errors import UserRuntimeError, message_for_user
from .go_on import COMMAND, command_of_process
from .outputs import write_whole
from .stopping import SAVED, signals

_FOLDER = "MMSSPRL_ERRORS"
"""Names the folder of errors in the environment of the processes."""
_LOST = re.compile(
    r"Connection (closed|reset|refused)|Timed out|timed? ?out|Broken pipe|Socket|ncclRemoteError"
    r"|NCCL communicator was aborted",
    re.IGNORECASE,
)
"""How gloo, NCCL and torch's store tell that another process does not answer."""
_GRACE_S = 5.0
"""What the other processes have to tell their errors, once one has failed."""
_POLL_S = 0.1


def is_reported() -> bool:
    """Whether what started this process wants to be told of its error by ``report``."""
    return _FOLDER in os.environ


def explain_loss(error: Exception) -> str | None:
    """Return what to tell of an error that only follows from the end of another process."""
    if int(os.environ.get("WORLD_SIZE", 1)) == 1 or not is_lost(error):
        return None
    return (
        "every process must answer until the end, but one is gone or does not "
        f"({str(error).splitlines()[-1]}); what it has said itself tells why. The run goes on by "
        "--resume."
    )


def report(error: Exception) -> None:
    """Tell what started this process why it ends."""
    message = message_for_user(error)
    text = {
        "message": message or traceback.format_exc(),
        "is_mistake": message is not None,
        "time": time.time(),
        "is_lost": is_lost(error),
    }
    path = Path(os.environ[_FOLDER]) / f"{os.environ.get('RANK', 0)}.json"
    write_whole(path, json.dumps(text))


def is_lost(error: Exception) -> bool:
    """Whether an error only says that another process has ended or does not answer."""
    return message_for_user(error) is None and _LOST.search(str(error)) is not None


def run_processes(arguments: Sequence[str], go_on: Sequence[str] | None = None) -> None:
    """Start processes of a script as torchrun does, and wait until all of them have ended.

    Signals are passed on to them. If one fails, the others are ended.

    Args:
        arguments: Those of torchrun that name processes and hosts, then the script and its own.
        go_on: Command that goes on with the run, for the processes to tell; None: this process's.

    Raises:
        UserRuntimeError: A mistake of the user, as the first process has told it; or a process was
            ended from outside or does not answer.
        RuntimeError: A bug, with the traceback of the first process.
        SystemExit: The processes were told to end.
    """
    args = _parse(arguments)
    command = shlex.join(command_of_process() if go_on is None else go_on)
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
            failed = _wait(processes)
            if failed is None:
                return
            if SAVED in [process.poll() for process in processes]:
                raise SystemExit(SAVED)  # all of them waited for that
            if signals.number:
                raise SystemExit(128 + signals.number)
            _raise_first(failed, processes, Path(folder), args)
        finally:
            for process in processes:
                process.kill()
                process.wait()
            signals.children = ()
            signals.interrupt()


def _wait(processes: Sequence[subprocess.Popen]) -> int | None:
    """Wait until all have ended well, or one has not and the others had time to; return that."""
    passed_on, failed, deadline = 0, None, 0.0
    while True:
        codes = [process.poll() for process in processes]
        if None not in codes and not any(codes):
            return None
        bad = [i for i, code in enumerate(codes) if code]
        if bad and failed is None:
            # A process that was killed cannot tell why; the others tell that they lost it.
            failed = min(bad, key=lambda i: (codes[i] or 0) > 0)
            deadline = time.monotonic() + _GRACE_S
        if failed is not None and (None not in codes or time.monotonic() > deadline):
            return failed
        if signals.number and not passed_on:
            passed_on = signals.number
            for process in processes:
                process.send_signal(passed_on)
        time.sleep(_POLL_S)


def _raise_first(
    failed: int, processes: Sequence[subprocess.Popen], folder: Path, args: argparse.Namespace
) -> NoReturn:
    """Raise what the process told that the other errors follow from."""
    first_rank = args.node_rank * args.nproc_per_node
    found = {
        int(path.stem) - first_rank: json.loads(path.read_text()) for path in folder.glob("*.json")
    }
    reports = dict(sorted(found.items(), key=lambda item: item[1]["time"]))
    told = [i for i in reports if not reports[i]["is_lost"]]
    silent = [i for i, process in enumerate(processes) if process.poll() and i not in reports]
    hung = [i for i, process in enumerate(processes) if process.poll() is None]
    if told:
        first = reports[told[0]]
        raise (UserRuntimeError if first["is_mistake"] else RuntimeError)(first["message"])
    if silent:
        i = failed if failed in silent else silent[0]
        raise UserRuntimeError(_silent_end(first_rank + i, processes[i].returncode))
    if hung:
        rank, pid = first_rank + hung[0], processes[hung[0]].pid
        raise UserRuntimeError(
            "every process must answer within env_cfg.dist_cfg.timeout seconds, but process "
            f"{rank} (pid {pid}) did not, and the others waited for it; raise the timeout if it "
            "was only slow, and look at its machine if not. The run goes on by --resume."
        )
    raise RuntimeError(reports[failed]["message"])


def _silent_end(rank: int, status: int) -> str:
    if status < 0:
        return (
            f"every process must end by itself, but process {rank} was ended by "
            f"{signal.Signals(-status).name}; SIGKILL most likely means that memory ran out: lower "
            "train_dataloader.batch_size."
        )
    return f"process {rank} ended with exit code {status}; see what it has said above."


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
