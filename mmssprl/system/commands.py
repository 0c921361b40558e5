"""Commands of this package, as a user types them."""

import shlex
from os import PathLike

from ..console.wording import program
from .trusted_modules import named_modules


def command_words(*words: str | PathLike[str]) -> list[str]:
    """Return a command of this package, with ``--import`` for the ``named_modules``."""
    imports = [word for module in named_modules for word in ("--import", module)]
    return [*program().split(), *imports, *map(str, words)]


def command_line(*words: str | PathLike[str]) -> str:
    """Return ``command_words`` quoted for a shell."""
    return shlex.join(command_words(*words))
