"""Read, check, convert and export files of weights, and build backbones from them."""

from .. import models  # noqa: F401  imports mmpretrain without its output, so it comes first
from .backbone import (
    build_backbone,
    find_config,
    has_supervised,
    load_network,
    start_state,
)
from .checkpoint_file import check_fit, read_checkpoint, weights_file
from .checkpoint_prefixes import read_backbone
from .convert import convert_weights
from .description import write_description
from .export import export_weights
from .normalisation import find_normalisation, take_normalisation
from .sources import (
    OWN,
    RANDOM,
    SUPERVISED,
    TIMM,
    names_function,
    names_network,
    refuse_random,
    split_timm,
    whole_path,
)

__all__ = [
    "OWN",
    "RANDOM",
    "SUPERVISED",
    "TIMM",
    "build_backbone",
    "check_fit",
    "convert_weights",
    "export_weights",
    "find_config",
    "find_normalisation",
    "has_supervised",
    "load_network",
    "names_function",
    "names_network",
    "read_backbone",
    "read_checkpoint",
    "refuse_random",
    "split_timm",
    "start_state",
    "take_normalisation",
    "weights_file",
    "whole_path",
    "write_description",
]
