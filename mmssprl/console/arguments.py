"""The parser of every command line: a mistake is one line with the remedy."""

import argparse
from ast import literal_eval
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from .dropped import answer
from .wording import meant


class Parser(argparse.ArgumentParser):
    """An ``ArgumentParser`` that names the nearest option or choice, and prints no usage.

    An abbreviation is no option: a new option could make it mean another one. Description and
    epilog keep their lines. The parsers of its subcommands are of this class too.
    """

    def __init__(self, **options: Any) -> None:
        keep_lines = argparse.RawDescriptionHelpFormatter
        super().__init__(**options, allow_abbrev=False, formatter_class=keep_lines)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse; nothing stays unknown, for a subcommand's parser is asked by this alone."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            name = next((word for word in rest if word.startswith("-")), "").partition("=")[0]
            near = _nearest(name, self._option_string_actions)
            unknown = f"{name} is no option{near}" if name else f"{' '.join(rest)}: leave it out"
            self.error(self._dropped(name or rest[0]) or unknown)
        return found, []

    def error(self, message: str) -> NoReturn:
        """End the process with code 2 and one line."""
        told = message.removeprefix("argument ")
        self.exit(2, f"{self.prog}: {told} (see {self.prog} --help)\n")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        if not arg_string and action.type is None and action.nargs != argparse.PARSER:
            raise argparse.ArgumentError(action, "it must not be empty")
        return super()._get_value(action, arg_string)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            near = _nearest(str(value), choices)
            told = f"it must be one of {', '.join(choices)}, but got {value!r}{near}"
            dropped = self._dropped(*action.option_strings[:1], str(value))
            raise argparse.ArgumentError(None if dropped else action, dropped or told)

    def _dropped(self, *words: str) -> str | None:
        command = self.prog.split("mmssprl")[-1].strip().removesuffix(".py")
        return answer(" ".join([command, *words]))


def _nearest(word: str, names: Iterable[str]) -> str:
    names = list(names)
    longer = [name for name in names if word and name.startswith(word)]
    return meant(min(longer, key=len, default=word), names, "")


class ValuesAction(argparse.Action):
    """Reads KEY=VALUE as mmengine's tools do, imported where the option is given.

    So ``--help`` answers at once. Given again, it adds to the values. A value with braces is a
    literal of Python, such as a list of dicts.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Add what was given to the namespace."""
        from mmengine.config import DictAction

        for word in values:
            if "=" not in word:
                raise argparse.ArgumentError(self, f"it takes KEY=VALUE, but got {word!r}")
        action = DictAction(self.option_strings, self.dest, nargs=self.nargs)
        action(parser, namespace, values, option_string)
        for key, _, text in (word.partition("=") for word in values if "{" in word):
            try:
                getattr(namespace, self.dest)[key] = literal_eval(text)
            except (SyntaxError, ValueError) as error:
                told = f"{key} must be a literal of Python, but got {text!r}"
                raise argparse.ArgumentError(self, told) from error
