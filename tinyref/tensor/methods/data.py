"""Computing tensors, and reading their elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

from tinyref.algebra.symbolic import describe_shape
from tinyref.arrays import Array, np
from tinyref.dtype import ConstType, dtypes, numpy_dtype
from tinyref.errors import UserError, UserTypeError, printable
from tinyref.lazy import graph
from tinyref.lazy.buffers import buffer_of, is_lost, only_holds_data, refuse_lost
from tinyref.lazy.folding import uniform_value
from tinyref.lazy.shards import (
    Place,
    describe_layout,
    first_device,
    layout_of,
)
from tinyref.tensor.arguments import bound_sizes, fixed
from tinyref.tensor.literals import MAX_AXES
from tinyref.tensor.methods.creation import Creation
from tinyref.tensor.methods.data_devices import write_empty
from tinyref.tensor.methods.display import as_html, shown_elements
from tinyref.tensor.values.core import (
    GradientSwitch,
    TensorCore,
    Value,
    capturing,
)
from tinyref.tensor.values.locks import building, computing
from tinyref.tensor.values.registry import is_computed, parts_of
from tinyref.uops.node import UOp
from tinyref.uops.ops import MOVEMENT, Ops

if TYPE_CHECKING:
    from tinyref.schedule import Schedule


def compute(tensors: Sequence[TensorCore]) -> None:
    """Realises the graphs of `tensors` together; every live tensor gets what was computed.

    What has been realised is never computed again: tensors that share a part of these graphs go on
    from its buffer. A tensor that reads memory which is assigned to here is computed first, so it
    keeps the elements that it had where it was written.

    If it fails, each of `tensors` has the elements from before its last assignment, unless that has
    run. Other tensors lose an assignment only if it needs what failed.
    """
    _check_tensors("realize", tensors)
    values = [tensor._value for tensor in tensors]
    try:
        _compute(tensors)
    except BaseException:
        if any(value.before is not None for value in values):
            from tinyref.tensor.methods.realisation import undo_assignments

            with computing:
                undo_assignments(values)
        raise


def _compute(tensors: Sequence[TensorCore]) -> None:
    refuse_lost([tensor._node for tensor in tensors])
    waiting = [tensor for tensor in tensors if not is_computed(tensor._node)]
    if not waiting:
        return
    session = capturing.get()
    with computing:
        if session is not None:
            session.before_compute([tensor._node for tensor in waiting])
        write_empty(waiting)
        from tinyref.tensor.methods.realisation import compute_graphs

        compute_graphs(waiting)


def _check_tensors(name: str, tensors: Sequence[object]) -> None:
    for tensor in tensors:
        if not isinstance(tensor, TensorCore):
            raise UserTypeError(f"{name}: got a {type(tensor).__name__}, accepted are Tensors")


def _state(node: UOp) -> str:
    if graph.device_of(node) is None:
        return "constant"
    if is_lost(node):
        return "lost"
    while node.op in MOVEMENT:
        node = node.src[0]
    return "in memory" if node.op is Ops.BUFFER else f"not computed yet ({node.op.name})"


class Data(Creation):
    """Reading elements computes what is not computed yet."""

    __slots__ = ()

    def realize(self, *lst: Self, do_update_stats: bool = True) -> Self:
        """Computes this tensor, and those in `lst`, now; returns this tensor.

        If that fails, or is interrupted, each of them has the elements from before its last
        assignment, unless that has run. Elements that were partly overwritten are lost: reading
        them raises `UserStateError` until the tensor is assigned again.

        Examples:
            >>> (Tensor([1, 2]) + 1).realize().tolist()
            [2, 3]
        """
        if do_update_stats:
            compute([self, *lst])
            return self
        from tinyref.engine import GlobalCounters

        with computing:
            before = dict(vars(GlobalCounters))
            compute([self, *lst])
            vars(GlobalCounters).update(before)
        return self

    def schedule(self, *lst: Self) -> Schedule:
        """What `realize` would run for these tensors, in order; nothing runs.

        Each kernel among the items has the `names` of the functions that it computes. Raises
        `UserError` for graphs that no order of kernels computes.

        Examples:
            >>> len((Tensor([1, 2]) + 1).sum().schedule().kernels)
            1
        """
        from tinyref.tensor.methods.realisation import schedule_of

        _check_tensors("schedule", lst)
        return schedule_of((self, *lst))

    def numpy(self) -> Array:
        """The elements as a numpy array of its own; bfloat16 and fp8 as the types of ml_dtypes.

        Examples:
            >>> Tensor([[1, 2]]).numpy().shape
            (1, 2)
        """
        shape = bound_sizes(self.shape)
        if len(shape) > MAX_AXES:
            raise UserError(
                f"numpy: {len(shape)} axes: arrays have at most {MAX_AXES}, reshape first"
            )
        if self._node.op is Ops.MULTI:
            return self._gather_elements()
        value = uniform_value(self._node)
        if value is not None:
            try:
                return np.full(shape, value, dtype=numpy_dtype(self.dtype))
            except (MemoryError, ValueError) as error:
                raise UserError(
                    f"numpy: shape {shape} of {self.dtype.name}: the host has no memory for it"
                ) from error
        if 0 in shape:
            return np.empty(shape, dtype=numpy_dtype(self.dtype))
        from tinyref.engine.capture import forbid_while_capturing

        forbid_while_capturing("a tensor's elements are read")
        # Until the elements are read no other thread's replay writes to this memory.
        with computing:
            buffer = buffer_of(self._buffer_node())
            array = np.frombuffer(buffer.copy_out(), dtype=numpy_dtype(self.dtype))
        return array[: math.prod(shape)].reshape(shape)

    def _gather_elements(self) -> Array:
        """The elements that lie on several devices."""
        with computing:
            compute([self])
            layout = layout_of(self._node)
            places = zip(self._node.src, layout.devices, strict=True)
            parts = [type(self)._from_node(part, device) for part, device in places]
        if layout.axis is None:
            return parts[0].numpy()
        return np.concatenate([part.numpy() for part in parts], axis=layout.axis)

    def _buffer_node(self) -> UOp:
        """The BUFFER that holds exactly the elements, in order, after computing them."""
        if self._node.op is Ops.MULTI:
            return self.detach().to(first_device(self._device))._buffer_node()
        if not only_holds_data(self._node):
            compute([self])
        found = graph.backing(self._node)
        if found is None:
            with GradientSwitch():
                # A device that only holds data cannot put elements in order.
                moved = self.to(None) if only_holds_data(self._node) else self
                copy = moved.contiguous()
            compute([copy])
            found = graph.backing(copy._node)
        if found is None:
            raise RuntimeError(f"realize left {self._node!r} where a buffer is expected")
        # The memory lives as long as this node, which the caller holds.
        return found

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers; one number without axes.

        Examples:
            >>> Tensor([[1, 2], [3, 4]]).tolist()
            [[1, 2], [3, 4]]
        """
        array = self.numpy()
        if self.dtype.is_float:
            array = array.astype(np.float64)
        return array.tolist()

    def item(self) -> ConstType:
        """The only element as a Python number. Raises `UserError` unless there is exactly one.

        Examples:
            >>> Tensor([[7]]).item()
            7
        """
        if math.prod(bound_sizes(self.shape)) != 1:
            raise UserError(
                f"item: shape {describe_shape(self.shape)} has "
                f"{math.prod(bound_sizes(self.shape))} elements: accepted is exactly one"
            )
        return cast(ConstType, self.reshape(()).tolist())

    def allclose(
        self,
        other: Self | ConstType,
        rtol: float = 1e-05,
        atol: float = 1e-08,
        equal_nan: bool = False,
    ) -> bool:
        """Return True if all elements are close to those of `other`, as `isclose` says.

        The elements are read at once: the result is a bool of Python, as in torch.

        Examples:
            >>> Tensor([1.0, 2.0]).allclose(Tensor([1.0 + 1e-6, 2.0]))
            True
        """
        return bool(self._isclose(other, rtol, atol, equal_nan, "allclose").all())

    def data(self) -> memoryview:
        """The elements as a memoryview of the tensor's shape, in a copy on the host.

        Raises `UserError` for bfloat16 and fp8, for which a memoryview has no format.

        Examples:
            >>> Tensor([1, 2]).data().tolist()
            [1, 2]
        """
        if self.dtype is dtypes.bfloat16 or self.dtype in dtypes.fp8s:
            raise UserTypeError(
                f"data: a memoryview has no format for {self.dtype.name}: "
                f"use numpy(), or bitcast to an unsigned integer"
            )
        return np.array(self.numpy()).data

    def __array__(self, dtype: np.dtype[Any] | None = None, copy: bool | None = None) -> Array:
        """What numpy makes of a tensor: always a copy."""
        if copy is False:
            raise UserError("array: a tensor's elements are copied, copy=False cannot be had")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __len__(self) -> int:
        if not self.ndim:
            raise UserTypeError("len: a tensor without axes has no length")
        return fixed(self.shape[:1], "len")[0]

    def __bool__(self) -> bool:
        if math.prod(bound_sizes(self.shape)) != 1:
            raise UserTypeError(
                f"bool: shape {describe_shape(self.shape)} has no single truth value: "
                f"use (tensor != 0).max().item(), or compare one element"
            )
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __repr__(self) -> str:
        """What and where the tensor is, and its elements if they are in memory: see `display`."""
        header, elements = self._describe(), self._shown_elements()
        between = "\n" if "\n" in elements else " "
        return f"<{header}:{between}{elements}>" if elements else f"<{header}>"

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        return as_html(self._describe(), self._shown_elements())

    def __format__(self, spec: str) -> str:
        """The one element by `spec`, as in f"{loss:.3f}"; without a spec the text of the tensor."""
        if not spec:
            return str(self)
        if math.prod(bound_sizes(self.shape)) != 1:
            raise UserTypeError(
                f"format: {spec!r} is for numbers, shape {describe_shape(self.shape)} is not one: "
                f"use tolist()"
            )
        return format(self.item(), spec)

    def _shown_elements(self) -> str:
        # A capture that looked at them would show what a replay does not.
        return "" if capturing.get() is not None else shown_elements(self._node)

    def _describe(self) -> str:
        states = dict.fromkeys(map(_state, parts_of(self._node)))
        state = ", ".join(states)
        wants = ", requires grad" if self._value.requires_grad else ""
        return printable(
            f"Tensor {describe_shape(self.shape)} {self.dtype.name} "
            f"on {describe_layout(self._node, self.device)}, {state}{wants}"
        )

    # New elements

    def clone(self) -> Self:
        """The same elements in a tensor of its own, through which gradients flow.

        Examples:
            >>> x = Tensor([1, 2])
            >>> x.clone().tolist(), x.clone() is x
            ([1, 2], False)
        """
        return self._apply(Ops.CONTIGUOUS)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Says whether `backward` fills `grad`; returns this tensor.

        Examples:
            >>> Tensor([1.0]).requires_grad_().requires_grad
            True
        """
        self._request_gradient(requires_grad)
        return self

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to this tensor, or through it.

        Examples:
            >>> Tensor([1.0], requires_grad=True).requires_grad
            True
        """
        return self._value.requires_grad

    @requires_grad.setter
    def requires_grad(self, requires_grad: bool | None) -> None:
        self._request_gradient(requires_grad)

    def to_(self, device: Place | None) -> Self:
        """Moves this tensor itself to another device, or to several; returns it.

        Examples:
            >>> x = Tensor([1, 2])
            >>> _ = x.to_("PYTHON")
            >>> x.device
            'PYTHON'
        """
        return self._move(lambda: self.to(device))

    def _move(self, moving: Callable[[], Self]) -> Self:
        with GradientSwitch():
            moved = moving()
        if moved is not self:
            with building:
                self._before_change()
                self._leave()
                self._become(moved._node, moved._device)
        return self

    def _become(self, node: UOp, device: Place) -> None:
        """A new value, as a leaf; what was computed from this tensor keeps the old one."""
        was = self._value
        self._take(Value(node, device, None, was.requires_grad, was.is_frozen))

    def replace(self, x: Self, allow_shape_mismatch: bool = False) -> Self:
        """This tensor stands for what `x` stands for, and is a view of it; returns this tensor.

        Raises `UserError` where shapes differ, unless that is allowed.

        Examples:
            >>> x = Tensor([1, 2])
            >>> x.replace(Tensor([3, 4])).tolist()
            [3, 4]
        """
        if not isinstance(x, Data):
            raise UserTypeError(f"replace: got a {type(x).__name__}, accepted is a Tensor")
        if x.shape != self.shape and not allow_shape_mismatch:
            raise UserError(
                f"replace: shape {describe_shape(x.shape)} for {describe_shape(self.shape)}: "
                f"equal shapes are accepted, or allow_shape_mismatch=True"
            )
        if self.requires_grad and not x.dtype.is_float:
            raise UserTypeError(f"replace: {x.dtype.name} cannot require grad")
        if x is self:
            return self
        session = capturing.get()
        if session is not None:
            session.read(x._value)
        with building:
            self._before_change()
            self._show(x, None)
            self._become(x._node, x._device)
        return self
