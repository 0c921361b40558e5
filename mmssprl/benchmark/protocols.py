"""The transfer protocols of the paper, and their configs for each size of data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import UserValueError
from .results import Size

GROUPS: dict[str, tuple[str, ...]] = {
    "linear": ("linear-coco", "linear-voc"),
    "semisup": ("semisup-1", "semisup-10", "semisup-100"),
}
"""Names that stand for several protocols on the command line."""

_MULTI_LABEL = {"mAP": ("multi-label/mAP", 1.0)}
_DETECTION = {
    f"{ours}AP{at}": (f"coco/{theirs}_mAP{'_' if at else ''}{at}", 100.0)
    for ours, theirs in (("", "bbox"), ("mask_", "segm"))
    for at in ("", "50", "75")
}
_SEGMENTATION = {"mIoU": ("mIoU", 1.0)}


@dataclass(frozen=True)
class Protocol:
    """One transfer protocol at one size of data.

    Args:
        name: As in the tables.
        config: Shipped config.
        metrics: For each metric of the tables its name in the runner and the factor to percent.
        images_per_step: Images of one update that several GPUs share; 0 runs on one GPU.
    """

    name: str
    config: str
    metrics: Mapping[str, tuple[str, float]]
    images_per_step: int = 0

    def read_metrics(self, found: Mapping[str, float]) -> dict[str, float]:
        """Turn the runner's metrics into those of the tables, in percent.

        mmdet's -1 for "no such object" and what is missing are left out. mmdet gives no metric at
        all where nothing is detected in any image: an AP of 0.
        """
        if self.name == "detection" and not found:
            return dict.fromkeys(self.metrics, 0.0)
        return {
            ours: factor * found[theirs]
            for ours, (theirs, factor) in self.metrics.items()
            if found.get(theirs, -1) >= 0
        }


@dataclass(frozen=True)
class Data:
    """Where the configs of a size look, and what makes an absent folder.

    Args:
        prefix: Beginning of every ``data_root``; ``--data`` replaces it.
        remedies: What prepares or checks the data, by the part of the path after the prefix; {}
            stands for the folder in place of the prefix.
    """

    prefix: str
    remedies: Mapping[str, str]


def _config(folder: str, name: str) -> str:
    return f"configs/benchmarks/{folder}/{name}.py"


def _cpu_sized(multi_label: Mapping[str, str], dense: tuple[str, str]) -> list[Protocol]:
    return [
        *(
            Protocol(name, _config("classification", f"linear_resnet18_{data}"), _MULTI_LABEL)
            for name, data in multi_label.items()
        ),
        *(
            Protocol(
                f"semisup-{percent}",
                _config(
                    "semisup", f"semisup-{percent}percent_resnet18_{multi_label['linear-coco']}"
                ),
                _MULTI_LABEL,
            )
            for percent in (10, 100)
        ),
        Protocol("detection", _config("detection", dense[0]), _DETECTION),
        Protocol("segmentation", _config("segmentation", dense[1]), _SEGMENTATION),
    ]


_LINEAR = _config("classification", "linear_resnet50_1xb{}-coslr-100e_{}")
_SEMISUP = "semisup-{}percent_resnet50_1xb32-steplr-20e_coco14"

PROTOCOLS: dict[Size, list[Protocol]] = {
    "paper": [
        Protocol("linear-coco", _LINEAR.format(128, "coco14"), _MULTI_LABEL),
        Protocol("linear-voc", _LINEAR.format(32, "voc07"), _MULTI_LABEL),
        *(
            Protocol(
                f"semisup-{percent}", _config("semisup", _SEMISUP.format(percent)), _MULTI_LABEL
            )
            for percent in (1, 10, 100)
        ),
        Protocol(
            "detection",
            _config("detection", "mask-rcnn_resnet50-fpn_8xb2-15k_coco14"),
            _DETECTION,
            images_per_step=16,
        ),
        Protocol(
            "segmentation",
            _config("segmentation", "fcn_resnet50-d8_2xb8-20k_voc12aug-512x512"),
            _SEGMENTATION,
            images_per_step=16,
        ),
    ],
    "scenes": _cpu_sized(
        {"linear-coco": "scenes"}, ("mask-rcnn_resnet18-fpn_scenes", "fcn_resnet18-d8_scenes")
    ),
    "coco128": _cpu_sized(
        {"linear-coco": "coco128", "linear-voc": "voc128"},
        ("mask-rcnn_resnet18-fpn_coco128", "fcn_resnet18-d8_voc128"),
    ),
}

_SAMPLE = "a folder of 100 + 100 images in that layout, which nothing can download for you"
DATA: dict[Size, Data] = {
    "paper": Data(
        "data",
        {
            "coco": "python -m mmssprl prepare coco {}/coco",
            "VOCdevkit/VOC2007": "python -m mmssprl prepare voc07 {}",
            "VOCdevkit/VOC2012": "python -m mmssprl prepare voc12aug {}",
        },
    ),
    "scenes": Data(
        "data/scenes",
        {"": "leave --data out: scenes are generated; or python -m mmssprl scenes {}"},
    ),
    "coco128": Data("data", {"coco128": _SAMPLE, "voc128": _SAMPLE}),
}


def choose_protocols(size: Size, names: Sequence[str] | None) -> list[Protocol]:
    """Return the protocols that are asked for, all of the size for None.

    Args:
        size: Of the data.
        names: Names of protocols, or of ``GROUPS``.

    Raises:
        ValueError: A name that the size does not have.
    """
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
