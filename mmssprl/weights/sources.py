"""What WEIGHTS may be: a word, a network of timm, a function, a file, or the folder of a run.

Only this file knows how each is written. It imports no torch, because the options of the commands
name sources too.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..console.paths import check_path
from ..errors import UserFileNotFoundError, UserValueError
from ..system.record_file import has_ended

Word = Literal["random", "supervised"]
"""Weights without a file, of a network that something else names."""
RANDOM = "random"
"""Random weights, as ``init_weights`` draws them."""
SUPERVISED = "supervised"
"""torchvision's ResNet weights from ImageNet (IMAGENET1K_V1)."""
WORDS = (RANDOM, SUPERVISED)
OWN = "own"
"""The weights that the user's network already has, in `pretrain` only."""
_TIMM = "timm/"
"""Prefix of the names of timm's networks and pretrained weights."""
_BEST = "_best_backbone"
"""End of the name of a backbone with the best probe."""
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""package.module:function"""
DESCRIPTION = (
    "backbone weights, a training checkpoint, 'random', 'supervised' (torchvision's), timm/NAME, "
    "timm/NAME:FILE or package.module:function"
)
"""WEIGHTS in the help of the commands."""


@dataclass(frozen=True)
class Source:
    """WEIGHTS, taken apart; a part that they do not have is ''.

    Attributes:
        word: RANDOM, SUPERVISED or OWN.
        timm: timm/NAME.
        function: package.module:function, which returns a network with its weights.
        file: A file, or the folder of a run; also FILE of timm/NAME:FILE.
    """

    word: str = ""
    timm: str = ""
    function: str = ""
    file: str = ""

    @classmethod
    def of(cls, weights: str | Path | None) -> "Source":
        """Take WEIGHTS apart; None stands for random weights."""
        text = RANDOM if weights is None else str(weights)
        if text in (*WORDS, OWN):
            return cls(word=text)
        is_function = _FUNCTION.fullmatch(text)
        if not (is_function or timm_model(text)) or Path(text).exists():
            return cls(file=text)
        if is_function:
            return cls(function=text)
        name, _, file = text.partition(":")
        return cls(timm=name, file=file)

    @property
    def is_random(self) -> bool:
        """Whether the weights are random."""
        return self.word == RANDOM

    @property
    def is_supervised(self) -> bool:
        """Whether the weights are torchvision's."""
        return self.word == SUPERVISED

    @property
    def is_own(self) -> bool:
        """Whether the weights are those that the network already has."""
        return self.word == OWN

    @property
    def is_file(self) -> bool:
        """Whether the weights are only a file, which may not say what network it is of."""
        return bool(self.file) and not self.timm

    @property
    def network(self) -> str:
        """The network that the weights name: timm/NAME or package.module:function."""
        return self.timm or self.function

    @property
    def without_network(self) -> str:
        """The weights for a backbone that is given as ``network``: FILE, timm/NAME or OWN."""
        return self.file or self.timm or OWN


def timm_network(model_name: str) -> str:
    """Return timm/NAME for a network that timm calls NAME."""
    return f"{_TIMM}{model_name}"


def timm_model(network: str) -> str:
    """Return timm's name of timm/NAME; '' for another network."""
    return network.removeprefix(_TIMM) if network.startswith(_TIMM) else ""


def with_network(weights: str, network: str | None) -> str:
    """Return timm/NAME:FILE for a file of timm/NAME; a file alone does not say its network."""
    if network and timm_model(network) and Source.of(weights).is_file:
        return f"{network}:{weights}"
    return weights


def check_weights(weights: str | Path, name: str = "weights") -> None:
    """Raise FileNotFoundError or ValueError if WEIGHTS name a file that is not there."""
    file = Source.of(weights).file
    if file:
        weights_file(file, name)


def weights_file(weights: str | Path, name: str = "weights") -> Path:
    """Return the path of a file, or of the newest ``*_backbone.pth`` in the folder of a run.

    The last backbone comes before the best one, because copies of a folder have other times.

    Raises:
        FileNotFoundError: The file does not exist, or the run has not ended.
        ValueError: The run ended, but is resumed for longer, and has not ended again.
    """
    if Source.of(weights).network:
        raise UserValueError(
            f"{name} must be a file or the folder of a run here, but {weights} names a network; "
            "give the file of its weights."
        )
    path = check_path(weights, name, file="a file", folder="the folder of a run")
    if not path.is_dir():
        return path
    found = sorted(
        path.glob("*_backbone.pth"),
        key=lambda file: (not file.stem.endswith(_BEST), file.stat().st_mtime),
    )
    if not found:
        raise UserFileNotFoundError(
            f"{path} has no *_backbone.pth, which a finished pre-training writes; give a "
            "checkpoint (epoch_N.pth)."
        )
    newest = found[-1]
    if not newest.stem.endswith(_BEST) and not has_ended(path, unknown=True):
        raise UserValueError(
            f"the last start of the run in {path} has not ended, so {newest.name} may be of an "
            "earlier one; resume the run, or give this file or a checkpoint (epoch_N.pth)."
        )
    return newest


def whole_path(weights: str) -> str:
    """Make the file in WEIGHTS absolute. A folder stands for its newest backbone."""
    source = Source.of(weights)
    if not source.file or not Path(source.file).exists():
        return weights
    path = str(weights_file(source.file).resolve())
    return f"{source.timm}:{path}" if source.timm else path


def without_words(weights: Iterable[str]) -> list[str]:
    """Return the weights that are neither random nor supervised."""
    return [each for each in weights if each not in WORDS]


def refuse_random(weights: Sequence[str]) -> None:
    """Raise ValueError for 'random' if its network, which the first others name, is a function."""
    first = next(iter(without_words(weights)), "")
    if RANDOM in weights and Source.of(first).function:
        raise UserValueError(
            f"'{RANDOM}' weights beside {first} would be those that the function gives; leave "
            f"'{RANDOM}' out."
        )
