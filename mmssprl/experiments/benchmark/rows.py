"""The rows of the benchmark's table: weights to start from, and their backbones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import UserValueError
from ...weights import RANDOM, SUPERVISED, find_config

WORDS = (RANDOM, SUPERVISED)
"""Stand for weights without a file."""


@dataclass(frozen=True)
class Weights:
    """A row of the table; ``start`` is a word or a file.

    ``backbone`` is ``model.backbone`` of its pre-training config; None keeps each protocol's own.
    """

    name: str
    start: str
    backbone: Mapping[str, Any] | None


def find_weights(values: Sequence[str], config: str | None) -> list[Weights]:
    """Name each file or word, and find the backbone that belongs to it.

    A file has the name of its row; of equal names, or one of ``WORDS``, its folder is told, too.
    ``config`` has the backbone of all; None takes the one beside each file.
    """
    files = {value: Path(value).resolve() for value in values if value not in WORDS}
    backbones = {value: _backbone(path, config) for value, path in files.items()}
    of_words = next(iter(backbones.values()), None)
    if config and not files:
        of_words = find_config(RANDOM, config).model.backbone.to_dict()
    several = any(backbone != of_words for backbone in backbones.values())
    if several and len(files) < len(values):
        raise UserValueError(
            f"'{RANDOM}' and '{SUPERVISED}' need one backbone for all files, but the files have "
            "several; benchmark each backbone in a --work-dir of its own."
        )
    taken = [*WORDS, *(path.stem for path in files.values())]
    rows = []
    for value in values:
        if value in WORDS:
            rows.append(Weights(value, value, of_words))
            continue
        path = files[value]
        name = path.stem if taken.count(path.stem) == 1 else f"{path.parent.name}_{path.stem}"
        rows.append(Weights(name, str(path), backbones[value]))
    names = [row.name for row in rows]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise UserValueError(
            f"weights must differ in the names of file or folder, but {twice} is there twice; "
            "rename one."
        )
    return rows


def _backbone(path: Path, config: str | None) -> dict[str, Any] | None:
    """Return None for a file alone, such as torchvision's: it is of the protocols' backbone."""
    if config or len(list(path.parent.glob("*.py"))) == 1 or not path.is_file():
        return find_config(str(path), config).model.backbone.to_dict()
    return None
