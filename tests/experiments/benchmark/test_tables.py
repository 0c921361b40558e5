import re
from itertools import chain

import pytest
from helpers.experiments.tiny_benchmark import done, failed
from helpers.experiments.tiny_compare import rows
from helpers.package.checkout import ROOT

from mmssprl.cli import main
from mmssprl.experiments.benchmark.protocols import METRICS
from mmssprl.experiments.benchmark.report import format_report, rows_of
from mmssprl.experiments.benchmark.tables import PAPER, PaperTable, rows_of_table
from mmssprl.experiments.report import csv_text

METHODS = ["MoCo v2", "SwAV", "BYOL", "DenseCL", "DetCo", "MaskCo", "InsLoc", "SS-PRL"]
COLUMNS = [(protocol, metric) for protocol, names in METRICS.items() for metric in names]
SSPRL = "ssprl_resnet50_2xb64-coslr-200e_coco"


def build(number, *values, size="paper"):
    return PaperTable.build(number, size, [*map(str, values)])


@pytest.mark.parametrize("number", [1, 2, 3])
def test_rows_are_those_of_the_paper(number):
    table = build(number)
    first = "Random"
    both = [f"{name}, {data}" for data in ("COCO", "ImageNet") for name in METHODS]
    if number == 1:
        both = [*both[:8], "Supervised, ImageNet", *both[8:]]
        first = "Supervised, COCO"
    assert [row.name for row in table.rows] == [first, *both]
    columns = {protocol.name for protocol in table.protocols}
    for row in table.rows:
        own = PAPER[f"paper: {row.name}"]
        assert row.paper == {column: v for column, v in own.items() if column[0] in columns}
    once = [row.name for row in rows_of_table(number, "scenes")]
    assert once == [first.removesuffix(", COCO"), *METHODS]


@pytest.mark.parametrize("number", [1, 4])  # tables 2 and 3 have the rows of table 1
def test_rows_have_configs_that_are_there(number):
    trained = [row for row in rows_of_table(number, "paper") if row.config]
    assert len(trained) >= 5
    for row in trained:
        assert (ROOT / row.file).is_file()
        assert row.file.endswith({"COCO": "-200e_coco.py", "ImageNet": "-100e_in1k.py"}[row.data])
    for row in rows_of_table(number, "scenes"):
        assert row.config is None or row.file.endswith("_coco.py --size scenes")
        assert bool(row.config) == bool(row.method and row.method.competes)


def weights_of(path):
    path.parent.mkdir(exist_ok=True)
    path.touch()
    return path


def test_weights_belong_to_the_row_of_their_config(tmp_path):
    other = "ssprl_resnet50_8xb32-coslr-100e_in1k"
    coco, imagenet = (weights_of(tmp_path / f"{name}_backbone.pth") for name in (SSPRL, other))
    found = {row: weights.start for row, weights in build(1, coco, imagenet).weights.items()}
    assert found == {"SS-PRL, COCO": str(coco), "SS-PRL, ImageNet": str(imagenet)}
    assert [*build(4, coco, imagenet).weights] == ["all terms"]  # the other is of table 1
    assert [*build(2, coco).weights] == ["Random", "SS-PRL, COCO"]
    assert [*build(1, "supervised").weights] == ["Supervised, ImageNet"]  # torchvision's
    stray = weights_of(tmp_path / "stray.pth")
    again = weights_of(tmp_path / "b" / coco.name)
    with pytest.raises(ValueError, match=f"{stray} belongs to no row .*{SSPRL}.* without --table"):
        build(1, stray, "supervised")
    assert build(1, stray, coco).left_out == [str(stray)]
    with pytest.raises(ValueError, match="one file of weights, but .* leave one"):
        build(1, coco, again)


# Linear on COCO and VOC; 1, 10, 100 %; boxes; masks; mIoU.
SUMS = {
    "COCO": "493.5 657.3 293.3 403.1 461.1 144.5 262.0 144.3 136.0 243.7 135.8 452.2",
    "ImageNet": "525.4 732.1 286.8 453.8 517.6 176.1 310.1 181.3 167.1 290.4 170.7 450.4",
}


@pytest.mark.parametrize("data", SUMS)
def test_the_columns_add_up_to_the_sums_of_the_papers_tables(data):
    rows = [numbers for name, numbers in PAPER.items() if name.endswith(f", {data}")]
    assert len(rows) == 9
    sums = [sum(row.get(column, 0.0) for row in rows) for column in COLUMNS]
    assert sums == pytest.approx([*map(float, SUMS[data].split())])
    random = [4.6, 10.7, 42.5, 11.5, 21.3, 11.3, 10.8, 19.7, 10.7, 40.7]
    assert [PAPER["paper: Random"][column] for column in COLUMNS[2:]] == random
    assert [*PAPER["paper: Supervised, COCO"].values()] == [62.5, 81.8]
    ablated = [row.paper.values() for row in rows_of_table(4, "paper")]
    assert [*chain(*ablated)] == [79.2, 79.4, 79.5, 79.8, 80.5]


def test_our_numbers_are_next_to_the_papers(tmp_path):
    file = weights_of(tmp_path / f"{SSPRL}_backbone.pth")
    results = [done(file.stem, "linear-voc", seed, 80.0 + seed) for seed in (0, 1)]
    results.append(done("of another table", "semisup-10", 0, 45.0))
    text = build(4, file).format(results)
    assert re.search(r"^\| all terms +\| 80.5 ± 6.4 / 80.5 \|$", text, re.MULTILINE)
    assert re.search(r"^\| scale 0 alone +\| +– / 79.2 \|$", text, re.MULTILINE)
    assert f"\n- all terms: weights: {file}\n" in text
    assert re.search(r"\n- scale 0 alone: missing: .*/ssprl-image-only_\S+py`$", text, re.M)
    small = build(4, size="scenes").format([])
    assert "ours are linear-coco, the paper's VOC07" in small
    assert f"- all terms: pre-trained here by `configs/ssprl/{SSPRL}.py --size scenes`" in small
    assert "missing" not in small


SCORES = {
    ("ssprl", "linear-voc"): (50.0, 54.0),
    ("random", "linear-voc"): (40.0, 42.0),
    ("random", "segmentation"): (30.0, 32.0),
    ("supervised", "linear-voc"): (60.0,),
}
SCENES = [done(*run, seed, x) for run, own in SCORES.items() for seed, x in enumerate(own)]
SCENES.append(failed("ssprl", "segmentation", 0, "CUDA out of\n  memory"))


@pytest.fixture
def lines():
    return re.sub(" +", " ", format_report(SCENES, "scenes")).splitlines()


def test_means_by_hand(lines):
    assert "95 %" in lines[0]
    # ssprl: (50 + 54) / 2 = 52, t(0.975, 1) x 2 = 25.4; random: 41, t x 1 = 12.7.
    assert lines[2] == "| weights | linear-voc mAP | segmentation mIoU |"
    assert lines[4:7] == [
        "| random | 41.0 ± 12.7 | 31.0 ± 12.7 |",
        "| supervised | 60.0 | – |",
        "| ssprl | 52.0 ± 25.4 | – |",
    ]


def test_differences_by_hand(lines):
    # The difference 11 with the error sqrt(2^2 + 1^2) and 5^2 / (4^2 + 1^2) = 1.47 degrees.
    assert lines[-1] == "| ssprl | +11.0 ± 13.8 |"


def test_a_report_says_what_its_size_is_worth(lines):
    assert "scenes" in lines[0]
    assert any("its semisup-10 is not semi-supervised" in line for line in lines)
    assert "noise" in format_report(SCENES, "coco128")


def test_a_run_has_a_row_per_metric():
    results = [
        done("a, b", "detection", 1, 1.5, 2.0, 3.0, 4.0, 5.0, 100 / 3),
        failed("ü", "linear-voc", 0, 'line "1"\nline 2'),
    ]
    head, first, *_, last, end = csv_text(rows_of(results)).splitlines()
    assert head == "protocol,weights,seed,seconds,status,reason,metric,value"
    assert first == 'detection,"a, b",1,2.5,done,,AP,1.5'
    assert [last, end] == ['linear-voc,ü,0,1.0,failed,"line ""1""', 'line 2",,']


@pytest.mark.fence
@pytest.mark.slow
def test_table_4_has_the_digits_of_its_page(tmp_path, monkeypatch):
    """The table of docs/results/paper_tables that takes the shortest time."""
    monkeypatch.chdir(tmp_path)
    assert main(["benchmark", "--table", "4", "--size", "scenes", "--work-dir", "run"]) == 0
    (path,) = (tmp_path / "run").glob("**/results.csv")
    found, committed = (
        {row["weights"]: float(row["value"]) for row in rows(file) if row["metric"] == "mAP"}
        for file in (path, ROOT / "docs/results/paper_tables/table4.csv")
    )
    assert len(found) == 5
    assert found == pytest.approx(committed, abs=0.005)
