import pytest

from mmssprl.benchmark.paper_numbers import NOTES, PAPER, notes
from mmssprl.benchmark.results import METRICS

# Method, pre-training data, then linear COCO and VOC, semi-supervised 1, 10 and 100 %, boxes AP,
# AP50, AP75, masks AP, AP50, AP75, and FCN. Typed by the paper's tables, not by PAPER's.
_ = None
LISTING = [
    ("Supervised", "COCO", 62.5, 81.8, _, _, _, _, _, _, _, _, _, _),
    ("Supervised", "ImageNet", 68.5, 86.7, _, _, _, _, _, _, _, _, _, _),
    ("MoCo v2", "COCO", 50.2, 67.9, _, _, _, _, _, _, _, _, _, 57.3),
    ("MoCo v2", "ImageNet", 54.3, 82.5, _, _, _, _, _, _, _, _, _, 65.7),
    ("SwAV", "COCO", 60.3, 79.2, 43.6, 56.2, 61.4, 18.1, 33.7, 17.6, 17.3, 31.5, 17.1, 56.1),
    ("SwAV", "ImageNet", 60.1, 83.2, 39.3, 58.6, 66.9, _, _, _, _, _, _, 60.7),
    ("BYOL", "COCO", 52.6, 70.1, _, _, _, _, _, _, _, _, _, _),
    ("BYOL", "ImageNet", 58.4, 80.2, _, _, _, _, _, _, _, _, _, _),
    ("DenseCL", "COCO", 57.0, 75.2, 42.9, 54.8, 62.2, 20.2, 35.4, 20.8, 18.9, 33.0, 19.3, 63.2),
    ("DenseCL", "ImageNet", 60.5, 82.9, 43.4, 59.4, 65.8, _, _, _, _, _, _, 69.0),
    ("DetCo", "COCO", 52.7, 70.6, _, _, _, _, _, _, _, _, _, _),
    ("DetCo", "ImageNet", 60.0, 81.3, _, _, _, _, _, _, _, _, _, _),
    ("MaskCo", "COCO", 51.9, 70.2, _, _, _, _, _, _, _, _, _, _),
    ("MaskCo", "ImageNet", 50.3, 75.1, _, _, _, _, _, _, _, _, _, _),
    ("InsLoc", "COCO", 45.0, 61.8, _, _, _, _, _, _, _, _, _, _),
    ("InsLoc", "ImageNet", 49.5, 74.8, _, _, _, _, _, _, _, _, _, _),
    ("SS-PRL", "COCO", 61.3, 80.5, 45.1, 57.0, 62.9, 20.2, 36.7, 20.2, 19.1, 34.3, 19.0, 62.4),
    ("SS-PRL", "ImageNet", 63.8, 85.4, 41.0, 60.9, 67.4, 23.6, 42.5, 24.0, 22.7, 39.7, 23.1, 60.4),
    ("Random", None, _, _, 4.6, 10.7, 42.5, 11.5, 21.3, 11.3, 10.8, 19.7, 10.7, 40.7),
]
ORDER = [
    ("linear-coco", "mAP"),
    ("linear-voc", "mAP"),
    ("semisup-1", "mAP"),
    ("semisup-10", "mAP"),
    ("semisup-100", "mAP"),
    ("detection", "AP"),
    ("detection", "AP50"),
    ("detection", "AP75"),
    ("detection", "mask_AP"),
    ("detection", "mask_AP50"),
    ("detection", "mask_AP75"),
    ("segmentation", "mIoU"),
]


class TestPaperNumbers:
    def test_every_number_is_the_listed_one(self):
        listed = {
            (f"paper: {method}, {data}" if data else f"paper: {method}", protocol, metric): value
            for method, data, *values in LISTING
            for (protocol, metric), value in zip(ORDER, values, strict=True)
            if value is not None
        }
        stored = {
            (label, protocol, metric): value
            for label, numbers in PAPER.items()
            for protocol, metrics in numbers.items()
            for metric, value in metrics.items()
        }
        assert stored == listed
        assert len(listed) == 36 + 21 + 30 + 9

    @pytest.mark.parametrize(
        ("protocols", "words"),
        [
            (["linear-voc"], ["best epoch", "cosine"]),
            (["semisup-10"], ["best epoch"]),
            (["segmentation", "detection"], ["PreciseBN"]),
            (["segmentation"], []),
        ],
    )
    def test_notes_are_those_of_the_protocols(self, protocols, words):
        found = notes(protocols)
        assert len(found) == len(words)
        assert all(word in note for word, note in zip(words, found, strict=True))

    def test_notes_name_protocols_that_exist(self):
        assert len(NOTES) == 3
        assert {name for names in NOTES for name in names} <= set(METRICS)
