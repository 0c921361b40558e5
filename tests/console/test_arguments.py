import argparse

import pytest

from mmssprl.cli import build_parser


def parsers(parser):
    """The parser and those of its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from parsers(command)


def test_every_command_refuses_abbreviations_and_names_what_they_begin(capsys):
    asked = 0
    for parser in parsers(build_parser()):
        for option in parser._option_string_actions:
            short = option[:-1]
            if short in ("-", "--gpu", *parser._option_string_actions):  # --gpu 0 has its answer
                continue
            with pytest.raises(SystemExit, match="2"):
                parser.parse_args([short])
            assert (
                f": {short} is not an option; did you mean {option}? (" in capsys.readouterr().err
            )
            asked += 1
    assert asked > 100
