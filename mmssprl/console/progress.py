"""Progress of long work at a terminal: a bar with the time that is left."""

import sys
from collections.abc import Iterable
from typing import TypeVar

from rich.console import Console
from rich.progress import track

Item = TypeVar("Item")


def watch(
    items: Iterable[Item], description: str, *, total: int | None = None, shown: bool = True
) -> Iterable[Item]:
    """Go through ``items`` behind a progress bar on stderr; none if that is no terminal.

    ``description`` stands in front of the bar; ``total`` is for items without a length.
    """
    console = Console(file=sys.stderr)
    return track(
        items,
        description,
        total=total,
        console=console,
        transient=True,
        disable=not (shown and console.is_terminal),
    )
