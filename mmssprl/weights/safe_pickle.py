"""Reads pickles without running any code that they name.

Python's unpickler follows a pickle's orders here, but every name gives it a stand-in, which keeps
what it is given and does nothing. A walk then makes values of the stand-ins, by a table of names.
"""

import io
import pickle
import pickletools
from collections.abc import Callable, Iterable, Mapping, Sized
from typing import IO, Any, ClassVar

import numpy as np
import torch

from .pickled_values import FUNCTIONS, OBJECTS, Ignored, RefusedError, UnknownError, named

_PUTS = ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE")
_GETS = ("GET", "BINGET", "LONG_BINGET")
_UNUSED = ("DUP", "POP", "POP_MARK")
"""Orders that no pickle of plain values has, and that would hide what lies twice in a tuple."""
_MARK = pickletools.markobject
_STEPS = {
    each.name: (
        each.stack_before.index(_MARK) if _MARK in each.stack_before else len(each.stack_before),
        _MARK in each.stack_before,
        len(each.stack_after),
    )
    for each in pickletools.opcodes
}
"""Order -> values that it takes, whether it takes all above the last mark besides, and leaves."""
_MAX_NAMES = 1000
_MAX_DEPTH = 100  # most values in one another; checkpoints have about ten
_MAX_REPEATS = 10  # how often a value is met on a walk through all, on average
_MAX_COPIES = 2  # how many values functions are given for each byte of the pickle
_SMALL = 512  # bytes of tensors and arrays that count like one other value


def load_pickle(
    file: IO[bytes],
    *,
    tolerant: bool = False,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    storage: Callable[[Any], Any] | None = None,
) -> Any:
    """Read one pickle of any protocol, also of Python 2, and no byte after it.

    If ``tolerant``, each object that is not known becomes an ``Ignored``. ``functions`` are what
    the pickle may call besides, by name; ``storage`` gives what a persistent id stands for. A
    damaged file raises errors of almost any class.
    """
    start = file.tell()
    _check_orders(file)
    num_bytes = file.tell() - start
    file.seek(start)
    parts = _Unpickler(io.BytesIO(file.read(num_bytes)), encoding="latin1").load()
    known = {**FUNCTIONS, **OBJECTS, **(functions or {}), _Storage.name: storage or _no_storage}
    return _Walk(known, tolerant, num_bytes).through(parts)


def reason_of(error: BaseException) -> str:
    """Return what is wrong with a file that cannot be read, or what it asked for."""
    return str(error) if isinstance(error, RefusedError) else type(error).__name__


def _check_orders(file: IO[bytes]) -> None:
    """Read up to the end of a pickle, and refuse what Python's unpickler would not come back from.

    Its table is as long as the largest place in it, and tuples in tuples compute their hashes anew
    from all that is in them: one that lies twice in a second one, and that twice in a third, takes
    a few bytes for each, and 2^40 steps after forty. That of a very deep one ends the process.
    """
    stack: list[tuple[int, int]] = []  # values in each and its depth, where it is a tuple
    marks: list[int] = []
    memo: dict[int, tuple[int, int]] = {}
    num_repeated = 0
    argument: Any
    for number, (order, argument, _) in enumerate(pickletools.genops(file)):
        if order.name in _UNUSED:
            raise UnknownError(f"the order {order.name} of pickle")
        if order.name in _PUTS:
            place = len(memo) if order.name == "MEMOIZE" else argument
            if place > number:
                raise RefusedError("it has a place beyond its values")
            memo[place] = stack[-1]
        elif order.name in _GETS:
            stack.append(memo[argument])
            num_repeated += memo[argument][0]
        elif order.name == "MARK":
            marks.append(len(stack))
        else:
            num_taken, takes_mark, num_left = _STEPS[order.name]
            first = (marks.pop() if takes_mark else len(stack)) - num_taken
            size, depth = 1, 0
            if "TUPLE" in order.name and stack[first:]:
                sizes, depths = zip(*stack[first:], strict=True)
                size, depth = 1 + sum(sizes), 1 + max(depths)
            if depth > _MAX_DEPTH:
                raise RefusedError(f"it is nested deeper than {_MAX_DEPTH} levels")
            stack[first:] = [(size, depth)] * num_left
        if num_repeated > _MAX_REPEATS * number + 10**5:
            raise RefusedError("it repeats its values without end")


class _StandIn:
    """What a name gives on being called: it keeps what it is given, and does nothing."""

    name: ClassVar[str]
    args: tuple
    state: Any
    items: list

    def __new__(cls, *args: Any) -> "_StandIn":
        made = super().__new__(cls)
        made.args, made.state, made.items = args, None, []
        return made

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items.append((key, value))

    def append(self, item: Any) -> None:
        self.items.append(item)

    add = extend = append


class _Storage(_StandIn):
    """Stands for what lies outside the pickle."""

    name = "a storage"


class _Unpickler(pickle.Unpickler):
    """Python's unpickler, to which every name is a stand-in."""

    def __init__(self, file: IO[bytes], encoding: str) -> None:
        super().__init__(file, encoding=encoding)
        self.classes: dict[str, type[_StandIn]] = {}

    def find_class(self, module: str, name: str) -> type[_StandIn]:
        module = "builtins" if module == "__builtin__" else module  # as in Python 2
        # numpy 1 and 2 call the same functions by two module names.
        name = f"{module}.{name}".replace("numpy._core.", "numpy.core.")
        if name not in self.classes:
            if len(self.classes) == _MAX_NAMES:
                raise RefusedError(f"it has more than {_MAX_NAMES} names")
            self.classes[name] = type("_StandIn", (_StandIn,), {"name": name})
        return self.classes[name]

    def persistent_load(self, saved: Any) -> _StandIn:
        return _Storage(saved)


def _no_storage(saved: Any) -> Any:
    raise UnknownError("a storage outside the pickle")


class _Walk:
    """Makes values of what the unpickler gives, each once.

    Refused are deep nests, circles, and values that lie in each other without end.
    """

    def __init__(
        self, functions: Mapping[str, Callable[..., Any]], tolerant: bool, num_bytes: int
    ) -> None:
        self.functions, self.tolerant, self.num_bytes = functions, tolerant, num_bytes
        self.made: dict[int, tuple[Any, int]] = {}
        """By id of what it is made of: a value, and how many a walk through it meets."""
        self.num_values = self.num_copied = 0

    def through(self, parts: Any) -> Any:
        """Make all values."""
        value, num_met = self._make(parts, 0)
        if num_met > _MAX_REPEATS * self.num_values + 10_000:
            raise RefusedError("it repeats its values without end")
        return value

    def _make(self, part: Any, depth: int) -> tuple[Any, int]:
        if not isinstance(part, dict | list | tuple | set | frozenset | type | _StandIn):
            return part, 1
        if id(part) not in self.made:
            if depth > _MAX_DEPTH:
                raise RefusedError(f"it has more than {_MAX_DEPTH} values in one another")
            try:
                made = self._make_anew(part, depth + 1)
            except UnknownError:
                if not self.tolerant:
                    raise
                made = Ignored(), 1
            self.made[id(part)] = made
        return self.made[id(part)]

    def _make_each(self, parts: Iterable[Any], depth: int) -> tuple[list[Any], int]:
        values, num_met = [], 1
        for part in parts:
            value, num = self._make(part, depth)
            values.append(value)
            num_met += num
        self.num_values += len(values)
        return values, num_met

    def _make_anew(self, part: Any, depth: int) -> tuple[Any, int]:
        if isinstance(part, dict):
            keys, num_keys = self._make_each(part, depth)
            values, num_met = self._make_each(part.values(), depth)
            return dict(zip(keys, values, strict=True)), num_keys + num_met
        if isinstance(part, list | tuple | set | frozenset):
            values, num_met = self._make_each(part, depth)
            return type(part)(values), num_met
        if not isinstance(part, _StandIn):  # but its class: a name that is not called
            return named(part.name), 1
        if part.name not in self.functions:
            raise UnknownError(part.name)
        (args, state, items), num_met = self._make_each([part.args, part.state, part.items], depth)
        value = self._call(part.name, args, state, items)
        if isinstance(value, np.ndarray | torch.Tensor):
            num_met += value.nbytes // _SMALL
            self.num_values += value.nbytes // _SMALL
        return value, num_met

    def _call(self, name: str, args: tuple, state: Any, items: list) -> Any:
        self._count_copies([*args, items, *(state.values() if isinstance(state, dict) else [])])
        # An argument that is ignored is, for example, a subclass of numpy's array.
        if any(isinstance(each, Ignored) for each in args):
            raise UnknownError("something else")
        if name == "collections.OrderedDict":  # of protocol 2 in one argument, else item by item
            args, items = ([*(args[0] if args else []), *items],), []
        if items or (state is not None and name not in OBJECTS):
            raise UnknownError(f"{name} with more than its arguments")
        call = self.functions[name]
        return call(*args, state=state) if name in OBJECTS else call(*args)

    def _count_copies(self, parts: list) -> None:
        # A function copies what it is given, and the same list can be given to a thousand.
        self.num_copied += len(parts)
        for part in parts:
            if isinstance(part, Sized) and not isinstance(part, torch.Tensor):
                self.num_copied += part.size if isinstance(part, np.ndarray) else len(part)
        if self.num_copied > _MAX_COPIES * self.num_bytes + 10**5:
            raise RefusedError("it copies its values without end")
