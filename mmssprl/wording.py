"""How numbers and commands are put for people."""

import shlex
from os import PathLike


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 epoch``, ``1,200 images``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def command_line(*words: str | PathLike[str]) -> str:
    """Return a command of this package as a shell takes it, whatever its paths contain."""
    return "python -m mmssprl " + shlex.join(map(str, words))
