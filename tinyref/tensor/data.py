"""Computing tensors, reading their elements, and giving them new ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Self, cast

import numpy as np

from tinyref.dtype import ConstType, dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.lazy import graph
from tinyref.lazy.buffers import buffer_of
from tinyref.lazy.folding import uniform_value
from tinyref.tensor.arguments import fixed
from tinyref.tensor.core import GradientSwitch, TensorCore, _recording, live
from tinyref.tensor.creation import Creation, base_of
from tinyref.tensor.literals import HostArray, is_scalar
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import MOVEMENT, Ops
from tinyref.uops.symbolic import describe_shape


def compute(tensors: Sequence[TensorCore]) -> None:
    """Realises the graphs of `tensors` together; every live tensor gets what was computed.

    What has been realised is never computed again: tensors that share a part of these graphs go on
    from its buffer.
    """
    from tinyref.engine import realize

    outputs = [(tensor._node, tensor._device) for tensor in tensors]
    everything = [(tensor._node, tensor._device) for tensor in list(live.values())]
    realised = realize(outputs, live=everything)
    if realised:
        _substitute(realised)


def _substitute(realised: dict[UOp, UOp]) -> None:
    """Puts the realised nodes into the graphs of all live tensors."""
    tensors = list(live.values())
    done = dict(realised)
    for node in toposort({tensor._node: None for tensor in tensors}):
        if node not in done:
            src = tuple(done[source] for source in node.src)
            done[node] = node if src == node.src else node.replace(src=src)
    for tensor in tensors:
        was = tensor._node
        tensor._node = done[was]
        # A computed tensor is a leaf, unless gradients have to go through it.
        if was in realised and not tensor._requires_grad:
            tensor._record = None


class Data(Creation):
    """Reading elements computes what is not computed yet."""

    __slots__ = ()

    def realize(self, *lst: Self, do_update_stats: bool = True) -> Self:
        """Computes this tensor, and those in `lst`, now; returns this tensor."""
        from tinyref.engine import counters

        if do_update_stats:
            compute([self, *lst])
            return self
        with counters.paused():
            compute([self, *lst])
        return self

    def numpy(self) -> HostArray:
        """The elements as a numpy array of its own; bfloat16 and fp8 as the types of ml_dtypes."""
        shape = fixed(self.shape, "numpy")
        value = uniform_value(self._node)
        if value is not None:
            return np.full(shape, value, dtype=np.float64 if self.dtype.is_float else None).astype(
                numpy_dtype(self.dtype)
            )
        if 0 in shape:
            return np.empty(shape, dtype=numpy_dtype(self.dtype))
        buffer = buffer_of(self._buffer_node())
        array = np.frombuffer(buffer.copy_out(), dtype=numpy_dtype(self.dtype))
        return array[: math.prod(shape)].reshape(shape)

    def _buffer_node(self) -> UOp:
        """The BUFFER that holds exactly the elements, in order, after computing them."""
        compute([self])
        node = base_of(self._node)
        if node.op is Ops.BUFFER:
            return node
        with GradientSwitch():
            copy = self.contiguous()
        compute([copy])
        node = base_of(copy._node)
        if node.op is not Ops.BUFFER:
            raise RuntimeError(f"realize left {node!r} where a buffer is expected")
        # The node keeps the memory alive; the caller holds the node.
        return node

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers; one number without axes."""
        array = self.numpy()
        if self.dtype.is_float:
            array = array.astype(np.float64)
        return array.tolist()

    def item(self) -> ConstType:
        """The only element as a Python number. Raises `UserError` unless there is exactly one."""
        if self.numel() != 1:
            raise UserError(
                f"item: shape {describe_shape(self.shape)} has {self.numel()} elements: "
                f"accepted is exactly one"
            )
        return cast(ConstType, self.reshape(()).tolist())

    def data(self) -> memoryview:
        """The elements as a memoryview of the tensor's shape, in a copy on the host.

        Raises `UserError` for bfloat16 and fp8, for which a memoryview has no format.
        """
        if self.dtype is dtypes.bfloat16 or self.dtype in dtypes.fp8s:
            raise UserError(
                f"data: a memoryview has no format for {self.dtype.name}: "
                f"use numpy(), or bitcast to an unsigned integer"
            )
        return np.array(self.numpy()).data

    def __len__(self) -> int:
        if not self.ndim:
            raise UserError("len: a tensor without axes has no length")
        return fixed(self.shape[:1], "len")[0]

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise UserError(
                f"bool: shape {describe_shape(self.shape)} has no single truth value: "
                f"use (tensor != 0).max().item(), or compare one element"
            )
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __repr__(self) -> str:
        if graph.device_of(self._node) is None:
            state = "constant"
        else:
            views = self._node
            while views.op in MOVEMENT:
                views = views.src[0]
            state = "in memory" if views.op is Ops.BUFFER else f"not computed yet ({views.op.name})"
        wants = ", requires grad" if self._requires_grad else ""
        return (
            f"<Tensor {describe_shape(self.shape)} {self.dtype.name} "
            f"on {self.device}, {state}{wants}>"
        )

    # New elements

    def clone(self) -> Self:
        """The same elements in a tensor of its own, through which gradients flow."""
        return self._apply(Ops.CONTIGUOUS)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Says whether `backward` fills `grad`; returns this tensor."""
        self._request_gradient(requires_grad)
        return self

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to this tensor, or through it."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, requires_grad: bool | None) -> None:
        self._request_gradient(bool(requires_grad))

    def to_(self, device: str | None) -> Self:
        """Moves this tensor itself to another device; returns it."""
        with GradientSwitch():
            moved = self.to(device)
        if moved is not self:
            self._become(moved)
        return self

    def _become(self, other: Self) -> None:
        """Takes the graph of `other`; what was computed from this tensor keeps the old one."""
        self._node = other._node
        self._device = other._device
        self._record = None
        self._version += 1

    def replace(self, x: Self, allow_shape_mismatch: bool = False) -> Self:
        """This tensor stands for what `x` stands for; returns this tensor.

        Raises `UserError` where shapes differ, unless that is allowed.
        """
        if not isinstance(x, Data):
            raise UserError(f"replace: got a {type(x).__name__}, accepted is a Tensor")
        if x.shape != self.shape and not allow_shape_mismatch:
            raise UserError(
                f"replace: shape {describe_shape(x.shape)} for {describe_shape(self.shape)}: "
                f"equal shapes are accepted, or allow_shape_mismatch=True"
            )
        if self._requires_grad and not x.dtype.is_float:
            raise UserError(f"replace: {x.dtype.name} cannot require grad")
        self._become(x)
        return self

    def assign(self, x: Self | ConstType | HostArray | Sequence[Any]) -> Self:
        """Gives this tensor the elements of `x`, which broadcasts to its shape; returns it.

        A tensor in memory of its own is written in place, any other takes the graph of `x`.
        Gradients do not flow through an assignment. Raises `UserError` where type or device
        differ, or where `x` has gradients to lose.
        """
        value = self._assignable(x)
        if _recording.get() and value._requires_grad:
            raise UserError(
                "assign: the value requires grad, and no gradient flows through an assignment: "
                "use detach() on it, or Tensor.no_grad()"
            )
        if self._owns_memory():
            node = graph.assign(self._node, value._node)
            self._become(self._from_node(node, self._device))
        else:
            self._become(value)
        return self

    def _assignable(self, x: object) -> Self:
        if isinstance(x, Data):
            value = cast(Self, x)
        elif is_scalar(x):
            value = self._constant(cast(ConstType, x), self.dtype)
        else:
            value = type(self)(x, device=self.device, dtype=self.dtype)
        if value.dtype is not self.dtype:
            raise UserError(
                f"assign: {value.dtype.name} for {self.dtype.name}: cast the value first"
            )
        if value.device != self.device and graph.device_of(value._node) is not None:
            raise UserError(
                f"assign: the value is on {value.device}, the tensor on {self.device}: "
                f"use .to({self.device!r})"
            )
        with GradientSwitch():
            spread, _ = value._spread("assign", self)
            if spread.shape != self.shape:
                raise UserError(
                    f"assign: shape {describe_shape(value.shape)} does not fit "
                    f"{describe_shape(self.shape)}"
                )
        if value._requires_grad and spread is not value:
            spread._requires_grad = True
        return spread

    def _owns_memory(self) -> bool:
        """True where this tensor alone stands for a whole buffer, so that it may be written."""
        node = base_of(self._node)
        while node.op is Ops.ASSIGN:
            node = base_of(node.src[0])
        if node.op is not Ops.BUFFER:
            return False
        return not any(
            other is not self and _is_view_of(other._node, node) for other in list(live.values())
        )

    def _updated(self, name: str, function: Callable[[Self], Self]) -> Self:
        """`function` of this tensor in its own place, for operators such as `+=`.

        A tensor that gradients flow through goes on as the result; what was computed from it
        before keeps its old elements.
        """
        tracked = _recording.get() and (self._requires_grad or self._record is not None)
        if self._requires_grad and self._record is None and _recording.get():
            raise UserError(
                f"{name}: this tensor is a leaf that requires grad: "
                f"use Tensor.no_grad(), or assign a detached value"
            )
        old = self._from_node(self._node, self._device)
        old._record, old._requires_grad = self._record, self._requires_grad
        old._version = self._version
        result = function(old)
        if result.shape != self.shape or result.dtype is not self.dtype:
            raise UserError(
                f"{name}: {result.dtype.name} {describe_shape(result.shape)} does not fit in place "
                f"of {self.dtype.name} {describe_shape(self.shape)}"
            )
        if not tracked and not result._requires_grad:
            del old
            return self.assign(result)
        self._become(result)
        self._record, self._requires_grad = result._record, result._requires_grad
        return self

    def __setitem__(self, key: object, value: Self | ConstType | HostArray) -> None:
        if isinstance(value, Data):
            found = value
        else:
            found = type(self)(value, device=self.device, dtype=self.dtype)
        self._updated("assignment by index", lambda old: old._written(key, found))

    def __iadd__(self, x: Self | ConstType) -> Self:
        return self._updated("+=", lambda old: old.add(x))

    def __isub__(self, x: Self | ConstType) -> Self:
        return self._updated("-=", lambda old: old.sub(x))

    def __imul__(self, x: Self | ConstType) -> Self:
        return self._updated("*=", lambda old: old.mul(x))

    def __itruediv__(self, x: Self | ConstType) -> Self:
        return self._updated("/=", lambda old: old.div(x))

    def __ifloordiv__(self, x: Self | ConstType) -> Self:
        return self._updated("//=", lambda old: old._floor_divide(x))

    def __imod__(self, x: Self | ConstType) -> Self:
        return self._updated("%=", lambda old: old.mod(x))

    def __ipow__(self, x: Self | ConstType) -> Self:
        return self._updated("**=", lambda old: old.pow(x))

    def __imatmul__(self, x: Self) -> Self:
        return self._updated("@=", lambda old: old.matmul(x))

    def __iand__(self, x: Self | ConstType) -> Self:
        return self._updated("&=", lambda old: old.bitwise_and(x))

    def __ior__(self, x: Self | ConstType) -> Self:
        return self._updated("|=", lambda old: old.bitwise_or(x))

    def __ixor__(self, x: Self | ConstType) -> Self:
        return self._updated("^=", lambda old: old.bitwise_xor(x))

    def __ilshift__(self, x: int) -> Self:
        return self._updated("<<=", lambda old: old.lshift(x))

    def __irshift__(self, x: int) -> Self:
        return self._updated(">>=", lambda old: old.rshift(x))


def _is_view_of(node: UOp, buffer: UOp) -> bool:
    """True where `node` shows the elements of `buffer` itself, computing nothing."""
    while node.op in MOVEMENT or node.op in (Ops.ASSIGN, Ops.DETACH, Ops.CONTIGUOUS):
        node = node.src[0]
    return node is buffer
