"""What a captured function is called with, and what it returns: containers, tensors, constants."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from tinyref.algebra.symbolic import describe, describe_shape, variables_of
from tinyref.arrays import np
from tinyref.dtype import DType
from tinyref.errors import UserError, UserTypeError
from tinyref.lazy.shards import Place
from tinyref.schedule.prepare import unbound
from tinyref.tensor.arguments import Shape
from tinyref.tensor.core import TensorCore
from tinyref.tensor.variable import values_bound
from tinyref.uops.node import UOp
from tinyref.uops.payload import ShardArg

_MAX_NESTED = 100
_RETURNED = (bool, int, float, complex, str, bytes)


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor: any other of equal shape, type and device may take its place.

    layout: how it lies on several devices.
    """

    shape: Shape
    dtype: DType
    device: Place
    layout: ShardArg | None = None

    def __str__(self) -> str:
        where = f"{self.device}"
        if self.layout is not None and self.layout.axis is not None:
            where += f", axis {self.layout.axis} in {self.layout.sizes}"
        return f"a {self.dtype.name} tensor of shape {describe_shape(self.shape)} on {where}"


@dataclass(frozen=True, slots=True)
class SizeSpec:
    """A symbolic size, without the values of its variables: those may change."""

    size: UOp

    def __str__(self) -> str:
        names = [f"{node.arg}" for node in variables_of([self.size])]
        return f"the symbolic size {describe(self.size)} of {', '.join(names)}"


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """A tuple, list or dict: its type, and its keys or its length."""

    kind: type
    keys: tuple[object, ...] | int

    def __str__(self) -> str:
        what = f"{self.keys} items" if isinstance(self.keys, int) else f"the keys {self.keys}"
        return f"a {self.kind.__name__} of {what}"


@dataclass(frozen=True, slots=True, eq=False)
class ConstantSpec:
    """A Python value, part of the capture: numbers and texts must be equal, others the same."""

    value: object

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConstantSpec) or type(self.value) is not type(other.value):
            return False
        if isinstance(self.value, float) and isinstance(other.value, float):
            return struct.pack("<d", self.value) == struct.pack("<d", other.value)
        if isinstance(self.value, (*_RETURNED, type(None))):
            return bool(self.value == other.value)
        return self.value is other.value

    def __hash__(self) -> int:
        return hash(type(self.value))

    def __str__(self) -> str:
        text = repr(self.value)
        return text if len(text) <= 60 else f"{text[:57]}..."


Spec = TensorSpec | SizeSpec | ContainerSpec | ConstantSpec


@dataclass
class Arguments:
    """All parts of a call in a fixed order: `specs` decide whether a capture fits.

    paths: where each part was found. tensors: in order. values: of the variables, by name.
    """

    specs: list[Spec] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    tensors: list[TensorCore] = field(default_factory=list)
    tensor_paths: list[str] = field(default_factory=list)
    values: dict[str, int] = field(default_factory=dict)

    def add(self, value: object, path: str, depth: int = 0) -> None:
        """Reads one argument and all that is in it. Raises `UserError` for what no replay takes."""
        if depth > _MAX_NESTED:
            raise UserError(f"TinyJit: argument {path} nests more than {_MAX_NESTED} containers")
        self.paths.append(path)
        if isinstance(value, TensorCore):
            self._add_tensor(value, path)
        elif isinstance(value, UOp):
            self._bind([value], path)
            self.specs.append(SizeSpec(cast(UOp, unbound(value))))
        elif isinstance(value, dict):
            self.specs.append(ContainerSpec(type(value), tuple(value)))
            for key, item in value.items():
                self.add(item, f"{path}[{key!r}]", depth + 1)
        elif isinstance(value, list | tuple):
            self.specs.append(ContainerSpec(type(value), len(value)))
            for place, item in enumerate(value):
                self.add(item, f"{path}[{place}]", depth + 1)
        elif isinstance(value, np.ndarray | set | bytearray | memoryview):
            name = type(value).__name__
            raise UserTypeError(
                f"TinyJit: argument {path} is a {name}, whose contents a replay would not see: "
                f"pass a Tensor"
            )
        else:
            self.specs.append(ConstantSpec(value))

    def _add_tensor(self, tensor: TensorCore, path: str) -> None:
        shape = tensor.shape
        if UOp in map(type, shape):
            self._bind([size for size in shape if isinstance(size, UOp)], path)
            shape = tuple(unbound(size) for size in shape)
        argument = tensor._node.arg
        layout = argument if isinstance(argument, ShardArg) else None
        self.specs.append(TensorSpec(shape, tensor.dtype, tensor._device, layout))
        self.tensors.append(tensor)
        self.tensor_paths.append(path)

    def _bind(self, sizes: Sequence[UOp], path: str) -> None:
        for name, value in values_bound(sizes, f"TinyJit: argument {path}").items():
            if self.values.setdefault(name, value) != value:
                raise UserError(
                    f"TinyJit: argument {path}: variable {name} is {value} here and "
                    f"{self.values[name]} in an argument before: accepted is one value"
                )


def read_arguments(
    names: Sequence[str], args: Sequence[object], kwargs: Mapping[str, object]
) -> Arguments:
    """All parts of a call; `names` are those of the positional parameters."""
    found = Arguments()
    for place, value in enumerate(args):
        found.add(value, names[place] if place < len(names) else str(place))
    for name in sorted(kwargs):
        found.add(kwargs[name], name)
    return found


def mismatch(captured: Arguments, given: Arguments) -> str:
    """A sentence on the first part of a call that differs from what was captured."""
    pairs = zip(captured.specs, given.specs, captured.paths, given.paths, strict=False)
    for have, got, path, other in pairs:
        if path != other:
            return f"argument {other} came where {path} was captured"
        if have != got:
            kept = "; a Python value is part of the capture" if _is_constant(have, got) else ""
            return f"argument {path} is {got}, captured was {have}{kept}"
    if len(captured.specs) < len(given.specs):
        return f"argument {given.paths[len(captured.specs)]} was not there when it was captured"
    return f"argument {captured.paths[len(given.specs)]} is missing"


def _is_constant(*specs: Spec) -> bool:
    return all(isinstance(spec, ConstantSpec) for spec in specs)


def rebuilt(value: object, replace: Callable[[TensorCore], object]) -> object:
    """`value` with `replace` applied to every tensor in it; containers are made anew."""
    if isinstance(value, TensorCore):
        return replace(value)
    if isinstance(value, dict):
        items = {key: rebuilt(item, replace) for key, item in value.items()}
        return items if type(value) is dict else _same_kind(value, items)
    if isinstance(value, list | tuple):
        listed = [rebuilt(item, replace) for item in value]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return cast(Callable[..., object], type(value))(*listed)
        return listed if type(value) is list else _same_kind(value, listed)
    return value


def _same_kind(value: object, items: object) -> object:
    try:
        return type(value)(items)  # type: ignore[call-arg]  # containers are made of their items
    except TypeError as error:
        raise UserTypeError(
            f"TinyJit: cannot make a {type(value).__name__} anew: {error}: "
            f"accepted are tuples, lists and dicts"
        ) from error


def check_returned(value: object, path: str = "the result", depth: int = 0) -> None:
    """Raises `UserError` unless a replay can return `value`: tensors, numbers, texts, None."""
    if depth > _MAX_NESTED:
        raise UserError(f"TinyJit: {path} nests more than {_MAX_NESTED} containers")
    if isinstance(value, dict):
        for key, item in value.items():
            check_returned(item, f"{path}[{key!r}]", depth + 1)
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            check_returned(item, f"{path}[{place}]", depth + 1)
    elif value is not None and not isinstance(value, TensorCore | bool | int | float | str | bytes):
        raise UserTypeError(
            f"TinyJit: {path} is a {type(value).__name__}: accepted are Tensors, numbers, texts "
            f"and None, in tuples, lists and dicts"
        )
