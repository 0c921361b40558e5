"""The benchmark's rows, clock, report and command, on made-up numbers."""

import math
import platform
import re
import sys
import types

import cv2
import measure
import pytest
import report
import run
import torch
from measure import Row, interleave, one_thread, ratio

MACHINE = {"cpu": "abacus", "commit": "0123abc"}


@pytest.mark.parametrize(
    ("better", "value", "passed", "reached"),
    [
        ("higher", 1.9, False, False),
        ("higher", 2.0, True, False),
        ("higher", 3.0, True, True),
        ("lower", 2.1, False, False),
        ("lower", 2.0, True, False),
        ("lower", 1.0, True, True),
        ("lower", math.nan, False, False),
        ("higher", math.nan, False, False),
    ],
)
def test_gate_and_stretch(better, value, passed, reached):
    stretch = 3.0 if better == "higher" else 1.0
    row = Row("C1", "what", value, "x", gate=2.0, stretch=stretch, better=better)
    assert (row.passed, row.reached_stretch) == (passed, reached)


def test_a_row_without_gate_neither_passes_nor_fails():
    row = Row("speed", "what", 5.0, "ms")
    assert row.passed is None
    assert row.reached_stretch is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"better": "more"}, "better must be 'higher' or 'lower', but got 'more'"),
        ({"gate": 3, "stretch": 2}, "gate=3, stretch=2 where higher is better"),
        ({"gate": 2, "stretch": 3, "better": "lower"}, "stretch must be at least as hard"),
        ({"stretch": 3}, "gate=None, stretch=3"),
    ],
)
def test_contradictory_rows_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Row("C1", "what", 1.0, "x", **options)


def test_sides_take_turns_and_begin_warm(monkeypatch):
    clock = types.SimpleNamespace(now=0.0)
    calls = []

    def side(name, seconds):
        def work():
            calls.append((name, torch.get_num_threads(), cv2.getNumThreads()))
            clock.now += seconds

        return work

    monkeypatch.setattr(measure.time, "process_time", lambda: clock.now)
    seconds = interleave({"a": side("a", 2.0), "b": side("b", 0.5)}, 3)
    assert "".join(name for name, *_ in calls) == "ab" + "ab" + "ba" + "ab"
    assert seconds == {"a": [2.0] * 3, "b": [0.5] * 3}
    assert {threads for _, *threads in map(tuple, calls) for threads in threads} == {1}
    with pytest.raises(ValueError, match="rounds must be at least 1, but got 0"):
        interleave({}, 0)


def test_threads_are_given_back_after_an_error():
    before = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(3)
    cv2.setNumThreads(2)
    try:
        with pytest.raises(KeyError), one_thread():
            raise KeyError
        assert (torch.get_num_threads(), cv2.getNumThreads()) == (3, 2)
    finally:
        torch.set_num_threads(before[0])
        cv2.setNumThreads(before[1])


def test_ratio_goes_round_by_round():
    # The ratio of the medians would be 3.
    assert ratio([2.0, 30.0, 3.0, 8.0, 1.0], [1.0, 10.0, 1.0, 1.0, 1.0]) == (3.0, 2.0, 3.0)
    assert ratio([6.0, 9.0], [2.0, 1.0]) == (6.0, 4.5, 7.5)
    assert ratio([6.0], [2.0]) == (3.0, 3.0, 3.0)
    with pytest.raises(ValueError, match="zip"):
        ratio([1.0, 2.0], [1.0])


def test_machine_names_what_matters_and_nobody():
    here = measure.machine()
    assert torch.__version__ in here["torch"]
    assert int(here["cores"]) >= 1
    assert float(here["load before"]) >= 0
    private = ("/", "\\", platform.node())
    assert not [value for value in here.values() for name in private if name in value]


ROWS = [
    Row("speed", "how fast, with | and, a comma", 1234.5678901234567, "/s", spread=(0.1, 2e9)),
    Row("C10", "a count", 5, "", gate=4, stretch=3, better="lower", note='says "no", loudly'),
    Row("C2", "a ratio", 12.25, "x", gate=4.0, stretch=10.0, spread=(11.0, 13.5)),
    Row("C9", "nothing", 0, "", gate=0, better="lower"),
]


def test_csv_keeps_every_digit(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(report.csv_text(ROWS, machine=MACHINE))
    assert report.read_csv(path) == ROWS
    assert path.read_text().startswith("# cpu: abacus\n# commit: 0123abc\nid,what,value")


def test_misses_are_loud_and_gates_come_first():
    table = report.terminal_table(ROWS).splitlines()
    assert [line.split()[0] for line in table[2:]] == ["C2", "C9", "C10", "speed"]
    assert table[2].endswith("met, stretch")
    assert table[4].endswith("MISSED")
    assert "<= 4" in table[4]
    assert "1,235 /s" in table[5]
    assert report.summary(ROWS) == "!!! 1 of 3 gates MISSED: C10 !!!"
    assert report.summary(ROWS[2:]) == "All 2 gates are met; 1 of 1 stretches are reached."
    assert report.summary(ROWS[:1]) == "No gate was measured."


@pytest.mark.parametrize(
    ("value", "gate", "better", "margin"),
    [
        (6, 4, "higher", 1.5),
        (2, 4, "higher", 0.5),
        (2, 4, "lower", 2.0),
        (8, 4, "lower", 0.5),
        (0, 0, "lower", 1.0),
        (3, 0, "lower", 0.0),
        (0, 4, "lower", 10.0),
        (400, 4, "higher", 10.0),
        (-1, 4, "higher", 0.0),
        (math.nan, 4, "higher", 0.0),
    ],
)
def test_margin(value, gate, better, margin):
    assert report.margin(Row("C1", "what", value, "", gate=gate, better=better)) == margin


def test_report_holds_machine_notes_and_picture(tmp_path):
    out = tmp_path / "new" / "folder"
    files = report.write(ROWS, out, "cpu", title="Title", machine=MACHINE, notes=["Images: none."])
    assert [file.name for file in files] == ["cpu.md", "cpu.csv", "cpu.png"]
    assert sorted(out.iterdir()) == sorted(files)
    text = files[0].read_text()
    assert text.startswith("# Title\n\n**!!! 1 of 3 gates MISSED: C10 !!!**\n\nImages: none.\n")
    assert "| cpu | abacus |" in text
    assert '- C10: says "no", loudly' in text
    assert r"how fast, with \| and" in text
    assert files[2].read_bytes().startswith(b"\x89PNG")


def test_nothing_is_written_unless_all_can_be(tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError("no fonts")

    monkeypatch.setattr(report, "draw", fail)
    with pytest.raises(OSError, match="no fonts"):
        report.write(ROWS, tmp_path, "cpu", title="Title", machine=MACHINE)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("rows", [[], [ROWS[0], ROWS[0]]])
def test_rows_need_ids_of_their_own(tmp_path, rows):
    with pytest.raises(ValueError, match="rows must be at least one and of different ids"):
        report.write(rows, tmp_path, "cpu", title="Title", machine=MACHINE)


def test_picture_needs_a_gate(tmp_path):
    with pytest.raises(ValueError, match="none has one"):
        report.draw(ROWS[:1], title="Title")
    files = report.write(ROWS[:1], tmp_path, "cpu", title="Title", machine=MACHINE)
    assert [file.suffix for file in files] == [".md", ".csv"]


@pytest.fixture
def parts(monkeypatch):
    """Parts of the benchmark that return at once; the calls that they got."""
    calls = []
    for name, row in {"data": ROWS[2], "large": ROWS[1], "step": ROWS[0]}.items():
        module = types.ModuleType(f"fake_{name}")

        def rows(images, quick, log, name=name, row=row):
            calls.append((name, len(list(images.glob("*.jpg"))), quick))
            log("working")
            return [row]

        module.rows = rows
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(run._PARTS, name, module.__name__)
    return calls


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "photos" / "best"
    folder.mkdir(parents=True)
    for name in ("a.jpg", "b.jpg"):
        (folder / name).write_bytes(bytes(3000))
    return folder


def test_run_writes_all_parts(tmp_path, parts, images, capsys):
    options = ["--out", str(tmp_path / "out"), "--images", str(images)]
    assert run.main(options) == 0
    assert parts == [("data", 2, False), ("large", 2, False), ("step", 2, False)]
    text = (tmp_path / "out" / "cpu.md").read_text()
    assert "2 files of photos/best, 3 kB on average" in text
    assert str(tmp_path) not in text
    assert "Quick" not in text
    assert [row.id for row in report.read_csv(tmp_path / "out" / "cpu.csv")] == [
        "C2",
        "C10",
        "speed",
    ]
    out = capsys.readouterr().out
    assert "!!! 1 of 2 gates MISSED: C10 !!!" in out
    assert "[ 0.0 min, about 12 more] data: working" in out
    assert "[ 0.0 min, about 6 more] step: working" in out
    assert run.main([*options, "--strict"]) == 1


def test_a_part_that_fails_costs_its_own_rows_only(tmp_path, parts, images, monkeypatch, capsys):
    def full(images, quick, log):
        raise OSError("no space left")

    monkeypatch.setattr(sys.modules["fake_large"], "rows", full)
    assert run.main(["--out", str(tmp_path / "out"), "--images", str(images)]) == 1
    text = (tmp_path / "out" / "cpu.md").read_text()
    assert "**The part large failed: OSError: no space left**" in text
    assert [row.id for row in report.read_csv(tmp_path / "out" / "cpu.csv")] == ["C2", "speed"]
    assert "no space left" in capsys.readouterr().err


def test_part_of_a_run_has_a_name_of_its_own(tmp_path, parts, images):
    options = ["--out", str(tmp_path / "out"), "--images", str(images), "--quick", "--strict"]
    assert run.main([*options, "--only", "step,data"]) == 0
    assert parts == [("data", 2, True), ("step", 2, True)]
    names = sorted(file.name for file in (tmp_path / "out").iterdir())
    assert names == [f"cpu-data-step-quick.{suffix}" for suffix in ("csv", "md", "png")]
    assert "Quick run" in (tmp_path / "out" / names[1]).read_text()


def test_images_are_generated_where_there_are_none(tmp_path, parts, monkeypatch):
    monkeypatch.setattr(run, "_PHOTOGRAPHS", tmp_path / "absent")
    monkeypatch.setattr(run, "_NUM_SAMPLES", 3)
    assert run.main(["--out", str(tmp_path), "--only", "data"]) == 0
    assert parts == [("data", 3, False)]
    assert "3 generated JPEGs, no photographs" in (tmp_path / "cpu-data.md").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "data,dat"], r"must be some of data,large,step, but got \['dat'\]"),
        (["--images", "not_there"], "--images must be a folder of images, but got not_there"),
    ],
)
def test_wrong_options(options, message, capsys):
    with pytest.raises(SystemExit) as error:
        run.main(options)
    assert error.value.code == 2
    assert re.search(message, capsys.readouterr().err)
