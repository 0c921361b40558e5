"""Choose the rows of a comparison."""

from collections.abc import Sequence
from pathlib import Path

from ...config.shipped import config_file
from ...errors import UserValueError
from ...pretraining.methods import BY_KEY, METHODS, Method, unknown_method

ALL = "all"
"""Stands for all methods but those that download a teacher."""


def choose_methods(words: Sequence[str]) -> list[Method]:
    """Return the methods that words name, each once, in the order of the tables.

    A word is the key of a method, ``ALL``, or the path of a config file. Config files come last and
    are named by their stems.
    """
    keys: set[str] = set()
    own: dict[str, Path] = {}
    for word in words:
        if word.endswith(".py"):
            path = config_file(word).resolve()
            name = path.stem
            if name in BY_KEY or own.get(name, path) != path:
                raise UserValueError(
                    f"the names of rows must differ, but {word} would be a second {name}; rename "
                    "the file."
                )
            own[name] = path
        elif word == ALL:
            keys.update(method.key for method in METHODS if not method.uses_teacher)
        elif word in BY_KEY:
            keys.add(word)
        else:
            raise unknown_method(word, (*BY_KEY, ALL, "a config file (.py)"))
    shipped_rows = [method for method in METHODS if method.key in keys]
    return [*shipped_rows, *(Method(name, name, str(path)) for name, path in own.items())]
