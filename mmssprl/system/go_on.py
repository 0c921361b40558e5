"""The command that goes on with a run."""

import os
import shlex
import sys
from collections.abc import Sequence

import psutil

COMMAND = "MMSSPRL_COMMAND"
"""Names the variable with the command line that has started this process, in a shell's words."""


def command_of_process() -> list[str]:
    """Return the command that a person, or a script, has typed to start this process."""
    typed = os.environ.get(COMMAND)
    if typed:
        return shlex.split(typed)
    if "TORCHELASTIC_RUN_ID" in os.environ:
        launcher = psutil.Process().parent()  # torchrun itself
        return launcher.cmdline() if launcher else []
    return list(sys.orig_argv)


def to_go_on(command: Sequence[str]) -> list[str]:
    """Return a command of tools/train.py so that it goes on with the newest checkpoint."""
    kept = [w for w in command if w != "--overwrite" and not w.startswith("--resume=")]
    if "--resume" in kept:
        place = kept.index("--resume")
        value = kept[place + 1 : place + 2]  # a checkpoint, another option or nothing
        del kept[place : place + 1 + (value != [] and not value[0].startswith("-"))]
    return [*kept, "--resume"]
