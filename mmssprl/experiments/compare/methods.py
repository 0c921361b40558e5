"""The rows of the comparison: what is trained, and by which shipped config."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ...config.shipped import config_file, shipped
from ...errors import UserValueError


@dataclass(frozen=True, eq=False)
class Method:
    """One row of the tables.

    Args:
        key: In ``--methods``, in file names and in the CSV files.
        title: As printed.
        config: Shipped config below configs/, without ``_resnet18_SIZE.py``; or the path of a
            config of the user's, which has no other size.
        trains: Whether it is trained before the probe; if not, the backbone has random weights.
        uses_labels: Whether it trains on labels: a bound, and no competitor.
        momentum: Field of the config for the momentum of a network that averages another one, and
            the greatest value that is published; None if the method has no such network.
        options: Values that replace the config's.
    """

    key: str
    title: str
    config: str
    trains: bool = True
    uses_labels: bool = False
    momentum: tuple[str, float] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_users(self) -> bool:
        """Whether ``config`` is the path of a user's file."""
        return self.config.endswith(".py")

    @property
    def competes(self) -> bool:
        """Whether "better" and "worse" are asked of it."""
        return self.trains and not self.uses_labels

    def config_file(self, size: str) -> Path:
        """Return the config of a size: ``scenes``, ``photos`` or ``photos-gpu``."""
        if self.is_users:
            return Path(self.config)
        return shipped(f"configs/{self.config}_resnet18_{size}.py")


_KEYS = ("model.momentum", 0.999)
RANDOM = Method("random", "random weights", "ssprl/ssprl", trains=False)
SSPRL = Method("ssprl", "SS-PRL (paper)", "ssprl/ssprl")
METHODS = (
    RANDOM,
    Method("supervised", "supervised", "baselines/supervised", uses_labels=True),
    Method("mocov2", "MoCo v2", "baselines/mocov2", momentum=_KEYS),
    Method(
        "mocov2-symmetric",
        "MoCo v2, both directions",
        "baselines/mocov2",
        momentum=_KEYS,
        options={"model.symmetric": True},
    ),
    Method("byol", "BYOL", "baselines/byol", momentum=("model.base_momentum", 0.996)),
    Method("densecl", "DenseCL", "baselines/densecl", momentum=_KEYS),
    Method("swav", "SwAV, no small views", "ssprl/ssprl-image-only"),
    Method("swav-small", "SwAV, six small views", "ssprl/ssprl-image-only-small-views"),
    SSPRL,
    Method("ssprl-released", "SS-PRL (released)", "ssprl/ssprl-released"),
    Method("ssprl-small", "SS-PRL, six small views", "ssprl/ssprl-small-views"),
    Method("ssprl-sampled", "SS-PRL, sampled patches", "ssprl/ssprl-sampled"),
    Method(
        "ssprl-small-sampled",
        "SS-PRL, six small views, sampled patches",
        "ssprl/ssprl-small-views-sampled",
    ),
    Method("pyramid-only", "SS-PRL, pyramid terms only", "ssprl/ssprl-pyramid-only"),
    Method("cross-only", "SS-PRL, cross terms only", "ssprl/ssprl-cross-only"),
    Method("shared-prototypes", "SS-PRL, shared prototypes", "ssprl/ssprl-shared-prototypes"),
)
BY_KEY = {method.key: method for method in METHODS}
GROUPS = {
    "all": tuple(BY_KEY),
    "ablations": ("random", "swav", "pyramid-only", "cross-only", "shared-prototypes", "ssprl"),
}


def choose_methods(words: Sequence[str]) -> list[Method]:
    """Return the methods that words name, in the order of the tables and each once.

    Args:
        words: Keys of methods, names of groups, and paths of config files, which come last and
            are named by their files.

    Raises:
        ValueError: A word that is none of them, or a file that has another row's name.
        FileNotFoundError: No config file at such a path.
    """
    keys: set[str] = set()
    own: dict[str, Path] = {}
    for word in words:
        if not word.endswith(".py"):
            keys.update(GROUPS[word] if word in GROUPS else [method_of(word).key])
            continue
        path = config_file(word).resolve()
        name = path.stem
        if name in BY_KEY or own.get(name, path) != path:
            raise UserValueError(
                f"each row must have a name of its own, but {word} would be a second {name}; "
                "give the file another name."
            )
        own[name] = path
    shipped_rows = [method for method in METHODS if method.key in keys]
    return [*shipped_rows, *(Method(name, name, str(path)) for name, path in own.items())]


def method_of(key: str) -> Method:
    """Return the method of a key.

    Raises:
        ValueError: There is none; the message has the nearest name, or else all of them.
    """
    if key not in BY_KEY:
        names = [*BY_KEY, *GROUPS]
        near = get_close_matches(key.lower(), names, 1, cutoff=0.5)
        remedy = f"did you mean {near[0]}?" if near else f"the names are {', '.join(names)}."
        raise UserValueError(f"a method must be one of the comparison's, but got {key}; {remedy}")
    return BY_KEY[key]
