"""Options that several commands read alike."""

import argparse
from collections.abc import Sequence
from typing import Any

from ..errors import UserValueError


def parse_options(words: Sequence[str] | None, *, flag: str) -> dict[str, Any]:
    """Read KEY=VALUE as mmengine's tools do.

    Args:
        words: As given.
        flag: What they were given by.

    Raises:
        ValueError: A word without "=".
    """
    from mmengine.config import DictAction

    for word in words or ():
        if "=" not in word:
            raise UserValueError(f"{flag} takes KEY=VALUE, but got {word!r}.")
    parser = argparse.ArgumentParser()
    parser.add_argument("--options", nargs="+", action=DictAction)
    return parser.parse_args(["--options", *words] if words else []).options or {}
