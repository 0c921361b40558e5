import math
import platform
from importlib.metadata import version
from types import SimpleNamespace

import cv2
import pytest
import torch

from tools.dev.speed import gates, report
from tools.dev.speed.data_rows import speed_rows
from tools.dev.speed.gates import Gate, interleave, measured, ratio

ROWS = [
    measured("speed", 1234.5678901234567, 0.1, 2e9, info=Gate("how fast, with | and, a comma", "")),
    measured("C10", 5, note='says "no", loudly'),
    measured("C2", 12.25, 11.0, 13.5),
    measured("C9", 0),
]
SIDES = {"torchvision": 0.04, "mmpretrain": 0.05, "ours": 0.004, "ours_cpu": 0.01, "decode": 0.002}
LOADERS = speed_rows({side: [seconds] for side, seconds in SIDES.items()})


@pytest.mark.parametrize(
    ("better", "value", "passed"),
    [
        *(("higher", 1.9, False), ("higher", 2.0, True), ("higher", math.nan, False)),
        *(("lower", 2.1, False), ("lower", 2.0, True), ("lower", math.nan, False)),
    ],
)
def test_equal_to_the_gate_is_enough(better, value, passed):
    assert measured("A", value, info=Gate("what", "x", 2.0, better)).passed is passed


def test_sides_take_turns_and_begin_warm(monkeypatch):
    now = SimpleNamespace(seconds=0.0)
    calls = []

    def side(name, seconds):
        def work():
            calls.append((name, torch.get_num_threads(), cv2.getNumThreads()))
            now.seconds += seconds

        return work

    monkeypatch.setattr(gates.time, "process_time", lambda: now.seconds)
    before = torch.get_num_threads(), cv2.getNumThreads()
    seconds = interleave({"a": side("a", 2.0), "b": side("b", 0.5)}, 3)
    assert "".join(name for name, *_ in calls) == "ab" + "ab" + "ba" + "ab"
    assert seconds == {"a": [2.0] * 3, "b": [0.5] * 3}
    assert {threads for _, *threads in calls for threads in threads} == {1}
    assert (torch.get_num_threads(), cv2.getNumThreads()) == before


def test_ratio_goes_round_by_round():
    # The ratio of the medians would be 3.
    assert ratio([2.0, 30.0, 3.0, 8.0, 1.0], [1.0, 10.0, 1.0, 1.0, 1.0]) == (3.0, 2.0, 3.0)
    assert ratio([6.0, 9.0], [2.0, 1.0]) == (6.0, 4.5, 7.5)
    assert ratio([6.0], [2.0]) == (3.0, 3.0, 3.0)
    with pytest.raises(ValueError, match="zip"):
        ratio([1.0, 2.0], [1.0])


def test_machine_names_what_matters_and_nobody():
    here = report.machine()
    assert f"torch {version('torch')}" in here["packages"]
    assert int(here["cores"]) >= 1
    told = "".join(here.values())
    assert not any(private in told for private in ("/", "\\", platform.node()))


def test_misses_are_loud_and_gates_come_first():
    lines = report.table(ROWS).splitlines()[2:]
    assert [line.split()[1] for line in lines] == ["C2", "C9", "C10", "speed"]
    assert lines[0].endswith("  met |")
    assert lines[2].endswith("MISSED |")
    assert "<= 4" in lines[2]
    assert "1,235" in lines[3]
    assert "1 of 3 gates MISSED: C10" in report.summary(ROWS)
    assert report.summary(ROWS[2:]) == "All 2 gates are met."
    assert report.summary(ROWS[:1]) == "No gate was measured."


def test_report_holds_machine_notes_and_a_picture_of_every_loader(tmp_path):
    out = tmp_path / "new" / "folder"
    figure = report.draw_loaders(LOADERS, "abacus")
    about = {"title": "Title", "machine": {"cpu": "abacus"}, "notes": ["Images: none."]}
    files = report.write(ROWS, out, "cpu", **about, figure=figure)
    assert [file.name for file in files] == ["cpu.md", "cpu.png"]
    assert sorted(out.iterdir()) == sorted(files)
    text = files[0].read_text()
    assert text.startswith("# Title\n\n**!!! 1 of 3 gates MISSED: C10 !!!**\n\nImages: none.\n")
    assert "| cpu  | abacus |" in text
    assert '- C10: says "no", loudly' in text
    assert r"how fast, with \| and" in text
    assert files[1].read_bytes().startswith(b"\x89PNG")

    [axes] = figure.axes
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([40, 50, 4, 10])
    assert [line.get_xdata()[0] for line in axes.lines] == [2]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert "torchvision" in labels[0]
    assert "all work on the CPU" in labels[3]
    # Without the rows of the loaders, as in a run of another part, there is nothing to draw.
    assert report.draw_loaders(LOADERS[:-1], "") is None
