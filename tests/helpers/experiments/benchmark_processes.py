"""What runs the commands of a benchmark in tests, in place of ``subprocess``."""

import multiprocessing
import os
import runpy
import subprocess
import sys
import traceback
from types import SimpleNamespace

from mmssprl.system.stopping import PARENT


class Forked:
    """Runs the real command lines of tools/ in copies of a process that has done their imports.

    Copies of the test's own process could not train where autograd has worked in it before.
    """

    STDOUT, DEVNULL = subprocess.STDOUT, subprocess.DEVNULL

    def run(self, command, *, env, stdout, **_):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["mmpretrain.models"])
        process = context.Process(target=run_script, args=(command, env, stdout.name))
        process.start()
        process.join()
        return SimpleNamespace(returncode=process.exitcode)


def run_script(command, env, output):
    """Be the Python process of a command line, to its end."""
    file = os.open(output, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(file, stream)
    sys.stdout = sys.stderr = open(1, "w", closefd=False)  # noqa: SIM115
    status = 1
    try:
        assert command[0] == sys.executable
        os.environ.update(env)
        os.environ[PARENT] = str(os.getppid())  # the server's, of which this is a copy
        sys.argv = list(command[1:])
        runpy.run_path(command[1], run_name="__main__")
        status = 0
    except BaseException:  # SystemExit of a tool's message, too
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


class Pretended:
    """Trains nothing and writes the metric of a test; fails where a word is in the command.

    Args:
        fails: Words of command lines that fail.
    """

    STDOUT, DEVNULL = subprocess.STDOUT, subprocess.DEVNULL

    def __init__(self, *fails):
        self.fails = fails
        self.commands = []

    def run(self, command, *, stdout, **_):
        self.commands.append(command)
        if any(word in part for word in self.fails for part in command):
            stdout.write("out of memory\n")
            return SimpleNamespace(returncode=1)
        if "--out" in command:
            path = command[command.index("--out") + 1]
            with open(path, "w") as file:
                file.write('{"multi-label/mAP": 40.0}')
        return SimpleNamespace(returncode=0)
