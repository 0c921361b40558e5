import re

from helpers.experiments.tiny_benchmark import done, failed

from mmssprl.experiments.benchmark.report import format_report, rows_of
from mmssprl.experiments.report import csv_text

SCORES = {
    ("ssprl", "linear-voc"): (50.0, 54.0),
    ("random", "linear-voc"): (40.0, 42.0),
    ("random", "segmentation"): (30.0, 32.0),
    ("supervised", "linear-voc"): (60.0,),
}
SCENES = [done(*run, seed, x) for run, own in SCORES.items() for seed, x in enumerate(own)]
SCENES.append(failed("ssprl", "segmentation", 0, "CUDA out of\n  memory"))


def narrow(text):
    """The lines of the report without what aligns its columns."""
    return re.sub(" +", " ", text).splitlines()


def test_means_and_differences():
    lines = narrow(format_report(SCENES, "scenes"))
    assert "scenes" in lines[0]
    assert "95 %" in lines[0]
    # ssprl: (50 + 54) / 2 = 52, t(0.975, 1) x 2 = 25.4; random: 41, t x 1 = 12.7.
    assert lines[2] == "| weights | linear-voc mAP | segmentation mIoU |"
    assert lines[4:7] == [
        "| random | 41.0 ± 12.7 | 31.0 ± 12.7 |",
        "| supervised | 60.0 | – |",
        "| ssprl | 52.0 ± 25.4 | – |",
    ]
    assert any("its semisup-10 is not semi-supervised" in line for line in lines)
    # Their difference 11 with the error sqrt(2^2 + 1^2) and 5^2 / (4^2 + 1^2) = 1.47 degrees.
    assert lines[-1] == "| ssprl | +11.0 ± 13.8 |"
    assert "noise" in format_report(SCENES, "coco128")


def test_a_row_for_every_run_and_metric():
    results = [
        done("a, b", "detection", 1, 1.5, 2.0, 3.0, 4.0, 5.0, 100 / 3),
        failed("ü", "linear-voc", 0, 'line "1"\nline 2'),
    ]
    head, first, *_, last, end = csv_text(rows_of(results)).splitlines()
    assert head == "protocol,weights,seed,seconds,status,reason,metric,value"
    assert first == 'detection,"a, b",1,2.5,done,,AP,1.5'
    assert [last, end] == ['linear-voc,ü,0,1.0,failed,"line ""1""', 'line 2",,']
