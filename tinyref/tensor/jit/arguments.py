"""What a captured function is called with, and returns: containers, tensors, constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from tinyref.algebra.symbolic import describe, describe_shape, variables_of
from tinyref.arrays import np
from tinyref.errors import UserError, UserTypeError
from tinyref.schedule.prepare import unbound
from tinyref.tensor.values.core import TensorCore
from tinyref.tensor.variable import values_bound
from tinyref.uops.node import UOp
from tinyref.uops.payload import ShardArg

_PLAIN = (bool, int, str, bytes, complex, type(None))
_MUTABLE = (np.ndarray, set, bytearray, memoryview)

# A kind, and all of a part of a call that must be equal in each call: see `_describe`.
Spec = tuple[Any, ...]


class _Same:
    """Equal to another one of the same object: of most objects no change would be seen."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass
class Arguments:
    """All parts of a call in a fixed order: a capture fits if `specs` and `paths` are equal.

    values: those of the variables, by name.
    """

    specs: list[Spec] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    tensors: list[TensorCore] = field(default_factory=list)
    tensor_paths: list[str] = field(default_factory=list)
    values: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, names: Sequence[str], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> Arguments:
        """Read a call; `names` are those of the positional parameters.

        Raises `UserError` for what no replay takes.
        """
        arguments = cls()
        try:
            for number, value in enumerate(args):
                arguments._add(value, names[number] if number < len(names) else str(number))
            for name in sorted(kwargs):
                arguments._add(kwargs[name], name)
        except RecursionError:
            raise UserError("TinyJit: an argument nests too many containers") from None
        return arguments

    def _add(self, value: object, path: str) -> None:
        self.paths.append(path)
        kind = type(value)
        if isinstance(value, TensorCore):
            self.specs.append(self._tensor_spec(value, path))
        elif isinstance(value, UOp):
            self._bind([value], path)
            self.specs.append(("size", unbound(value)))
        elif isinstance(value, dict):
            self.specs.append(("container", kind, tuple(value)))
            for key, item in value.items():
                self._add(item, f"{path}[{key!r}]")
        elif isinstance(value, list | tuple):
            self.specs.append(("container", kind, len(value)))
            for number, item in enumerate(value):
                self._add(item, f"{path}[{number}]")
        elif isinstance(value, _MUTABLE):
            raise UserTypeError(
                f"TinyJit: argument {path} is a {kind.__name__}, whose contents a replay would "
                f"not see: pass a Tensor"
            )
        elif isinstance(value, float):
            self.specs.append(("value", kind, value.hex()))
        else:
            self.specs.append(("value", kind, value if kind in _PLAIN else _Same(value)))

    def _tensor_spec(self, tensor: TensorCore, path: str) -> Spec:
        self.tensors.append(tensor)
        self.tensor_paths.append(path)
        shape = tensor.shape
        if UOp in map(type, shape):
            self._bind([size for size in shape if isinstance(size, UOp)], path)
            shape = tuple(unbound(size) for size in shape)
        argument = tensor._node.arg
        layout = argument if isinstance(argument, ShardArg) else None
        return "tensor", shape, tensor.dtype, tensor._device, layout

    def _bind(self, sizes: Sequence[UOp], path: str) -> None:
        for name, value in values_bound(sizes, f"TinyJit: argument {path}").items():
            if self.values.setdefault(name, value) != value:
                raise UserError(
                    f"TinyJit: argument {path}: variable {name} is {value} here and "
                    f"{self.values[name]} in an argument before: accepted is one value"
                )

    def check(self, call: Arguments) -> None:
        """Raise `UserError` if a call differs from what was captured."""
        if call.specs != self.specs or call.paths != self.paths:
            raise UserError(
                f"TinyJit: {self._mismatch(call)}: "
                f"call it as it was captured, or reset() it to capture it again"
            )

    def _mismatch(self, call: Arguments) -> str:
        for have, got, path, other in zip(
            self.specs, call.specs, self.paths, call.paths, strict=False
        ):
            if path != other:
                return f"argument {other} came where {path} was captured"
            if have != got:
                is_value = have[0] == got[0] == "value"
                reason = "; a Python value is part of the capture" if is_value else ""
                return (
                    f"argument {path} is {_describe(got)}, captured was {_describe(have)}{reason}"
                )
        if len(self.specs) < len(call.specs):
            return f"argument {call.paths[len(self.specs)]} was not there when it was captured"
        return f"argument {self.paths[len(call.specs)]} is missing"

    def describe(self) -> tuple[str, ...]:
        """Return a line for each tensor, and for each variable."""
        pairs = zip(self.paths, self.specs, strict=True)
        tensors = [f"{path}: {_describe(spec)}" for path, spec in pairs if spec[0] == "tensor"]
        return *tensors, *(f"{name}: a variable" for name in self.values)


def _describe(spec: Spec) -> str:
    kind, first, *others = spec
    if kind == "tensor":
        dtype, device, layout = others
        where = (
            f", axis {layout.axis} in {layout.sizes}" if layout and layout.axis is not None else ""
        )
        return f"a {dtype.name} tensor of shape {describe_shape(first)} on {device}{where}"
    if kind == "size":
        names = ", ".join(f"{node.arg}" for node in variables_of([first]))
        return f"the symbolic size {describe(first)} of {names}"
    (value,) = others
    if kind == "container":
        what = f"{value} items" if isinstance(value, int) else f"the keys {value}"
        return f"a {first.__name__} of {what}"
    if isinstance(value, _Same):
        value = value.value
    text = repr(float.fromhex(value) if first is float else value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True)
class Placeholder:
    """Stands for a tensor in what a function returned: number `number` of its results.

    is_argument: of its arguments.
    """

    number: int
    is_argument: bool


def rebuilt(value: object, kind: type, replace: Callable[..., object]) -> object:
    """Return `value` with `replace` applied to every `kind` in it; containers are copied."""
    if isinstance(value, kind):
        return replace(value)
    made: object
    if isinstance(value, dict):
        made = {key: rebuilt(item, kind, replace) for key, item in value.items()}
    elif isinstance(value, list | tuple):
        made = [rebuilt(item, kind, replace) for item in value]
    else:
        return value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return cast(Callable[..., object], type(value))(*cast(list[object], made))
    try:
        return made if type(value) in (dict, list) else cast(Any, type(value))(made)
    except TypeError as error:
        raise UserTypeError(
            f"TinyJit: cannot copy a {type(value).__name__}: {error}: "
            f"accepted are tuples, lists and dicts"
        ) from error


def check_returned(value: object, path: str = "the result") -> None:
    """Raise `UserError` unless a replay can return `value`: tensors, numbers, texts, None."""
    if isinstance(value, dict):
        for key, item in value.items():
            check_returned(item, f"{path}[{key!r}]")
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            check_returned(item, f"{path}[{number}]")
    elif not isinstance(value, TensorCore | bool | int | float | str | bytes | None):
        raise UserTypeError(
            f"TinyJit: {path} is a {type(value).__name__}: accepted are Tensors, numbers, texts "
            f"and None, in tuples, lists and dicts"
        )
