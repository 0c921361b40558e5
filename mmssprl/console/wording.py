"""Numbers, commands and names as text."""

import re
import sys
import textwrap
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

CONSOLE_WIDTH = 110
"""Longest line on the console, in characters."""
ALONE = "one seed, nothing follows"
"""Remark on scores without an interval."""


_ACTING = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that a terminal or browser acts on: controls, direction marks, line separators."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 epoch``, ``1,200 images``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """Return a share in [0, 1] as "31.3 %"."""
    return f"{100 * share:.1f} %"


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the name that is most like a wrong one; '' if none is like it."""
    return next(iter(get_close_matches(name, names, 1, cutoff=0.7)), "")


def meant(name: str, names: Iterable[str], otherwise: str = ".") -> str:
    """Return the end of a message about a wrong name: the nearest name, or ``otherwise``."""
    near = nearest(name, names)
    return f"; did you mean {near}?" if near else otherwise


def program() -> str:
    """Return how this process was called: ``mmssprl`` or ``python -m mmssprl``."""
    return "mmssprl" if Path(sys.argv[0]).stem == "mmssprl" else "python -m mmssprl"


def wrapped(text: str, indent: int = 2, *, break_words: bool = False) -> str:
    """Wrap a text at ``CONSOLE_WIDTH``, and longer words with ``break_words`` only.

    All lines but the first are indented. It breaks at spaces, so that paths stay whole.
    """
    return textwrap.fill(
        text,
        CONSOLE_WIDTH,
        subsequent_indent=" " * indent,
        break_long_words=break_words,
        break_on_hyphens=False,
    )


def on_one_line(name: str) -> str:
    """Escape control characters, line breaks and direction marks of a name, and backslashes."""
    return printable(name.replace("\\", r"\\"), kept="")


def printable(text: str, kept: str = "\n\t") -> str:
    """Escape control characters and direction marks of a text, but for the ``kept`` ones."""
    return _ACTING.sub(lambda found: found[0] if found[0] in kept else repr(found[0])[1:-1], text)


def first_line(error: BaseException) -> str:
    """Return the class and the first line of an error message."""
    return f"{type(error).__name__}: {error}".splitlines()[0].removesuffix(".")
