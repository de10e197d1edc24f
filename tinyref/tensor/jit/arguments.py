"""The arguments of a captured function: containers of tensors, symbolic sizes and constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, cast

from tinyref.algebra.symbolic import describe, describe_shape, variables_of
from tinyref.arrays import np
from tinyref.errors import UserError, UserTypeError
from tinyref.lazy.shape import shape_of
from tinyref.schedule.prepare import unbound
from tinyref.tensor.core import TensorCore
from tinyref.tensor.variable import values_bound
from tinyref.uops.node import UOp
from tinyref.uops.payload import ShardArg

_PLAIN = (bool, int, str, bytes, complex, type(None))

# The kind of a part of a call, and all that must be equal in each call: see `_describe`.
Spec = tuple[Any, ...]


class _Same:
    """A wrapper that compares objects by identity: most objects do not show a change."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass
class Arguments:
    """All parts of a call in a fixed order. A capture fits a call whose parts are equal."""

    # The path and the spec of each part.
    parts: list[tuple[str, Spec]] = field(default_factory=list)
    tensors: list[TensorCore] = field(default_factory=list)
    tensor_paths: list[str] = field(default_factory=list)
    # The value of each variable, by name.
    values: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, names: Sequence[str], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> Arguments:
        """Return the parts of a call. `names` are the names of the positional parameters.

        Raises `UserError` for an argument that a replay cannot take.
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
                f"TinyJit: argument {path} is a {kind.__name__}: a replay would not read its "
                f"contents: pass a Tensor"
            )
        elif isinstance(value, float):
            self.parts.append((path, ("value", kind, value.hex())))
        else:
            compared = value if kind in _PLAIN else _Same(value)
            self.parts.append((path, ("value", kind, compared)))

    def _tensor_spec(self, tensor: TensorCore, path: str) -> Spec:
        self.tensors.append(tensor)
        self.tensor_paths.append(path)
        node = tensor.node
        shape = shape_of(node)
        if UOp in map(type, shape):
            self._bind([size for size in shape if isinstance(size, UOp)], path)
            shape = tuple(unbound(size) for size in shape)
        layout = node.arg if isinstance(node.arg, ShardArg) else None
        return "tensor", shape, node.dtype, tensor.device, layout

    def _bind(self, sizes: Sequence[UOp], path: str) -> None:
        for name, value in values_bound(sizes, f"TinyJit: argument {path}").items():
            if self.values.setdefault(name, value) != value:
                raise UserError(
                    f"TinyJit: argument {path}: variable {name} is {value} here and "
                    f"{self.values[name]} in an earlier argument: pass one value of it"
                )

    def check(self, call: Arguments) -> None:
        """Raise `UserError` if a call differs from the captured call."""
        if call.parts != self.parts:
            raise UserError(
                f"TinyJit: {self._mismatch(call)}: "
                f"pass what the captured call had, or call reset() to capture again"
            )

    def _mismatch(self, call: Arguments) -> str:
        pairs = zip_longest(self.parts, call.parts)
        captured, called = next(
            (captured, called) for captured, called in pairs if captured != called
        )
        if captured is None:
            return f"the captured call had no argument {called[0]}"
        if called is None:
            return f"argument {captured[0]} is missing"
        (path, spec), (called_path, called_spec) = captured, called
        if path != called_path:
            return f"argument {called_path} is where the captured call had {path}"
        is_value = spec[0] == called_spec[0] == "value"
        reason = "; a Python value is part of the capture" if is_value else ""
        got, expected = _describe(called_spec), _describe(spec)
        return f"argument {path} is {got}, the captured call had {expected}{reason}"

    def describe(self) -> tuple[str, ...]:
        """Return one line for each tensor and each variable."""
        tensors = [f"{path}: {_describe(spec)}" for path, spec in self.parts if spec[0] == "tensor"]
        return *tensors, *(f"{name}: a variable" for name in self.values)


def _describe(spec: Spec) -> str:
    kind, first, *others = spec
    if kind == "tensor":
        dtype, device, layout = others
        is_split = layout is not None and layout.axis is not None
        split = f", axis {layout.axis} split into {layout.sizes}" if is_split else ""
        return f"a {dtype.name} tensor of shape {describe_shape(first)} on {device}{split}"
    if kind == "size":
        names = ", ".join(f"{node.arg}" for node in variables_of([first]))
        return f"the symbolic size {describe(first)} of {names}"
    (value,) = others
    if kind == "container":
        contents = f"{value} items" if isinstance(value, int) else f"the keys {value}"
        return f"a {first.__name__} of {contents}"
    if isinstance(value, _Same):
        value = value.value
    text = repr(float.fromhex(value) if first is float else value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def rebuilt(
    value: object, replace: Callable[[Any, str], object], path: str = "the result"
) -> object:
    """Copy the containers of `value`, and replace each item by `replace(item, path)`."""
    if not isinstance(value, dict | list | tuple):
        return replace(value, path)
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    copies = {key: rebuilt(item, replace, f"{path}[{key!r}]") for key, item in pairs}
    if type(value) is dict:
        return copies
    items = [*copies.values()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return cast(Callable[..., object], type(value))(*items)
    try:
        return cast(Any, type(value))(copies if isinstance(value, dict) else items)
    except TypeError as error:
        raise UserTypeError(
            f"TinyJit: cannot copy a {type(value).__name__}: {error}: "
            f"accepted are tuples, lists and dicts"
        ) from error
