"""The core of Tensor: a node of the tensor graph, its device, the record that gradients read."""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, Protocol, Self, TypeVar, overload

from tinyref.algebra.symbolic import product
from tinyref.config import Switch
from tinyref.dtype import DType
from tinyref.errors import UserError, UserIndexError, UserTypeError
from tinyref.lazy import graph
from tinyref.lazy.multi import build
from tinyref.lazy.shards import Place, describe_place, on_place
from tinyref.tensor.arguments import Bounds, Shape, axis_of, bound_sizes
from tinyref.tensor.values.locks import building
from tinyref.tensor.values.names import name_node
from tinyref.tensor.values.registry import Registry, parts_of
from tinyref.tensor.values.views import VIEW_OPS, Step, Steps, Storage, View
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import Ops
from tinyref.uops.payload import (
    BoundsArg,
    CopyArg,
    FlipArg,
    Payload,
    PermuteArg,
    ReduceArg,
    ShapeArg,
    ShardArg,
)

_Function = TypeVar("_Function", bound=Callable[..., Any])
_recording = Switch("tinyref_recording", True)


class SwitchBlock(contextlib.ContextDecorator):
    """A block, or a decorated function, within which a switch has a value."""

    def __init__(self, switch: Switch, value: bool, name: str) -> None:
        self.switch = switch
        self.value = value
        self.name = name

    def __enter__(self) -> Self:
        self.switch.enter(self.value)
        return self

    def __exit__(self, *exc: object) -> None:
        self.switch.leave()

    def __call__(self, func: _Function) -> _Function:
        """Decorate a function. Raises `UserTypeError` for what runs after its call is over."""
        name = getattr(func, "__qualname__", repr(func))
        if isinstance(func, type) or not callable(func):
            raise UserTypeError(f"{self.name}: {name}: accepted is a function to decorate")
        kinds = (isgeneratorfunction, isasyncgenfunction, iscoroutinefunction)
        if any(is_kind(func) for is_kind in kinds):
            raise UserTypeError(
                f"{self.name}: {name} is a generator or a coroutine, which goes on after its call: "
                f"use a with-block in it"
            )
        return super().__call__(func)


class GradientSwitch(SwitchBlock):
    """Nothing that is computed within the block has a gradient: `with Tensor.no_grad(): ...`.

    records: True for a block in which gradients are recorded again. In a condition the switch is
    True where no gradients were recorded when it was made.

    Examples:
        >>> x = Tensor([2.0], requires_grad=True)
        >>> with Tensor.no_grad():
        ...     y = x * x
        >>> y.requires_grad, bool(Tensor.no_grad)
        (False, False)
        >>> square = Tensor.no_grad()(lambda x: x * x)
        >>> square(x).requires_grad
        False
    """

    def __init__(self, records: bool = False, name: str = "no_grad") -> None:
        super().__init__(_recording, records, name)
        self._is_on = not _recording.get()

    @overload
    def __call__(self) -> GradientSwitch: ...
    @overload
    def __call__(self, func: _Function) -> _Function: ...
    def __call__(self, func: _Function | None = None) -> GradientSwitch | _Function:
        """Decorate a function, or return the switch: `no_grad` and `no_grad()` are the same."""
        return self if func is None else super().__call__(func)

    def __get__(self, tensor: object, owner: type | None = None) -> GradientSwitch:
        """Return, as an attribute of a class, a switch that is made now."""
        return GradientSwitch(self.value, self.name)

    def __bool__(self) -> bool:
        return self._is_on


@dataclass(frozen=True, slots=True)
class Record:
    """How a value was made from `parents`.

    rule: by which rule the gradient goes back: that of one op of the tensor graph, or, by its name,
    that of a function which several ops compute.
    """

    rule: Ops | str
    arg: Payload
    parents: tuple[Value, ...]


@dataclass(slots=True, weakref_slot=True, eq=False)
class Value:
    """What a tensor stands for now: a node on a device, or on several, and how it was made.

    A tensor that is assigned to gets a new value; what was computed from it before keeps the old
    one, so gradients are those of the computation as it was written.

    is_frozen: it was marked as without gradient; an optimiser asks for those of all others.
    owner: the tensor that was given this value; it may be gone, or have another value by now.
    is_overwritten: memory that the node reads was assigned to after the owner was gone.
    session: the capture of a TinyJit in which it was made.
    before: until an assignment has run, the value that the base of all views had before it.
    """

    node: UOp
    device: Place
    record: Record | None = None
    requires_grad: bool = False
    is_frozen: bool = False
    owner: weakref.ref[TensorCore] | None = None
    is_overwritten: bool = False
    session: Session | None = None
    before: Value | None = None

    def __post_init__(self) -> None:
        self.node = on_place(self.node, self.device)

    @property
    def tensor(self) -> TensorCore | None:
        """The tensor that stands for this value; None where only gradients may want it."""
        tensor = self.maker
        return tensor if tensor is not None and tensor._value is self else None

    @property
    def maker(self) -> TensorCore | None:
        """The tensor that was given this value, whatever it stands for now."""
        return None if self.owner is None else self.owner()


registry: Registry[Value] = Registry()


def hold_tensors(find: Callable[[], Sequence[Value]]) -> dict[Value, TensorCore | None]:
    """The values that `find` gives, with their tensors, which live as long as the result.

    Another thread may go on from a tensor that it drops then. As no node is built meanwhile, either
    that tensor is among these or what was made of it is.
    """
    with building:
        return {value: value.tensor for value in find()}


class Session(Protocol):
    """A function that is being captured, and what it must know of the tensors that it uses.

    is_over: it was captured; what was made within is like any other tensor from then on.
    """

    is_over: bool

    def read(self, value: Value) -> None:
        """The function is about to compute from `value`, or to assign to its tensor."""
        ...

    def separate(self, values: Sequence[Value]) -> None:
        """The function is about to write memory that `values` show too and keep."""
        ...

    def before_change(self, tensor: TensorCore) -> None:
        """A tensor is about to stand for another value."""
        ...

    def give_memory(self, value: Value) -> None:
        """The function is about to write `value`, which stands for no whole buffer."""
        ...

    def before_compute(self, roots: Sequence[UOp]) -> None:
        """The function is about to compute `roots`."""
        ...


capturing: ContextVar[Session | None] = ContextVar("tinyref_session", default=None)


def recording(records: bool) -> GradientSwitch:
    """What is computed within the block has gradients, or has none."""
    return GradientSwitch(records)


# Asked for with every op: no call stands between. False within `Tensor.no_grad()`.
is_recording = _recording.get
set_recording = _recording.set


def _target(arg: Payload) -> Place | None:
    """Where an operation that moves a tensor puts it."""
    if isinstance(arg, CopyArg):
        return arg.device
    return arg.devices if isinstance(arg, ShardArg) else None


class TensorCore:
    """What every tensor has; the layers above add what one can do with it."""

    __slots__ = ("__weakref__", "_grad", "_value", "_view")

    _value: Value
    _grad: Self | None
    # What it shows of elements that others may show as well; None where it is the only one.
    _view: View[TensorCore] | None

    # numpy leaves operators between an array and a tensor to the tensor.
    __array_ufunc__ = None

    @classmethod
    def _from_node(cls, node: UOp, device: Place) -> Self:
        return cls._of(Value(node, device))

    def _same(self) -> Self:
        """Another tensor of the node that this one has; no gradient goes back through it."""
        # A node that is read before another thread computes it, and registered after, is stale:
        # its assignments would run a second time.
        with building:
            return self._from_node(self._node, self._device)

    def _independent(self) -> Self:
        """Another tensor of these elements, computed from this one; what is written to one is its
        own.
        """
        result = self._apply(Ops.RESHAPE, arg=ShapeArg(self.shape))
        result._leave()
        return result

    @classmethod
    def _of(cls, value: Value) -> Self:
        """A tensor for a fresh value, which becomes its own."""
        tensor = object.__new__(cls)
        tensor._grad = None
        tensor._view = None
        tensor._take(value)
        return tensor

    @classmethod
    def _peek(cls, value: Value) -> Self:
        """A tensor to read a value with that belongs to another, or to none any more."""
        tensor = object.__new__(cls)
        tensor._grad = None
        tensor._view = None
        tensor._value = value
        return tensor

    def _take(self, value: Value) -> None:
        """From now on this tensor stands for `value`."""
        value.owner = weakref.ref(self)
        value.session = capturing.get()
        name_node(value.node)
        with building:
            self._value = value
            registry.add(value)

    def _before_change(self) -> None:
        """This tensor is about to stand for another value: a function that is captured notes it."""
        session = capturing.get()
        if session is not None:
            session.before_change(self)

    @property
    def _node(self) -> UOp:
        return self._value.node

    @property
    def _device(self) -> Place:
        return self._value.device

    def _apply(
        self,
        op: Ops,
        *others: Self,
        arg: Payload = None,
        dtype: DType | None = None,
        is_view: bool = False,
    ) -> Self:
        """The tensor that `op` makes of this one and `others`, recorded for gradients.

        It is a view of this one for the ops that are, and where `is_view` says so.
        """
        sources = (self, *others)
        session = capturing.get()
        if session is not None:
            for source in sources:
                session.read(source._value)
        device = _target(arg) or self._common_device(op, sources)
        # Another thread may give the sources other nodes until their user is registered.
        with building:
            node = build(op, arg, dtype, [source._node for source in sources])
            value = Value(node, device)
            if is_recording() and node.dtype.is_float and op is not Ops.DETACH:
                parents = tuple(source._value for source in sources)
                value.record = Record(op, arg, parents)
                value.requires_grad = any(parent.requires_grad for parent in parents)
            result = self._of(value)
            if is_view or op in VIEW_OPS:
                result._show(self, Step(op, arg, self.shape, self.dtype, result.dtype))
            return result

    # Views

    def _shown_view(self) -> View[TensorCore]:
        """What this tensor shows, for another one that will show some of it."""
        with building:
            if self._view is None:
                storage: Storage[TensorCore] = Storage()
                storage.add(self)
                self._view = View(storage)
            return self._view

    def _show(self, source: Self, step: Step | None) -> None:
        """From now on this tensor is a view of `source`; without a step it shows all of it."""
        with building:
            shown = source._shown_view()
            self._leave()
            self._view = shown if step is None else shown.through(step, self.shape)
            self._view.storage.add(self)
            self._value.before = source._value.before

    def _leave(self) -> None:
        """From now on this tensor has elements of its own, and is a view of no other."""
        if self._view is not None:
            self._view.storage.remove(self)
            self._view = None

    def _shows_with(self, other: Self) -> bool:
        """Whether this tensor and `other` are views of the same elements."""
        if self._view is None or other._view is None:
            return self is other
        return self._view.storage is other._view.storage

    @staticmethod
    def _common_device(op: Ops, sources: Sequence[TensorCore]) -> Place:
        """Where all sources are; a constant has no memory and joins any device."""
        device = sources[0]._device
        if all(source._device == device for source in sources):
            return device
        placed = {source._device for source in sources if graph.device_of(source._node)}
        if len(placed) > 1:
            raise UserError(
                f"{op.name.lower()}: tensors are on "
                f"{' and '.join(sorted(map(describe_place, placed)))}: "
                f"bring them to one device with .to(device)"
            )
        return placed.pop() if placed else device

    @property
    def node(self) -> UOp:
        """The node of the tensor graph that this tensor stands for."""
        return self._node

    @property
    def shape(self) -> Shape:
        """The size of each axis; a symbolic size is an expression.

        Examples:
            >>> Tensor.zeros(3, 5).shape
            (3, 5)
        """
        return graph.shape_of(self._node)

    @property
    def dtype(self) -> DType:
        """The type of the elements.

        Examples:
            >>> Tensor([1]).dtype, Tensor([1.0]).dtype
            (dtypes.int32, dtypes.float32)
        """
        return self._node.dtype

    @property
    def device(self) -> Place:
        """The canonical name of the device that holds, or will compute, the elements.

        The names of all of them where there are several.

        Examples:
            >>> Tensor([1], device="PYTHON").device
            'PYTHON'
        """
        return self._device

    @property
    def ndim(self) -> int:
        """The number of axes.

        Examples:
            >>> Tensor.zeros(3, 5).ndim
            2
        """
        return len(self.shape)

    def size(self, dim: int | None = None) -> sint | Shape:
        """The shape, or the size of axis `dim`.

        Examples:
            >>> Tensor.zeros(3, 5).size(), Tensor.zeros(3, 5).size(1)
            ((3, 5), 5)
        """
        if dim is None:
            return self.shape
        axis = axis_of(dim, self.ndim, "size")
        if not self.shape:
            raise UserIndexError(f"size: dim {dim}: a tensor without axes has none to measure")
        return self.shape[axis]

    def numel(self) -> sint:
        """The number of elements; an expression where a size is symbolic.

        Examples:
            >>> Tensor.zeros(3, 5).numel()
            15
        """
        return product(self.shape)

    def element_size(self) -> int:
        """Bytes of one element.

        Examples:
            >>> Tensor([1.0]).element_size()
            4
        """
        return self.dtype.itemsize

    def nbytes(self) -> int:
        """Bytes of all elements. Raises `UserError` where a size is symbolic and not bound.

        Examples:
            >>> Tensor.zeros(3, 5).nbytes()
            60
        """
        return math.prod(bound_sizes(self.shape)) * self.dtype.itemsize

    def is_floating_point(self) -> bool:
        """True for the float types, the 8-bit ones included.

        Examples:
            >>> Tensor([1.0]).is_floating_point(), Tensor([1]).is_floating_point()
            (True, False)
        """
        return self.dtype.is_float

    # One method for each op of the tensor graph that is no arithmetic; no argument is checked.

    def _apart_from(self, source: Self) -> Self:
        """This tensor; where it is a view of `source` another one with elements of its own.

        So an operator in place on a function's result never changes what the function was given.
        """
        return self._independent() if self._shows_with(source) else self

    def _as_view_of(self, source: Self) -> Self:
        """This view of `source`; where it is `source` itself another tensor that shows it."""
        return self if self is not source else self._apply(Ops.RESHAPE, arg=ShapeArg(self.shape))

    def _reshape(self, shape: Shape) -> Self:
        return self if shape == self.shape else self._apply(Ops.RESHAPE, arg=ShapeArg(shape))

    def _expand(self, shape: Shape) -> Self:
        return self if shape == self.shape else self._apply(Ops.EXPAND, arg=ShapeArg(shape))

    def _permute(self, order: tuple[int, ...]) -> Self:
        return self._apply(Ops.PERMUTE, arg=PermuteArg(order))

    def _pad(self, bounds: Bounds, is_view: bool = False) -> Self:
        """A view only where what follows takes the padding away again."""
        return self._apply(Ops.PAD, arg=BoundsArg(bounds), is_view=is_view)

    def _shrink(self, bounds: Bounds) -> Self:
        return self._apply(Ops.SHRINK, arg=BoundsArg(bounds))

    def _flip(self, axes: tuple[int, ...]) -> Self:
        return self._apply(Ops.FLIP, arg=FlipArg(axes))

    def _reduce(self, op: Ops, axes: tuple[int, ...]) -> Self:
        """Reduces over `axes`, which stay as size 1."""
        return self._apply(Ops.REDUCE, arg=ReduceArg(op, axes)) if axes else self

    def _cast(self, dtype: DType) -> Self:
        return self if dtype is self.dtype else self._apply(Ops.CAST, dtype=dtype)

    def _broadcast_to(self, shape: Shape) -> Self:
        """Expands to `shape`, which the caller found by `arguments.broadcast`."""
        return self._reshape((1,) * (len(shape) - self.ndim) + self.shape)._expand(shape)


def steps_of(tensor: TensorCore) -> Steps:
    """The steps through which a tensor shows what it is a view of; none of what is no view."""
    return () if tensor._view is None else tensor._view.steps


def whole_tensors(tensor: TensorCore) -> list[TensorCore]:
    """The living tensors that show all of what `tensor` is a view of; none of what is no view."""
    tensors = [] if tensor._view is None else tensor._view.storage.tensors()
    return [each for each in tensors if not steps_of(each)]


def store_apart(value: Value) -> None:
    """When `value` is computed next it gets memory of its own, even if it is in some already."""
    with building:
        parts = tuple(UOp(Ops.CONTIGUOUS, part.dtype, (part,)) for part in parts_of(value.node))
        value.node = value.node.replace(src=parts) if value.node.op is Ops.MULTI else parts[0]
        registry.add(value)
