"""What WEIGHTS may name: a file, a word, a network of timm, or a function."""

import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import UserValueError
from .checkpoint_file import weights_file

RANDOM = "random"
"""Given instead of a weights file: random weights, as ``init_weights`` draws them."""
SUPERVISED = "supervised"
"""Given instead of a weights file: torchvision's ResNet weights from ImageNet (IMAGENET1K_V1)."""
OWN = "own"
"""Given instead of a weights file: the weights that the user's network already has."""
TIMM = "timm/"
"""Prefix of the names of timm's networks and pretrained weights."""
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""package.module:function"""


def names_network(weights: str) -> bool:
    """Whether weights are timm/NAME, timm/NAME:FILE or package.module:function, and no file."""
    is_name = weights.startswith(TIMM) or _FUNCTION.fullmatch(weights)
    return bool(is_name) and not Path(weights).exists()


def names_function(weights: str) -> bool:
    """Whether weights are package.module:function, and no file."""
    return names_network(weights) and not weights.startswith(TIMM)


def split_timm(weights: str) -> tuple[str, str]:
    """Return timm/NAME and FILE of timm/NAME:FILE; '' and the weights if they are others."""
    if not weights.startswith(TIMM) or Path(weights).exists():
        return "", weights
    name, _, file = weights.partition(":")
    return name, file


def whole_path(weights: str) -> str:
    """Make the file in WEIGHTS absolute. A folder stands for its newest backbone."""
    name, file = split_timm(weights)
    if file in ("", SUPERVISED, OWN, RANDOM) or not Path(file).exists():
        return weights
    return f"{name}:{weights_file(file).resolve()}".removeprefix(":")


def refuse_random(weights: Sequence[str]) -> None:
    """Raise ValueError for 'random' whose network, that of the first others, is a function's."""
    first = next((each for each in weights if each not in (RANDOM, SUPERVISED)), "")
    if RANDOM in weights and names_function(first):
        raise UserValueError(
            f"'{RANDOM}' weights beside {first} would be those that the function gives; leave "
            f"'{RANDOM}' out."
        )
