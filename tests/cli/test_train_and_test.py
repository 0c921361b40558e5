"""`train` and `test` as commands: what the tools of a checkout do with the same words."""

import runpy

import pytest
from helpers.tools.called_tools import TOOLS

from mmssprl.cli import main, training
from mmssprl.cli.tool import run_options


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("train", ["c.py", "--resume", "--cfg-options", "a.b=1", "c=[2,3]"]),
        ("test", ["c.py", "w.pth", "--out", "o.json", "--launcher", "none"]),
    ],
)
def test_a_command_and_its_tool_ask_for_the_same(name, words, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "0")
    asked = []
    monkeypatch.setattr(training, name, lambda **options: asked.append(options))
    assert main([name, *words]) == 0
    parser = runpy.run_path(str(TOOLS / f"{name}.py"))["make_parser"]()
    assert asked == [run_options(parser.parse_args(words))]
    assert asked[0]["cfg_options"] == ({"a.b": 1, "c": [2, 3]} if name == "train" else None)


def test_a_missing_config_is_one_line(monkeypatch, capsys):
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert main(["train", "nowhere.py"]) == 2
    assert "mmssprl train: error: config must be a config file" in capsys.readouterr().err
