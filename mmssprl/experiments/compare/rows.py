"""The rows of a comparison: methods, each with the values that it trains with.

A row is typed as METHOD, METHOD:KEY=VALUE,..., or FILE.yaml, which has a list of rows:

    - name: pooled
      method: distill
      teacher: timm/resnet50
      epochs: 40
      values:
        dense_weight: 0
"""

import argparse
import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from mmengine.config import Config

from ...config.arguments import refuse_unknown_arguments
from ...config.at_size import read_at_size
from ...config.hooks import find_hook
from ...config.keys import used_keys
from ...config.overrides import merge_options
from ...config.shipped import config_file
from ...console.arguments import ValuesAction
from ...console.paths import check_path
from ...console.wording import first_line, meant
from ...errors import UserValueError
from ...pretraining.methods import BY_KEY, METHODS, SSPRL, Method, unknown_method
from ...weights import whole_path
from ..options import ALL

FIELDS = ("name", "method", "values", "teacher", "share", "epochs")
_OF_YAML = (".yaml", ".yml")
_NEXT_VALUE = re.compile(r",(?=[\w.]+=)")  # not a comma of a list
_NOT_IN_NAMES = re.compile(r"[^\w.,=+-]+")


@dataclass(frozen=True, eq=False)
class Row:
    """A method, and what differs from its own row."""

    key: str  # its name in CSV files, folders and tables
    title: str
    method: Method
    values: Mapping[str, Any] = field(default_factory=dict)  # by key of model or config
    teacher: str | None = None
    share: float = 1.0  # of the training images
    epochs: int | None = None  # None: the epochs of the table

    @property
    def trains(self) -> bool:
        """Whether it is trained, not scored as it starts."""
        return self.method.trains and self.epochs != 0

    @property
    def competes(self) -> bool:
        """Whether tables say that it is better or worse."""
        return self.method.competes

    def config_at(self, size: str) -> Config:
        """Return its config at a size, with its values; read only.

        Raises:
            ValueError: A key that the config or the model does not have, or a teacher that no
                hook takes.
        """
        base = self.method.config_at(size)
        return with_values(base, self.values, self.teacher, name=self.key) if self.differs else base

    @property
    def differs(self) -> bool:
        """Whether its config is not the method's own."""
        return bool(self.values) or self.teacher is not None

    def keys(self, cfg: Config) -> set[str]:
        """Return the dotted keys of a config that its values set."""
        return {dotted_key(key, cfg) for key in self.values}


def with_values(
    base: Config, values: Mapping[str, Any], teacher: str | None = None, *, name: str = ""
) -> Config:
    """Return a config with values by key of its model or of the config, and with a teacher."""
    cfg = copy.deepcopy(base)
    merge_options(cfg, {dotted_key(key, cfg): x for key, x in values.items()}, flag=f"row {name}:")
    for key in values:
        refuse_unknown_arguments(cfg, dotted_key(key, cfg), name=f"row {name}: {key}")
    if teacher is not None:
        hook = find_hook(cfg, "TeacherHook")
        if hook is None:
            raise UserValueError(
                f"row {name}: teacher is for methods that learn from one, but its config has no "
                "TeacherHook; leave teacher out, or take the method distill."
            )
        hook.teacher = whole_path(teacher)
    return cfg


def read_row(settings: Mapping[str, Any]) -> Config:
    """Return the config of a row from the settings of a run."""
    base = read_at_size(settings["config"], settings["size"])
    if "values" not in settings:
        return base
    return with_values(base, settings["values"], settings["teacher"])


def dotted_key(key: str, cfg: Config) -> str:
    """Return a key of the config for one of its model: ``model.dense_weight``."""
    return key if key.partition(".")[0] in used_keys(cfg) else f"model.{key}"


def choose_rows(words: Sequence[str], reference: str) -> tuple[list[Row], Row]:
    """Return the rows that are typed, each once, and the one that others are compared with.

    Shipped methods come first, in the order of the table of methods. ``reference`` is the name of
    another row, or typed as one.
    """
    plain: set[str] = set()
    own: dict[str, Row] = {}
    for word in words:
        if word == ALL:
            plain.update(method.key for method in METHODS if not method.learns_from_teacher)
        elif word in BY_KEY:
            plain.add(word)
        else:
            for row in _read_rows(word):
                other = own.setdefault(row.key, row)
                if _identity(other) != _identity(row) or _is_second(row):
                    raise _error_of_second(word, row.key)

    for key in plain & own.keys():
        if _identity(own[key]) != _identity(row_of(BY_KEY[key])):
            raise _error_of_second("that of the file", key)
    if reference not in own:
        if reference in BY_KEY:
            plain.add(reference)
        else:
            [row] = _read_rows(reference)
            reference = own.setdefault(row.key, row).key
    rows = [row_of(method) for method in METHODS if method.key in plain - own.keys()]
    rows += own.values()
    return rows, next(row for row in rows if row.key == reference)


def row_of(method: Method) -> Row:
    """Return the row of a shipped method without other values."""
    return Row(method.key, method.title, method)


SSPRL_ROW = row_of(SSPRL)


def _read_rows(word: str) -> list[Row]:
    """Return the rows of a word: one, or all rows of a YAML file, or one of them by its name."""
    file, _, name = word.partition(":")
    if not file.endswith(_OF_YAML):
        return [_typed_row(word)]
    rows = _rows_of_file(file)
    if not name:
        return rows
    found = [row for row in rows if row.key == name]
    if not found:
        names = [row.key for row in rows]
        near = meant(name, names)
        raise UserValueError(f"a row of {file} must be {', '.join(names)}, but got {name!r}{near}")
    return found


def _typed_row(word: str) -> Row:
    """Return the row of METHOD or METHOD:KEY=VALUE,...; the keys may be fields of a row."""
    method, _, text = word.partition(":")
    fields: dict[str, Any] = {"method": method}
    if text:
        typed = argparse.Namespace()
        try:
            ValuesAction([], "values", nargs="+")(None, typed, _NEXT_VALUE.split(text))
        except argparse.ArgumentError as error:
            raise UserValueError(f"row {word}: {error.message}.") from error
        values = {key: x for key, x in typed.values.items() if key not in FIELDS}
        fields |= {key: x for key, x in typed.values.items() if key in FIELDS}
        name = _NOT_IN_NAMES.sub("-", f"{Path(method).stem}-{text}")
        fields = {"name": name, **fields, "values": values}
    return _make_row(fields, word)


def _rows_of_file(file: str) -> list[Row]:
    """Read the rows of a YAML file."""
    path = check_path(file, "methods", file="a file of rows", suffixes=_OF_YAML)
    try:
        content = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserValueError(f"{file} is no YAML ({first_line(error)}); correct it.") from error
    if not isinstance(content, list) or not content:
        raise UserValueError(f"{file} must be a list of rows, such as `- method: ssprl`.")
    rows = []
    for number, fields in enumerate(content, start=1):
        where = f"row {number} of {file}"
        if not isinstance(fields, Mapping) or "method" not in fields:
            raise UserValueError(f"{where} must have a method, but got {fields!r:.80}.")
        rows.append(_make_row(fields, where))
    return rows


def _make_row(fields: Mapping[str, Any], where: str) -> Row:
    """Check the fields of a row, and return it; ``where`` begins the messages."""
    for name in fields:
        if name not in FIELDS:
            near = meant(str(name), FIELDS)
            raise UserValueError(f"{where} has {', '.join(FIELDS)}, but not {name!r}{near}")

    method = _find_method(str(fields["method"]))
    values, share, epochs = (fields.get(name) for name in ("values", "share", "epochs"))
    teacher = fields.get("teacher")
    key = str(fields.get("name", method.key))
    if _NOT_IN_NAMES.search(key):
        raise UserValueError(f"{where}: name must be letters, digits and . - _, but got {key!r}.")
    if not isinstance(values or {}, Mapping):
        raise UserValueError(f"{where}: values must be a mapping, but got {values!r:.80}.")
    if epochs is not None and (type(epochs) is not int or epochs < 0):
        raise UserValueError(f"{where}: epochs must be an integer from 0, but got {epochs!r}.")
    if share is not None and (not isinstance(share, int | float) or not 0 < share <= 1):
        raise UserValueError(f"{where}: share must be above 0 and at most 1, but got {share!r}.")
    if share is not None and epochs is None:
        raise UserValueError(f"{where}: a row with a share needs its epochs; add epochs.")

    return Row(
        key=key,
        title=method.title if key == method.key else key,
        method=method,
        values={str(name): _number(value) for name, value in (values or {}).items()},
        teacher=None if teacher is None else str(teacher),
        share=share or 1.0,
        epochs=epochs,
    )


def _find_method(word: str) -> Method:
    """Return the method of a key, or of a user's config file."""
    if word.endswith(".py"):
        path = config_file(word).resolve()
        return Method(path.stem, path.stem, str(path))
    if word not in BY_KEY:
        kinds = ("a config file (.py)", "a file of rows (.yaml)")
        raise unknown_method(word, (*BY_KEY, ALL, *kinds))
    return BY_KEY[word]


def _number(value: Any) -> Any:
    """Return 1e-3 as a number, which YAML reads as a text."""
    if isinstance(value, str) and re.fullmatch(r"[+-]?[\d.]+e[+-]?\d+", value, re.IGNORECASE):
        return float(value)
    return value


def _is_second(row: Row) -> bool:
    """Whether a row has the name of a shipped method, but another method or values."""
    return row.key in BY_KEY and (row.method is not BY_KEY[row.key] or bool(row.values))


def _error_of_second(what: str, key: str) -> UserValueError:
    """Return the error for two rows of one name."""
    return UserValueError(
        f"the names of rows must differ, but {what} would be a second {key}; give that row another "
        "name."
    )


def _identity(row: Row) -> tuple[Any, ...]:
    """Return what makes two rows equal."""
    return row.method.config, row.values, row.teacher, row.share, row.epochs
