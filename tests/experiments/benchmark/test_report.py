import csv
import io
import json
import re

from benchmark_runs import done, failed, skipped

from mmssprl.experiments.benchmark.paper_numbers import notes
from mmssprl.experiments.benchmark.report import (
    format_csv,
    format_json,
    format_report,
    panels_of,
)
from mmssprl.experiments.benchmark.results import METRICS, TransferResult

SCENES = [
    done("ssprl", "linear-voc", 0, 50.0),
    done("ssprl", "linear-voc", 1, 54.0),
    done("random", "linear-voc", 0, 40.0),
    done("random", "linear-voc", 1, 42.0),
    done("random", "segmentation", 0, 30.0),
    done("random", "segmentation", 1, 32.0),
    failed("ssprl", "segmentation", 0, "CUDA out of\n  memory"),
    failed("ssprl", "segmentation", 1, "CUDA out of memory"),
    skipped("supervised", "linear-voc", 0, "no `torchvision` weights"),
]

# ssprl: (50 + 54) / 2 = 52, t(0.975, 1) x 2 = 25.4; random: 41, t x 1 = 12.7; their difference 11
# with the error sqrt(2^2 + 1^2) and 5^2 / (4^2 + 1^2) = 1.47 degrees of freedom.
SCENES_MARKDOWN = """\
Size scenes, values in %: mean ± half-width of its 95 % t-interval over 2 seeds. \
Bold: the best measured value of its column.

| weights    |  linear-voc mAP | segmentation mIoU |
| ---------- | --------------: | ----------------: |
| random     |     41.0 ± 12.7 |       31.0 ± 12.7 |
| supervised |         skipped |                 – |
| ssprl      | **52.0 ± 25.4** |            failed |

Row 'supervised' was trained on the labels of all training images beforehand: \
its semisup-10 is not semi-supervised.

- failed: ssprl, segmentation, seeds 0, 1: `CUDA out of memory`
- skipped: supervised, linear-voc, seed 0: `` no `torchvision` weights ``

Difference to random, in percentage points: \
mean ± half-width of its 95 % t-interval over 2 seeds.

| weights | linear-voc mAP |
| ------- | -------------: |
| ssprl   |   +11.0 ± 13.8 |

The paper's numbers (WACV 2023, arXiv:2208.14439) are for full-size data and ResNet-50; \
they are not comparable with the measured ones above.

| weights                     | linear-voc mAP | segmentation mIoU |
| --------------------------- | -------------: | ----------------: |
| paper: Random               |              – |              40.7 |
| paper: Supervised, COCO     |           81.8 |                 – |
| paper: MoCo v2, COCO        |           67.9 |              57.3 |
| paper: SwAV, COCO           |           79.2 |              56.1 |
| paper: BYOL, COCO           |           70.1 |              54.1 |
| paper: DenseCL, COCO        |           75.2 |              63.2 |
| paper: DetCo, COCO          |           70.6 |              43.2 |
| paper: MaskCo, COCO         |           70.2 |              59.8 |
| paper: InsLoc, COCO         |           61.8 |              56.1 |
| paper: SS-PRL, COCO         |           80.5 |              62.4 |
| paper: Supervised, ImageNet |           86.7 |                 – |
| paper: MoCo v2, ImageNet    |           82.5 |              65.7 |
| paper: SwAV, ImageNet       |           83.2 |              60.7 |
| paper: BYOL, ImageNet       |           80.2 |              61.8 |
| paper: DenseCL, ImageNet    |           82.9 |              69.0 |
| paper: DetCo, ImageNet      |           81.3 |                 – |
| paper: MaskCo, ImageNet     |           75.1 |              65.7 |
| paper: InsLoc, ImageNet     |           74.8 |              67.1 |
| paper: SS-PRL, ImageNet     |           85.4 |              60.4 |

"""

# Its columns are aligned in the report.
PAPER_MARKDOWN = """\
Size paper, values in %: one seed, so that no interval is known. \
Bold: the best measured value of its column.

| weights | semisup-1 mAP | box AP | box AP50 | box AP75 | mask AP | mask AP50 | mask AP75 |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| mine | 45.0 | **20.0** | **30.0** | **10.0** | **19.0** | 29.0 | **9.0** |
| other | **45.1** | **20.0** | 29.9 | 9.0 | 18.0 | **29.1** | 8.0 |
| paper: Random | 4.6 | 11.5 | 21.3 | 11.3 | 10.8 | 19.7 | 10.7 |
| paper: MoCo v2, COCO | 34.0 | 17.0 | 30.6 | 17.2 | 15.9 | 28.4 | 15.9 |
| paper: SwAV, COCO | 43.6 | 18.1 | 33.7 | 17.6 | 17.3 | 31.5 | 17.1 |
| paper: BYOL, COCO | 35.1 | 17.4 | 31.5 | 17.4 | 16.2 | 29.2 | 16.1 |
| paper: DenseCL, COCO | 42.9 | 20.2 | 35.4 | 20.8 | 18.9 | 33.0 | 19.3 |
| paper: DetCo, COCO | 32.0 | 15.6 | 29.7 | 14.8 | 14.8 | 27.3 | 14.4 |
| paper: MaskCo, COCO | 31.6 | 18.5 | 32.9 | 18.7 | 17.3 | 30.7 | 17.4 |
| paper: InsLoc, COCO | 29.0 | 17.5 | 31.5 | 17.6 | 16.5 | 29.3 | 16.6 |
| paper: SS-PRL, COCO | 45.1 | 20.2 | 36.7 | 20.2 | 19.1 | 34.3 | 19.0 |
| paper: MoCo v2, ImageNet | 26.4 | 21.1 | 36.7 | 21.8 | 19.9 | 34.4 | 20.4 |
| paper: SwAV, ImageNet | 39.3 | 23.1 | 41.2 | 23.4 | 22.1 | 38.6 | 22.5 |
| paper: BYOL, ImageNet | 38.7 | 21.4 | 37.5 | 22.1 | 20.1 | 35.1 | 20.6 |
| paper: DenseCL, ImageNet | 43.4 | 21.9 | 38.0 | 22.9 | 20.7 | 35.8 | 21.3 |
| paper: DetCo, ImageNet | 37.9 | 20.9 | 38.1 | 20.9 | 19.9 | 35.3 | 19.9 |
| paper: MaskCo, ImageNet | 24.0 | 20.6 | 35.6 | 21.5 | 19.5 | 33.4 | 20.0 |
| paper: InsLoc, ImageNet | 36.1 | 23.5 | 40.5 | 24.7 | 22.2 | 38.1 | 22.9 |
| paper: SS-PRL, ImageNet | 41.0 | 23.6 | 42.5 | 24.0 | 22.7 | 39.7 | 23.1 |

Rows that begin with 'paper:' are the paper's numbers (WACV 2023, arXiv:2208.14439). About them:

"""


def listed(about):
    return "".join(f"- {note}\n" for note in about)


def narrow(text):
    """The report without what aligns its columns."""
    return re.sub(r"-{3,}", "---", re.sub(" +", " ", text))


class TestMarkdown:
    def test_scenes(self):
        about = notes(["linear-voc", "segmentation"], comparable=False)
        assert format_report(SCENES, "scenes") == SCENES_MARKDOWN + listed(about)

    def test_the_papers_rows_stand_beside_full_size_runs_of_one_seed(self):
        results = [
            done("mine", "detection", 0, 20.0, 30.0, 10.0, 19.0, 29.0, 9.0),
            done("mine", "semisup-1", 0, 45.04),
            # A tie as printed: both are bold.
            done("other", "detection", 0, 19.96, 29.9, 9.0, 18.0, 29.1, 8.0),
            done("other", "semisup-1", 0, 45.06),
        ]
        about = notes(["semisup-1", "detection"], comparable=True)
        assert narrow(format_report(results, "paper")) == PAPER_MARKDOWN + listed(about)

    def test_coco128_is_called_noise(self):
        text = format_report(SCENES, "coco128")
        first, second, table = text.split("\n\n")[:3]
        assert first.startswith("Size coco128, values in %")
        assert second == (
            "The figures are noise at this size (100 training images): no difference between rows "
            "means anything."
        )
        assert table.startswith("| weights ")
        assert "not comparable" in text
        assert "noise" not in format_report(SCENES, "scenes")

    def test_only_rows_with_the_most_seeds_compete_and_n_is_shown(self):
        results = [
            done("a", "linear-voc", 0, 50.0),
            done("a", "linear-voc", 1, 52.0),
            done("b", "linear-voc", 0, 40.0),
            done("b", "linear-voc", 1, 42.0),
            done("c", "linear-voc", 0, 90.0),
            failed("c", "linear-voc", 1, "x"),
            done("a", "segmentation", 0, 1.0),
            done("a", "segmentation", 1, 1.0),
            done("b", "segmentation", 0, 2.0),
        ]
        lines = narrow(format_report(results, "scenes")).splitlines()
        assert lines[0] == (
            "Size scenes, values in %: mean ± half-width of its 95 % t-interval over n seeds; one "
            "seed has no interval. Bold: the best measured value of its column among the rows with "
            "the most seeds."
        )
        # Nobody competes with a's two seeds of segmentation.
        assert lines[4:7] == [
            "| a | **51.0 ± 12.7 (n=2)** | 1.0 ± 0.0 (n=2) |",
            "| b | 41.0 ± 12.7 (n=2) | 2.0 (n=1) |",
            "| c | 90.0 (n=1) | – |",
        ]
        assert "- failed: c, linear-voc, seed 1: `x`" in lines

    def test_n_without_a_single_seed_needs_no_word_about_it(self):
        results = [done("a", "linear-voc", seed, 50.0) for seed in range(3)]
        results += [done("b", "linear-voc", seed, 50.0) for seed in range(2)]
        first = format_report(results, "scenes").splitlines()[0]
        assert first == (
            "Size scenes, values in %: mean ± half-width of its 95 % t-interval over n seeds."
        )

    def test_a_column_of_one_row_has_no_best(self):
        text = narrow(format_report([done("a", "linear-voc", 0, 50.0)], "scenes"))
        assert "| a | 50.0 |" in text
        assert "Bold" not in text
        assert "Difference" not in text

    def test_a_difference_has_a_sign_and_zero_is_positive(self):
        values = {"random": 50.0, "low": 45.0, "same": 49.99, "high": 50.3}
        results = [done(name, "linear-voc", 0, value) for name, value in values.items()]
        text = narrow(format_report(results, "scenes"))
        part = text.split("percentage points: one seed, so that no interval is known.\n\n")[1]
        assert part.split("\n\n")[0].splitlines()[2:] == [
            "| low | -5.0 |",
            "| same | +0.0 |",
            "| high | +0.3 |",
        ]

    def test_nothing_done_is_a_table_all_the_same(self):
        results = [
            skipped("a|b", "segmentation", 1, "mmseg is missing"),
            failed("a|b", "segmentation", 0, "boom"),
        ]
        lines = narrow(format_report(results, "scenes")).splitlines()
        assert lines[0] == "Size scenes, values in %: no run is done."
        # One failed run of a cell makes it a failure.
        assert lines[4] == r"| a\|b | failed |"
        assert lines[6:8] == [
            "- skipped: a|b, segmentation, seed 1: `mmseg is missing`",
            "- failed: a|b, segmentation, seed 0: `boom`",
        ]

    def test_a_metric_that_a_done_run_lacks_is_a_dash(self):
        results = [TransferResult("detection", "a", 0, {"AP": 10.0}, 1.0, "done")]
        text = narrow(format_report(results, "scenes"))
        assert "| a | 10.0 | – | – | – | – | – |" in text


class TestWidth:
    def test_a_table_that_is_too_wide_is_one_for_each_kind_of_protocol(self):
        name = "ssprl_resnet50_2xb64-coslr-200e_coco_backbone_of_epoch_200"
        protocols = ("linear-coco", "linear-voc", "detection", "segmentation")
        results = [
            done(weights, protocol, seed, *([99.9 - 50 * seed] * len(METRICS[protocol])))
            for weights in ("random", name)
            for protocol in protocols
            for seed in (0, 1)
        ]
        results[-1] = failed(name, "segmentation", 1, "a word")
        results = [r for r in results if (r.weights, r.protocol) != ("random", "linear-voc")]
        lines = format_report(results, "scenes").splitlines()
        heads = [line for line in lines if line.startswith("| weights ")]
        columns = [cell.strip() for head in heads for cell in head.split("|")[2:-1]]
        expected = [
            *("linear-coco mAP", "linear-voc mAP"),
            *(f"{part} AP{at}" for part in ("box", "mask") for at in ("", "50", "75")),
            "segmentation mIoU",
        ]
        # Of three tables: the measured ones, the differences without linear-voc, the paper's.
        assert columns == [*expected, *(c for c in expected if c != "linear-voc mAP"), *expected]
        assert len(heads) > 3
        first = [line for line in lines if line.startswith(f"| {name} |")]
        assert first[0].count("74.9 ± 317.7 (n=2)") == 2


class TestPanels:
    def test_a_panel_per_protocol_and_one_of_masks(self):
        results = [
            done("a", "detection", seed, 20.0 + seed, 30.0, 10.0, 19.0, 29.0, 9.0)
            for seed in (0, 1)
        ]
        results += [failed("b", "detection", 0, "x"), done("b", "linear-voc", 0, 50.0)]
        voc, boxes, masks = panels_of(results, "paper")
        assert [p.title for p in (voc, boxes, masks)] == [
            *("linear-voc", "detection", "detection, masks")
        ]
        assert [p.metric for p in (voc, boxes, masks)] == ["mAP", "AP", "AP"]
        assert boxes.dots == {"a": [(20.0, ""), (21.0, "")]}
        assert boxes.missing["b"] == "failed"
        assert [p.lines["paper"] for p in (voc, boxes, masks)] == [80.5, 20.2, 19.1]
        assert not panels_of(results, "scenes")[0].lines


class TestFiles:
    def test_csv_has_a_line_per_run_and_metric(self):
        results = [
            done("a, b", "detection", 1, 1.5, 2.0, 3.0, 4.0, 5.0, 100 / 3),
            failed("ü", "linear-voc", 0, 'line "1"\nline 2'),
        ]
        rows = list(csv.DictReader(io.StringIO(format_csv(results), newline="")))
        assert [(row["metric"], float(row["value"])) for row in rows[:-1]] == [
            ("AP", 1.5),
            ("AP50", 2.0),
            ("AP75", 3.0),
            ("mask_AP", 4.0),
            ("mask_AP50", 5.0),
            ("mask_AP75", 100 / 3),
        ]
        assert list(rows[0].values()) == [
            *("a, b", "detection", "1", "done", "AP", "1.5", "2.5", ""),
        ]
        assert rows[-1] == {
            "weights": "ü",
            "protocol": "linear-voc",
            "seed": "0",
            "status": "failed",
            "metric": "",
            "value": "",
            "seconds": "1.0",
            "reason": 'line "1"\nline 2',
        }

    def test_json_round_trip(self):
        read = [TransferResult(**item) for item in json.loads(format_json(SCENES))]
        assert read == SCENES
