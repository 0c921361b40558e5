"""Options that several commands read alike."""

import argparse
from collections.abc import Sequence
from typing import Any

from ..console.arguments import Parser
from ..errors import UserValueError

_OF_MODEL = ("config", "image_px", "batch_size", "num_workers", "device", "seed")


def add_model_options(
    parser: argparse.ArgumentParser, *, seed: str = "of random weights (default: %(default)s)"
) -> None:
    """Add what decides how images become features; ``seed`` is the help of ``--seed``."""
    add = parser.add_argument
    add("--config", help="config with model.backbone (default: the one beside WEIGHTS)")
    add(
        "--image-px",
        type=int,
        metavar="PX",
        help="side of the centre crop (default: the image views of the config, or 224)",
    )
    add("--batch-size", type=int, default=64, help="images per batch (default: %(default)s)")
    add("--num-workers", type=int, default=2, help="reading processes (default: %(default)s)")
    add("--device", default="auto", help="auto, cpu, cuda, cuda:1 (default: %(default)s)")
    add("--seed", type=int, default=0, help=seed)


def model_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of ``add_model_options`` by name."""
    return {name: getattr(args, name) for name in _OF_MODEL}


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
    parser = Parser()
    parser.add_argument("--options", nargs="+", action=DictAction)
    return parser.parse_args(["--options", *words] if words else []).options or {}
