"""What a command is, and the options that several of them read alike."""

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

from ..console.arguments import count


class Command(NamedTuple):
    """A command of ``python -m mmssprl``.

    Attributes:
        text: Its help: a line for the list of commands, a paragraph, and examples.
        add_options: Adds its options to a parser.
        run: Takes the options, and returns the exit code. It imports what takes time.
    """

    text: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def add_command(
    subparsers: "argparse._SubParsersAction[Any]", name: str, text: str
) -> argparse.ArgumentParser:
    """Add a parser whose help is ``text``, as of a ``Command``."""
    summary, description, examples = text.split("\n\n", 2)
    return subparsers.add_parser(name, help=summary, description=description, epilog=examples)


class ValuesAction(argparse.Action):
    """Reads KEY=VALUE as mmengine's tools do, imported where the option is given.

    So ``--help`` answers at once. Given again, it adds to the values.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        from mmengine.config import DictAction

        for word in values:
            if "=" not in word:
                raise argparse.ArgumentError(self, f"it takes KEY=VALUE, but got {word!r}")
        action = DictAction(self.option_strings, self.dest, nargs=self.nargs)
        action(parser, namespace, values, option_string)


_OF_FEATURES = ("config", "image_px", "batch_size", "num_workers", "device", "seed")


def add_feature_options(
    parser: argparse.ArgumentParser, *, seed: str = "seed of random weights (default: %(default)s)"
) -> None:
    """Add what decides how images become features; ``seed`` is the help of ``--seed``."""
    add = parser.add_argument
    px = "side of the centre crop (default: the image views of the config, or 224)"
    add("--config", help="config with model.backbone (default: the one beside WEIGHTS)")
    add("--image-px", type=int, metavar="PX", help=px)
    add("--batch-size", type=int, default=64, help="images per batch (default: %(default)s)")
    add("--num-workers", type=int, default=2, help="reading processes (default: %(default)s)")
    add("--device", default="auto", help="auto, cpu, cuda, cuda:1 (default: %(default)s)")
    add("--seed", type=int, default=0, help=seed)


def feature_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of ``add_feature_options`` by name."""
    return {name: getattr(args, name) for name in _OF_FEATURES}


def add_weights(parser: argparse.ArgumentParser, **keywords: Any) -> None:
    """Add the weights of a backbone; ``keywords`` are argparse's."""
    told = "backbone weights, a training checkpoint, 'random', or 'supervised' (torchvision's)"
    parser.add_argument("weights", metavar="WEIGHTS", help=told, **keywords)


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add the number of runs at a time."""
    told = "runs at a time, spread over the GPUs (default: one per GPU, else one per core)"
    parser.add_argument("--jobs", type=count, help=told)


def add_cfg_options(parser: argparse.ArgumentParser, told: str = "") -> None:
    """Add values that replace a config's; ``told`` is more of the help."""
    text = f"replace values of the config{told}"
    parser.add_argument(
        "--cfg-options", nargs="+", action=ValuesAction, metavar="KEY=VALUE", help=text
    )
