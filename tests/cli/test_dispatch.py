import subprocess
import sys
from pathlib import Path

import pytest
from torch._utils import ExceptionWrapper

from mmssprl import cli
from mmssprl.cli import COMMANDS, build_parser, main
from mmssprl.errors import message_for_user
from mmssprl.pyramid import PyramidLevel, ViewLayout

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "words",
    [
        [],
        *([name] for name in COMMANDS),
        ["visualize", "views"],
        ["visualize", "losses"],
        ["visualize", "prototypes"],
    ],
    ids=" ".join,
)
def test_every_help_shows_an_example_that_parses_as_its_command(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*words, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    _, found, examples = text.partition("example")
    assert found
    lines = [line.split() for line in examples.splitlines() if "python -m mmssprl" in line]
    assert lines
    for line in lines:
        assert line[:3] == ["python", "-m", "mmssprl"]
        build_parser().parse_args(line[3:])
        assert line[3 : 3 + len(words)] == words


def test_all_commands_are_offered_in_groups_a_line_each(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    listed = [name for names in cli.GROUPS.values() for name in names]
    assert sorted(listed) == sorted(COMMANDS)
    for group, names in cli.GROUPS.items():
        start = lines.index(f"{group}:") + 1
        shown = lines[start : start + len(names)]
        assert [line.split()[0] for line in shown] == [*names]
        assert all(line.endswith(".") and len(line) <= 100 for line in shown)


def test_help_imports_nothing_heavy():
    code = (
        "import runpy, sys\n"
        "sys.argv = ['__main__.py', 'probe', '--help']\n"
        "try:\n"
        "    runpy.run_module('mmssprl', run_name='__main__')\n"
        "except SystemExit as stop:\n"
        "    assert stop.code == 0\n"
        "heavy = {'torch', 'mmengine', 'mmpretrain', 'matplotlib', 'sklearn', 'numpy'}\n"
        "print('loaded:', sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "usage: python -m mmssprl probe" in done.stdout
    assert done.stdout.endswith("loaded: []\n")


@pytest.mark.parametrize("words", [["-m", "mmssprl", "--help"], ["tools/train.py", "--help"]])
def test_help_is_the_same_without_docstrings(words):
    commands = [[sys.executable, *options, *words] for options in ([], ["-OO"])]
    shown = [subprocess.run(c, capture_output=True, text=True, cwd=ROOT).stdout for c in commands]
    assert "example" in shown[0]
    assert shown[0] == shown[1]


@pytest.mark.parametrize(
    "argv", [[], ["prune"], ["probe"], ["visualize"], ["visualize", "views", "config.py"]]
)
def test_a_wrong_command_line_exits_with_2_and_one_line(argv, capsys):
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith("python -m mmssprl")
    assert told.endswith(" --help)\n")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("pretrain photos --epohcs 3", "--epohcs --epochs?"),
        ("embed w d --patchs", "--patchs --patches?"),
        ("pretrain d --xyzzy", "--xyzzy"),
        ("pretrain d --variant papr", "--variant 'papr' paper?"),
        ("export w --to x", "--to 'x' backbone, torchvision,"),
        ("visualize view", "PICTURE 'view' views?"),
        ("pretrain d --lr abc", "--lr 'abc'"),
        ("pretrain d --epochs 1.5", "--epochs '1.5'"),
        ("pretrain d --set epochs", "--set KEY=VALUE 'epochs'"),
        ("pretrain d e", "e: nothing"),
    ],
)
def test_a_mistaken_option_is_told_what_was_meant(line, told, capsys):
    with pytest.raises(SystemExit) as stop:
        main(line.split())
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert all(word in error for word in told.split())
    assert error.endswith(f"(see python -m mmssprl {line.split()[0]} --help)\n")


def test_numbers_below_0_and_words_after_two_dashes_are_no_options():
    args = build_parser().parse_args(["pretrain", "--workers", "-1", "--", "--photos"])
    assert (args.workers, args.images) == (-1, "--photos")


def test_a_users_mistake_is_one_line_and_exit_code_2(capsys, tmp_path):
    assert main(["probe", "random", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert told.startswith("mmssprl probe: error: config ")
    assert told.count("\n") == 1
    with pytest.raises(ValueError, match="config"):
        main(["--traceback", "probe", "random", str(tmp_path)])


@pytest.mark.parametrize(("word", "near"), [("prob", "probe"), ("neighbours", "neighbors")])
def test_an_unknown_command_is_told_the_nearest_one(word, near, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--traceback", word, "data"])
    assert stop.value.code == 2
    assert f"COMMAND: there is no '{word}'; did you mean {near}?" in capsys.readouterr().err


def test_the_console_script_is_called_by_its_own_name(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/usr/bin/mmssprl", "probe"])
    assert build_parser().prog == "mmssprl"
    monkeypatch.setattr("sys.argv", ["/somewhere/mmssprl/__main__.py", "probe"])
    assert build_parser().prog == "python -m mmssprl"


def test_a_bug_keeps_its_traceback(monkeypatch):
    def run(args):
        raise ValueError("of nobody's making")

    monkeypatch.setitem(COMMANDS, "probe", COMMANDS["probe"]._replace(run=run))
    with pytest.raises(ValueError, match="of nobody's making"):
        main(["probe", "random", "data"])


def test_ctrl_c_is_one_line(monkeypatch, capsys):
    def run(args):
        raise KeyboardInterrupt

    monkeypatch.setitem(COMMANDS, "probe", COMMANDS["probe"]._replace(run=run))
    assert main(["probe", "random", "data"]) == 130
    assert capsys.readouterr().err == "mmssprl probe: stopped.\n"
    with pytest.raises(KeyboardInterrupt):
        main(["--traceback", "probe", "random", "data"])


def raised(call):
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


BAD_LAYOUT = {"levels": [{"grid": 2, "resize_px": 10, "patch_px": 9}]}


class TestIsUsersMistake:
    def test_what_the_package_raises_on_purpose(self):
        error = raised(lambda: ViewLayout.build(BAD_LAYOUT))
        assert "must be >= patch_px" in str(error)
        assert message_for_user(error)
        assert message_for_user(raised(lambda: ViewLayout.build(3)))  # a TypeError

    def test_wrapped_with_its_message_kept(self):
        def wrap():
            try:
                ViewLayout.build(BAD_LAYOUT)
            except ValueError as error:
                raise type(error)(f"class `PyramidCrop`: {error}")  # noqa: B904

        assert message_for_user(raised(wrap))

    def test_an_error_inside_the_package_that_is_not_of_its_classes_is_a_bug(self):
        # A TypeError out of "value < 1".
        error = raised(lambda: PyramidLevel(grid=2, resize_px=8, patch_px=4, area=7).validate("x"))
        assert isinstance(error, TypeError)
        assert not message_for_user(error)

    def test_a_workers_traceback_is_left_out(self):
        def work():
            try:
                ViewLayout.build(BAD_LAYOUT)
            except ValueError:
                ExceptionWrapper(where="in worker 0").reraise()

        error = raised(work)
        assert str(error).startswith("Caught UserValueError in worker 0")
        message = message_for_user(error)
        assert message.startswith("levels[0]: resize_px // grid = 5 must be >= patch_px")
        assert "Traceback" not in message

    def test_a_bug_while_handling_a_mistake_is_a_bug(self):
        def handle():
            try:
                ViewLayout.build(BAD_LAYOUT)
            except ValueError:
                int("x")

        assert not message_for_user(raised(handle))
