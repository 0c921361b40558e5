"""Read, check, convert and export files of weights, and build backbones from them.

The options of the commands name sources and targets, which import no torch. The other names are
imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .sources import (
    OWN,
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

_OF_TORCH = (
    "build_backbone",
    "check_fit",
    "convert_weights",
    "export_weights",
    "find_config",
    "find_normalisation",
    "has_supervised",
    "load_network",
    "read_backbone",
    "read_checkpoint",
    "start_state",
    "take_normalisation",
    "write_description",
)
"""The names of ``_public``, which are imported on first use."""

__all__ = [  # noqa: PLE0604
    "OWN",
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
    *_OF_TORCH,
]

if not TYPE_CHECKING:  # a checker would take every name for one that exists

    def __getattr__(name: str) -> Any:
        if name not in _OF_TORCH:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module("._public", __name__), name)
