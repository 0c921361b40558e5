"""The numbers that the paper reports, to compare with.

Source: the tables of Hsieh et al., "Self-Supervised Pyramid Representation Learning for Multi-Label
Visual Analysis and Beyond", WACV 2023, arXiv:2208.14439. ResNet-50; pre-trained for 200 epochs on
COCO train2014 or for 100 epochs on ImageNet. All values in percent. The numbers of
``segmentation`` (FCN on VOC 2012) come from a table that the authors did not publish. What the
released code does otherwise than ours is in ``NOTES``.
"""

from collections.abc import Collection
from typing import Literal

from .results import METRICS

PretrainingData = Literal["COCO", "ImageNet"]

Numbers = dict[str, dict[str, float]]
"""Protocol -> metric -> percent."""

SOURCE = "WACV 2023, arXiv:2208.14439"

_LINEAR = ("linear-coco", "linear-voc")
_SEMISUP = ("semisup-1", "semisup-10", "semisup-100")


def _linear(coco: float, voc: float) -> Numbers:
    return {protocol: {"mAP": value} for protocol, value in zip(_LINEAR, (coco, voc), strict=True)}


def _semisup(*values: float) -> Numbers:
    """With 1, 10 and 100 % of the labels."""
    return {protocol: {"mAP": value} for protocol, value in zip(_SEMISUP, values, strict=True)}


def _detection(*values: float) -> Numbers:
    """AP, AP50 and AP75 of boxes, then of masks, after 15k iterations."""
    return {"detection": dict(zip(METRICS["detection"], values, strict=True))}


def _segmentation(value: float) -> Numbers:
    return {"segmentation": {"mIoU": value}}


PAPER: dict[str, dict[PretrainingData | None, Numbers]] = {
    "Random": {
        None: {
            **_semisup(4.6, 10.7, 42.5),
            **_detection(11.5, 21.3, 11.3, 10.8, 19.7, 10.7),
            **_segmentation(40.7),
        },
    },
    "Supervised": {
        "COCO": _linear(62.5, 81.8),
        "ImageNet": _linear(68.5, 86.7),
    },
    "MoCo v2": {
        "COCO": {**_linear(50.2, 67.9), **_segmentation(57.3)},
        "ImageNet": {**_linear(54.3, 82.5), **_segmentation(65.7)},
    },
    "SwAV": {
        "COCO": {
            **_linear(60.3, 79.2),
            **_semisup(43.6, 56.2, 61.4),
            **_detection(18.1, 33.7, 17.6, 17.3, 31.5, 17.1),
            **_segmentation(56.1),
        },
        "ImageNet": {
            **_linear(60.1, 83.2),
            **_semisup(39.3, 58.6, 66.9),
            **_segmentation(60.7),
        },
    },
    "BYOL": {
        "COCO": _linear(52.6, 70.1),
        "ImageNet": _linear(58.4, 80.2),
    },
    "DenseCL": {
        "COCO": {
            **_linear(57.0, 75.2),
            **_semisup(42.9, 54.8, 62.2),
            **_detection(20.2, 35.4, 20.8, 18.9, 33.0, 19.3),
            **_segmentation(63.2),
        },
        "ImageNet": {
            **_linear(60.5, 82.9),
            **_semisup(43.4, 59.4, 65.8),
            **_segmentation(69.0),
        },
    },
    "DetCo": {
        "COCO": _linear(52.7, 70.6),
        "ImageNet": _linear(60.0, 81.3),
    },
    "MaskCo": {
        "COCO": _linear(51.9, 70.2),
        "ImageNet": _linear(50.3, 75.1),
    },
    "InsLoc": {
        "COCO": _linear(45.0, 61.8),
        "ImageNet": _linear(49.5, 74.8),
    },
    "SS-PRL": {
        "COCO": {
            **_linear(61.3, 80.5),
            **_semisup(45.1, 57.0, 62.9),
            **_detection(20.2, 36.7, 20.2, 19.1, 34.3, 19.0),
            **_segmentation(62.4),
        },
        "ImageNet": {
            **_linear(63.8, 85.4),
            **_semisup(41.0, 60.9, 67.4),
            **_detection(23.6, 42.5, 24.0, 22.7, 39.7, 23.1),
            **_segmentation(60.4),
        },
    },
}
"""Method -> what it was pre-trained on -> its numbers. A number that is not reported is absent."""


NOTES: dict[tuple[str, ...], str] = {
    (*_LINEAR, *_SEMISUP): (
        "The paper's mAP is probably that of the best epoch on the test images, which the released "
        "linear script prints; ours is that of the last epoch."
    ),
    _LINEAR: (
        "The released linear protocol lowers its cosine once per epoch, ours at every iteration."
    ),
    ("detection",): (
        "The released detection measures BatchNorm's statistics anew before a test (PreciseBN), "
        "ours does not."
    ),
}
"""Protocols -> in what the paper's numbers of them are not measured as ours."""


def notes(protocols: Collection[str]) -> list[str]:
    """Return the notes that concern any of ``protocols``."""
    return [note for concerned, note in NOTES.items() if set(concerned) & set(protocols)]


def paper_rows() -> dict[str, Numbers]:
    """Return the numbers by row label, such as ``paper: SS-PRL, COCO``."""
    return {
        f"paper: {method}, {data}" if data else f"paper: {method}": numbers
        for method, by_data in PAPER.items()
        for data, numbers in by_data.items()
    }
