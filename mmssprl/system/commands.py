"""Commands of this package, as a user types them."""

import shlex
from os import PathLike

from ..console.wording import program
from .trusted_modules import named_modules


def command_words(*words: str | PathLike[str]) -> list[str]:
    """Return a command of this package, with ``--import`` for the ``named_modules``."""
    command = program().split()
    for module in named_modules:
        command += ["--import", module]
    return [*command, *map(str, words)]


def command_line(*words: str | PathLike[str]) -> str:
    """Return ``command_words`` quoted for a shell."""
    return shlex.join(command_words(*words))
