"""The command-line parser; a mistake prints one line with the remedy."""

import argparse
import re
import sys
from ast import literal_eval
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from .dropped import answer
from .wording import meant

_TWO_SIDES = re.compile(r"invalid int value: '(\d+)[x,].*'")  # 224x224


class Parser(argparse.ArgumentParser):
    """An ``ArgumentParser`` that suggests the nearest option and prints no usage.

    Abbreviations are refused: a new option could change their meaning. Each subcommand checks its
    own options.
    """

    def __init__(self, **options: Any) -> None:
        keep_lines = argparse.RawDescriptionHelpFormatter
        super().__init__(**options, allow_abbrev=False, formatter_class=keep_lines)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse and refuse unknown words; argparse calls this alone for a subcommand."""
        words = list(sys.argv[1:] if args is None else args)
        # First: argparse would report --task as missing, not --taks as unknown.
        self._check_options(words)
        found, rest = super().parse_known_args(words, namespace)
        if rest:
            dropped = self._dropped("--resume PATH") if "--resume" in words else None
            self.error(dropped or f"{' '.join(rest)}: unexpected argument; leave it out")
        return found, []

    def error(self, message: str) -> NoReturn:
        """End the process with code 2 and one line."""
        message = message.removeprefix("argument ")
        message = _TWO_SIDES.sub(r"it must be one integer, the side of a square: \1", message)
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def _check_options(self, words: Iterable[str]) -> None:
        options = self._option_string_actions
        for word in words:
            if word == "--" or (self._subparsers and not word.startswith("-")):
                return  # the rest are arguments, or options of the subcommand
            name = word.partition("=")[0]
            if name.startswith("--") and " " not in word and name not in options:
                near = meant(name, options, "")
                self.error(self._dropped(name) or f"{name} is not an option{near}")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        if not arg_string and action.type is None and action.nargs != argparse.PARSER:
            raise argparse.ArgumentError(action, "it must not be empty")
        return super()._get_value(action, arg_string)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            dropped = self._dropped(*action.option_strings[:1], str(value))
            if dropped:
                self.error(dropped)
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += meant(str(value), map(str, action.choices or ()), "")
            raise

    def _dropped(self, *words: str) -> str | None:
        command = self.prog.split("mmssprl")[-1].strip().removesuffix(".py")
        return answer(" ".join([command, *words]))


class ValuesAction(argparse.Action):
    """Parse KEY=VALUE as mmengine's tools do, importing mmengine only then.

    Repeated options add values. A value with braces is a Python literal, such as a list of dicts.
    """

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        """Add the values to the namespace."""
        from mmengine.config import DictAction

        for word in values:
            if "=" not in word:
                raise argparse.ArgumentError(self, f"it takes KEY=VALUE, but got {word!r}")
        action = DictAction(self.option_strings, self.dest, nargs=self.nargs)
        action(parser, namespace, values, option_string)

        for word in values:
            if "{" not in word:
                continue
            key, _, text = word.partition("=")
            try:
                getattr(namespace, self.dest)[key] = literal_eval(text)
            except (SyntaxError, ValueError) as error:
                reason = f"{key} must be a Python literal, but got {text!r}"
                raise argparse.ArgumentError(self, reason) from error
