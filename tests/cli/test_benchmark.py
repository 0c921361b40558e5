import csv
import json
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.experiments.tiny_benchmark import save_backbone

from mmssprl.cli import main
from mmssprl.datasets.scenes import generate_scenes
from mmssprl.experiments import run as run_module
from mmssprl.experiments.benchmark.tables import rows_of_table
from mmssprl.experiments.statistics import estimate


class Pretended:
    """Trains nothing and writes the metric of a test; fails where a word is in the command."""

    STDOUT, DEVNULL = subprocess.STDOUT, subprocess.DEVNULL

    def __init__(self, *fails):
        self.fails = fails
        self.commands = []

    def run(self, command, *, stdout, **_):
        self.commands.append(command)
        if any(word in part for word in self.fails for part in command):
            stdout.write("out of memory\n")
            return SimpleNamespace(returncode=1)
        if "--out" in command:
            path = command[command.index("--out") + 1]
            with open(path, "w") as file:
                file.write('{"multi-label/mAP": 40.0}')
        return SimpleNamespace(returncode=0)


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


def error_of(capsys):
    text = capsys.readouterr().err.splitlines()
    return next(line for line in text if line.startswith("mmssprl benchmark: error: "))


def test_missing_data_leave_no_work_dir(call, tmp_path, capsys):
    (tmp_path / "wrong").mkdir()
    assert call("random", data=tmp_path / "wrong") == 2
    assert "docs/data.md shows the expected folders" in error_of(capsys)
    before = {path.name for path in tmp_path.iterdir()}
    assert call("random", "--dry-run") == 0
    assert "runs: 1, 0 of them complete\n  linear-coco, random, seed 0" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == before
    assert call("random", "--commands") == 0
    assert "tools/train.py" in capsys.readouterr().out


@pytest.mark.parametrize("data", ["coco", "coco/annotations/instances_train2014.json", "yaml"])
def test_data_may_be_a_folder_or_a_file_of_labels(data, call, scenes, tmp_path, capsys):
    """The folder of one protocol, its annotations, or a data.yaml of it."""
    path = scenes / data
    if data == "yaml":
        for split in ("train", "val"):
            for image in [*(scenes / f"coco/{split}2014").glob("*.*")]:
                image.with_suffix(".txt").write_text("0 0.5 0.5 0.2 0.2\n")
        path = scenes / "coco/data.yaml"
        path.write_text("train: train2014\nval: val2014\nnames: [thing]\n")
    assert call("random", "--dry-run", data=path) == 0
    assert f"data: {scenes} (in place of data/scenes)\n" in capsys.readouterr().out
    file = tmp_path / "labels.json"
    file.write_text("[1, 2]")
    assert call("random", "--dry-run", data=file) == 2
    assert error_of(capsys)


class TestTable:
    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("", "give WEIGHTS or --table"),
            ("--table 1 --protocols linear", "--table cannot go with --protocols"),
            ("--table 1 linear", "there is no linear"),
            ("--table 1 --size coco128", "--table cannot go with --size coco128"),
            ("--table 1 --dry-run --commands", "--commands cannot go with --dry-run"),
        ],
    )
    def test_mistakes_are_one_line(self, words, message, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        assert main(["benchmark", *words.split()]) == 2
        assert message in error_of(capsys)
        assert not any(path.is_file() for path in tmp_path.rglob("[!.]*"))

    def test_a_dry_run_needs_nothing_and_leaves_nothing(self, tmp_path, monkeypatch, capsys):
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

        failing = Pretended("byol")
        monkeypatch.setattr(run_module, "subprocess", failing)
        assert table(1) == 1
        trained = [each for each in failing.commands if "_pretraining" in each[4]]
        assert len(trained) == 1 + sum(bool(row.config) for row in rows_of_table(1, "scenes"))
        text = (tmp_path / "work" / "table1.md").read_text()
        assert text in capsys.readouterr().out
        assert re.search(r"^\| SwAV +\| +40.0 / 60.3 \|$", text, re.MULTILINE)
        assert re.search(r"^\| BYOL +\| +failed / 52.6 \|$", text, re.MULTILINE)

        again = Pretended()
        monkeypatch.setattr(run_module, "subprocess", again)
        assert table(1) == 0
        assert len(again.commands) == 3  # pre-training, training and test of what has failed
        again.commands.clear()
        assert table(4) == 0
        trained = [Path(each[2]).stem for each in again.commands if "_pretraining" in each[4]]
        assert trained == [
            "ssprl-image-only_resnet18_scenes",
            "ssprl-shared-prototypes_resnet18_scenes",
            "ssprl-pyramid-only_resnet18_scenes",
            "ssprl-cross-only_resnet18_scenes",
        ]
        assert len(again.commands) == 3 * len(trained)  # "all terms" is there from table 1
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

    kept = [(path, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()]
    pretended = Pretended()
    monkeypatch.setattr(run_module, "subprocess", pretended)
    for _ in range(2):
        capsys.readouterr()
        assert call(file, "random") == 0
        assert len(pretended.commands) == 2  # training and test, once
        rows = csv.DictReader((work_dir / "results.csv").read_text().splitlines())
        runs = {row["weights"]: float(row["value"]) for row in rows}
        assert runs == pytest.approx({"narrow": measured, "random": 40.0})
        texts = ((work_dir / "table.md").read_text(), capsys.readouterr().out)
        for name, value in runs.items():
            line = re.compile(rf"^\| {name} +\| +{estimate([value]).text()}", re.MULTILINE)
            assert all(line.search(text) for text in texts)
    assert all(path.stat().st_mtime_ns == time for path, time in kept)
