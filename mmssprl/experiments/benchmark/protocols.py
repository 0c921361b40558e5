"""The transfer protocols of the paper, the weights that they score, and their runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ...errors import UserValueError
from ...weights import RANDOM, SUPERVISED, WORDS, find_config, weights_file
from ...weights.description import find_description
from ..options import BenchmarkSize
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
    **{f"AP{at}": (f"coco/bbox_mAP_{at}".rstrip("_"), 100.0) for at in ("", "50", "75")},
    **{f"mask_AP{at}": (f"coco/segm_mAP_{at}".rstrip("_"), 100.0) for at in ("", "50", "75")},
    "mAP": ("multi-label/mAP", 1.0),
    "mIoU": ("mIoU", 1.0),
}
"""Key that the runner logs each metric by, and the factor to percent."""


@dataclass(frozen=True)
class Protocol:
    """One transfer protocol at one size of data."""

    name: str
    config: str
    images_per_step: int = 0  # the batch that several GPUs share; 0 on one GPU

    def read_metrics(self, found: Mapping[str, float]) -> dict[str, float]:
        """Turn the runner's metrics into the tables', in percent; some may be missing."""
        names = METRICS[self.name]
        if self.name == "detection" and not found:  # by mmdet if nothing is detected in any image
            return dict.fromkeys(names, 0.0)
        logged = {name: (found.get(_LOGGED[name][0], -1), _LOGGED[name][1]) for name in names}
        # mmdet gives -1 where there is no such object.
        return {name: factor * value for name, (value, factor) in logged.items() if value >= 0}


_CONFIGS: dict[BenchmarkSize, dict[str, str]] = {
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


def _protocols_of(size: BenchmarkSize) -> list[Protocol]:
    found = []
    for name, config in _CONFIGS[size].items():
        has_gpus = size == "paper" and name in ("detection", "segmentation")
        found.append(Protocol(name, f"configs/benchmarks/{config}.py", 16 if has_gpus else 0))
    return found


PROTOCOLS: dict[BenchmarkSize, list[Protocol]] = {size: _protocols_of(size) for size in _CONFIGS}

DATA_PREFIX: dict[BenchmarkSize, str] = {
    "paper": "data",
    "scenes": "data/scenes",
    "coco128": "data",
}
"""Beginning of every ``data_root`` in the configs; ``--data`` replaces it."""


def choose_protocols(size: BenchmarkSize, names: Sequence[str] | None) -> list[Protocol]:
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
class WeightsRow:
    """A row of the table."""

    name: str
    start: str  # 'random', 'supervised', a file, or "" if trained here
    backbone: Mapping[str, Any] | None  # of its pre-training; None keeps each protocol's own
    pretrained_by: Config | None = None  # config of the training here


def find_weights(values: Sequence[str]) -> list[WeightsRow]:
    """Name each word or file, with its folder if the stem is not unique; find its backbone."""
    files = {value: weights_file(value).resolve() for value in values if value not in WORDS}
    backbones = {
        value: find_config(str(path), None).model.backbone.to_dict()
        if find_description(path)
        else None  # torchvision's
        for value, path in files.items()
    }
    of_words = next(iter(backbones.values()), None)
    several = any(backbone != of_words for backbone in backbones.values())
    if several and len(files) < len(values):
        raise UserValueError(
            f"'{RANDOM}' and '{SUPERVISED}' need one backbone for all files, but the files have "
            "several; benchmark each backbone in a separate --work-dir."
        )

    stems = [*WORDS, *(path.stem for path in files.values())]
    rows: dict[str, WeightsRow] = {}
    for value in values:
        name = value
        path = files.get(value)
        if path:
            name = path.stem if stems.count(path.stem) == 1 else f"{path.parent.name}_{path.stem}"
        if name in rows:
            raise UserValueError(
                f"the file or folder names of weights must differ, but {name} is there twice; "
                "rename one."
            )
        rows[name] = WeightsRow(name, str(path or value), backbones.get(value, of_words))
    return [*rows.values()]


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
"""Runs and their outcomes; the values are metrics in percent."""
