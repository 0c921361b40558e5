"""The table of methods: rows of `compare`, choices of `pretrain`, and what their help names.

A new method is a line here. One of a new kind that `pretrain` takes extends ``RecipeMethod`` in
``families`` by the numbers that it alone has.
"""

from collections.abc import Iterable

from ...console.dropped import answer
from ...console.wording import meant
from ...errors import UserValueError
from .families import (
    ContrastMethod,
    DenseContrastMethod,
    PastedContrastMethod,
    PrototypeMethod,
    RegionContrastMethod,
    StageContrastMethod,
    TargetMethod,
)
from .method import Method, Recipe, RecipeMethod, RecipeRow  # noqa: F401  # of others, too

_KEYS = ("model.momentum", 0.999)
_BYOL = ("model.base_momentum", 0.996)

RANDOM = Method("random", "random weights", "ssprl/ssprl", trains=False)
SSPRL = PrototypeMethod("ssprl", "SS-PRL (paper)", "ssprl/ssprl", variant="paper")
METHODS = (
    RANDOM,
    Method("supervised", "supervised", "baselines/supervised", uses_labels=True),
    ContrastMethod(
        "mocov2",
        "MoCo v2",
        "baselines/mocov2",
        momentum=_KEYS,
        adamw_lr=5e-4,  # 6.7e-4 and 3.3e-4, each the lowest that was tried
    ),
    TargetMethod(
        "byol",
        "BYOL",
        "baselines/byol",
        momentum=_BYOL,
        adamw_lr=2e-3,  # 3e-3 and 1.5e-3, each the highest that was tried
    ),
    DenseContrastMethod(
        "densecl",
        "DenseCL",
        "baselines/densecl",
        momentum=_KEYS,
        adamw_lr=2e-3,  # 6e-3, level with 2e-3, and 1e-3
    ),
    StageContrastMethod(
        "detco",
        "DetCo",
        "baselines/detco",
        momentum=_KEYS,
        adamw_lr=5e-4,  # not tuned: that of MoCo v2
    ),
    PastedContrastMethod(
        "insloc",
        "InsLoc",
        "baselines/insloc",
        momentum=_KEYS,
        adamw_lr=3e-4,  # not tuned: on scenes 2e-3 collapsed
    ),
    RegionContrastMethod(
        "maskco",
        "MaskCo (our reading)",
        "baselines/maskco",
        momentum=_KEYS,
        adamw_lr=1e-3,  # not tuned: between MoCo v2's and DenseCL's
    ),
    PrototypeMethod("swav", "SwAV, no small views", "ssprl/ssprl-image-only"),
    PrototypeMethod("swav-small", "SwAV, six small views", "ssprl/ssprl-image-only-small-views"),
    SSPRL,
    PrototypeMethod(
        "ssprl-released", "SS-PRL (released)", "ssprl/ssprl-released", variant="released"
    ),
    Method("ssprl-small", "SS-PRL, six small views", "ssprl/ssprl-small-views"),
    Method("ssprl-sampled", "SS-PRL, sampled patches", "ssprl/ssprl-sampled"),
    PrototypeMethod(
        "ssprl-small-sampled",
        "SS-PRL, six small views, sampled patches",
        "ssprl/ssprl-small-views-sampled",
        variant="small-sampled",
        in1k="ssprl/ssprl",
    ),
    PrototypeMethod(
        "ssprl-cells", "SS-PRL, cells as patches", "ssprl/ssprl-cells", variant="cells"
    ),
    Method("pyramid-only", "SS-PRL, pyramid terms only", "ssprl/ssprl-pyramid-only"),
    Method("cross-only", "SS-PRL, cross terms only", "ssprl/ssprl-cross-only"),
    Method("shared-prototypes", "SS-PRL, shared prototypes", "ssprl/ssprl-shared-prototypes"),
)
BY_KEY = {method.key: method for method in METHODS}

_RECIPES = [method for method in METHODS if isinstance(method, RecipeMethod)]
VARIANTS = {method.variant: method for method in _RECIPES if method.variant}
"""Forms of SS-PRL by ``--variant``."""
DEFAULT = "swav-small"
"""What ``pretrain`` trains without ``--method``: the scale of the image of SS-PRL with small views.
At equal time it leads SS-PRL on photographs (``docs/results/forms``)."""
WHY_DEFAULT = "SS-PRL's image scale; leads on photographs; method ssprl adds the pyramid"
DEFAULT_VARIANT = "small-sampled"
"""Of SS-PRL without ``--variant``: tuned alike, for equal time, on photographs held out from
training, it was ahead of the paper's form (``docs/results/photos/tuning.csv``)."""
PRETRAINED = {
    SSPRL.key: VARIANTS[DEFAULT_VARIANT],
    **{method.key: method for method in _RECIPES if not method.variant},
}
"""Choices of ``pretrain`` by ``--method``."""


def find_method(name: str | None = None, variant: str | None = None) -> RecipeMethod:
    """Return the method of ``--method``, in the form of ``--variant``, that `pretrain` trains.

    A form alone is one of SS-PRL.
    """
    name = name or (SSPRL.key if variant else DEFAULT)
    if name not in PRETRAINED:
        raise unknown_method(name, PRETRAINED)
    if variant is None:
        return PRETRAINED[name]
    if name != SSPRL.key:
        raise UserValueError(
            f"variant is a form of {SSPRL.key}, but got {variant!r} for {name}; leave it out."
        )
    if variant not in VARIANTS:
        raise UserValueError(f"variant must be one of {', '.join(VARIANTS)}, but got {variant!r}.")
    return VARIANTS[variant]


def unknown_method(name: str, names: Iterable[str]) -> UserValueError:
    """Return the error for a name that is none of ``names``, with the nearest of them."""
    dropped = answer(f"method {name}")
    if dropped:
        return UserValueError(dropped)
    names = [*names]
    near = meant(name.lower(), names, cutoff=0.5)
    return UserValueError(f"a method must be one of {', '.join(names)}, but got {name!r}{near}")
