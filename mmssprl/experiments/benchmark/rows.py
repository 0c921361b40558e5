"""The rows of a benchmark: weights and their backbones."""

from collections.abc import Sequence

from ...errors import UserValueError
from ...weights import RANDOM, SUPERVISED, find_config, weights_file
from ...weights.description import find_description
from .protocols import Weights

WORDS = (RANDOM, SUPERVISED)
"""Weights without a file."""


def find_weights(values: Sequence[str]) -> list[Weights]:
    """Name each file or word, and find its backbone.

    A row has the stem of its file, with the folder's name in front if the stem is not unique.
    """
    files = {value: weights_file(value).resolve() for value in values if value not in WORDS}
    backbones = {
        value: find_config(str(path), None).model.backbone.to_dict()
        if find_description(path)
        else None  # torchvision's
        for value, path in files.items()
    }
    of_words = next(iter(backbones.values()), None)
    several = any(backbone != of_words for backbone in backbones.values())
    if several and len(files) < len(values):
        raise UserValueError(
            f"'{RANDOM}' and '{SUPERVISED}' need one backbone for all files, but the files have "
            "several; benchmark each backbone in a separate --work-dir."
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
            f"the file or folder names of weights must differ, but {twice} is there twice; rename "
            "one."
        )
    return rows
