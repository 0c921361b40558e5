import json
import re
from pathlib import Path

import pytest
from helpers.experiments.tiny_benchmark import save_backbone
from helpers.experiments.tiny_compare import cells, rows

from mmssprl.cli import main
from mmssprl.datasets.scenes import generate_scenes
from mmssprl.experiments.benchmark.tables import rows_of_table
from mmssprl.experiments.run import Run, RunFailedError


def pretend(monkeypatch, fails="nothing"):
    """Measure 40 % without training, except where a word is in the commands; returns commands."""
    commands = []

    def run_commands(run, threads, gpus):
        commands.extend(run.commands)
        if fails in str(run.commands):
            raise RunFailedError("out of memory")
        if run.measures:
            run.measured_file.write_text('{"multi-label/mAP": 40.0}')

    monkeypatch.setattr(Run, "run_commands", run_commands)
    return commands


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "scenes"
    return generate_scenes(folder, num_train=24, num_val=12, size_px=64, progress=False)


@pytest.fixture
def call(tmp_path, scenes):
    """Run the command in this process: linear classification of the scenes."""

    def call(*words, data=scenes):
        fixed = ["--size", "scenes", "--protocols", "linear", "--jobs", "1"]
        where = ["--data", str(data), "--work-dir", str(tmp_path / "work")]
        return main(["benchmark", *map(str, words), *fixed, *where])

    return call


def test_missing_data_leave_no_work_dir(call, tmp_path, capsys):
    (tmp_path / "wrong").mkdir()
    assert call("random", data=tmp_path / "wrong") == 2
    assert "docs/data.md shows the expected folders" in capsys.readouterr().err
    before = {path.name for path in tmp_path.iterdir()}
    assert call("random", "--dry-run") == 0
    assert "runs: 1, 0 of them complete\n  linear-coco, random, seed 0" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == before
    assert call("random", "--commands") == 0
    assert "tools/train.py" in capsys.readouterr().out


@pytest.mark.parametrize("data", ["coco", "coco/annotations/instances_train2014.json"])
def test_data_may_be_the_folder_of_one_protocol_or_its_annotations(data, call, scenes, capsys):
    assert call("random", "--dry-run", data=scenes / data) == 0
    assert f"data: {scenes} (in place of data/scenes)\n" in capsys.readouterr().out


class TestTable:
    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("", "give WEIGHTS or --table"),
            ("--table 1 --protocols linear", "--table cannot go with --protocols"),
            ("--table 1 --size coco128", "--table cannot go with --size coco128"),
            ("--table 1 --dry-run --commands", "--commands cannot go with --dry-run"),
        ],
    )
    def test_mistakes_are_one_line(self, words, message, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        assert main(["benchmark", *words.split()]) == 2
        assert message in capsys.readouterr().err
        assert not any(path.is_file() for path in tmp_path.rglob("[!.]*"))

    def test_a_dry_run_leaves_an_empty_folder_empty(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        assert main(["benchmark", "--table", "2", "--dry-run"]) == 0
        printed = capsys.readouterr().out
        assert "runs: 3, 0 of them complete\n  semisup-1, random, seed 0" in printed
        assert re.search(r"^\| SS-PRL, ImageNet +\| +– / 41.0 \|", printed, re.MULTILINE)
        assert list(tmp_path.iterdir()) == []

    def test_rows_of_scenes_are_pretrained_once(self, scenes, tmp_path, monkeypatch, capsys):
        def table(number):
            where = ["--data", str(scenes), "--work-dir", str(tmp_path / "work"), "--jobs", "1"]
            return main(["benchmark", "--table", str(number), "--size", "scenes", *where])

        commands = pretend(monkeypatch, fails="byol")
        assert table(1) == 1
        trained = [each for each in commands if "_pretraining" in each[4]]
        assert len(trained) == 1 + sum(bool(row.config) for row in rows_of_table(1, "scenes"))
        text = (tmp_path / "work" / "table1.md").read_text()
        assert text in capsys.readouterr().out
        assert re.search(r"^\| SwAV +\| +40.0 / 60.3 \|$", text, re.MULTILINE)
        assert re.search(r"^\| BYOL +\| +failed / 52.6 \|$", text, re.MULTILINE)

        commands = pretend(monkeypatch)
        assert table(1) == 0
        assert len(commands) == 3  # pre-training, training and test of what has failed
        commands.clear()
        assert table(4) == 0
        trained = [Path(each[2]).stem for each in commands if "_pretraining" in each[4]]
        forms = ("image-only", "shared-prototypes", "pyramid-only", "cross-only")
        assert trained == [f"ssprl-{form}_resnet18_scenes" for form in forms]
        assert len(commands) == 3 * len(trained)  # "all terms" is there from table 1
        assert "40.0 / 80.5" in (tmp_path / "work" / "table4.md").read_text()


def test_from_weights_to_the_table(call, tmp_path, monkeypatch, capsys, on_cpu):
    """A real training and test of a narrow network, in whose table another one comes later."""
    file = save_backbone(tmp_path / "weights" / "narrow.pth")
    work_dir = tmp_path / "work"
    assert call(file) == 0
    folder = work_dir / "runs" / "narrow" / "linear-coco" / "seed0"
    measured = json.loads((folder / "metrics.json").read_text())["multi-label/mAP"]
    assert 0 < measured <= 100
    assert (folder / "epoch_15.pth").is_file()
    assert f"tensors of {file}" in (folder / "run.log").read_text()

    commands = pretend(monkeypatch)
    assert call(file, "random") == 0
    assert len(commands) == 2  # training and test of the new row alone
    found = {row["weights"]: float(row["value"]) for row in rows(work_dir / "results.csv")}
    assert found == pytest.approx({"narrow": measured, "random": 40.0})
    text = (work_dir / "table.md").read_text()
    assert cells(text)[2:4] == [["random", "40.0"], ["narrow", f"{measured:.1f}"]]
    assert text in capsys.readouterr().out
