import sys
from unittest import mock

import pytest

from mmssprl.cli import main, tool, training
from mmssprl.cli.tool import run_tool
from mmssprl.errors import UserValueError
from mmssprl.system.stopping import Interrupted, Signal


@pytest.fixture(autouse=True)
def given(tmp_path, monkeypatch):
    """A folder with the files that the commands name."""
    monkeypatch.chdir(tmp_path)
    for name in ("c.py", "w.pth"):
        (tmp_path / name).touch()


@pytest.fixture
def shown_of_mistake(monkeypatch, capsys):
    """Call a tool that meets a mistake of its user; return what it has shown before its end."""
    mistake = UserValueError("own.py: model.backbone.depth: invalid depth 19.")
    mistake.__cause__ = KeyError("invalid depth 19")
    monkeypatch.setattr(training, "train", mock.Mock(side_effect=mistake))

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["train.py", "c.py", *words])
        line = r"^train.py: error: own.py: model.backbone.depth: inv"
        with pytest.raises(SystemExit, match=line):
            run_tool("train")
        return capsys.readouterr().err

    return call


def test_a_mistake_is_one_line(shown_of_mistake):
    shown = shown_of_mistake()
    assert "KeyError: 'invalid depth 19'" not in shown
    assert "Traceback" not in shown


def test_a_mistake_shows_its_cause_when_asked(shown_of_mistake):
    shown = shown_of_mistake("--verbose")
    assert "KeyError: 'invalid depth 19'" in shown
    assert "Traceback" in shown


@pytest.mark.parametrize("words", [[], ["--verbose"]])
def test_a_bug_keeps_its_traceback(monkeypatch, words):
    monkeypatch.setattr(sys, "argv", ["train.py", "c.py", *words])
    monkeypatch.setattr(training, "train", lambda asked, launcher: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_tool("train")


@pytest.mark.parametrize(("number", "comes"), [(Signal.SIGTERM, True), (Signal.SIGUSR1, False)])
def test_a_job_that_is_preempted_before_its_first_step_comes_back(monkeypatch, number, comes):
    """A job whose time limit ends it so early would never reach its first step."""
    asked = []
    monkeypatch.setattr(tool, "comes_back", lambda: True)
    monkeypatch.setattr(tool, "requeue", asked.append)
    monkeypatch.setattr(sys, "argv", ["train.py", "c.py"])
    monkeypatch.setattr(training, "train", mock.Mock(side_effect=Interrupted(number)))
    with pytest.raises(SystemExit) as error:
        run_tool("train")
    assert error.value.code == 128 + number
    assert asked == [True] * comes


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("train", ["c.py", "--resume", "--cfg-options", "a.b=1", "c=[2,3]"]),
        ("test", ["c.py", "w.pth", "--out", "o.json"]),
    ],
)
def test_a_tool_asks_for_the_same_as_its_command(name, words, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "0")
    asked = []
    monkeypatch.setattr(training, name, lambda *given, **options: asked.append((*given, options)))
    assert main([name, *words]) == 0
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *words])
    run_tool(name)
    (command, of_command), (tool_command, of_tool) = asked
    assert tool_command == command
    assert of_tool == of_command == {"launcher": "none"}
    assert command.cfg_options == ({"a.b": 1, "c": [2, 3]} if name == "train" else None)
