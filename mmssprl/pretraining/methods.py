"""The table of methods: values of ``pretrain --method``, and rows of ``compare``."""

import copy
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.shipped import shipped
from ..console.dropped import answer
from ..console.wording import meant
from ..errors import UserFileNotFoundError, UserValueError

if TYPE_CHECKING:
    from mmengine.config import Config

    from ..models import PretrainingModel, TrainingSize

SHORT = "photos-gpu"  # size of the configs for short runs
PUBLISHED = {
    "COCO": "resnet50_2xb64-coslr-200e_coco",
    "ImageNet": "resnet50_8xb32-coslr-100e_in1k",
}
"""Endings of the published trainings' configs, after ``Method.config``, by data."""


@dataclass(frozen=True, eq=False)
class Method:
    """One method, a line of the table."""

    key: str  # its name in options, file names and CSV files
    title: str  # as printed
    config: str  # beginning of its configs' names below configs/; or the path of a user's config
    trains: bool = True  # otherwise the backbone has random weights
    uses_labels: bool = False  # a bound, not a competitor

    @property
    def is_users(self) -> bool:
        """Whether ``config`` is the path of a user's file."""
        return self.config.endswith(".py")

    @property
    def competes(self) -> bool:
        """Whether tables say that it is better or worse."""
        return self.trains and not self.uses_labels

    @property
    def model_class(self) -> "type[PretrainingModel]":
        """The class of its model, which owns the method's numbers."""
        from ..models import PretrainingModel, pretraining_class  # they import torch, see `_read`

        return pretraining_class(self.coco) or PretrainingModel

    @property
    def learns_from_teacher(self) -> bool:
        """Whether it trains on a teacher's kept maps."""
        return self.model_class.learns_from_teacher

    def scaled(self, base: "Config", size: "TrainingSize") -> dict[str, Any]:
        """Return its numbers by dotted key of ``base``; a user's config keeps its own."""
        return {} if self.is_users else self.model_class.scaled(base, size)

    def config_file(self, data: str = "COCO") -> Path:
        """Return the user's config, or the shipped one for ``data``; with labels, for scenes."""
        if self.is_users:
            return Path(self.config)
        name = "resnet18_scenes" if self.uses_labels else PUBLISHED[data]
        return shipped(f"configs/{self.config}_{name}.py")

    def config_at(self, size: str) -> "Config":
        """Return the config at a size, see ``at_size``, or the user's; read only."""
        return _read(self.config_file(), None if self.is_users else size)

    @property
    def coco(self) -> "Config":
        """The config of the published training on COCO; read only."""
        return _read(self.config_file())

    @cached_property
    def imagenet(self) -> "Config":
        """The config of the training on ImageNet; without one, COCO's and SS-PRL's; read only."""
        try:
            return _read(self.config_file("ImageNet"))
        except UserFileNotFoundError:
            cfg = copy.deepcopy(self.coco)

        ssprl = SSPRL.imagenet
        for key in ("param_scheduler", "train_cfg", "auto_scale_lr", "num_gpus"):
            cfg[key] = ssprl[key]
        for field in self.model_class.data_fields:
            if field in ssprl.model.head:
                cfg.model.head[field] = ssprl.model.head[field]
        return cfg


@functools.cache
def _read(path: Path, size: str | None = None) -> "Config":
    from ..config.at_size import read_at_size  # imports torch; `--help` must stay fast

    return read_at_size(path, size)


DISTILL = Method("distill", "distilled from a teacher", "ssprl/distill")
RANDOM = Method("random", "random weights", "ssprl/ssprl", trains=False)
SSPRL = Method("ssprl", "SS-PRL (paper)", "ssprl/ssprl")
METHODS = (
    RANDOM,
    Method("supervised", "supervised", "baselines/supervised", uses_labels=True),
    Method("mocov2", "MoCo v2", "baselines/mocov2"),
    Method("byol", "BYOL", "baselines/byol"),
    Method("densecl", "DenseCL", "baselines/densecl"),
    Method("detco", "DetCo", "baselines/detco"),
    Method("insloc", "InsLoc", "baselines/insloc"),
    Method("maskco", "MaskCo (our reading)", "baselines/maskco"),
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
    DISTILL,
)
BY_KEY = {method.key: method for method in METHODS}
PRETRAINED = {method.key: method for method in METHODS if method.competes}
"""Values of ``pretrain --method``."""
DEFAULT = "swav-small"
"""Default of ``pretrain --method``: SS-PRL's image scale with small views. At equal time it has the
highest mean on photographs (``docs/results/forms``)."""
CONTINUED = "swav"
"""Default of ``pretrain --method`` with ``weights``: two views. Six small ones more take 1.8 times
the CPU time, and weights that were continued so gained a fine-tuned classifier nothing
(docs/results/deployed)."""
TEACHER_GAIN = "7.5 ± 2.1"
"""Points of mAP, with a 95 % interval over five seeds, that ``distill`` gains over DEFAULT in no
more time (docs/results/distillation)."""
CONTINUED_GAIN = "0.1 ± 0.3"
"""Points of mAP that DEFAULT gains over its start when continued with ``weights`` on half of the
photographs (docs/results/continuation)."""
UNANCHORED_LOSS = "1.5 ± 1.2"
"""Points of mAP that DEFAULT loses without the start as a teacher: the row ``protected`` against
``start`` on the images held out (docs/results/distillation)."""
WHY_CONTINUED = "small views take longer, and gained a fine-tuned classifier nothing"
WHY_DEFAULT = "SS-PRL's image scale; highest mean on photographs; method ssprl adds the pyramid"


def find_method(name: str) -> Method:
    """Return the method of ``--method``."""
    if name not in PRETRAINED:
        raise unknown_method(name, PRETRAINED)
    return PRETRAINED[name]


def unknown_method(name: str, names: Iterable[str]) -> UserValueError:
    """Return the error for a name that is not in ``names``; it suggests the nearest one."""
    names = [*names]
    near = meant(name.lower(), names)
    message = f"a method must be one of {', '.join(names)}, but got {name!r}{near}"
    return UserValueError(answer(f"method {name}") or message)
