"""The numbers that the paper reports, to compare with.

Source: the tables of Hsieh et al., "Self-Supervised Pyramid Representation Learning for Multi-Label
Visual Analysis and Beyond", WACV 2023, arXiv:2208.14439. ResNet-50; pre-trained for 200 epochs on
COCO train2014 or for 100 epochs on ImageNet. All values in percent. The numbers of
``segmentation`` (FCN on VOC 2012) come from a table that the authors did not publish. What the
released code does otherwise than ours is in ``NOTES``.
"""

from collections.abc import Collection

from .results import METRICS

Numbers = dict[str, dict[str, float]]
"""Protocol -> metric -> percent."""

SOURCE = "WACV 2023, arXiv:2208.14439"

_LINEAR = ("linear-coco", "linear-voc")
_SEMISUP = ("semisup-1", "semisup-10", "semisup-100")

# Method, pre-training data, then the columns of METRICS: linear on COCO and VOC; semi-supervised
# with 1, 10 and 100 % of the labels; AP, AP50 and AP75 of boxes and of masks after 15k iterations;
# mIoU. "-" is not reported.
_TABLE = """
Random,     -,           -,    -,  4.6, 10.7, 42.5, 11.5, 21.3, 11.3, 10.8, 19.7, 10.7, 40.7
Supervised, COCO,     62.5, 81.8,    -,    -,    -,    -,    -,    -,    -,    -,    -,    -
Supervised, ImageNet, 68.5, 86.7,    -,    -,    -,    -,    -,    -,    -,    -,    -,    -
MoCo v2,    COCO,     50.2, 67.9,    -,    -,    -,    -,    -,    -,    -,    -,    -, 57.3
MoCo v2,    ImageNet, 54.3, 82.5,    -,    -,    -,    -,    -,    -,    -,    -,    -, 65.7
SwAV,       COCO,     60.3, 79.2, 43.6, 56.2, 61.4, 18.1, 33.7, 17.6, 17.3, 31.5, 17.1, 56.1
SwAV,       ImageNet, 60.1, 83.2, 39.3, 58.6, 66.9,    -,    -,    -,    -,    -,    -, 60.7
BYOL,       COCO,     52.6, 70.1,    -,    -,    -,    -,    -,    -,    -,    -,    -,    -
BYOL,       ImageNet, 58.4, 80.2,    -,    -,    -,    -,    -,    -,    -,    -,    -,    -
DenseCL,    COCO,     57.0, 75.2, 42.9, 54.8, 62.2, 20.2, 35.4, 20.8, 18.9, 33.0, 19.3, 63.2
DenseCL,    ImageNet, 60.5, 82.9, 43.4, 59.4, 65.8,    -,    -,    -,    -,    -,    -, 69.0
DetCo,      COCO,     52.7, 70.6,    -,    -,    -,    -,    -,    -,    -,    -,    -,    -
DetCo,      ImageNet, 60.0, 81.3,    -,    -,    -,    -,    -,    -,    -,    -,    -,    -
MaskCo,     COCO,     51.9, 70.2,    -,    -,    -,    -,    -,    -,    -,    -,    -,    -
MaskCo,     ImageNet, 50.3, 75.1,    -,    -,    -,    -,    -,    -,    -,    -,    -,    -
InsLoc,     COCO,     45.0, 61.8,    -,    -,    -,    -,    -,    -,    -,    -,    -,    -
InsLoc,     ImageNet, 49.5, 74.8,    -,    -,    -,    -,    -,    -,    -,    -,    -,    -
SS-PRL,     COCO,     61.3, 80.5, 45.1, 57.0, 62.9, 20.2, 36.7, 20.2, 19.1, 34.3, 19.0, 62.4
SS-PRL,     ImageNet, 63.8, 85.4, 41.0, 60.9, 67.4, 23.6, 42.5, 24.0, 22.7, 39.7, 23.1, 60.4
"""


def _read_table() -> dict[str, Numbers]:
    columns = [(protocol, metric) for protocol, names in METRICS.items() for metric in names]
    paper: dict[str, Numbers] = {}
    for line in _TABLE.strip().splitlines():
        method, data, *cells = (cell.strip() for cell in line.split(","))
        label = f"paper: {method}" if data == "-" else f"paper: {method}, {data}"
        numbers = paper[label] = {}
        for (protocol, metric), cell in zip(columns, cells, strict=True):
            if cell != "-":
                numbers.setdefault(protocol, {})[metric] = float(cell)
    return paper


PAPER = _read_table()
"""Row label, such as ``paper: SS-PRL, COCO`` -> its numbers; what is not reported is absent."""


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
