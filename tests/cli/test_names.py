import argparse
import re
from collections import defaultdict

from mmssprl.cli import COMMANDS, build_parser

MOST_OPTIONS = 111
NAMES = {
    "--overwrite": "force|replace|yes",
    "--cfg-options": "set|options?|override",
    "--num-workers": "workers|num-processes",
    "--image-px": "px|size-px|im(age|g)-size|crop",
    "--work-dir": "dir|folder|out(put)?-dir|save-dir|logdir",
    "--out": "output|file|csv|json",
    "--weights": "checkpoint|pretrained|load-from|init",
    "--data": "labels|labelled|dataset|root",
    "--images": "photos|source|inputs?",
    "--seeds": "num-seeds|repeats?",
    "--gpus": "num-gpus|devices?",
    "--jobs": "num-jobs|parallel",
    "--equal": "fair|by",
    "--num": "count|top|k",
    "--verbose": "traceback|debug",
}
"""The name of a thing in every command, and what else it could be called."""
THINGS = {"IMAGES", "DATA", "WEIGHTS", "RUN", "CONFIG", "OUT"}
OTHERS = {"IMAGE", "QUERY", "EMBEDDINGS", "CHECKPOINT"}
OWN = {("train", "--overwrite"), ("train", "--resume"), ("convert", "--config")}
"""Options that mean something else there."""


def walk(parser, name=""):
    """Go through the arguments: the command, or picture of one, and argparse's action."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, each in action.choices.items():
                yield from walk(each, f"{name} {word}".strip())
        elif not isinstance(action, argparse._HelpAction):
            yield name, action


ACTIONS = [*walk(build_parser())]
OPTIONS = [action.option_strings for _, action in ACTIONS if action.option_strings]


def test_there_are_18_commands():
    assert len(COMMANDS) == 18


def test_there_are_not_more_options():
    assert len(OPTIONS) <= MOST_OPTIONS


def test_an_option_has_one_spelling():
    assert OPTIONS
    assert all(len(flags) == 1 for flags in OPTIONS)


def test_a_thing_has_one_name():
    for name, action in ACTIONS:
        for flag in action.option_strings:
            second = [own for own, more in NAMES.items() if re.fullmatch(f"--({more})", flag)]
            assert not second, f"{name} {flag}: it is {second[0]} elsewhere"
        assert "_" not in "".join(action.option_strings)
        if not action.option_strings:
            assert (action.metavar or action.dest) in THINGS | OTHERS, name
        if action.option_strings == ["--size"]:
            assert action.choices, f"{name} --size: a side in px is --image-px"


def test_an_option_is_the_same_in_every_command():
    forms = defaultdict(set)
    helps = defaultdict(set)
    for name, action in ACTIONS:
        for flag in action.option_strings:
            if (name, flag) not in OWN:
                number = action.type if action.type is float else action.type and int
                forms[flag].add((action.metavar, number, action.nargs == 0))
                helps[flag].add(action.help)
    assert {flag: found for flag, found in forms.items() if len(found) > 1} == {}
    for flag in ("--overwrite", "--config", "--jobs"):
        assert len(helps[flag]) == 1, helps[flag]
