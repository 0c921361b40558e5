"""Which runs are trained: their data, config, length, and what is wrong with them on purpose."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

HEALTHY = "healthy"

_CONFIGS = {
    "ssprl": "configs/ssprl/ssprl_resnet18_{}.py",
    "ssprl-small-sampled": "configs/ssprl/ssprl-small-views-sampled_resnet18_{}.py",
    "swav": "configs/ssprl/ssprl-image-only_resnet18_{}.py",
    "swav-small": "configs/ssprl/ssprl-image-only-small-views_resnet18_{}.py",
    "mocov2": "configs/baselines/mocov2_resnet18_{}.py",
    "byol": "configs/baselines/byol_resnet18_{}.py",
    "densecl": "configs/baselines/densecl_resnet18_{}.py",
}
_QUEUED = ("mocov2", "densecl")
_WARMED_UP = ("mocov2", "byol", "densecl")


@dataclass(frozen=True)
class Case:
    """A run.

    Args:
        method: Key of ``_CONFIGS``.
        size: 'scenes' or 'photos': which of the method's configs.
        num_images: So many of them.
        epochs: Passes over them.
        label: ``HEALTHY``, or the key of the trouble of ``mmssprl.monitoring`` that is provoked.
        images: What the images are: 'usual', 'identical' or 'large'.
        seed: Of all randomness.
        values: Of the config, by dotted key.
        note: Tells cases of one label apart.
    """

    method: str
    size: str
    num_images: int
    epochs: int
    label: str = HEALTHY
    images: str = "usual"
    seed: int = 0
    values: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def name(self) -> str:
        """The folder of the run."""
        parts = [self.label, self.note, self.method, self.size, f"{self.num_images}x{self.epochs}"]
        return "_".join([*filter(None, parts), f"seed{self.seed}"])

    @property
    def config(self) -> str:
        """The shipped config."""
        return _CONFIGS[self.method].format(self.size)

    def options(self) -> dict[str, Any]:
        """Return what replaces the config's values."""
        warm_up = self.method in _WARMED_UP
        options = {
            "randomness.seed": self.seed,
            "train_cfg.max_epochs": self.epochs,
            f"param_scheduler.{int(warm_up)}.T_max": self.epochs - warm_up,
            "default_hooks.logger.interval": 4,
            "default_hooks.checkpoint.interval": self.epochs,
        }
        if self.method in _QUEUED:
            options["model.queue_length"] = min(512, self.num_images // 2)
        return {**options, **self.values}


def _healthy() -> list[Case]:
    plans = (
        ("ssprl", "scenes", 256, 12, 3),
        ("ssprl", "scenes", 1024, 4, 1),
        ("ssprl", "photos", 512, 8, 2),
        ("ssprl", "photos", 2048, 3, 1),
        ("ssprl-small-sampled", "scenes", 256, 12, 1),
        ("ssprl-small-sampled", "photos", 512, 8, 2),
        ("swav", "scenes", 256, 16, 2),
        ("swav", "scenes", 1024, 6, 1),
        ("swav", "photos", 512, 12, 1),
        ("swav", "photos", 2048, 4, 1),
        ("swav-small", "scenes", 256, 10, 1),
        *((method, "scenes", 512, 8, 2) for method in _WARMED_UP),
        *((method, "photos", 512, 8, 1) for method in _WARMED_UP),
    )
    return [
        Case(method, size, num_images, epochs, seed=seed)
        for method, size, num_images, epochs, num_seeds in plans
        for seed in range(num_seeds)
    ]


_LR, _DECAY = "optim_wrapper.optimizer.lr", "optim_wrapper.optimizer.weight_decay"

PROVOKED = [
    Case("swav", "scenes", 256, 8, "collapsed", note="lr", values={_LR: 1.0}),
    Case("swav", "scenes", 256, 8, "collapsed", note="decay", values={_DECAY: 100.0}),
    Case("swav", "scenes", 256, 8, "epsilon", values={"model.head.epsilon": 10.0}),
    Case("swav", "scenes", 256, 8, "lr_zero", values={_LR: 0.0}),
    Case("swav", "scenes", 256, 8, "prototypes", values={"model.head.num_prototypes": 3000}),
    Case("swav", "scenes", 256, 8, "identical", images="identical"),
    Case("swav", "scenes", 128, 4, "loader", images="large"),
    Case("ssprl", "scenes", 256, 6, "collapsed", note="lr", values={_LR: 0.3}),
    Case("densecl", "scenes", 256, 8, "collapsed", note="lr", values={_LR: 1.0}),
    Case("mocov2", "scenes", 256, 8, "collapsed", note="lr", values={_LR: 1.0}),
    Case("mocov2", "scenes", 256, 8, "identical", images="identical"),
    Case("byol", "scenes", 256, 8, "lr_zero", values={_LR: 0.0}),
    Case("ssprl", "photos", 256, 5, "epsilon", values={"model.head.epsilon": 10.0}),
    Case("ssprl", "scenes", 256, 6, "identical", images="identical"),
    Case(
        *("ssprl", "photos", 256, 5, "prototypes"),
        values={"model.head.num_patch_prototypes": 5000},
    ),
    Case("swav", "scenes", 256, 8, "at_chance", note="low_lr", values={_LR: 1e-7}),
]
CASES = PROVOKED + _healthy()
