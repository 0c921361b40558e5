"""Configs that nobody has named, such as the one beside weights: read as data, and never run."""

import ast
import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from textwrap import shorten
from typing import Any

from mmengine.config import Config

from ..errors import UserError, UserFileNotFoundError, UserValueError
from ..models.module_backbone import is_named
from ..registry import all_names
from .reading import one_line, refuse

_MOST_BYTES = 1_000_000
_MOST_BITS = 64
"""Of a whole number: Python refuses to print one of 4,300 digits."""
_MOST_LEVELS = 50
"""Of what lies in each other: Python copies no more than some hundreds."""
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
    "nobody has named this file, so it is read as data; write plain values, or name it as config, "
    "which runs it."
)

_KINDS: dict[type, str] = {
    **{str: "a string", int: "an integer", float: "a number", dict: "a dict", list: "a list"},
}


def found_config(folder: str | Path, *, stem: str = "", remedy: str = "keep one") -> Config:
    """Read the one config in the folder of a run, or of weights; of several that named ``stem``.

    ``remedy`` is what to do where there is no config, or several.
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
    names is imported, and the types that it names are those of the installed packages. Anything
    else is a ValueError, which names the line and how to have it run.
    """
    path = Path(path)
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"it must be a file of at most {_MOST_BYTES:,} bytes")
        text = path.read_text("utf-8")
        values = _values(text)
        _check_imports(values.get("custom_imports") or {})
        _check_names(values)
        return Config(values, cfg_text=text, filename=path)
    except SyntaxError as error:
        raise UserValueError(f"{path}: line {error.lineno or 1}: {error.msg}; {_REMEDY}") from None
    except (ValueError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise UserValueError(f"{path}: {one_line(error)}; {_REMEDY}") from None


def require(cfg: Config, **kinds: type | tuple[type, ...]) -> None:
    """Check that a config which was found has values of these classes, by dotted key."""
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


def _values(text: str) -> dict[str, Any]:
    """Return what a file assigns; SyntaxError where it does anything else."""
    if found := _REPLACED.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise _refused(line, f"{found[0]} stands for something else")
    values = {}
    for i, statement in enumerate(ast.parse(text).body):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name != "_base_":
                try:
                    values[name] = ast.literal_eval(_Literals().visit(value))
                except ValueError:
                    line = statement.lineno
                    raise _refused(line, "it must be plain values, lists, tuples, dicts") from None
            case ast.Expr(value=ast.Constant(value=str())) if i == 0:  # about the file
                pass
            case _:
                raise _refused(statement.lineno, "it does more than assign a value")
    return values


class _Literals(ast.NodeTransformer):
    """Writes ``dict(a=1)`` and ``dict({"a": 1})`` as ``{"a": 1}``."""

    def visit_Call(self, node: ast.Call) -> ast.AST:  # noqa: N802
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id="dict"), args=[ast.Dict() as content], keywords=[]):
                return content
            case ast.Call(func=ast.Name(id="dict"), args=[], keywords=fields):
                # None, which ** has in place of a name, is no literal.
                keys: list[ast.expr | None] = [
                    ast.Constant(field.arg) if field.arg else None for field in fields
                ]
                return ast.Dict(keys=keys, values=[field.value for field in fields])
        return node


def _refused(line: int, reason: str) -> SyntaxError:
    return SyntaxError(reason, (None, line, None, None))


def _check_imports(modules: Any) -> None:
    """Refuse modules that mmengine would import and this process has not."""
    imports = modules.get("imports") if isinstance(modules, dict) else modules
    for name in imports if isinstance(imports, list | tuple) else [imports]:
        if name is not None and str(name) not in sys.modules:
            raise ValueError(f"custom_imports: it would import {str(name)[:_SHOWN]!r}")


_PLAIN = (str, int, float, list, tuple, dict, type(None))


def _check_names(values: Mapping[str, Any]) -> None:
    """Refuse parts that run what their fields say, and what nobody can copy or print."""
    waiting: list[tuple[str, Any, int]] = [("", values, 0)]
    while waiting:
        place, value, level = waiting.pop()
        if level > _MOST_LEVELS:
            raise ValueError(f"{place.split('.')[0]} is nested deeper than {_MOST_LEVELS} levels")
        if not isinstance(value, _PLAIN):
            raise ValueError(f"{place} is a {type(value).__name__}, which no config of a run has")
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            raise ValueError(f"{place} has more than {_MOST_BITS} bits")
        if isinstance(value, dict) and str(value.get("type")).endswith("ModuleBackbone"):
            module, colon, _ = str(value.get("network")).partition(":")
            if colon and not is_named(module):
                told = f"{place}.network: it would import {module[:_SHOWN]!r}; begin the command "
                raise ValueError(f"{told}with `python -m mmssprl --import MODULE`, or import it")
        items = enumerate(value) if isinstance(value, list | tuple) else ()
        for key, child in value.items() if isinstance(value, dict) else items:
            inner = f"{place}.{key}".removeprefix(".")
            if isinstance(child, str):
                may_be_name = "." in child and str(key).endswith(_MORE_NAMES)
                if (may_be_name or _NAMES.fullmatch(str(key))) and not _is_harmless(child):
                    name = ascii(inner)[1:-1]
                    raise ValueError(f"{name}: {child[:_SHOWN]!r} may run a program")
            waiting.append((inner, child, level + 1))


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
