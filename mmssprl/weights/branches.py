"""The backbone in a checkpoint of any project, found by the names of its tensors.

A *prefix* stands before the names of a network in a file: ``teacher.module.backbone.``. The keys of
nested dicts are part of it.
"""

import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from mmengine.logging import print_log
from torch import Tensor

from ..errors import UserValueError
from .checkpoint_file import read_state, weights_file
from .names import DETECTRON2_STEM, from_detectron2, from_dino_authors

_RESNET = frozenset({"conv1.weight", "layer1.0.conv1.weight"})
_TRUNK = re.compile(r"(conv1|bn1|layer\d+)\.")
_CLASSIFIERS = {
    f"{layer}.{name}"
    for layer in ("fc", "head", "head.fc", "classifier")
    for name in ("weight", "bias")
}
"""Tensors of torchvision's and timm's networks; no backbone of mmpretrain has such a name."""
_AVERAGED = re.compile(r"(\w*ema|teacher)\.")
_COPY = re.compile(r"(_k|key_encoder|momentum\w*|target\w*|ema_state_dict)\.")
"""Copies that follow the trained network. mmengine keeps the average in ``state_dict``."""


@dataclass(frozen=True)
class Branch:
    """One network of a file."""

    prefix: str
    others: tuple[str, ...]  # prefixes of networks with the same names
    tensors: dict[str, Tensor]  # of the backbone, named as in torchvision, mmpretrain or timm
    heads: dict[str, Tensor]  # the others below the prefix, named as in the file

    def __str__(self) -> str:
        others = f" (not {', '.join(map(repr, self.others))})" if self.others else ""
        return f"{self.prefix!r}{others}"


def read_branch(
    path: str | Path, wanted: Iterable[str] = (), *, prefix: str | None = None
) -> Branch:
    """Read the backbone of a file, by the names ``wanted``, or else a ResNet.

    Of several with the same names the average of a training comes first (``*ema``, ``teacher``), as
    in timm, then the shortest prefix, and a momentum copy last. ``prefix`` chooses another. Names
    of detectron2, DINOv2's and DINOv3's authors are translated; classifiers are left out.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A file that cannot be read, has no tensors or not such a prefix, or whose
            backbone is not finite.
    """
    path = weights_file(path)
    state, given = read_state(path), ""
    if prefix is not None:
        given = prefix.rstrip(".") + "." if prefix else ""
        below = {k.removeprefix(given): v for k, v in state.items() if k.startswith(given)}
        if not below:
            raise UserValueError(
                f"prefix must be what names of tensors begin with, but none of {path} begins with "
                f"{given}; they are like {', '.join(list(state)[:3])}."
            )
        state = below
    branch = _find(state, frozenset(wanted), given)
    require_finite(branch.tensors, path)
    return branch


def read_backbone(path: str | Path, wanted: Iterable[str] = ()) -> dict[str, Tensor]:
    """Return the tensors of ``read_branch``, and say which it is where there are several."""
    branch = read_branch(path, wanted)
    if branch.others:
        hint = "; `convert --prefix` chooses another" if branch.tensors.keys() >= _RESNET else ""
        _say(f"{path}: weights read from {branch}{hint}.")
    return branch.tensors


@functools.cache
def _say(line: str) -> None:
    """Print a line once; a command reads its weights several times."""
    print_log(line)


def _find(state: Mapping[str, Tensor], wanted: frozenset[str], given: str) -> Branch:
    if any(key.endswith(DETECTRON2_STEM) for key in state) and DETECTRON2_STEM not in wanted:
        state = {from_detectron2(key): value for key, value in state.items()}
    found = _prefixes(state, wanted)
    if not wanted or len(found) == 0 or 2 * max(found.values()) < len(wanted):
        found = _prefixes(state, _RESNET)
        found = Counter({key: n for key, n in found.items() if n == len(_RESNET)})
    most = max(found.values(), default=0)
    prefix, *others = sorted((p for p, n in found.items() if n == most), key=_order) or [""]
    part = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
    named = from_dino_authors(part)
    if len(wanted & part.keys()) > len(wanted & named.keys()):
        named = part  # a network of the user's own
    is_resnet = part.keys() >= _RESNET
    tensors = {
        key: value
        for key, value in named.items()
        if key in wanted or (_TRUNK.match(key) if is_resnet else key not in _CLASSIFIERS)
    }
    heads = {key: value for key, value in part.items() if key not in tensors}
    return Branch(given + prefix, tuple(given + each for each in others), tensors, heads)


def _prefixes(state: Mapping[str, Tensor], names: frozenset[str]) -> Counter[str]:
    """Count the names that follow each prefix."""
    return Counter(
        key[:start]
        for key in state
        for start in (0, *(dot.end() for dot in re.finditer(r"\.", key)))
        if key[start:] in names
    )


def _order(prefix: str) -> tuple[bool, int, bool, bool]:
    return (
        not _AVERAGED.match(prefix),
        prefix.count("."),
        not re.search(r"(^|[._])(ema|teacher)[._]", prefix),
        bool(_COPY.search(prefix)),
    )


def require_finite(tensors: Mapping[str, Tensor], path: str | Path) -> None:
    """Raise ValueError if a tensor holds NaN or infinity."""
    bad = [
        key
        for key, value in tensors.items()
        # torch has no such function for float8.
        if not torch.isfinite(value.float() if value.itemsize == 1 else value).all()
    ]
    if bad:
        raise UserValueError(
            f"all weights must be finite, but {len(bad)} of {len(tensors)} tensors of {path} hold "
            f"NaN or infinity (first {bad[0]}); take a checkpoint from before it diverged."
        )
