import re
import sys
import types

import pytest
from helpers.datasets.image_folders import folder

from tools.dev.speed import cpu
from tools.dev.speed.gates import measured

ROWS = {"data": measured("C2", 12), "step": measured("C10", 5)}


@pytest.fixture
def parts(monkeypatch):
    """Parts that return at once; the calls that they got."""
    calls = []
    for name, row in ROWS.items():
        module = types.ModuleType(f"fake_{name}")

        def rows(images, quick, log, name=name, row=row):
            calls.append((name, len(list(images.iterdir())), quick))
            log("working")
            return [row]

        module.rows = rows
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(cpu._PARTS, name, module.__name__)
    return calls


@pytest.fixture
def images(tmp_path):
    return folder(tmp_path / "photos" / "best", 2)


def ids(path):
    return re.findall(r"^\| (C\d+) ", path.read_text(), re.MULTILINE)


def test_run_writes_all_parts(tmp_path, parts, images, capsys):
    options = ["--out", str(tmp_path / "out"), "--images", str(images)]
    assert cpu.main(options) == 0
    assert parts == [("data", 2, False), ("step", 2, False)]
    text = (tmp_path / "out" / "cpu.md").read_text()
    assert "2 files of photos/best, 0 kB on average" in text
    assert str(tmp_path) not in text
    assert "Quick" not in text
    assert ids(tmp_path / "out" / "cpu.md") == ["C2", "C10"]
    out = capsys.readouterr().out
    assert "MISSED: C10" in out
    assert " min] data: working" in out


def test_a_part_that_fails_costs_its_own_rows_only(tmp_path, parts, images, monkeypatch, capsys):
    def full(images, quick, log):
        raise OSError("no space left")

    monkeypatch.setattr(sys.modules["fake_step"], "rows", full)
    assert cpu.main(["--out", str(tmp_path / "out"), "--images", str(images)]) == 1
    text = (tmp_path / "out" / "cpu.md").read_text()
    assert "The part step failed: OSError: no space left" in text
    assert ids(tmp_path / "out" / "cpu.md") == ["C2"]
    assert "no space left" in capsys.readouterr().err
