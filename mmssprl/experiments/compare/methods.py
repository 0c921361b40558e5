"""Which rows of the table of methods a comparison has."""

from collections.abc import Sequence
from pathlib import Path

from ...config.shipped import config_file
from ...errors import UserValueError
from ...pretraining.methods import BY_KEY, METHODS, Method, unknown_method

ALL = "all"
"""Every method that downloads no teacher."""


def choose_methods(words: Sequence[str]) -> list[Method]:
    """Return the methods that words name, in the order of the tables and each once.

    Words are keys of methods, ``ALL``, and paths of config files, which come last and are named by
    their files.
    """
    keys: set[str] = set()
    own: dict[str, Path] = {}
    for word in words:
        if word.endswith(".py"):
            path = config_file(word).resolve()
            name = path.stem
            if name in BY_KEY or own.get(name, path) != path:
                raise UserValueError(
                    f"each row must have a name of its own, but {word} would be a second {name}; "
                    "give the file another name."
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
