"""Configs that nobody has named, such as the one beside weights: read as data, and never run."""

import ast
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from textwrap import shorten
from typing import Any

from mmengine.config import Config

from ..errors import UserError, UserFileNotFoundError, UserValueError
from ..registry import all_names
from .reading import one_line, refuse

_MOST_BYTES = 1_000_000
_MOST_BITS = 64
"""Of a whole number: Python refuses to print one of 4,300 digits."""
_MOST_LEVELS = 50
_REPLACED = re.compile(r"\{\{\s*['\"]?\s*(\$|_base_|file)")
"""What mmengine replaces in a file before it runs it, so that it would read something else."""
_PACKAGES = ("mmssprl", "mmpretrain", "mmdet", "mmseg", "mmcv", "mmengine", "torch")
"""Whose parts may be named with their package."""
_SHOWN = 80
"""So many characters of a value are told."""
_NAMES = re.compile(r"((runner|ema)_)?type|constructor|default_scope|_scope_|norm_layer")
"""Fields whose value mmengine looks up; what is not registered it imports."""
_MORE_NAMES = ("_type", "_mode", "_fn", "_policy")
"""How fields end that may hold a name too."""
_RUNS_VALUES = re.compile(
    r"CameraMotionCompensation|RFSearchHook|HuggingFace\w+|\w+CausalLM|RAM\w*|OpenImages\w+"
    r"|LoadBiomedical\w+"
)
"""Parts of OpenMMLab that evaluate a field, unpickle a file, or fetch a program."""
_REMEDY = (
    "nobody has named this file, so it is read as data; write plain values, or name it, as by "
    "--config, which runs it."
)


_KINDS: dict[type, str] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    dict: "a dict",
    list: "a list",
}


def found_config(folder: str | Path, *, stem: str = "", remedy: str = "keep one") -> Config:
    """Read the one config in a folder.

    Args:
        folder: Of a run, or of weights.
        stem: Of several files the one of this name, without .py, is taken.
        remedy: For a folder without a config, or with several.

    Raises:
        FileNotFoundError: There is none.
        ValueError: There are several, or as ``read_found``.
    """
    paths = sorted(Path(folder).glob("*.py"))
    paths = [path for path in paths if path.stem == stem] or paths
    if len(paths) > 1:
        paths = [path for path in paths if _describes_model(path)] or paths
    if len(paths) != 1:
        error = UserValueError if paths else UserFileNotFoundError
        raise error(
            f"the folder must hold exactly one config, but {folder} holds "
            f"{[path.name for path in paths] or 'none'}; {remedy}."
        )
    return read_found(paths[0])


def read_found(path: str | Path) -> Config:
    """Read a config that was found and not named, as ``Config.dump`` writes it.

    It may assign plain values, lists, tuples and dicts. Nothing in it is run, no module that it
    names is imported, and the types that it names are those of the installed packages.

    Raises:
        ValueError: Anything else is in it; names the line and how to have it run.
    """
    path = Path(path)
    values: dict[str, Any] = {}
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"it must be a file of at most {_MOST_BYTES:,} bytes")
        text = path.read_text("utf-8")
        if found := _REPLACED.search(text):
            line = text.count("\n", 0, found.start()) + 1
            raise _refused(line, f"{found[0]} stands for something else")
        for i, statement in enumerate(ast.parse(text).body):
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name != "_base_":
                    values[name] = _value(value)
                case ast.Expr(value=ast.Constant(value=str())) if i == 0:  # about the file
                    pass
                case _:
                    raise _refused(statement.lineno, "it does more than assign a value")
        cfg = Config(values, cfg_text=text, filename=path)
    except SyntaxError as error:
        raise UserValueError(f"{path}: line {error.lineno or 1}: {error.msg}; {_REMEDY}") from None
    except (ValueError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise UserValueError(f"{path}: {one_line(error)}; {_REMEDY}") from None
    _check_names(cfg)
    return cfg


def require(cfg: Config, **kinds: type | tuple[type, ...]) -> None:
    """Check that a config which was found has what its reader needs.

    Args:
        cfg: From ``found_config`` or ``read_found``.
        kinds: Classes by dotted key.

    Raises:
        ValueError: A value is missing, or of another class.
    """
    for key, kind in kinds.items():
        node: Any = cfg
        for part in key.split("."):
            node = node.get(part) if isinstance(node, Config | dict) else None
        if not isinstance(node, kind):
            words = _KINDS[kind if isinstance(kind, type) else kind[0]]
            got = "the file sets none" if node is None else f"got {shorten(repr(node), _SHOWN)}"
            refuse(cfg, key, f"it must be {words}, but {got}; keep the config of the run here.")


def _describes_model(path: Path) -> bool:
    try:
        return "model" in read_found(path)
    except UserError:
        return False


def _value(node: ast.expr, level: int = 0) -> Any:
    """Return what a literal, or a dict of literals, stands for."""

    def inner(child: ast.expr) -> Any:
        return _value(child, level + 1)

    match node:
        case _ if level > _MOST_LEVELS:
            raise _refused(node.lineno, f"it is nested deeper than {_MOST_LEVELS} levels")
        case ast.Constant(value=int() as number) if number.bit_length() <= _MOST_BITS:
            return number
        case ast.Constant(value=None | str() | float() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float())):
            return -inner(node.operand)
        case ast.List(elts=children):
            return [inner(child) for child in children]
        case ast.Tuple(elts=children):
            return tuple(inner(child) for child in children)
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return {inner(k): inner(v) for k, v in zip(keys, values, strict=True) if k}
        case ast.Call(func=ast.Name(id="dict"), args=[ast.Dict() as content], keywords=[]):
            return inner(content)
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=fields) if all(
            field.arg for field in fields
        ):
            return {str(field.arg): inner(field.value) for field in fields}
    raise _refused(node.lineno, "it must be a plain value, a list, a tuple or a dict of them")


def _refused(line: int, reason: str) -> SyntaxError:
    return SyntaxError(reason, (None, line, None, None))


def _check_names(cfg: Config) -> None:
    """Refuse what would make mmengine import a module, or a part that runs what its fields say."""
    modules = cfg.get("custom_imports") or {}
    imports = modules.get("imports") if isinstance(modules, dict) else modules
    for name in imports if isinstance(imports, list | tuple) else [imports]:
        if name is not None and str(name) not in sys.modules:
            refuse(cfg, "custom_imports", f"it would import {str(name)[:_SHOWN]!r}; {_REMEDY}")
    waiting: list[tuple[str, Any]] = [("", cfg.to_dict())]
    while waiting:
        place, value = waiting.pop()
        items = enumerate(value) if isinstance(value, list | tuple) else ()
        for key, child in value.items() if isinstance(value, dict) else items:
            inner = f"{place}.{key}".removeprefix(".")
            if isinstance(child, str):
                may_be_name = "." in child and str(key).endswith(_MORE_NAMES)
                if (may_be_name or _NAMES.fullmatch(str(key))) and not _is_harmless(child):
                    reason = f"{child[:_SHOWN]!r} may run a program; {_REMEDY}"
                    refuse(cfg, ascii(inner)[1:-1], reason)
            waiting.append((inner, child))


def _is_harmless(kind: str) -> bool:
    """Whether mmengine, which looks for a name among modules too, can run nothing by it."""
    package, *inner = kind.split(".")
    if _RUNS_VALUES.fullmatch(inner[-1] if inner else kind):
        return False
    if inner:
        scope = package if package in ("mmdet", "mmseg") else "mmssprl"
        return package in _PACKAGES and bool(find_spec(package)) and inner[-1] in all_names(scope)
    if not kind.isidentifier():
        return False
    found = None if kind in _PACKAGES or kind in sys.modules else find_spec(kind)
    return found is None or found.origin is None  # a folder
