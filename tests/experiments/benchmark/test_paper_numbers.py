from itertools import pairwise

import pytest

from mmssprl.experiments.benchmark.paper_numbers import ABLATIONS, PAPER, notes

# Typed by the paper's tables, not by the rows of PAPER: for each method the numbers after
# pre-training on COCO and on ImageNet.
LINEAR = {  # COCO/VOC
    "Supervised": ("62.5/81.8", "68.5/86.7"),
    "MoCo v2": ("50.2/67.9", "54.3/82.5"),
    "SwAV": ("60.3/79.2", "60.1/83.2"),
    "BYOL": ("52.6/70.1", "58.4/80.2"),
    "DenseCL": ("57.0/75.2", "60.5/82.9"),
    "DetCo": ("52.7/70.6", "60.0/81.3"),
    "MaskCo": ("51.9/70.2", "50.3/75.1"),
    "InsLoc": ("45.0/61.8", "49.5/74.8"),
    "SS-PRL": ("61.3/80.5", "63.8/85.4"),
}
SEMISUP = {  # 1/10/100 %
    "MoCo v2": ("34.0/46.9/54.2", "26.4/55.8/63.7"),
    "SwAV": ("43.6/56.2/61.4", "39.3/58.6/66.9"),
    "BYOL": ("35.1/48.0/54.8", "38.7/53.1/62.5"),
    "DenseCL": ("42.9/54.8/62.2", "43.4/59.4/65.8"),
    "DetCo": ("32.0/48.3/54.7", "37.9/56.2/62.7"),
    "MaskCo": ("31.6/48.0/57.4", "24.0/53.2/62.1"),
    "InsLoc": ("29.0/43.9/53.5", "36.1/56.6/66.5"),
    "SS-PRL": ("45.1/57.0/62.9", "41.0/60.9/67.4"),
    "Random": ("4.6/10.7/42.5", None),
}
BOXES = {  # AP/AP50/AP75
    "MoCo v2": ("17.0/30.6/17.2", "21.1/36.7/21.8"),
    "SwAV": ("18.1/33.7/17.6", "23.1/41.2/23.4"),
    "BYOL": ("17.4/31.5/17.4", "21.4/37.5/22.1"),
    "DenseCL": ("20.2/35.4/20.8", "21.9/38.0/22.9"),
    "DetCo": ("15.6/29.7/14.8", "20.9/38.1/20.9"),
    "MaskCo": ("18.5/32.9/18.7", "20.6/35.6/21.5"),
    "InsLoc": ("17.5/31.5/17.6", "23.5/40.5/24.7"),
    "SS-PRL": ("20.2/36.7/20.2", "23.6/42.5/24.0"),
    "Random": ("11.5/21.3/11.3", None),
}
MASKS = {
    "MoCo v2": ("15.9/28.4/15.9", "19.9/34.4/20.4"),
    "SwAV": ("17.3/31.5/17.1", "22.1/38.6/22.5"),
    "BYOL": ("16.2/29.2/16.1", "20.1/35.1/20.6"),
    "DenseCL": ("18.9/33.0/19.3", "20.7/35.8/21.3"),
    "DetCo": ("14.8/27.3/14.4", "19.9/35.3/19.9"),
    "MaskCo": ("17.3/30.7/17.4", "19.5/33.4/20.0"),
    "InsLoc": ("16.5/29.3/16.6", "22.2/38.1/22.9"),
    "SS-PRL": ("19.1/34.3/19.0", "22.7/39.7/23.1"),
    "Random": ("10.8/19.7/10.7", None),
}
SEGMENTATION = {
    "MoCo v2": ("57.3", "65.7"),
    "SwAV": ("56.1", "60.7"),
    "BYOL": ("54.1", "61.8"),
    "DenseCL": ("63.2", "69.0"),
    "DetCo": ("43.2", None),
    "MaskCo": ("59.8", "65.7"),
    "InsLoc": ("56.1", "67.1"),
    "SS-PRL": ("62.4", "60.4"),
    "Random": ("40.7", None),
}
LISTINGS = [
    (LINEAR, [("linear-coco", "mAP"), ("linear-voc", "mAP")]),
    (SEMISUP, [("semisup-1", "mAP"), ("semisup-10", "mAP"), ("semisup-100", "mAP")]),
    (BOXES, [("detection", "AP"), ("detection", "AP50"), ("detection", "AP75")]),
    (MASKS, [("detection", "mask_AP"), ("detection", "mask_AP50"), ("detection", "mask_AP75")]),
    (SEGMENTATION, [("segmentation", "mIoU")]),
]


def label(method, data):
    return "paper: Random" if method == "Random" else f"paper: {method}, {data}"


class TestPaper:
    def test_every_number_is_the_listed_one(self):
        listed = {
            (label(method, data), *column): float(value)
            for listing, columns in LISTINGS
            for method, by_data in listing.items()
            for data, values in zip(("COCO", "ImageNet"), by_data, strict=True)
            if values is not None
            for column, value in zip(columns, values.split("/"), strict=True)
        }
        stored = {
            (row, protocol, metric): value
            for row, numbers in PAPER.items()
            for protocol, metrics in numbers.items()
            for metric, value in metrics.items()
        }
        assert stored == listed
        assert len(listed) == 36 + 51 + 102 + 16

    def test_rows_are_grouped_by_the_data_of_pre_training(self):
        methods = ["Supervised", *(name for name in SEMISUP if name != "Random")]
        groups = [label(method, data) for data in ("COCO", "ImageNet") for method in methods]
        assert list(PAPER) == ["paper: Random", *groups]

    @pytest.mark.parametrize("row", [row for row in PAPER if "Supervised" not in row])
    def test_numbers_of_a_row_are_plausible(self, row):
        numbers = PAPER[row]
        shares = [numbers[f"semisup-{percent}"]["mAP"] for percent in (1, 10, 100)]
        assert all(less < more for less, more in pairwise(shares))
        detection = numbers["detection"]
        for part in ("", "mask_"):
            assert max(detection[f"{part}AP"], detection[f"{part}AP75"]) < detection[f"{part}AP50"]
        for at in ("", "50", "75"):
            assert detection[f"mask_AP{at}"] < detection[f"AP{at}"]


class TestAblations:
    def test_numbers_are_the_listed_ones_in_the_papers_order(self):
        assert list(ABLATIONS.items()) == [
            ("swav", 79.2),
            ("shared-prototypes", 79.4),
            ("pyramid-only", 79.5),
            ("cross-only", 79.8),
            ("ssprl", 80.5),
        ]

    def test_ends_are_those_of_the_linear_table(self):
        for row, method in (("swav", "SwAV"), ("ssprl", "SS-PRL")):
            assert ABLATIONS[row] == PAPER[f"paper: {method}, COCO"]["linear-voc"]["mAP"]


class TestNotes:
    ORIGINS = ("released code's form", "DetCo very likely with a port")

    @pytest.mark.parametrize(
        ("protocols", "origins", "deviations"),
        [
            (["linear-voc"], ORIGINS, ["best epoch", "cosine"]),
            (["semisup-10"], ORIGINS, ["best epoch"]),
            (["segmentation", "detection"], ["did not publish", *ORIGINS], ["PreciseBN"]),
            (["segmentation"], ["did not publish", *ORIGINS], []),
            ([], [], []),
        ],
    )
    def test_are_those_of_the_protocols(self, protocols, origins, deviations):
        for comparable, words in ((True, [*origins, *deviations]), (False, origins)):
            found = notes(protocols, comparable=comparable)
            assert len(found) == len(words)
            assert all(word in note for word, note in zip(words, found, strict=True))
