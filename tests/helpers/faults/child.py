"""A forked process that may be killed, and the files that it leaves."""

import os
import sys
import traceback
import zipfile

import torch


def fork(function, log):
    """Run a function in a forked process, whose output is added to a file; return its number."""
    pid = os.fork()
    if pid:
        return pid
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


def end_of(pid):
    """Wait for a process; return its exit code, or the number of a signal below 0."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def is_whole(path):
    """Whether every byte of a checkpoint is as it was written, and plain torch.load reads it."""
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.testzip():
                return False
        torch.load(path, weights_only=True)
    except Exception:  # damaged files raise almost any class
        return False
    return True
