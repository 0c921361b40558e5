"""How numbers and commands are put for people."""

import re
import shlex
import sys
import textwrap
from collections.abc import Iterable
from difflib import get_close_matches
from os import PathLike
from pathlib import Path

CONSOLE_WIDTH = 110
"""Characters of a line on the console at most."""

named_modules: list[str] = []
"""Modules of Python that the user has named in this process, so that files may name them, too."""

_ACTING = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What a terminal or a browser acts on in place of showing it: controls, marks that turn the
direction of writing, separators of lines."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 epoch``, ``1,200 images``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """Return a share in [0, 1] as people read it: "31.3 %"."""
    return f"{100 * share:.1f} %"


def meant(name: str, names: Iterable[str], otherwise: str = ".") -> str:
    """Return the end of a line about a wrong name: the nearest one, or ``otherwise``."""
    near = get_close_matches(name, names, 1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near else otherwise


def program() -> str:
    """Return how this process was called: by the console script, or as Python's module."""
    return "mmssprl" if Path(sys.argv[0]).stem == "mmssprl" else "python -m mmssprl"


def command_words(*words: str | PathLike[str]) -> list[str]:
    """Return a command of this package, which names the modules that this process was told."""
    imports = [word for module in named_modules for word in ("--import", module)]
    return [*program().split(), *imports, *map(str, words)]


def command_line(*words: str | PathLike[str]) -> str:
    """Return it as a shell takes it, whatever its paths contain."""
    return shlex.join(command_words(*words))


def wrapped(text: str, indent: int = 2, *, break_words: bool = False) -> str:
    """Return a text in lines of ``CONSOLE_WIDTH``, all but the first one indented.

    Only spaces are broken at, so that paths and options stay whole, unless ``break_words`` allows
    to break a word that is longer than a line.
    """
    return textwrap.fill(
        text,
        CONSOLE_WIDTH,
        subsequent_indent=" " * indent,
        break_long_words=break_words,
        break_on_hyphens=False,
    )


def on_one_line(name: str) -> str:
    r"""Return a file's name as a cell of a list, in which nothing acts.

    A line break is ``\n``, another control character or mark of direction ``\x1b`` or ``\u202e``, a
    backslash is doubled.
    """
    return _ACTING.sub(lambda found: repr(found[0])[1:-1], name.replace("\\", r"\\"))


def printable(text: str) -> str:
    """Return a text in whose names nothing acts, as ``on_one_line``, but with its own lines."""
    return _ACTING.sub(lambda found: found[0] if found[0] in "\n\t" else repr(found[0])[1:-1], text)
