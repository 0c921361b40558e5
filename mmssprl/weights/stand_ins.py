"""Stand-ins for values of classes that are not read from a file, such as paths and dates.

A file of weights often holds the options of its training next to the tensors. torch's restricted
reader refuses the whole file at the first class that it does not know. It gets an empty class for
each of them instead, so that the tensors are read and no code of the file runs.
"""

import pickletools
import zipfile
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections import OrderedDict
from typing import IO, Any

_FILLED: dict[str, type] = {
    **dict.fromkeys(("SETITEM", "SETITEMS"), OrderedDict),
    **dict.fromkeys(("APPEND", "APPENDS"), list),
}
"""Instructions that put items into a container -> the only container that torch lets them fill."""
_BEFORE_OLD_FORM = 3
"""Pickles before the content in files of torch below 1.6: a magic number, a version, sizes."""


class StandIn:
    """In place of a value. It keeps nothing that the file gives it."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> None:
        """Ignore the attributes that the file gives."""


def stand_ins_for(file: IO[bytes], made: set[str]) -> dict[str, type[StandIn]]:
    """Return a class for each name in a file of torch.

    Containers that the file fills become dicts and lists. When the file is read, the names of the
    other values, which are lost, are added to ``made``.
    """
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            content = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
            kinds = _kinds_in(archive.open(content))
    else:
        file.seek(0)
        for _ in range(_BEFORE_OLD_FORM + 1):
            kinds = _kinds_in(file)

    found: dict[str, type[StandIn]] = {}
    for argument, kind in kinds.items():
        # Pickles have Python 2's names of modules. torch renames some of them.
        module, _, name = argument.partition(" ")
        pair = (IMPORT_MAPPING.get(module, module), name)
        here = ".".join(NAME_MAPPING.get((module, name), pair))
        found[f"{module}.{name}"] = found[here] = _stand_in(here, kind, made)
    return found


def _stand_in(name: str, kind: type, made: set[str]) -> type[StandIn]:
    def make(cls: type, *_: Any) -> Any:
        if kind is not object:
            return kind()
        made.add(name)
        return object.__new__(cls)

    return type(name, (StandIn,), {"__new__": make, "__slots__": ()})


def _kinds_in(pickled: IO[bytes]) -> dict[str, type]:
    """Return "module name" of each class in a pickle, and what its values are filled as.

    Nothing is made. The stack holds only the name that each value was made from, '' for others.
    """
    kinds: dict[str, type] = {}
    stack: list[str] = []
    marks: list[int] = []
    memo: dict[Any, str] = {}
    for code, argument, _ in pickletools.genops(pickled):
        taken = list(code.stack_before)
        if pickletools.markobject in taken:
            taken = taken[: taken.index(pickletools.markobject)]
            del stack[marks.pop() :]
        first = len(stack) - len(taken)
        name = stack[first] if taken else ""
        del stack[first:]

        if code.name == "MARK":
            marks.append(first)
            continue
        if code.name == "GLOBAL":
            name = str(argument)
            kinds.setdefault(name, object)
        elif code.name in _FILLED:
            kinds[name] = _FILLED[code.name]
        elif code.name.endswith("GET"):
            name = memo[argument]
        elif code.name.endswith("PUT"):
            memo[argument] = stack[-1]
        stack += [name] * len(code.stack_after)
    return kinds
