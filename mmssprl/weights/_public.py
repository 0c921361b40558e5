"""The names of this folder that need torch; ``mmssprl.weights`` takes them from here."""

from .. import models  # noqa: F401  imports mmpretrain without its output, so it comes first
from .backbone import (
    build_backbone,
    find_config,
    load_network,
    start_state,
)
from .checkpoint_file import check_fit, read_checkpoint
from .checkpoint_prefixes import read_backbone
from .convert import convert_weights
from .description import write_description
from .downloads import has_supervised
from .export import export_weights
from .normalisation import find_normalisation, take_normalisation

__all__ = [
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
]
