"""Reads pickles without running any code that they name.

A pickle is a list of orders: name this, call it, set its state. Python's own unpickler follows
them, also where they forge the inside of an object or take 2 GiB for a file of nine bytes. Here the
orders work on plain values alone: a name stands for a function in one table, a state is set in four
ways, and nothing else is imported, called or changed.
"""

import pickletools
from collections.abc import Callable, Collection, Mapping, Sized
from typing import IO, Any

import numpy as np
import torch

from .pickled_values import (
    BUFFER,
    FUNCTIONS,
    STATISTICS,
    Ignored,
    RefusedError,
    UnknownError,
    make_set,
    set_items,
    set_state,
)

_VALUES = {
    each.name
    for each in pickletools.opcodes
    if each.arg and not each.stack_before and each.stack_after not in ([], [pickletools.anyobject])
}
"""Orders whose argument, which pickletools reads, is a value."""
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_EMPTY = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": set}
_STORAGES = {
    **{"Double": torch.float64, "Float": torch.float32, "Half": torch.float16},
    **{"BFloat16": torch.bfloat16, "Long": torch.int64, "Int": torch.int32, "Short": torch.int16},
    **{"Char": torch.int8, "Byte": torch.uint8, "Untyped": torch.uint8, "Bool": torch.bool},
    **{"ComplexDouble": torch.complex128, "ComplexFloat": torch.complex64},
}
"""What torch calls its storages -> what they hold."""
_MAX_DEPTH = 100
"""Of values in one another; checkpoints have about ten."""
_MAX_REPEATS = 10
"""How often a value is met on a walk through all, on average."""
_MAX_COPIES = 2
"""How many values functions are given for each byte that was read."""
_SMALL = 512
"""Bytes of tensors and arrays that count like one other value."""


def load_pickle(
    file: IO[bytes],
    *,
    tolerant: bool = False,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    storage: Callable[[Any], Any] | None = None,
) -> Any:
    """Read one pickle of any protocol, also of Python 2, and no byte after it.

    Args:
        file: Where it begins.
        tolerant: Put an ``Ignored`` in the place of each object that is not known.
        functions: What the pickle may call besides, by name.
        storage: Gives what a persistent id stands for.

    Raises:
        RefusedError: An unknown object, or values that repeat without end. A damaged file raises
            errors of almost any class.
    """
    reader = _Reader(tolerant, {**FUNCTIONS, **(functions or {})}, storage)
    for order, argument, place in pickletools.genops(file):
        reader.num_read = place or 0
        if order.name in _VALUES:
            reader.stack.append(argument)
        else:
            reader.follow(order.name, argument)
    (content,) = reader.stack
    _require_walkable(content)
    return content


def reason_of(error: BaseException) -> str:
    """Return what is wrong with a file that cannot be read, or what it asked for."""
    return str(error) if isinstance(error, RefusedError) else type(error).__name__


class _Function:
    """Something that a pickle may call."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call


class _Reader:
    """What orders work on: a stack, places in it that are marked, and what is to be used again."""

    def __init__(
        self,
        tolerant: bool,
        functions: Mapping[str, Callable[..., Any]],
        storage: Callable[[Any], Any] | None,
    ) -> None:
        self.tolerant, self.storage = tolerant, storage
        self.functions = {name: _Function(call) for name, call in functions.items()}
        self.functions["builtins.getattr"] = _Function(self._get_statistic)
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.num_read = self.num_copied = 0

    def follow(self, order: str, argument: Any) -> None:
        """Follow one order.

        Raises:
            RefusedError: It is unknown, or asks for something that is.
        """
        stack = self.stack
        match order:
            case "BINPUT" | "LONG_BINPUT" | "PUT":
                self.memo[argument] = stack[-1]
            case "MEMOIZE":
                self.memo[len(self.memo)] = stack[-1]
            case "BINGET" | "LONG_BINGET" | "GET":
                stack.append(self.memo[argument])
            case "MARK":
                self.marks.append(len(stack))
            case "TUPLE":
                stack.append(tuple(self._items()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                length = int(order[-1])
                stack[-length:] = [tuple(stack[-length:])]
            case "LIST":
                stack.append(self._items())
            case "DICT":
                stack.append(set_items({}, self._items()))
            case "FROZENSET":
                stack.append(frozenset(make_set(self._items())))
            case "APPEND" | "APPENDS":
                items = self._items() if order == "APPENDS" else [stack.pop()]
                self._add(list, list.extend, items)
            case "SETITEM" | "SETITEMS":
                items = self._items() if order == "SETITEMS" else [stack.pop(-2), stack.pop()]
                self._add(dict, set_items, items)
            case "ADDITEMS":
                self._add(set, set.update, make_set(self._items()))
            case "GLOBAL":
                stack.append(self._try(self._find, *argument.split(" ", 1)))
            case "STACK_GLOBAL":
                stack.append(self._try(self._find, stack.pop(-2), stack.pop()))
            case "REDUCE" | "NEWOBJ":
                stack.append(self._try(self._call, stack.pop(-2), stack.pop()))
            case "BUILD":
                state = stack.pop()
                self._try(self._set_state, stack[-1], state)
            case "BINPERSID" if self.storage:
                stack.append(self._try(self.storage, stack.pop()))
            case "PROTO" | "FRAME" | "STOP":
                pass
            case _ if order in _CONSTANTS:
                stack.append(_CONSTANTS[order])
            case _ if order in _EMPTY:
                stack.append(_EMPTY[order]())
            case _:
                raise UnknownError(f"the order {order} of pickle")

    def _items(self) -> list[Any]:
        """Take what lies above the last mark from the stack."""
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def _add(self, kind: type, add: Callable[[Any, Any], Any], items: Any) -> None:
        target = self.stack[-1]
        if isinstance(target, kind):
            add(target, items)
        elif not isinstance(target, Ignored):
            raise UnknownError("items of something else than a list, a dict or a set")

    def _try(self, work: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return work(*arguments)
        except UnknownError:
            if not self.tolerant:
                raise
            return Ignored()

    def _find(self, module: Any, name: Any) -> Any:
        if not isinstance(module, str) or not isinstance(name, str):
            raise UnknownError("a name that is no text")
        module = "builtins" if module == "__builtin__" else module  # as in Python 2
        found: Any
        if module in ("torch", "torch.cuda", "torch.storage") and name.endswith("Storage"):
            found = _STORAGES.get(name.removesuffix("Storage"))
        elif module == "torch" and isinstance(vars(torch).get(name), torch.dtype):
            found = vars(torch)[name]
        else:
            # numpy 1 and 2 call the same functions by two module names.
            found = self.functions.get(f"{module}.{name}".replace("numpy._core.", "numpy.core."))
        if found is None:
            raise UnknownError(f"{module}.{name}")
        return found

    def _call(self, function: Any, arguments: tuple) -> Any:
        self._count_copies(arguments)
        # An argument that is ignored is, for example, a subclass of numpy's array.
        if any(isinstance(each, Ignored) for each in (function, *arguments)):
            raise UnknownError("something else")
        if not isinstance(function, _Function):
            raise UnknownError("a call of something else than a function")
        return function.call(*arguments)

    def _set_state(self, target: Any, state: Any) -> None:
        self._count_copies(state.values() if isinstance(state, dict) else (state,))
        set_state(target, state)

    def _count_copies(self, parts: Collection[Any]) -> None:
        # A function copies what it is given, and the same list can be given to a thousand.
        self.num_copied += len(parts)
        for part in parts:
            if isinstance(part, Sized) and not isinstance(part, torch.Tensor):
                self.num_copied += part.size if isinstance(part, np.ndarray) else len(part)
        if self.num_copied > _MAX_COPIES * self.num_read + 10**5:
            raise RefusedError("it copies its values without end")

    def _get_statistic(self, owner: Any, name: Any) -> None:
        # Log buffers name their own methods, which every buffer has.
        if owner is not self.functions[BUFFER] or name not in STATISTICS:
            raise UnknownError("an attribute")


def _require_walkable(content: Any) -> None:
    """Refuse what cannot be walked through, copied or shown: deep nests, circles, endless repeats.

    A list that lies twice in a second one, which lies twice in a third and so on, takes a few bytes
    for each, and a walk through it 2^40 steps after forty.
    """
    sizes: dict[int, int] = {}
    num_values = 0

    def count(value: Any, depth: int) -> int:
        nonlocal num_values
        if isinstance(value, np.ndarray | torch.Tensor):
            if id(value) not in sizes:
                sizes[id(value)] = 1 + value.nbytes // _SMALL
                num_values += sizes[id(value)]
            return sizes[id(value)]
        if not isinstance(value, dict | list | tuple | set | frozenset):
            return 1
        if id(value) not in sizes:
            if depth > _MAX_DEPTH:
                raise RefusedError(f"it has more than {_MAX_DEPTH} values in one another")
            num_values += 1 + len(value)
            items = [*value, *value.values()] if isinstance(value, dict) else value
            sizes[id(value)] = 1 + sum(count(each, depth + 1) for each in items)
        return sizes[id(value)]

    if count(content, 0) > _MAX_REPEATS * num_values + 10_000:
        raise RefusedError("it repeats its values without end")
