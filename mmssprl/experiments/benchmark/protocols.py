"""The transfer protocols of the paper, their configs for each size of data, and their runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ...errors import UserValueError
from ..options import BenchmarkSize as Size
from ..run import Run, RunFailedError, RunOutcome

_SEMISUP = ("semisup-1", "semisup-10", "semisup-100")
METRICS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("linear-coco", "linear-voc", *_SEMISUP), ("mAP",)),
    "detection": ("AP", "AP50", "AP75", "mask_AP", "mask_AP50", "mask_AP75"),
    "segmentation": ("mIoU",),
}
"""Metrics of each protocol in percent, in the order of the tables; higher is better."""

GROUPS: dict[str, tuple[str, ...]] = {"linear": ("linear-coco", "linear-voc"), "semisup": _SEMISUP}
"""Names that stand for several protocols on the command line."""

# mmdet logs fractions, mmseg and ours percent.
_LOGGED = {
    **{
        f"{ours}AP{at}": (f"coco/{theirs}_mAP{'_' if at else ''}{at}", 100.0)
        for ours, theirs in (("", "bbox"), ("mask_", "segm"))
        for at in ("", "50", "75")
    },
    "mAP": ("multi-label/mAP", 1.0),
    "mIoU": ("mIoU", 1.0),
}
"""Key that the runner logs each metric by, and the factor to percent."""


@dataclass(frozen=True)
class Protocol:
    """One transfer protocol at one size of data.

    ``images_per_step`` is the batch that several GPUs share; 0 for a protocol on one GPU.
    """

    name: str
    config: str
    images_per_step: int = 0

    def read_metrics(self, found: Mapping[str, float]) -> dict[str, float]:
        """Turn the runner's metrics into those of the tables, in percent.

        Missing metrics and mmdet's -1 for "no such object" are left out. mmdet gives no metric at
        all if nothing is detected in any image: every AP is 0.
        """
        names = METRICS[self.name]
        if self.name == "detection" and not found:
            return dict.fromkeys(names, 0.0)
        return {
            name: factor * found[key]
            for name, (key, factor) in ((name, _LOGGED[name]) for name in names)
            if found.get(key, -1) >= 0
        }


_CONFIGS: dict[Size, dict[str, str]] = {
    "paper": {
        "linear-coco": "classification/linear_resnet50_1xb128-coslr-100e_coco14",
        "linear-voc": "classification/linear_resnet50_1xb32-coslr-100e_voc07",
        "semisup-1": "semisup/semisup-1percent_resnet50_1xb32-steplr-20e_coco14",
        "semisup-10": "semisup/semisup-10percent_resnet50_1xb32-steplr-20e_coco14",
        "semisup-100": "semisup/semisup-100percent_resnet50_1xb32-steplr-20e_coco14",
        "detection": "detection/mask-rcnn_resnet50-fpn_8xb2-15k_coco14",
        "segmentation": "segmentation/fcn_resnet50-d8_2xb8-20k_voc12aug-512x512",
    },
    "scenes": {
        "linear-coco": "classification/linear_resnet18_scenes",
        "semisup-10": "semisup/semisup-10percent_resnet18_scenes",
        "semisup-100": "semisup/semisup-100percent_resnet18_scenes",
        "detection": "detection/mask-rcnn_resnet18-fpn_scenes",
        "segmentation": "segmentation/fcn_resnet18-d8_scenes",
    },
    "coco128": {
        "linear-coco": "classification/linear_resnet18_coco128",
        "linear-voc": "classification/linear_resnet18_voc128",
        "semisup-10": "semisup/semisup-10percent_resnet18_coco128",
        "semisup-100": "semisup/semisup-100percent_resnet18_coco128",
        "detection": "detection/mask-rcnn_resnet18-fpn_coco128",
        "segmentation": "segmentation/fcn_resnet18-d8_voc128",
    },
}
"""Below configs/benchmarks/."""

PROTOCOLS: dict[Size, list[Protocol]] = {
    size: [
        Protocol(
            name,
            f"configs/benchmarks/{config}.py",
            16 if size == "paper" and name in ("detection", "segmentation") else 0,
        )
        for name, config in configs.items()
    ]
    for size, configs in _CONFIGS.items()
}

DATA_PREFIX: dict[Size, str] = {"paper": "data", "scenes": "data/scenes", "coco128": "data"}
"""Beginning of every ``data_root`` in the configs; ``--data`` replaces it."""


def choose_protocols(size: Size, names: Sequence[str] | None) -> list[Protocol]:
    """Return the protocols that ``names`` name, groups too; None is all of the size."""
    known = {protocol.name: protocol for protocol in PROTOCOLS[size]}
    if names is None:
        return list(known.values())
    chosen = set()
    for name in names:
        members = [member for member in GROUPS.get(name, (name,)) if member in known]
        if not members:
            groups = [group for group, parts in GROUPS.items() if set(parts) & set(known)]
            raise UserValueError(
                f"protocols of size {size!r} are {', '.join([*groups, *known])}, but got {name!r}."
            )
        chosen.update(members)
    return [protocol for name, protocol in known.items() if name in chosen]


@dataclass(frozen=True)
class Weights:
    """A row of the table; ``start`` is 'random', 'supervised', a file, or "" if trained here.

    ``backbone`` is ``model.backbone`` of its pre-training config; None keeps each protocol's own.
    ``pretrained_by`` is the config of the training here.
    """

    name: str
    start: str
    backbone: Mapping[str, Any] | None
    pretrained_by: Config | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class TransferRun(Run):
    """Training, then test, with a config that was written for this run."""

    measures: str = "metrics.json"
    protocol: Protocol
    weights: str
    seed: int
    config: Path

    def read(self, measured: dict[str, Any]) -> dict[str, Any]:
        """Return the metrics of the tables in percent; RunFailedError if there are none."""
        metrics = self.protocol.read_metrics(measured)
        if not metrics:
            self.measured_file.unlink()  # the next call tests again
            raise RunFailedError("the test gave none of the protocol's metrics")
        return metrics

    def summary(self, values: dict[str, Any]) -> str:
        """Return the protocol's main metric."""
        main = METRICS[self.protocol.name][0]
        return f"{main} {values[main]:.1f} %" if main in values else "done"


Results = Sequence[tuple[TransferRun, RunOutcome]]
"""Runs and their outcomes, whose values are metrics in percent."""
