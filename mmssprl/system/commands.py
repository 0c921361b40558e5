"""Commands of this package, as a user types them."""

import shlex
from collections.abc import Sequence
from os import PathLike

from ..console.wording import program
from .trusted_modules import named_modules


def command_words(*words: str | PathLike[str], modules: Sequence[str] | None = None) -> list[str]:
    """Return a command of this package, with ``--import`` for ``modules``.

    None means all ``named_modules``.
    """
    if modules is None:
        modules = named_modules
    command = program().split()
    for module in modules:
        command += ["--import", module]
    return [*command, *map(str, words)]


def command_line(*words: str | PathLike[str], modules: Sequence[str] | None = None) -> str:
    """Return ``command_words`` quoted for a shell."""
    return shlex.join(command_words(*words, modules=modules))
