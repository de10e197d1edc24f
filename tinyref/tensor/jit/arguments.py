"""What a captured function is called with: containers of tensors, symbolic sizes and constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, cast

from tinyref.algebra.symbolic import describe, describe_shape, variables_of
from tinyref.arrays import np
from tinyref.errors import UserError, UserTypeError
from tinyref.schedule.prepare import unbound
from tinyref.tensor.core import TensorCore
from tinyref.tensor.variable import values_bound
from tinyref.uops.node import UOp
from tinyref.uops.payload import ShardArg

_PLAIN = (bool, int, str, bytes, complex, type(None))

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
    """All parts of a call in a fixed order, each with its path: a capture fits if they are equal.

    values: those of the variables, by name.
    """

    parts: list[tuple[str, Spec]] = field(default_factory=list)
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
            raise UserError("TinyJit: an argument contains itself, or is nested too deep") from None
        return arguments

    def _add(self, value: object, path: str) -> None:
        kind = type(value)
        if isinstance(value, TensorCore):
            self.parts.append((path, self._tensor_spec(value, path)))
        elif isinstance(value, UOp):
            self._bind([value], path)
            self.parts.append((path, ("size", unbound(value))))
        elif isinstance(value, dict):
            self.parts.append((path, ("container", kind, tuple(value))))
            for key, item in value.items():
                self._add(item, f"{path}[{key!r}]")
        elif isinstance(value, list | tuple):
            self.parts.append((path, ("container", kind, len(value))))
            for number, item in enumerate(value):
                self._add(item, f"{path}[{number}]")
        elif isinstance(value, np.ndarray | set | bytearray | memoryview):
            raise UserTypeError(
                f"TinyJit: argument {path} is a {kind.__name__}, whose contents a replay would "
                f"not see: pass a Tensor"
            )
        elif isinstance(value, float):
            self.parts.append((path, ("value", kind, value.hex())))
        else:
            compared = value if kind in _PLAIN else _Same(value)
            self.parts.append((path, ("value", kind, compared)))

    def _tensor_spec(self, tensor: TensorCore, path: str) -> Spec:
        self.tensors.append(tensor)
        self.tensor_paths.append(path)
        shape = tensor.shape
        if UOp in map(type, shape):
            self._bind([size for size in shape if isinstance(size, UOp)], path)
            shape = tuple(unbound(size) for size in shape)
        argument = tensor.node.arg
        layout = argument if isinstance(argument, ShardArg) else None
        return "tensor", shape, tensor.dtype, tensor.device, layout

    def _bind(self, sizes: Sequence[UOp], path: str) -> None:
        for name, value in values_bound(sizes, f"TinyJit: argument {path}").items():
            if self.values.setdefault(name, value) != value:
                raise UserError(
                    f"TinyJit: argument {path}: variable {name} is {value} here and "
                    f"{self.values[name]} in an argument before: accepted is one value"
                )

    def check(self, call: Arguments) -> None:
        """Raise `UserError` if a call differs from what was captured."""
        if call.parts != self.parts:
            raise UserError(
                f"TinyJit: {self._mismatch(call)}: "
                f"call it as it was captured, or reset() it to capture it again"
            )

    def _mismatch(self, call: Arguments) -> str:
        pairs = zip_longest(self.parts, call.parts)
        have, got = next((have, got) for have, got in pairs if have != got)
        if have is None:
            return f"argument {got[0]} was not there when it was captured"
        if got is None:
            return f"argument {have[0]} is missing"
        (path, spec), (other, other_spec) = have, got
        if path != other:
            return f"argument {other} came where {path} was captured"
        is_value = spec[0] == other_spec[0] == "value"
        reason = "; a Python value is part of the capture" if is_value else ""
        return f"argument {path} is {_describe(other_spec)}, captured was {_describe(spec)}{reason}"

    def describe(self) -> tuple[str, ...]:
        """Return a line for each tensor, and for each variable."""
        tensors = [f"{path}: {_describe(spec)}" for path, spec in self.parts if spec[0] == "tensor"]
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


def rebuilt(
    value: object, replace: Callable[[Any, str], object], path: str = "the result"
) -> object:
    """Return `value` with containers copied, and `replace` applied to all else and its path."""
    if not isinstance(value, dict | list | tuple):
        return replace(value, path)
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    made = {key: rebuilt(item, replace, f"{path}[{key!r}]") for key, item in pairs}
    if type(value) is dict:
        return made
    items = [*made.values()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return cast(Callable[..., object], type(value))(*items)
    try:
        return cast(Any, type(value))(made if isinstance(value, dict) else items)
    except TypeError as error:
        raise UserTypeError(
            f"TinyJit: cannot copy a {type(value).__name__}: {error}: "
            f"accepted are tuples, lists and dicts"
        ) from error
