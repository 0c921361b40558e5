"""How numbers and commands are put for people."""

import shlex
import textwrap
from os import PathLike

CONSOLE_WIDTH = 110
"""Characters of a line on the console at most."""

_ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t"})


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 epoch``, ``1,200 images``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """Return a share in [0, 1] as people read it: "31.3 %"."""
    return f"{100 * share:.1f} %"


def command_line(*words: str | PathLike[str]) -> str:
    """Return a command of this package as a shell takes it, whatever its paths contain."""
    return "python -m mmssprl " + shlex.join(map(str, words))


def wrapped(text: str, indent: int = 2) -> str:
    """Return a text in lines of ``CONSOLE_WIDTH``, all but the first one indented.

    Only spaces are broken at, so that paths and options stay whole.
    """
    return textwrap.fill(
        text,
        CONSOLE_WIDTH,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def on_one_line(name: str) -> str:
    r"""Return a file's name as a cell of a list: a line break is ``\n``, a backslash is doubled."""
    return name.translate(_ESCAPED)
