import re

import pytest
from helpers.experiments.tiny_benchmark import done
from helpers.package.checkout import ROOT
from mmengine.config import Config

from mmssprl.experiments.benchmark.protocols import METRICS
from mmssprl.experiments.benchmark.tables import PAPER, PaperTable, rows_of_table

METHODS = ["MoCo v2", "SwAV", "BYOL", "DenseCL", "DetCo", "MaskCo", "InsLoc", "SS-PRL"]
COLUMNS = [(protocol, metric) for protocol, names in METRICS.items() for metric in names]
SSPRL = "ssprl_resnet50_2xb64-coslr-200e_coco"


def build(number, *values, size="paper"):
    return PaperTable.build(number, size, [*map(str, values)])


class TestRows:
    @pytest.mark.parametrize("number", [1, 2, 3])
    def test_are_those_of_the_paper(self, number):
        table, first = build(number), "Random"
        both = [f"{name}, {data}" for data in ("COCO", "ImageNet") for name in METHODS]
        if number == 1:
            both = [*both[:8], "Supervised, ImageNet", *both[8:]]
            first = "Supervised, COCO"
        assert [row.name for row in table.rows] == [first, *both]
        columns = {protocol.name for protocol in table.protocols}
        for row in table.rows:
            own = PAPER[f"paper: {row.name}"]
            assert row.paper == {column: v for column, v in own.items() if column[0] in columns}
        once = [row.name for row in build(number, size="scenes").rows]
        assert once == [first.removesuffix(", COCO"), *METHODS]

    def test_of_the_ablations(self):
        found = [value for row in build(4).rows for value in row.paper.values()]
        assert found == [79.2, 79.4, 79.5, 79.8, 80.5]
        assert [p.name for p in build(4).protocols] == ["linear-voc"]
        assert [p.name for p in build(4, size="scenes").protocols] == ["linear-coco"]

    @pytest.mark.parametrize("number", [1, 4])  # tables 2 and 3 have the rows of table 1
    def test_have_configs_that_are_there(self, number):
        trained = [row for row in rows_of_table(number, "paper") if row.config]
        assert len(trained) >= 5
        for row in trained:
            cfg = Config.fromfile(ROOT / row.file)
            epochs, share = {"COCO": (200, 128), "ImageNet": (100, 256)}[row.data]
            assert cfg.train_cfg.max_epochs == epochs
            assert cfg.num_gpus * cfg.train_dataloader.batch_size == share
        for row in rows_of_table(number, "scenes"):
            assert row.config is None or row.file.endswith("_coco.py --size scenes")
            assert bool(row.config) == bool(row.method and row.method.competes)


class TestWeights:
    def test_belong_to_the_row_of_their_config(self, tmp_path):
        other = "ssprl_resnet50_8xb32-coslr-100e_in1k"
        coco, imagenet = (tmp_path / f"{name}_backbone.pth" for name in (SSPRL, other))
        for path in (coco, imagenet):
            path.touch()
        found = build(1, coco, imagenet).weights
        assert {row: weights.start for row, weights in found.items()} == {
            "SS-PRL, COCO": str(coco),
            "SS-PRL, ImageNet": str(imagenet),
        }
        assert [*build(4, coco, imagenet).weights] == ["all terms"]  # the other is of table 1
        assert [*build(2, coco).weights] == ["Random", "SS-PRL, COCO"]
        assert [*build(1, "supervised").weights] == ["Supervised, ImageNet"]  # torchvision's

    def test_of_no_row_or_of_one_twice_are_refused(self, tmp_path):
        twice = [tmp_path / name / f"{SSPRL}_backbone.pth" for name in "bc"]
        for path in (stray := tmp_path / "a/stray_backbone.pth", *twice):
            path.parent.mkdir()
            path.touch()
        with pytest.raises(ValueError, match=f"{stray} belongs to no row .*; rename it"):
            build(1, stray)
        with pytest.raises(ValueError, match="one file of weights, but .* leave one"):
            build(1, *twice)


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


def test_our_numbers_are_next_to_the_papers(tmp_path):
    file = tmp_path / f"{SSPRL}_backbone.pth"
    file.touch()
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
