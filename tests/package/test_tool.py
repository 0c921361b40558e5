"""How the tools of a checkout end after a mistake."""

import argparse
import sys

import pytest

from mmssprl.errors import UserValueError
from mmssprl.tool import add_run_options, run_command


def make_parser():
    parser = argparse.ArgumentParser()
    add_run_options(parser, option="a=1")
    return parser


def fail(**options):
    try:
        raise KeyError("invalid depth 19")
    except KeyError as error:
        raise UserValueError("own.py: model.backbone.depth: invalid depth 19.") from error


@pytest.mark.parametrize("words", [[], ["--verbose"]])
def test_a_mistake_is_one_line_and_shows_its_cause_when_asked(monkeypatch, capsys, words):
    monkeypatch.setattr(sys, "argv", ["train.py", *words])
    with pytest.raises(SystemExit, match=r"^train.py: error: own.py: model.backbone.depth: inv"):
        run_command("train.py", make_parser, fail)
    shown = capsys.readouterr().err
    assert ("KeyError: 'invalid depth 19'" in shown) == bool(words)
    assert ("Traceback" in shown) == bool(words)
