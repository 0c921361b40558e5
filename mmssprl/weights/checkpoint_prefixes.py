"""Find the backbone in a checkpoint of any project by the names of its tensors.

The names of one network share a *prefix*, such as ``teacher.module.backbone.``. It includes the
keys of nested dicts.
"""

import re
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from ..errors import UserValueError
from .checkpoint_file import read_state, say_once, weights_file
from .names import (
    WRAPPERS,
    from_dino_authors,
    name_of_transformers,
    to_torchvision,
    unchunked,
    with_fitting_positions,
)

_RESNET = frozenset({"conv1.weight", "layer1.0.conv1.weight"})
_TRUNK = re.compile(r"(conv1|bn1|layer\d+)\.")
_HEAD = re.compile(r"(fc|head|head\.fc|classifier)\.(\d+\.)?\w+$")
"""Classifiers of torchvision's and timm's networks, and MoCo's projector in their place."""
_AVERAGED = {"ema", "teacher", "average", "averaged", "swa"}
_COPIES = {"k", "key", "momentum", "target", "current"}
"""Words in the prefixes of momentum copies, and of the weights that Lightning averages."""
_SWAPPED = "ema_state_dict."
"""Prefix of an average. mmengine swaps them: ``state_dict`` is its average, ``steps`` is here."""


@dataclass(frozen=True)
class Branch:
    """One network of a file."""

    prefix: str
    others: tuple[str, ...]  # prefixes of networks with the same names, or half of them
    tensors: dict[str, Tensor]  # the backbone, named as in torchvision, mmpretrain or timm
    heads: dict[str, Tensor]  # the other tensors under the prefix, named as in the file

    def __str__(self) -> str:
        others = f" (not {', '.join(map(repr, self.others))})" if self.others else ""
        return f"{self.prefix!r}{others}"


def read_branch(
    path: str | Path, wanted: Mapping[str, Tensor] | None = None, *, prefix: str | None = None
) -> Branch:
    """Read the backbone that fits the names and shapes in ``wanted``; a ResNet by default.

    If several networks fit, an average (``ema``, ``teacher``) comes first, as in timm, and a
    momentum copy last; ``prefix`` overrides this. Names of detectron2, lightly and the authors of
    DINOv2 and DINOv3 are translated. Wrappers (``_orig_mod``) and classifiers are dropped, and
    positions of a ViT interpolated to the wanted grid. Raises ValueError if the choice between
    several networks is ambiguous, a weight is not finite, or the names are those of transformers.
    """
    path, wanted, given = weights_file(path), wanted or {}, None
    own = read_state(path)
    ours = to_torchvision(own)
    # A custom network may use the names of another project: keep them if more of them fit.
    state = max(ours, own, unchunked(ours), key=lambda each: _most(_prefixes(each, wanted)))
    if prefix is not None:
        given = WRAPPERS.sub("", prefix.rstrip(".") + "." if prefix else "")
        below = {k.removeprefix(given): v for k, v in state.items() if k.startswith(given)}
        if not below:
            raise UserValueError(
                f"no tensor of {path} begins with the prefix {given}; give the beginning of one: "
                f"{', '.join(list(state)[:3])}, ..."
            )
        state = below
    branch = _find(path, state, wanted, given)
    require_finite(branch.tensors, path)
    return replace(branch, tensors=with_fitting_positions(branch.tensors, wanted, path))


def read_backbone(
    path: str | Path, wanted: Mapping[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """Return the tensors of ``read_branch``; log the choice between several networks."""
    branch = read_branch(path, wanted)
    if branch.others:
        hint = "; `convert --prefix` chooses another" if branch.tensors.keys() >= _RESNET else ""
        say_once(f"{weights_file(path)}: weights read from {branch}{hint}.")
    return branch.tensors


def _find(
    path: Path, state: Mapping[str, Tensor], wanted: Mapping[str, Tensor], given: str | None
) -> Branch:
    above = given or ""
    needed = {k: v for k, v in wanted.items() if not k.endswith("num_batches_tracked")}
    found = _prefixes(state, needed)
    if not needed or 2 * _most(found) < len(needed):
        # An average without BatchNorm statistics does not count.
        found = _prefixes(state, _RESNET | {"bn1.running_var"})
        found = Counter({p: n for p, n in found.items() if all(p + k in state for k in _RESNET)})
        theirs = name_of_transformers(state)
        if not found and theirs is not None:
            raise UserValueError(
                f"{path} has the names of Hugging Face's transformers, such as {theirs}, which are "
                "not read; take the same network of timm (timm/NAME) or torchvision (supervised), "
                "or its authors' file."
            )
    most = _most(found)

    def rank(prefix: str) -> tuple[int, int, bool, bool]:
        """Sort key: how much of the network is there, then what the prefix says."""
        pairs = [(state[prefix + k], v) for k, v in needed.items() if prefix + k in state]
        num_fitting = sum(own.shape == value.shape for own, value in pairs)
        apart = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", above + prefix)  # modelEMA: model, ema
        words = {*re.findall("[a-z]+", apart.lower())}
        if prefix.startswith(_SWAPPED) and f"{_SWAPPED}steps" in state:
            words = {"current"}
        return -found[prefix], -num_fitting, not words & _AVERAGED, bool(words & _COPIES)

    ranks = {prefix: rank(prefix) for prefix, number in found.items() if 2 * number >= most}
    if given is not None and found.get("") == most:
        ranks = {"": rank("")}
    prefix, *others = sorted(ranks, key=lambda p: (ranks[p], p.count("."), p)) or [""]
    part = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
    # A custom network may use the names of DINO's authors: keep them if more of them fit.
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
            f"{path} holds several networks with the same names: {names}; choose one with "
            "`convert --prefix`."
        )
    return Branch(above + prefix, tuple(above + each for each in others), tensors, heads)


def _prefixes(state: Mapping[str, Tensor], names: Container[str]) -> Counter[str]:
    """Count the ``names`` under each prefix."""
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
            f"{len(bad)} of {len(tensors)} tensors of {path} hold NaN or infinity (first "
            f"{bad[0]}); take a checkpoint from before it diverged."
        )
