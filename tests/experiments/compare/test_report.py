import pytest
from helpers.experiments.tiny_compare import cells, rows

from mmssprl.experiments.compare.report import COLUMNS, Report
from mmssprl.experiments.report import write_files
from mmssprl.pretraining.methods import BY_KEY

SCORES = {
    "random": (0.16, 0.17, 0.165),
    "swav": (0.25, 0.262, 0.271),
    "swav-small": (0.21, 0.20, 0.225),
    "ssprl": (0.20, 0.21, 0.22),
}


def result(key, seed, score):
    epochs = 0 if key == "random" else 6
    values = {"method": key, "seed": seed, "epochs": epochs, "lr_factor": 1.0, "mAP": score}
    values |= {"chance_mAP": 0.12, "mIoU": 0.3 if key == "swav" else None, "chance_mIoU": 0.4}
    values |= {"steps": 18 * epochs, "images": 1152 * epochs, "seconds": 60.4 + seed}
    values |= {"collapsed": key == "swav-small" and seed == 1, "commit": "abc" if seed else "def"}
    return {**dict.fromkeys(COLUMNS), **values}


@pytest.fixture(scope="module")
def report():
    def pace(method):
        return {"flops": {method.key: 10**10}} if method.trains else None

    runs = {key: [result(key, *each) for each in enumerate(own)] for key, own in SCORES.items()}
    tables = {"epochs": runs, "time": {}}
    return Report(BY_KEY, "scenes", pace, tables, "ssprl", [], {}, "the command")


def test_table_by_hand(report):
    text = report.text()
    assert "### Equal time" not in text  # nothing has run for it
    found = {title: row for title, *row in cells(text)}
    # 16.5 +- t(0.975, 2) 0.5 / sqrt(3); against 21 with s = 1: 2.94 degrees of freedom.
    assert found["random weights"] == ["0", "", "", "3", "16.5 ± 1.2", "", "-4.5 ± 2.1", "", ""]
    swav = found["SwAV, no small views"]
    # 10^10 x 108 steps.
    assert swav[:4] == ["6", "1.1", "61", "3"]
    assert swav[4:] == ["26.1 ± 2.6", "30.0 ± 0.0", "+5.1 ± 2.3", "0.007", "better"]
    small = found["SwAV, six small views"]
    assert small[4:] == ["21.2 ± 3.1 (1 collapsed)", "", "+0.2 ± 2.6", "0.867", ""]
    ssprl = found["SS-PRL (paper)"]
    assert ssprl[4:] == ["21.0 ± 2.5", "", "", "", ""]
    assert "A constant has 12.0 % mAP.\nThe most frequent class has 40.0 % mIoU." in text
    assert "commit: abc, def." in text
    assert "`the command`, " in text.splitlines()[-1]


@pytest.fixture(scope="module")
def written(report, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    write_files(folder, report.files())
    return folder


def test_these_files_are_written(written):
    names = {"table.md", "results.csv", "comparisons.csv", "compare.png"}
    assert {path.name for path in written.iterdir()} == names
    assert (written / "compare.png").stat().st_size > 10_000


def test_results_have_a_row_for_every_run(written):
    results = rows(written / "results.csv")
    methods = [row["method"] for row in results]
    assert methods == ["random"] * 3 + ["swav"] * 3 + ["swav-small"] * 3 + ["ssprl"] * 3
    assert (results[3]["flops"], results[3]["lr"]) == (str(108 * 10**10), "0.004")


def test_comparisons_have_a_row_for_every_rival(written):
    compared = [row["method"] for row in rows(written / "comparisons.csv")]
    assert compared == ["random", "swav", "swav-small"]
