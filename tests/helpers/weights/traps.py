"""Files that would run code."""

from pathlib import Path

SPRUNG = "sprung"
"""Folder that the traps below make in the current one."""


class Call:
    """Unpickled, it calls a function."""

    def __init__(self, function, *args):
        self.call = (function, args)

    def __reduce__(self):
        return self.call


def spring():
    Path(SPRUNG).mkdir(exist_ok=True)


class OnNew:
    """Runs code when an object is made."""

    def __new__(cls):
        spring()
        return super().__new__(cls)


class OnState:
    """Runs code when an object gets its attributes."""

    def __init__(self):
        self.number = 1

    def __setstate__(self, state):
        spring()


class OnItem(dict):
    """Runs code when a dict is filled."""

    def __setitem__(self, key, value):
        spring()
        super().__setitem__(key, value)


class OnAppend(list):
    """Runs code when a list is filled."""

    def append(self, value):
        spring()
        super().append(value)

    def extend(self, values):
        spring()
        super().extend(values)


TRAPS = {
    "calls a function": lambda: Call(spring),
    "evaluates a text": lambda: Call(eval, f"__import__('os').mkdir({SPRUNG!r})"),
    "makes an object": OnNew,
    "sets a state": OnState,
    "fills a dict": lambda: OnItem(a=1),
    "fills a list": lambda: OnAppend([1]),
}
"""One of each kind, by what the file does. Some spring when they are made."""
