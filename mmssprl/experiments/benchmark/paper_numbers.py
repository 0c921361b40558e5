"""The numbers that the paper reports.

Source: the tables of Hsieh et al., "Self-Supervised Pyramid Representation Learning for Multi-Label
Visual Analysis and Beyond", WACV 2023, arXiv:2208.14439. ResNet-50; pre-trained for 200 epochs on
COCO train2014 or for 100 epochs on ImageNet. All values in percent.
"""

from .protocols import METRICS

SOURCE = "WACV 2023, arXiv:2208.14439"

# Method, pre-training data, then the columns of METRICS: linear on COCO and VOC; semi-supervised
# with 1, 10 and 100 % of the labels; AP, AP50 and AP75 of boxes and of masks after 15k iterations;
# mIoU. "-" is not reported.
_TABLE = """
Random,     -,           -,    -,  4.6, 10.7, 42.5, 11.5, 21.3, 11.3, 10.8, 19.7, 10.7, 40.7
Supervised, COCO,     62.5, 81.8,    -,    -,    -,    -,    -,    -,    -,    -,    -,    -
MoCo v2,    COCO,     50.2, 67.9, 34.0, 46.9, 54.2, 17.0, 30.6, 17.2, 15.9, 28.4, 15.9, 57.3
SwAV,       COCO,     60.3, 79.2, 43.6, 56.2, 61.4, 18.1, 33.7, 17.6, 17.3, 31.5, 17.1, 56.1
BYOL,       COCO,     52.6, 70.1, 35.1, 48.0, 54.8, 17.4, 31.5, 17.4, 16.2, 29.2, 16.1, 54.1
DenseCL,    COCO,     57.0, 75.2, 42.9, 54.8, 62.2, 20.2, 35.4, 20.8, 18.9, 33.0, 19.3, 63.2
DetCo,      COCO,     52.7, 70.6, 32.0, 48.3, 54.7, 15.6, 29.7, 14.8, 14.8, 27.3, 14.4, 43.2
MaskCo,     COCO,     51.9, 70.2, 31.6, 48.0, 57.4, 18.5, 32.9, 18.7, 17.3, 30.7, 17.4, 59.8
InsLoc,     COCO,     45.0, 61.8, 29.0, 43.9, 53.5, 17.5, 31.5, 17.6, 16.5, 29.3, 16.6, 56.1
SS-PRL,     COCO,     61.3, 80.5, 45.1, 57.0, 62.9, 20.2, 36.7, 20.2, 19.1, 34.3, 19.0, 62.4
Supervised, ImageNet, 68.5, 86.7,    -,    -,    -,    -,    -,    -,    -,    -,    -,    -
MoCo v2,    ImageNet, 54.3, 82.5, 26.4, 55.8, 63.7, 21.1, 36.7, 21.8, 19.9, 34.4, 20.4, 65.7
SwAV,       ImageNet, 60.1, 83.2, 39.3, 58.6, 66.9, 23.1, 41.2, 23.4, 22.1, 38.6, 22.5, 60.7
BYOL,       ImageNet, 58.4, 80.2, 38.7, 53.1, 62.5, 21.4, 37.5, 22.1, 20.1, 35.1, 20.6, 61.8
DenseCL,    ImageNet, 60.5, 82.9, 43.4, 59.4, 65.8, 21.9, 38.0, 22.9, 20.7, 35.8, 21.3, 69.0
DetCo,      ImageNet, 60.0, 81.3, 37.9, 56.2, 62.7, 20.9, 38.1, 20.9, 19.9, 35.3, 19.9,    -
MaskCo,     ImageNet, 50.3, 75.1, 24.0, 53.2, 62.1, 20.6, 35.6, 21.5, 19.5, 33.4, 20.0, 65.7
InsLoc,     ImageNet, 49.5, 74.8, 36.1, 56.6, 66.5, 23.5, 40.5, 24.7, 22.2, 38.1, 22.9, 67.1
SS-PRL,     ImageNet, 63.8, 85.4, 41.0, 60.9, 67.4, 23.6, 42.5, 24.0, 22.7, 39.7, 23.1, 60.4
"""


def _read_table() -> dict[str, dict[tuple[str, str], float]]:
    columns = [(protocol, metric) for protocol, names in METRICS.items() for metric in names]
    paper = {}
    for line in _TABLE.strip().splitlines():
        method, data, *cells = (cell.strip() for cell in line.split(","))
        numbers = zip(columns, cells, strict=True)
        label = f"paper: {method}" if data == "-" else f"paper: {method}, {data}"
        paper[label] = {column: float(cell) for column, cell in numbers if cell != "-"}
    return paper


PAPER = _read_table()
"""Row, such as ``paper: SS-PRL, COCO`` -> percent by protocol and metric, if reported.

Random weights come first, then pre-training on COCO, then on ImageNet.
"""
