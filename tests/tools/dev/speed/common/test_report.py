"""Table and picture of made-up rows, and what the report tells of the machine."""

import platform
from importlib.metadata import version

import pytest

from tools.dev.speed.common import report
from tools.dev.speed.common.gates import Gate, measured
from tools.dev.speed.common.machine import machine
from tools.dev.speed.common.pictures import draw_loaders
from tools.dev.speed.data.rows import speed_rows

MACHINE = {"cpu": "abacus", "commit": "0123abc"}
ROWS = [
    measured("speed", 1234.5678901234567, 0.1, 2e9, info=Gate("how fast, with | and, a comma", "")),
    measured("C10", 5, note='says "no", loudly'),
    measured("C2", 12.25, 11.0, 13.5),
    measured("C9", 0),
]
SECONDS = {
    "torchvision": 0.04,
    "mmpretrain": 0.05,
    "ours": 0.004,
    "ours_cpu": 0.01,
    "decode": 0.002,
}
LOADERS = speed_rows({side: [seconds] for side, seconds in SECONDS.items()})


def test_machine_names_what_matters_and_nobody():
    here = machine()
    assert f"torch {version('torch')}" in here["packages"]
    assert int(here["cores"]) >= 1
    assert float(here["load before"]) >= 0
    private = ("/", "\\", platform.node())
    assert not [value for value in here.values() for name in private if name in value]


def test_misses_are_loud_and_gates_come_first():
    lines = report.table(ROWS).splitlines()[2:]
    assert [line.split()[1] for line in lines] == ["C2", "C9", "C10", "speed"]
    assert lines[0].endswith("  met |")
    assert lines[2].endswith("MISSED |")
    assert "<= 4" in lines[2]
    assert "1,235" in lines[3]
    assert report.summary(ROWS) == "!!! 1 of 3 gates MISSED: C10 !!!"
    assert report.summary(ROWS[2:]) == "All 2 gates are met."
    assert report.summary(ROWS[:1]) == "No gate was measured."


def test_report_holds_machine_notes_and_picture(tmp_path):
    out = tmp_path / "new" / "folder"
    figure = draw_loaders(LOADERS, caption="abacus")
    files = report.write(
        ROWS, out, "cpu", title="Title", machine=MACHINE, notes=["Images: none."], figure=figure
    )
    assert [file.name for file in files] == ["cpu.md", "cpu.png"]
    assert sorted(out.iterdir()) == sorted(files)
    text = files[0].read_text()
    assert text.startswith("# Title\n\n**!!! 1 of 3 gates MISSED: C10 !!!**\n\nImages: none.\n")
    assert "| cpu    | abacus  |" in text
    assert '- C10: says "no", loudly' in text
    assert r"how fast, with \| and" in text
    assert files[1].read_bytes().startswith(b"\x89PNG")
    no_figure = report.write(ROWS, tmp_path, "cpu", title="Title", machine=MACHINE)
    assert [file.suffix for file in no_figure] == [".md"]


def test_a_report_without_rows_says_why_there_are_none(tmp_path):
    notes = ["**The part data failed: OSError: no space left**"]
    files = report.write([], tmp_path, "cpu", title="Title", machine=MACHINE, notes=notes)
    assert f"**No gate was measured.**\n\n{notes[0]}\n" in files[0].read_text()


def words(axes):
    return [text.get_text() for text in axes.texts]


def test_picture_of_a_cpu_shows_every_loader_and_the_floor():
    figure = draw_loaders(LOADERS, caption="abacus; 3 photographs")
    left, right = figure.axes
    assert [bar.get_width() for bar in left.patches] == pytest.approx([40, 50, 4, 10])
    assert [bar.get_width() for bar in right.patches] == pytest.approx([25, 20, 250, 100])
    assert words(left) == ["40", "50", "4", "10", "decoding alone: 2"]
    assert words(right) == ["25", "20", "250", "100", "decoding alone: 500"]
    assert [line.get_xdata()[0] for axes in (left, right) for line in axes.lines] == [2, 500]
    assert right.get_xlim()[1] > 500
    labels = [label.get_text() for label in left.get_yticklabels()]
    assert "torchvision" in labels[0]
    assert "all work on the CPU" in labels[3]
    assert figure._supxlabel.get_text() == "abacus; 3 photographs"
    # Without the rows of the loaders, as in a run of another part, there is nothing to draw.
    assert draw_loaders(LOADERS[:-1], caption="") is None
    assert draw_loaders(ROWS, caption="") is None
