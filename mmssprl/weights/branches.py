"""The backbone in a checkpoint of any project, found by the names of its tensors.

A *prefix* stands before the names of a network in a file: ``teacher.module.backbone.``. The keys of
nested dicts are part of it.
"""

import functools
import re
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from mmengine.logging import print_log
from torch import Tensor

from ..errors import UserValueError
from .checkpoint_file import read_state, weights_file
from .names import WRAPPERS, from_dino_authors, to_torchvision

_RESNET = frozenset({"conv1.weight", "layer1.0.conv1.weight"})
_TRUNK = re.compile(r"(conv1|bn1|layer\d+)\.")
_HEAD = re.compile(r"(fc|head|head\.fc|classifier)\.(\d+\.)?\w+$")
"""Classifiers of torchvision's and timm's networks, and the projector that MoCo puts there."""
_AVERAGED = {"ema", "teacher", "average", "averaged", "swa"}
_COPIES = {"k", "key", "momentum", "target", "current"}
"""Words in prefixes of copies that follow the trained network, and of Lightning beside averages."""
_SWAPPED = "ema_state_dict."
"""Here mmengine, which adds ``steps``, has the trained weights: ``state_dict`` is the average."""


@dataclass(frozen=True)
class Branch:
    """One network of a file."""

    prefix: str
    others: tuple[str, ...]  # prefixes of networks with the same names, or half of them
    tensors: dict[str, Tensor]  # of the backbone, named as in torchvision, mmpretrain or timm
    heads: dict[str, Tensor]  # the others below the prefix, named as in the file

    def __str__(self) -> str:
        others = f" (not {', '.join(map(repr, self.others))})" if self.others else ""
        return f"{self.prefix!r}{others}"


def read_branch(
    path: str | Path, wanted: Mapping[str, Tensor] | None = None, *, prefix: str | None = None
) -> Branch:
    """Read the backbone of a file, by the names and shapes ``wanted``, or else a ResNet.

    Of several that fit the average of a training comes first (``ema``, ``teacher``), as in timm,
    and a momentum copy last. ``prefix`` chooses another. Names of detectron2, lightly, DINOv2's
    and DINOv3's authors are translated; wrappers (``_orig_mod``) and classifiers are left out.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A file that cannot be read, has no tensors, not such a prefix, several networks
            of which nothing tells the right one, or one that is not finite.
    """
    path, wanted, given = weights_file(path), wanted or {}, None
    state = read_state(path)
    # The names of a user's own network may be those of another project.
    state = max(to_torchvision(state), state, key=lambda each: _most(_prefixes(each, wanted)))
    if prefix is not None:
        given = WRAPPERS.sub("", prefix.rstrip(".") + "." if prefix else "")
        below = {k.removeprefix(given): v for k, v in state.items() if k.startswith(given)}
        if not below:
            raise UserValueError(
                f"prefix must be what names of tensors begin with, but none of {path} begins with "
                f"{given}; they are like {', '.join(list(state)[:3])}."
            )
        state = below
    branch = _find(path, state, wanted, given)
    require_finite(branch.tensors, path)
    return branch


def read_backbone(
    path: str | Path, wanted: Mapping[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """Return the tensors of ``read_branch``, and say which it is where there are several."""
    branch = read_branch(path, wanted)
    if branch.others:
        hint = "; `convert --prefix` chooses another" if branch.tensors.keys() >= _RESNET else ""
        _say_once(f"{weights_file(path)}: weights read from {branch}{hint}.")
    return branch.tensors


_say_once = functools.cache(print_log)
"""Print a line once in a process: a command reads its weights several times."""


def _find(
    path: Path, state: Mapping[str, Tensor], wanted: Mapping[str, Tensor], given: str | None
) -> Branch:
    above = given or ""
    needed = {k: v for k, v in wanted.items() if not k.endswith("num_batches_tracked")}
    found = _prefixes(state, needed)
    if not needed or 2 * _most(found) < len(needed):
        # An average of parameters alone has no statistics.
        found = _prefixes(state, _RESNET | {"bn1.running_var"})
        found = Counter({p: n for p, n in found.items() if all(p + k in state for k in _RESNET)})
    most = _most(found)

    def rank(prefix: str) -> tuple[int, int, bool, bool]:
        """Order by how much of the network is there, then by what the prefix says."""
        pairs = [(state[prefix + k], v) for k, v in needed.items() if prefix + k in state]
        num_fitting = sum(own.shape == value.shape for own, value in pairs)
        apart = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", above + prefix)  # as in modelEMA
        words = {*re.findall("[a-z]+", apart.lower())}
        if prefix.startswith(_SWAPPED) and f"{_SWAPPED}steps" in state:
            words = {"current"}
        return -found[prefix], -num_fitting, not words & _AVERAGED, bool(words & _COPIES)

    ranks = {prefix: rank(prefix) for prefix, number in found.items() if 2 * number >= most}
    if given is not None and found.get("") == most:
        ranks = {"": rank("")}
    prefix, *others = sorted(ranks, key=lambda p: (ranks[p], p.count("."), p)) or [""]
    part = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
    # The names of a user's own network may be those of DINOv2's or DINOv3's authors.
    named = max(from_dino_authors(part), part, key=lambda each: len(wanted.keys() & each.keys()))
    is_resnet = part.keys() >= _RESNET
    tensors = {
        key: value
        for key, value in named.items()
        if key in wanted or (_TRUNK.match(key) if is_resnet else not _HEAD.match(key))
    }
    heads = {key: value for key, value in part.items() if key not in tensors}
    own = tensors.keys() & part.keys()
    rivals = [
        each
        for each in others
        if ranks[each] == ranks[prefix]
        and not all(torch.equal(part[k], state.get(each + k, part[k])) for k in own)
    ]
    if rivals:
        names = ", ".join(repr(above + each) for each in (prefix, *rivals))
        raise UserValueError(
            f"weights must be of one network, but {path} holds several with the same names: {names}"
            "; choose one by `convert --prefix`, or save it alone."
        )
    return Branch(above + prefix, tuple(above + each for each in others), tensors, heads)


def _prefixes(state: Mapping[str, Tensor], names: Container[str]) -> Counter[str]:
    """Count the names that follow each prefix."""
    return Counter(
        key[:start]
        for key in state
        for start in (0, *(dot.end() for dot in re.finditer(r"\.", key)))
        if key[start:] in names
    )


def _most(found: Counter[str]) -> int:
    return max(found.values(), default=0)


def require_finite(tensors: Mapping[str, Tensor], path: str | Path) -> None:
    """Raise ValueError if a tensor holds NaN or infinity."""
    bad = [
        key
        for key, value in tensors.items()
        # torch has no such function for float8.
        if value.is_floating_point()
        and not torch.isfinite(value.float() if value.itemsize == 1 else value).all()
    ]
    if bad:
        raise UserValueError(
            f"all weights must be finite, but {len(bad)} of {len(tensors)} tensors of {path} hold "
            f"NaN or infinity (first {bad[0]}); take a checkpoint from before it diverged."
        )
