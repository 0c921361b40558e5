"""The parser of every command line: a mistake is one line with the remedy."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from .dropped import answer


class Parser(argparse.ArgumentParser):
    """An ``ArgumentParser`` that names the nearest option or choice, and prints no usage.

    An abbreviation is no option: a new option could make it mean another one. Description and
    epilog keep their lines. The parsers of its subcommands are of this class too, and each judges
    its own options.
    """

    def __init__(self, **options: Any) -> None:
        keep_lines = argparse.RawDescriptionHelpFormatter
        super().__init__(**options, allow_abbrev=False, formatter_class=keep_lines)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse; nothing stays unknown, for a subcommand's parser is asked by this alone."""
        words = list(sys.argv[1:] if args is None else args)
        # Before argparse looks: it would first ask for what --taks leaves out.
        self._check_options(words)
        found, rest = super().parse_known_args(words, namespace)
        if rest:
            self.error(f"{' '.join(rest)}: nothing takes this; leave it out")
        return found, []

    def error(self, message: str) -> NoReturn:
        """End the process with code 2 and one line."""
        told = message.removeprefix("argument ")
        self.exit(2, f"{self.prog}: {told} (see {self.prog} --help)\n")

    def _check_options(self, words: Iterable[str]) -> None:
        options = self._option_string_actions
        for word in words:
            if word == "--" or (self._subparsers and not word.startswith("-")):
                return  # what follows is no option, or one of the subcommand
            name = word.partition("=")[0]
            if len(word) < 2 or word[0] != "-" or " " in word or is_number(word):
                continue
            if name not in options:
                self.error(self._dropped(name) or f"{name} is no option{_nearest(name, options)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            dropped = self._dropped(*action.option_strings[:1], str(value))
            if dropped:
                self.error(dropped)
            choices = [str(choice) for choice in action.choices]
            remedy = _nearest(str(value), choices) or f"; choose one of {', '.join(choices)}"
            raise argparse.ArgumentError(action, f"there is no {value!r}{remedy}")

    def _dropped(self, *words: str) -> str | None:
        command = self.prog.split("mmssprl")[-1].strip().removesuffix(".py")
        return answer(" ".join([command, *words]))


def _nearest(word: str, names: Iterable[str]) -> str:
    names = list(names)
    longer = [name for name in names if word and name.startswith(word)]
    near = sorted(longer, key=len) or get_close_matches(word, names, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def count(word: str) -> int:
    """Read an integer >= 1, as a ``type`` of argparse."""
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"it must be an integer >= 1, but got {word!r}")
    return int(word)


def is_number(word: str) -> bool:
    """Whether a text is a number, such as -1e-3."""
    try:
        float(word)
    except ValueError:
        return False
    return True
