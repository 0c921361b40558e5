"""Read, check, convert and export files of weights, and build backbones from them.

The options of the commands name sources and targets, which import no torch. The other names are
imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .sources import (
    RANDOM,
    SUPERVISED,
    WORDS,
    Source,
    refuse_random,
    timm_model,
    timm_network,
    weights_file,
    whole_path,
    with_network,
    without_words,
)
from .targets import TARGETS

if TYPE_CHECKING:
    from ._public import *  # noqa: F403

__all__ = [
    "RANDOM",
    "SUPERVISED",
    "TARGETS",
    "WORDS",
    "Source",
    "refuse_random",
    "timm_model",
    "timm_network",
    "weights_file",
    "whole_path",
    "with_network",
    "without_words",
]


def __getattr__(name: str) -> Any:
    if name.startswith("_"):  # lookups of Python, such as __path__
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("._public", __name__), name)
