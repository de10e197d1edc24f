"""Tensors in pickles and deep copies: by value, on the devices that they were on."""

from __future__ import annotations

from typing import Any, Self, cast

from tinyref.algebra.symbolic import product
from tinyref.device import Device
from tinyref.dtype import ConstType, DType, to_dtype
from tinyref.errors import TinyrefError, UserError, UserStateError
from tinyref.lazy import graph
from tinyref.lazy.buffers import new_buffer_like, only_holds_data
from tinyref.lazy.folding import uniform_value
from tinyref.lazy.shape import is_empty
from tinyref.lazy.shards import Place, describe_place, join_parts, layout_of, shape_with_size
from tinyref.tensor.arguments import bound_sizes
from tinyref.tensor.methods.sharding import Sharding
from tinyref.tensor.values.core import Value
from tinyref.tensor.values.registry import parts_of
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BufferArg, ShardArg

VERSION = 1
_KEYS = frozenset(
    (
        "version",
        "dtype",
        "device",
        "shape",
        "layout",
        "parts",
        "constant",
        "requires_grad",
        "is_frozen",
        "grad",
    )
)
Sizes = tuple[int, ...]


class Saving(Sharding):
    """What `pickle` and `copy` ask of a tensor."""

    __slots__ = ()

    def __getstate__(self) -> dict[str, object]:
        """The elements, computed if need be, and all else that a tensor is; no memory is shared.

        A view becomes a tensor of its own; a symbolic shape has the sizes that it is bound to.
        Raises `UserError` for a tensor that was computed from others that require grad, and for
        one in a file.
        """
        if self._value.requires_grad and self._value.record is not None:
            raise UserStateError(
                "pickle: this tensor was computed from tensors that require grad, which would be "
                "lost: accepted are leaves: use detach()"
            )
        if any(only_holds_data(part) for part in parts_of(self._node)):
            raise UserError(
                f"pickle: this tensor is on {describe_place(self.device)}, which no pickle or copy "
                f"contains: copy it to a device that computes first, as with .to('CPU')"
            )
        is_sharded = self._node.op is Ops.MULTI
        constant = None if is_sharded else uniform_value(self._node)
        return {
            "version": VERSION,
            "dtype": self.dtype.name,
            "device": self._device,
            "shape": bound_sizes(self.shape),
            "layout": (layout_of(self._node).axis, layout_of(self._node).sizes)
            if is_sharded
            else None,
            "parts": () if constant is not None else self._contents(),
            "constant": constant,
            "requires_grad": self._value.requires_grad,
            "is_frozen": self._value.is_frozen,
            "grad": self._grad,
        }

    def _contents(self) -> tuple[bytes, ...]:
        """The bytes on each device."""
        self.realize()
        devices = self._device if isinstance(self._device, tuple) else (self._device,)
        pairs = zip(parts_of(self._node), devices, strict=True)
        parts = [type(self)._from_node(part, device) for part, device in pairs]
        return tuple(part.numpy().tobytes() for part in parts)

    def __setstate__(self, state: object) -> None:
        """The tensor that `__getstate__` described.

        Raises `UserError` for what is no such description, and `DeviceError` where its device is
        not here.
        """
        found = _check_state(state)
        place: Place = found["device"]
        for device in place if isinstance(place, tuple) else (place,):
            check_device(device, "the tensor was")
        dtype = to_dtype(found["dtype"])
        node = _node_of(found, dtype)
        self._grad = None
        self._view = None
        self._take(Value(node, place, None, found["requires_grad"], found["is_frozen"]))
        gradient = found["grad"]
        if gradient is not None:
            if not isinstance(gradient, Saving) or gradient.shape != self.shape:
                raise _damage_error("its gradient is no tensor of the same shape")
            self._grad = cast(Self, gradient)


def check_device(device: str, what: str) -> None:
    """Raises `UserError` unless what a pickle needs is here: `what` was on it."""
    try:
        Device[device]
    except TinyrefError as error:
        raise UserStateError(
            f"pickle: {what} on {device}, which is not here: {error}: bring it to another device, "
            f"as with .to('CPU'), before it is pickled"
        ) from error


def _damage_error(reason: str) -> UserError:
    return UserError(f"pickle: no tensor that tinyref wrote: {reason}")


def _check_state(state: object) -> dict[str, Any]:
    """`state`, where each entry is of its type. Raises `UserError`."""
    if not isinstance(state, dict) or "version" not in state:
        raise _damage_error("it has no version")
    if state["version"] != VERSION:
        raise _damage_error(f"it is of version {state['version']!r}, accepted is {VERSION}")
    if state.keys() != _KEYS:
        names = sorted(map(str, _KEYS ^ state.keys()))
        raise _damage_error(f"it lacks, or has besides: {', '.join(names)}")
    shape, parts, layout = state["shape"], state["parts"], state["layout"]
    device, is_constant = state["device"], state["constant"] is not None
    is_right = (
        isinstance(state["dtype"], str)
        and _are(shape, int)
        and min((0, *shape)) == 0
        and _are(parts, bytes)
        and isinstance(state["constant"], bool | int | float | None)
        and isinstance(state["requires_grad"], bool)
        and isinstance(state["is_frozen"], bool)
        and (isinstance(device, str) if layout is None else _are(device, str))
    )
    if not is_right or (is_constant and (parts or layout is not None)):
        raise _damage_error("an entry is of another type")
    return state


def _are(values: object, kind: type) -> bool:
    return isinstance(values, tuple) and all(type(value) is kind for value in values)


def _node_of(state: dict[str, Any], dtype: DType) -> UOp:
    shape: Sizes = state["shape"]
    if state["requires_grad"] and not dtype.is_float:
        raise _damage_error(f"{dtype.name} has no gradient")
    constant: ConstType | None = state["constant"]
    if constant is not None:
        return graph.full(shape, constant, dtype)
    if state["layout"] is None:
        _check_count(state["parts"], 1)
        return _in_memory(state["parts"][0], state["device"], shape, dtype)
    layout = _checked_layout(state["layout"], state["device"], shape)
    axis = layout.axis
    _check_count(state["parts"], len(layout.devices))
    sizes = layout.sizes or (0,) * len(layout.devices)
    parts = [
        _in_memory(
            content,
            device,
            shape if axis is None else bound_sizes(shape_with_size(shape, axis, size)),
            dtype,
        )
        for content, device, size in zip(state["parts"], layout.devices, sizes, strict=True)
    ]
    return join_parts(layout, parts)


def _checked_layout(layout: object, devices: tuple[str, ...], shape: Sizes) -> ShardArg:
    is_pair = isinstance(layout, tuple) and len(layout) == 2
    axis, sizes = cast(tuple[Any, Any], layout) if is_pair else (0, ())
    is_copied = axis is None and sizes == ()
    is_cut = (
        type(axis) is int
        and 0 <= axis < len(shape)
        and _are(sizes, int)
        and len(sizes) == len(devices)
        and min(sizes, default=-1) >= 0
        and sum(sizes) == shape[axis]
    )
    if not devices or not (is_copied or is_cut):
        raise _damage_error("its layout does not fit its shape and devices")
    return ShardArg(devices, axis, sizes)


def _check_count(parts: tuple[bytes, ...], count: int) -> None:
    if len(parts) != count:
        raise _damage_error(f"it has the elements of {len(parts)} devices, not of {count}")


def _in_memory(content: bytes, device: str, shape: Sizes, dtype: DType) -> UOp:
    size = product(shape)
    assert isinstance(size, int), "sizes are known"
    if len(content) != size * dtype.itemsize:
        raise _damage_error(f"it has {len(content)} bytes for {size} elements of {dtype.name}")
    if is_empty(shape):
        return graph.full(shape, 0, dtype)
    node, memory = new_buffer_like(BufferArg(device, size, 0), dtype)
    memory.copy_in(memoryview(content))
    return graph.window(node, shape)
