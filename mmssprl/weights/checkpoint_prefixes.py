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
from .checkpoint_file import read_state, say_once
from .names import (
    WRAPPERS,
    from_dino_authors,
    name_of_transformers,
    to_torchvision,
    unchunked,
    with_fitting_positions,
)
from .sources import weights_file

_RESNET = frozenset({"conv1.weight", "layer1.0.conv1.weight"})
_TRUNK = re.compile(r"(conv1|bn1|layer\d+)\.")
_HEAD = re.compile(r"(fc|(aux_)?heads?(_dist)?|last_linear|classif(ier)?)\.(\w+\.)*\w+$")
"""Classifiers of torchvision's and timm's networks, and MoCo's projector in their place."""
_NO_BACKBONE = re.compile(rf"{_HEAD.pattern}|(mask_token|masked_embed)$|decoder(_\w+)?(\.|$)")
"""Also what MAE, SimMIM, iBOT and their relatives have next to an encoder."""
_AVERAGED = {"ema", "teacher", "avg", "average", "averaged", "swa"}
_COPIES = {"k", "key", "momentum", "target", "current"}
"""Words in the prefixes of momentum copies, and of the weights that Lightning averages."""
_SWAPPED = "ema_state_dict."
"""Prefix of an average. mmengine swaps them: ``state_dict`` is its average, ``steps`` is here."""


@dataclass(frozen=True)
class StoredNetwork:
    """One network of a file."""

    prefix: str
    others: tuple[str, ...]  # prefixes of networks with the same names, or half of them
    tensors: dict[str, Tensor]  # the backbone, named as in torchvision, mmpretrain or timm
    heads: dict[str, Tensor]  # the other tensors under the prefix, named as in the file

    def __str__(self) -> str:
        others = f" (not {', '.join(map(repr, self.others))})" if self.others else ""
        return f"{self.prefix!r}{others}"


def find_network(
    path: str | Path, wanted: Mapping[str, Tensor] | None = None, *, prefix: str | None = None
) -> StoredNetwork:
    """Read the backbone that fits the names and shapes in ``wanted``; a ResNet by default.

    If several networks fit, an average (``ema``, ``teacher``) comes first, as in timm, and a
    momentum copy last; ``prefix`` overrides this. Names of detectron2, lightly and the authors of
    DINOv2 and DINOv3 are translated. Wrappers (``_orig_mod``) and classifiers are dropped, and
    positions of a ViT interpolated to the wanted grid. Raises ValueError if the choice between
    several networks is ambiguous, a weight is not finite, or the names are from transformers.
    """
    path = weights_file(path)
    wanted = wanted or {}
    own = read_state(path)
    ours = to_torchvision(own)
    # A custom network may use the names of another project: keep them if more of them fit.
    state = max(ours, own, unchunked(ours), key=lambda each: _most(_count(each, wanted)))
    given = None
    if prefix is not None:
        given = WRAPPERS.sub("", prefix.rstrip(".") + "." if prefix else "")
        below = _below(given, state)
        if not below:
            raise UserValueError(
                f"no tensor of {path} begins with the prefix {given}; give the beginning of one: "
                f"{', '.join(list(state)[:3])}, ..."
            )
        state = below

    found = _choose(path, state, wanted, given)
    require_finite(found.tensors, path)
    return replace(found, tensors=with_fitting_positions(found.tensors, wanted, path))


def read_backbone(
    path: str | Path, wanted: Mapping[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """Return the tensors of ``find_network``; log the choice between several networks."""
    found = find_network(path, wanted)
    if found.others:
        hint = "; `convert --prefix` chooses another" if found.tensors.keys() >= _RESNET else ""
        say_once(f"{weights_file(path)}: weights read from {found}{hint}.")
    return found.tensors


def _choose(
    path: Path, state: Mapping[str, Tensor], wanted: Mapping[str, Tensor], given: str | None
) -> StoredNetwork:
    """Choose between the networks of a file, below the prefix that the user gave, if any."""
    above = given or ""
    needed = {k: v for k, v in wanted.items() if not k.endswith("num_batches_tracked")}
    found = _count_backbones(path, state, needed)
    most = _most(found)
    candidates = [prefix for prefix, number in found.items() if 2 * number >= most]
    if given is not None and found.get("") == most:
        candidates = [""]

    ranks = {each: (-found[each], *_rank(above, each, state, needed)) for each in candidates}
    prefix, *others = sorted(ranks, key=lambda p: (ranks[p], p.count("."), p)) or [""]
    part = _below(prefix, state)
    tensors, heads = _without_heads(part, wanted)

    own = {key: value for key, value in part.items() if key in tensors}
    rivals = []
    for each in others:
        other = _below(each, state)
        fits_as_well = ranks[each][:2] == ranks[prefix][:2]
        is_undecided = ranks[each] == ranks[prefix] and not _are_equal(own, other)
        # The teacher of a distillation is another network, not an average of its student.
        if is_undecided or (fits_as_well and not _is_copy(own, other)):
            rivals.append(each)
    if rivals:
        names = ", ".join(repr(above + each) for each in (prefix, *rivals))
        alone = "save the one that you need alone with torch.save"
        remedy = "choose one with `convert --prefix`" if part.keys() >= _RESNET else alone
        raise UserValueError(
            f"{path} holds several networks with the same names: {names}; {remedy}."
        )
    return StoredNetwork(above + prefix, tuple(above + each for each in others), tensors, heads)


def _count_backbones(
    path: Path, state: Mapping[str, Tensor], needed: Mapping[str, Tensor]
) -> Counter[str]:
    """Count the needed names under each prefix; if few are found, the names of a ResNet."""
    found = _count(state, needed)
    if needed and 2 * _most(found) >= len(needed):
        return found

    # An average without BatchNorm statistics has fewer of these names.
    found = _count(state, _RESNET | {"bn1.running_var"})
    for prefix in [*found]:
        if any(prefix + name not in state for name in _RESNET):
            del found[prefix]
    theirs = name_of_transformers(state)
    if not found and theirs is not None:
        raise UserValueError(
            f"{path} has the names of Hugging Face's transformers, such as {theirs}, which are "
            "not read; take the same network of timm (timm/NAME) or torchvision (supervised), "
            "or its authors' file."
        )
    return found


def _rank(
    above: str, prefix: str, state: Mapping[str, Tensor], needed: Mapping[str, Tensor]
) -> tuple[int, bool, bool]:
    """Return a sort key: how many shapes fit, then what the whole prefix says."""
    num_fitting = sum(
        state[prefix + key].shape == value.shape
        for key, value in needed.items()
        if prefix + key in state
    )
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", above + prefix)  # modelEMA: model, ema
    words = {*re.findall("[a-z]+", apart.lower())}
    if prefix.startswith(_SWAPPED) and f"{_SWAPPED}steps" in state:
        words = {"current"}
    return -num_fitting, not words & _AVERAGED, bool(words & _COPIES)


def is_head(name: str) -> bool:
    """Whether a tensor is of a classifier by its name in a network."""
    return bool(_HEAD.match(name))


def _without_heads(
    part: Mapping[str, Tensor], wanted: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Divide the tensors of a network into the backbone, under our names, and the heads."""
    # A custom network may use the names of DINO's authors: keep them if more of them fit.
    named = max(from_dino_authors(part), part, key=lambda each: len(wanted.keys() & each.keys()))
    is_resnet = part.keys() >= _RESNET
    tensors = {
        key: value
        for key, value in named.items()
        if key in wanted or (_TRUNK.match(key) if is_resnet else not _NO_BACKBONE.match(key))
    }
    return tensors, {key: value for key, value in part.items() if key not in tensors}


def _below(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors under a prefix, without it."""
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}


def _are_equal(own: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """Whether another network has the same values; it may lack some."""
    return all(torch.equal(own[key], other[key]) for key in own.keys() & other.keys())


def _is_copy(own: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """Whether the convolutions of another ResNet have the same names and shapes."""

    def convolutions(state: Mapping[str, Tensor]) -> dict[str, torch.Size]:
        return {k: v.shape for k, v in state.items() if _TRUNK.match(k) and v.dim() == 4}

    return convolutions(own) == convolutions(other)


def _count(state: Mapping[str, Tensor], names: Container[str]) -> Counter[str]:
    """Count the ``names`` under each prefix."""
    found: Counter[str] = Counter()
    for key in state:
        for start in (0, *(dot.end() for dot in re.finditer(r"\.", key))):
            if key[start:] in names:
                found[key[:start]] += 1
    return found


def _most(found: Counter[str]) -> int:
    return max(found.values(), default=0)


def require_finite(tensors: Mapping[str, Tensor], path: str | Path) -> None:
    """Raise ValueError if a tensor holds NaN or infinity."""

    def is_finite(value: Tensor) -> bool:
        # torch has no such function for float8.
        return bool(torch.isfinite(value.float() if value.itemsize == 1 else value).all())

    bad = [k for k, v in tensors.items() if v.is_floating_point() and not is_finite(v)]
    if bad:
        raise UserValueError(
            f"{len(bad)} of {len(tensors)} tensors of {path} hold NaN or infinity (first "
            f"{bad[0]}); take a checkpoint from before it diverged."
        )
