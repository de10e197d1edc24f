"""Read pickles as data: a stack machine that imports and calls nothing from a pickle.

The standard library's `pickletools.genops` splits the bytes into opcodes. A global is refused
unless the caller's table has it. It then stands for a function of the table, never of the pickle.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

# A global by module and name, such as ("collections", "OrderedDict").
Global = tuple[str, str]


@dataclass(frozen=True)
class AllowedGlobal:
    """The replacement of a global of the pickle."""

    name: str
    # The function that a call runs; None if the global is only a name, such as an element type.
    make: Callable[..., Any] | None = None
    value: object = None


# A tensor takes about forty steps. An empty list takes 60 bytes, but one step of one byte.
MAX_STEPS = 5_000_000


class _Mark:
    """The object that a MARK pushes on the stack."""


_MARK = _Mark()


class PickleReader:
    """A reader of one pickle after the other from a file.

    allowed: the replacements of globals. persistent: returns the object for a persistent id. Both
    raise `ValueError` for contents that are not accepted. Other errors mean that it is broken.
    """

    def __init__(
        self, allowed: Mapping[Global, AllowedGlobal], persistent: Callable[[object], object]
    ) -> None:
        self.allowed = allowed
        self.persistent = persistent
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def read(self, file: BinaryIO) -> Any:
        """Return the object of the next pickle. The file is then at the byte after it."""
        self.stack, self.memo = [], {}
        try:
            return self._run(file)
        except (IndexError, KeyError):
            raise ValueError("the pickle takes an object that it did not put there") from None

    def _run(self, file: BinaryIO) -> Any:
        for step_number, (opcode, argument, offset) in enumerate(pickletools.genops(file)):
            if step_number == MAX_STEPS:
                raise ValueError(f"the pickle has more than {MAX_STEPS} steps")
            if opcode.name == "STOP":
                return self._pop()
            step = _STEPS.get(opcode.name)
            if step is None:
                raise ValueError(f"the pickle has {opcode.name} at {offset}, which is not accepted")
            step(self, argument)
        raise ValueError("the pickle does not end")

    def _pop(self) -> Any:
        item = self.stack.pop()
        if item is _MARK:
            raise ValueError("the pickle takes a mark for an object")
        return item

    def _top(self) -> Any:
        item = self._pop()
        self.stack.append(item)
        return item

    def _to_mark(self) -> list[Any]:
        """Remove the last mark and the objects above it, and return these objects."""
        items: list[Any] = []
        while (item := self.stack.pop()) is not _MARK:
            items.append(item)
        items.reverse()
        return items

    # --- steps ----------------------------------------------------------------------------------

    def push(self, item: object) -> None:
        self.stack.append(item)

    def pop(self, _: object) -> None:
        self.stack.pop()

    def drop_to_mark(self, _: object) -> None:
        self._to_mark()

    def duplicate(self, _: object) -> None:
        self.stack.append(self._top())

    def take_tuple(self, count: int) -> None:
        items = [self._pop() for _ in range(count)]
        self.stack.append(tuple(reversed(items)))

    def append(self, items: list[Any]) -> None:
        target = self._top()
        if not isinstance(target, list):
            raise ValueError(f"the pickle appends to a {type(target).__name__}")
        target.extend(items)

    def set_items(self, items: list[Any]) -> None:
        target = self._top()
        if not isinstance(target, dict) or len(items) % 2:
            raise ValueError(f"the pickle sets items of a {type(target).__name__}")
        target.update(_pairs(items))

    def add_items(self, items: list[Any]) -> None:
        target = self._top()
        if not isinstance(target, set):
            raise ValueError(f"the pickle adds items to a {type(target).__name__}")
        target.update(plain_keys(items))

    def remember(self, number: int) -> None:
        self.memo[number] = self._top()

    def recall(self, number: int) -> None:
        self.stack.append(self.memo[number])

    def find_global(self, module: object, name: object) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise ValueError("the pickle asks for a global that is not a name")
        replacement = self.allowed.get((module, name))
        if replacement is None:
            raise ValueError(
                f"the pickle asks for {module}.{name}, which is not among what tensors need"
            )
        self.stack.append(replacement)

    def call(self, _: object) -> None:
        arguments, function = self._pop(), self._pop()
        if not isinstance(function, AllowedGlobal) or function.make is None:
            raise ValueError(f"the pickle calls {_name_of(function)}")
        if not isinstance(arguments, tuple):
            raise ValueError(f"the pickle calls {function.name} without a tuple of arguments")
        self.stack.append(function.make(*arguments))

    def set_state(self, _: object) -> None:
        """Ignore the state of a dictionary: only its items are used."""
        self._pop()
        target = self._top()
        if not isinstance(target, dict):
            raise ValueError(f"the pickle gives a state to {_name_of(target)}")

    def find_persistent(self, key: object) -> None:
        self.stack.append(self.persistent(key))


def _name_of(item: object) -> str:
    return item.name if isinstance(item, AllowedGlobal) else f"a {type(item).__name__}"


Step = Callable[[PickleReader, Any], None]


def _push(make: Callable[[], object]) -> Step:
    return lambda reader, _: reader.push(make())


def _from_mark(make: Callable[[list[Any]], object]) -> Step:
    return lambda reader, _: reader.push(make(reader._to_mark()))


def _pairs(items: list[Any]) -> dict[Any, Any]:
    return dict(zip(plain_keys(items[::2]), items[1::2], strict=True))


def plain_keys(items: Any) -> list[Any]:
    """Return `items` as a list. Raises `ValueError` unless all are plain keys of dictionaries.

    A tuple is refused: nested tuples that contain another one twice take forever to hash or print.
    """
    for item in items:
        if item is not None and not isinstance(item, str | bytes | int | float):
            raise ValueError(f"the pickle has a {type(item).__name__} for a key")
    return list(items)


def _global(reader: PickleReader, argument: str) -> None:
    reader.find_global(*argument.split(" ", 1))


def _stack_global(reader: PickleReader, _: object) -> None:
    name, module = reader._pop(), reader._pop()
    reader.find_global(module, name)


_VALUES = (
    "INT",
    "BININT",
    "BININT1",
    "BININT2",
    "LONG",
    "LONG1",
    "LONG4",
    "FLOAT",
    "BINFLOAT",
    "STRING",
    "BINSTRING",
    "SHORT_BINSTRING",
    "BINBYTES",
    "SHORT_BINBYTES",
    "BINBYTES8",
    "UNICODE",
    "BINUNICODE",
    "SHORT_BINUNICODE",
    "BINUNICODE8",
)

_STEPS: dict[str, Step] = {
    "PROTO": lambda reader, _: None,
    "FRAME": lambda reader, _: None,
    "MARK": _push(lambda: _MARK),
    "POP": PickleReader.pop,
    "POP_MARK": PickleReader.drop_to_mark,
    "DUP": PickleReader.duplicate,
    "NONE": _push(lambda: None),
    "NEWTRUE": _push(lambda: True),
    "NEWFALSE": _push(lambda: False),
    "EMPTY_LIST": _push(list),
    "EMPTY_TUPLE": _push(tuple),
    "EMPTY_DICT": _push(dict),
    "EMPTY_SET": _push(set),
    "LIST": _from_mark(list),
    "TUPLE": _from_mark(tuple),
    "DICT": _from_mark(_pairs),
    "FROZENSET": _from_mark(lambda items: frozenset(plain_keys(items))),
    "TUPLE1": lambda reader, _: reader.take_tuple(1),
    "TUPLE2": lambda reader, _: reader.take_tuple(2),
    "TUPLE3": lambda reader, _: reader.take_tuple(3),
    "APPEND": lambda reader, _: reader.append([reader._pop()]),
    "APPENDS": lambda reader, _: reader.append(reader._to_mark()),
    "SETITEM": lambda reader, _: reader.set_items([reader._pop(), reader._pop()][::-1]),
    "SETITEMS": lambda reader, _: reader.set_items(reader._to_mark()),
    "ADDITEMS": lambda reader, _: reader.add_items(reader._to_mark()),
    "MEMOIZE": lambda reader, _: reader.remember(len(reader.memo)),
    "GLOBAL": _global,
    "STACK_GLOBAL": _stack_global,
    "REDUCE": PickleReader.call,
    "NEWOBJ": PickleReader.call,
    "BUILD": PickleReader.set_state,
    "PERSID": PickleReader.find_persistent,
    "BINPERSID": lambda reader, _: reader.find_persistent(reader._pop()),
    **dict.fromkeys(_VALUES, PickleReader.push),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), PickleReader.recall),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), PickleReader.remember),
}
