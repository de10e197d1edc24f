"""Computing tensors, and reading their elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, cast

import numpy as np

from tinyref.algebra.symbolic import describe_shape
from tinyref.dtype import ConstType, dtypes, numpy_dtype
from tinyref.errors import UserError, UserTypeError, printable
from tinyref.lazy import graph
from tinyref.lazy.buffers import buffer_of
from tinyref.lazy.folding import uniform_value
from tinyref.lazy.names import keep_name
from tinyref.lazy.shards import (
    Place,
    describe_layout,
    first_device,
    layout_of,
)
from tinyref.lazy.storage import only_holds_data
from tinyref.schedule import Schedule, schedule
from tinyref.schedule.bindings import ConflictError, made_with_one_value
from tinyref.schedule.hazards import CycleError, assigned_buffer, parts_to_read_first
from tinyref.tensor.arguments import bound_sizes, fixed
from tinyref.tensor.literals import MAX_AXES, HostArray
from tinyref.tensor.methods.creation import Creation
from tinyref.tensor.methods.data_devices import write_empty
from tinyref.tensor.methods.display import as_html, shown_elements
from tinyref.tensor.values.core import (
    GradientSwitch,
    Session,
    TensorCore,
    Value,
    capturing,
    registry,
)
from tinyref.tensor.values.locks import building, computing
from tinyref.tensor.values.registry import is_computed, shown_node
from tinyref.uops.node import UOp, rebuild, toposort
from tinyref.uops.ops import MOVEMENT, Ops
from tinyref.uops.payload import BufferArg, ShapeArg


def compute(tensors: Sequence[TensorCore]) -> None:
    """Realises the graphs of `tensors` together; every live tensor gets what was computed.

    What has been realised is never computed again: tensors that share a part of these graphs go on
    from its buffer. A tensor that reads memory which is assigned to here is computed first, so it
    keeps the elements that it had where it was written.
    """
    for tensor in tensors:
        if not isinstance(tensor, TensorCore):
            raise UserTypeError(f"realize: got a {type(tensor).__name__}, accepted are Tensors")
    waiting = [tensor for tensor in tensors if not is_computed(tensor._node)]
    if not waiting:
        return
    session = capturing.get()
    with computing:
        if session is not None:
            session.before_compute([tensor._node for tensor in waiting])
        write_empty(waiting)
        _compute(waiting)


def _compute(tensors: Sequence[TensorCore]) -> None:
    before: Sequence[UOp] = ()
    while tensors:
        try:
            _compute_together(tensors)
            return
        except (ConflictError, CycleError) as error:
            roots = [tensor._node for tensor in tensors]
            first = _parts_to_compute_first(error, roots)
            if not first or first == before:
                raise
            if isinstance(error, ConflictError) and error.apart:
                _compute_live(roots, first)
            else:
                _compute_below(first, first_device(tensors[0]._device))
            before = first
            # What shows memory now needs no value of a variable before somebody reads it.
            tensors = [tensor for tensor in tensors if not is_computed(tensor._node)]


def _parts_to_compute_first(
    error: ConflictError | CycleError, roots: Sequence[UOp]
) -> Sequence[UOp]:
    """What keeps `roots`, or live graphs beside them, from one schedule; empty if nothing helps."""
    if isinstance(error, ConflictError):
        return error.apart or made_with_one_value(roots)
    live = [node for node, _ in _Watched(roots).graphs()]
    return parts_to_read_first([*roots, *live])


def _compute_together(tensors: Sequence[TensorCore]) -> None:
    from tinyref.engine import realize

    outputs = [(_assigned_below(tensor._node), tensor._device) for tensor in tensors]
    watched = _Watched([node for node, _ in outputs])
    completed: dict[UOp, UOp] = {}
    try:
        realised = realize(outputs, watched.graphs(), completed)
    except BaseException:
        # An assignment that did run must not run again with the next attempt.
        _substitute_everywhere(watched, tensors, completed)
        raise
    _substitute_everywhere(watched, tensors, realised)


def _assigned_below(node: UOp) -> UOp:
    """The ASSIGN that `node` is a view of: that is all there is to run; else `node` itself."""
    base = shown_node(node)
    return base if base.op is Ops.ASSIGN else node


def _compute_live(roots: Sequence[UOp], nodes: Sequence[UOp]) -> None:
    """Computes the live tensors that stand for `nodes`, one by one, before `roots` overwrite what
    they show: each gets memory of its own.
    """
    for value in _Watched(roots).values(()):
        tensor = value.tensor
        if tensor is not None and any(part in nodes for part in _parts(value.node)):
            store_apart(value)
            _compute([tensor])


def _compute_below(nodes: Sequence[UOp], device: str) -> None:
    """Computes parts of graphs before the rest."""
    places = [graph.device_of(node) or device for node in nodes]
    pairs = zip(nodes, places, strict=True)
    _compute([TensorCore._from_node(node, place) for node, place in pairs])


def store_apart(value: Value) -> None:
    """When `value` is computed next it gets memory of its own, even if it is in some already."""
    with building:
        parts = tuple(UOp(Ops.CONTIGUOUS, part.dtype, (part,)) for part in _parts(value.node))
        value.node = value.node.replace(src=parts) if value.node.op is Ops.MULTI else parts[0]
        registry.add(value)


class _Watched:
    """The values that computing `outputs` may concern: all others are plain views of other memory.

    Those are what is not computed yet, and what shows memory that an assignment overwrites.
    """

    def __init__(self, outputs: Sequence[UOp]) -> None:
        self.outputs = outputs

    def graphs(self) -> Iterator[tuple[UOp, Place]]:
        """The graphs of tensors that may be computed later; asked for only where it matters.

        Another thread may go on from a tensor that it drops then: as no node is built meanwhile,
        either the tensor is there or what was made of it is.
        """
        with building:
            found = [
                (value.node, value.device) for value in self.values(()) if value.tensor is not None
            ]
        yield from found

    def values(self, requested: Sequence[TensorCore]) -> list[Value]:
        """All of them, with those of the requested tensors."""
        pending = registry.pending()
        roots = [*self.outputs, *(value.node for value in pending)]
        numbers = dict.fromkeys(
            base.arg.number
            for node in toposort(roots)
            if node.op is Ops.ASSIGN
            for base in (assigned_buffer(node),)
            if isinstance(base.arg, BufferArg)
        )
        found = {id(value): value for value in pending}
        for number in numbers:
            found.update((id(value), value) for value in registry.showing(number))
        found.update((id(tensor._value), tensor._value) for tensor in requested)
        return list(found.values())


def _substitute_everywhere(
    watched: _Watched, tensors: Sequence[TensorCore], realised: dict[UOp, UOp]
) -> None:
    """Puts the realised nodes into all graphs of their devices, those of other threads too.

    A graph of constants alone belongs to every device, and its result only to one. A function
    that is being captured shares no results with what is outside: a replay computes them anew.
    Assignments alone are run for all.
    """
    here = capturing.get()
    assigns = {node: result for node, result in realised.items() if node.op is Ops.ASSIGN}
    with building:
        by_session: dict[Session | None, list[Value]] = {}
        for value in watched.values(tensors):
            session = value.session
            active = None if session is None or session.is_over else session
            by_session.setdefault(active, []).append(value)
        for session, values in by_session.items():
            if session is here:
                _substitute_on_devices(values, realised)
            elif session is None:
                _substitute_on_devices(values, assigns)
            elif not assigns.keys().isdisjoint(toposort([value.node for value in values])):
                session.disturb()


def _substitute_on_devices(values: Sequence[Value], realised: dict[UOp, UOp]) -> None:
    for device in {value.device for value in values}:
        here = {
            node: result
            for node, result in realised.items()
            if graph.device_of(node) or graph.device_of(result) in (None, device)
        }
        if here:
            _substitute([value for value in values if value.device == device], here)


def _substitute(values: Sequence[Value], realised: dict[UOp, UOp]) -> None:
    """Puts the realised nodes into graphs, and marks those whose memory was overwritten."""
    overwritten = {assigned_buffer(node) for node in realised if node.op is Ops.ASSIGN}
    done = dict(realised)
    lost: set[UOp] = set(overwritten - realised.keys())

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        new = node if src == node.src else _on_sources(node, src)
        keep_name(node, new)
        if not lost.isdisjoint(node.src):
            lost.add(node)
        return new

    for value in values:
        was = value.node
        rebuild(was, change, done)
        if done[was] is not was:
            value.node = done[was]
            registry.add(value)
        value.is_overwritten |= was in lost
        # A computed tensor is a leaf, unless gradients have to go through it.
        if was in realised and not value.requires_grad:
            value.record = None


def _on_sources(node: UOp, src: tuple[UOp, ...]) -> UOp:
    """`node` with other sources; a reshape of a reshape is one, as its builder has it."""
    if isinstance(node.arg, ShapeArg) and node.op is Ops.RESHAPE:
        return graph.reshape(src[0], node.arg.shape)
    return node.replace(src=src)


def _parts(node: UOp) -> tuple[UOp, ...]:
    """What lies on each device."""
    return node.src if node.op is Ops.MULTI else (node,)


def _state(node: UOp) -> str:
    if graph.device_of(node) is None:
        return "constant"
    while node.op in MOVEMENT:
        node = node.src[0]
    return "in memory" if node.op is Ops.BUFFER else f"not computed yet ({node.op.name})"


class Data(Creation):
    """Reading elements computes what is not computed yet."""

    __slots__ = ()

    def realize(self, *lst: Self, do_update_stats: bool = True) -> Self:
        """Computes this tensor, and those in `lst`, now; returns this tensor.

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
        outputs = [(tensor._node, tensor._device) for tensor in (self, *lst)]
        return schedule(outputs, _Watched([node for node, _ in outputs]).graphs())

    def numpy(self) -> HostArray:
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

    def _gather_elements(self) -> HostArray:
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

    def __array__(self, dtype: np.dtype[Any] | None = None, copy: bool | None = None) -> HostArray:
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
        states = dict.fromkeys(map(_state, _parts(self._node)))
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
        session = capturing.get()
        if session is not None:
            session.read(x._value)
        with building:
            if x is not self:
                self._show(x, None)
            self._become(x._node, x._device)
        return self
