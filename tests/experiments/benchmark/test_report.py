import csv
import json
import re

import pytest
from helpers.experiments.tiny_benchmark import done, failed, skipped

from mmssprl.experiments.benchmark.protocols import METRICS, TransferResult
from mmssprl.experiments.benchmark.report import format_report, panels_of, write_benchmark

SCENES = [
    done("ssprl", "linear-voc", 0, 50.0),
    done("ssprl", "linear-voc", 1, 54.0),
    done("random", "linear-voc", 0, 40.0),
    done("random", "linear-voc", 1, 42.0),
    done("random", "segmentation", 0, 30.0),
    done("random", "segmentation", 1, 32.0),
    failed("ssprl", "segmentation", 0, "CUDA out of\n  memory"),
    failed("ssprl", "segmentation", 1, "CUDA out of memory"),
    skipped("supervised", "linear-voc", 0, "no weights"),
]


def narrow(text):
    """The lines of the report without what aligns its columns."""
    return re.sub(" +", " ", text).splitlines()


def test_means_what_became_of_the_others_and_differences():
    lines = narrow(format_report(SCENES, "scenes"))
    assert "scenes" in lines[0]
    assert "95 %" in lines[0]
    # ssprl: (50 + 54) / 2 = 52, t(0.975, 1) x 2 = 25.4; random: 41, t x 1 = 12.7.
    assert lines[2::2][0] == "| weights | linear-voc mAP | segmentation mIoU |"
    assert lines[4:7] == [
        "| random | 41.0 ± 12.7 | 31.0 ± 12.7 |",
        "| supervised | skipped | – |",
        "| ssprl | 52.0 ± 25.4 | failed |",
    ]
    assert any("its semisup-10 is not semi-supervised" in line for line in lines)
    assert "- failed: ssprl, segmentation, seed 0, 1: CUDA out of memory" in lines
    assert "- skipped: supervised, linear-voc, seed 0: no weights" in lines
    # Their difference 11 with the error sqrt(2^2 + 1^2) and 5^2 / (4^2 + 1^2) = 1.47 degrees.
    assert lines[-1] == "| ssprl | +11.0 ± 13.8 |"
    assert "random" in lines[lines.index(lines[-1]) - 4]


def test_the_papers_rows_and_notes_stand_beside_full_size_runs():
    results = [
        done("mine", "detection", 0, 20.0, 30.0, 10.0, 19.0, 29.0, 9.0),
        done("mine", "semisup-1", 0, 45.04),
    ]
    lines = narrow(format_report(results, "paper"))
    mine = [line for line in lines if line.startswith("| mine ")]
    theirs = [line for line in lines if line.startswith("| paper: SS-PRL, COCO ")]
    assert mine == ["| mine | 45.0 | 20.0 | 30.0 | 10.0 | 19.0 | 29.0 | 9.0 |"]
    numbers = "45.1 | 20.2 | 36.7 | 20.2 | 19.1 | 34.3 | 19.0"
    assert theirs == [f"| paper: SS-PRL, COCO | {numbers} |"]
    assert not any("Supervised" in line for line in lines)  # of whom no such number is known
    assert any("docs/paper_and_code.md" in line for line in lines)
    assert "paper:" not in format_report(results, "scenes")
    assert "Difference" not in format_report(results, "scenes")
    assert "noise" in format_report(results, "coco128")


def test_nothing_done_is_a_table_all_the_same_and_a_missing_metric_a_dash():
    results = [
        skipped("a|b", "segmentation", 1, "mmseg is missing"),
        failed("a|b", "segmentation", 0, "boom"),
    ]
    # One failed run of a cell makes it a failure.
    assert narrow(format_report(results, "scenes"))[4] == r"| a\|b | failed |"
    results = [TransferResult("detection", "a", 0, {"AP": 10.0}, 1.0, "done")]
    assert "| a | 10.0 | – | – | – | – | – |" in narrow(format_report(results, "scenes"))
    # n is shown where the rows differ in it.
    results = [done("a", "linear-voc", seed, 50.0 + seed) for seed in (0, 2)]
    results += [done("c", "linear-voc", 0, 90.0), failed("c", "linear-voc", 1, "x")]
    lines = narrow(format_report(results, "scenes"))
    assert lines[4:6] == ["| a | 51.0 ± 12.7 (n=2) |", "| c | 90.0 (n=1) |"]
    assert "- failed: c, linear-voc, seed 1: x" in lines


def test_a_table_that_is_too_wide_is_one_for_each_kind_of_protocol():
    name = "ssprl_resnet50_2xb64-coslr-200e_coco_backbone_of_epoch_200"
    protocols = ("linear-coco", "linear-voc", "detection", "segmentation")
    results = [
        done(name, protocol, seed, *([99.9 - 50 * seed] * len(METRICS[protocol])))
        for protocol in protocols
        for seed in (0, 1)
    ]
    lines = narrow(format_report(results, "scenes"))
    heads = [line for line in lines if line.startswith("| weights ")]
    assert [head.count(" mAP ") for head in heads] == [2, 0, 0, 0]
    columns = [cell.strip() for head in heads for cell in head.split("|")[2:-1]]
    heads = [f"{p} {metric}" for p in protocols for metric in METRICS[p]]
    assert columns == [head.removeprefix("detection ") for head in heads]


def test_a_panel_per_protocol_and_one_of_masks():
    results = [
        done("a", "detection", seed, 20.0 + seed, 30.0, 10.0, 19.0, 29.0, 9.0) for seed in (0, 1)
    ]
    results += [done("b", "linear-voc", 0, 50.0)]
    voc, boxes, masks = panels_of(results, "paper")
    assert [p.title for p in (voc, boxes, masks)] == ["linear-voc", "detection", "detection, masks"]
    assert [p.metric for p in (voc, boxes, masks)] == ["mAP", "AP", "AP"]
    assert boxes.dots == {"a": [(20.0, ""), (21.0, "")]}
    assert [p.lines["paper"] for p in (voc, boxes, masks)] == [80.5, 20.2, 19.1]
    assert not panels_of(results, "scenes")[0].lines


def test_files_hold_every_run_and_metric(tmp_path):
    results = [
        done("a, b", "detection", 1, 1.5, 2.0, 3.0, 4.0, 5.0, 100 / 3),
        failed("ü", "linear-voc", 0, 'line "1"\nline 2'),
    ]
    files = ["table.md", "results.csv", "results.json", "benchmark.png"]
    assert write_benchmark(results, "scenes", tmp_path) == files
    assert (tmp_path / "benchmark.png").stat().st_size > 5000
    with (tmp_path / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    values = {row["metric"]: float(row["value"]) for row in rows[:-1]}
    assert values == pytest.approx(results[0].metrics)
    head, first, *_ = (tmp_path / "results.csv").read_text().splitlines()
    assert head == "protocol,weights,seed,seconds,status,reason,metric,value"
    assert first == 'detection,"a, b",1,2.5,done,,AP,1.5'
    assert (rows[-1]["value"], rows[-1]["reason"]) == ("", results[1].reason)
    read = json.loads((tmp_path / "results.json").read_text())
    assert [TransferResult(**item) for item in read] == results
