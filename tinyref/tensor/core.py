"""The core of Tensor: a node of the tensor graph, its device, and the record for gradients."""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, ClassVar, Protocol, Self, TypeVar, cast, overload

from tinyref.algebra.symbolic import product
from tinyref.config import Switch
from tinyref.dtype import ConstType, DType, as_const
from tinyref.errors import UserError, UserIndexError, UserTypeError
from tinyref.lazy import graph
from tinyref.lazy.multi import build
from tinyref.lazy.shards import Place, describe_place, on_place
from tinyref.tensor.arguments import Bounds, Shape, axis_of, bound_sizes, wrong_type
from tinyref.tensor.naming import name_node
from tinyref.tensor.registry import Registry, graph_lock, parts_of
from tinyref.tensor.views import VIEW_OPS, Step, Steps, Storage, View
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import Ops
from tinyref.uops.payload import (
    BoundsArg,
    CopyArg,
    Payload,
    ReduceArg,
    ShapeArg,
    ShardArg,
)

T = TypeVar("T", bound="TensorCore")


_Function = TypeVar("_Function", bound=Callable[..., Any])
_recording = Switch("tinyref_recording", True)


class SwitchBlock(contextlib.ContextDecorator):
    """A block, or a decorated function, that sets a switch to a value."""

    def __init__(self, switch: Switch, value: bool, name: str) -> None:
        self.switch = switch
        self.value = value
        self.name = name

    def __enter__(self) -> Self:
        training_mode.settle()
        no_grad_mode.settle()
        self.switch.enter(self.value)
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            training_mode.settle()
            no_grad_mode.settle()
        finally:
            self.switch.leave()

    def __call__(self, func: _Function) -> _Function:
        """Decorate a function. Raises `UserTypeError` for a generator or a coroutine."""
        name = getattr(func, "__qualname__", repr(func))
        if isinstance(func, type) or not callable(func):
            raise UserTypeError(f"{self.name}: cannot decorate {name}: accepted is a function")
        kinds = (isgeneratorfunction, isasyncgenfunction, iscoroutinefunction)
        if any(is_kind(func) for is_kind in kinds):
            raise UserTypeError(
                f"{self.name}: {name} is a generator or a coroutine, which runs after its call: "
                f"use a with-block in it"
            )
        return super().__call__(func)


class GradientSwitch(SwitchBlock):
    """A block in which no gradients are recorded: `with Tensor.no_grad(): ...`.

    With `records=True`, a block in which gradients are recorded again. As a condition the switch is
    True if no gradients were recorded when it was made.
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

    def __bool__(self) -> bool:
        return self._is_on


@dataclass(frozen=True, slots=True)
class Record:
    """The way in which a value was computed from `parents`."""

    # The gradient rule: an op of the tensor graph, or the name of a function of several ops.
    rule: Ops | str
    # The payload of the op; the rule of a function may have a payload of its own class.
    arg: object
    parents: tuple[Value, ...]


@dataclass(slots=True, weakref_slot=True, eq=False)
class Value:
    """The current value of a tensor: a node on one or several devices, and its record.

    An assignment gives the tensor a new value. Tensors computed from it earlier refer to the old
    value, so that gradients are those of the computation as it was written.
    """

    node: UOp
    device: Place
    record: Record | None = None
    requires_grad: bool = False
    # True if requires_grad was set to False: an optimiser asks only the others for a gradient.
    is_frozen: bool = False
    # The tensor that got this value. It may be deleted, or have another value by now.
    owner: weakref.ref[TensorCore] | None = None
    # True if memory that the node reads was assigned to after the owner was deleted.
    is_overwritten: bool = False
    # The capture of a TinyJit in which the value was made.
    session: Session | None = None
    # Until an assignment has run: the value that the base of all views had before it.
    before: Value | None = None

    def __post_init__(self) -> None:
        self.node = on_place(self.node, self.device)

    @property
    def tensor(self) -> TensorCore | None:
        """Return the tensor that has this value; None if only gradients can still need it."""
        tensor = self.maker
        return tensor if tensor is not None and tensor._value is self else None

    @property
    def maker(self) -> TensorCore | None:
        """Return the tensor that got this value, also if it has another value now."""
        return None if self.owner is None else self.owner()


registry: Registry[Value] = Registry()


class Session(Protocol):
    """Interface of a capture: callbacks for every use of a tensor by the captured function.

    is_over: True after the capture. The tensors made in it are then like any other tensor.
    """

    is_over: bool

    def read(self, value: Value) -> None:
        """Prepare for a computation from `value`."""
        ...

    def write(self, tensor: Any, base: Any) -> None:
        """Prepare for an assignment to `tensor`, which is `base` or a view of it."""
        ...

    def before_change(self, tensor: TensorCore) -> None:
        """Prepare for another value of `tensor`."""
        ...

    def before_compute(self, roots: Sequence[UOp]) -> None:
        """Prepare for the computation of `roots`."""
        ...


capturing: ContextVar[Session | None] = ContextVar("tinyref_session", default=None)


class Mode:
    """A switch that is an attribute of a class, such as `Tensor.training`.

    Python does not call a class when a program assigns to its attribute. The assigned value hides
    this descriptor until `settle` moves it to the switch. This happens before the next block, and
    before the next op that reads the mode. Within a block, the assignment holds for the rest of the
    block.

    classes: the classes with the attribute. read: returns its value. write: sets its value.
    """

    classes: ClassVar[list[type]] = []

    def __init__(
        self, name: str, doc: str, read: Callable[[], object], write: Callable[[bool], None]
    ) -> None:
        self.__doc__ = doc
        self.name = name
        self._read = read
        self._write = write

    def __get__(self, tensor: object, owner: type) -> Any:
        return self._read()

    def settle(self) -> None:
        """Move an assigned value from its class to the switch.

        Raises `UserTypeError` for a value that is not a bool.
        """
        for cls in self.classes:
            if self.name not in cls.__dict__:
                continue
            with graph_lock:
                value = cls.__dict__.get(self.name, self)
                if value is self:
                    continue  # Another thread has moved it.
                delattr(cls, self.name)
                if not isinstance(value, bool | GradientSwitch):
                    raise UserTypeError(f"{self.name}: {value!r}: accepted are True and False")
                self._write(bool(value))


training = Switch("tinyref_training", False)
training_mode = Mode(
    "training",
    """The training mode: if True, dropout drops and batch normalisation learns. Default: False.

    Examples:
        >>> Tensor.training
        False
    """,
    training.get,
    training.set,
)
no_grad_mode = Mode(
    "no_grad",
    """Record no gradients in a block `with Tensor.no_grad():`, or in a decorated function.

    `Tensor.no_grad = True` stops recording everywhere, or for the rest of a block. As a condition,
    `Tensor.no_grad` is True if no gradients are recorded.

    Examples:
        >>> x = Tensor([2.0], requires_grad=True)
        >>> with Tensor.no_grad():
        ...     y = x * x
        >>> y.requires_grad, bool(Tensor.no_grad)
        (False, False)
        >>> square = Tensor.no_grad()(lambda x: x * x)
        >>> square(x).requires_grad
        False
    """,
    GradientSwitch,
    lambda mode: _recording.set(not mode),
)


def is_recording() -> bool:
    """Return False within `Tensor.no_grad()`. Every op calls this."""
    for cls in Mode.classes:
        if "no_grad" in cls.__dict__:
            no_grad_mode.settle()
    return _recording.get()


def _target(arg: Payload) -> Place | None:
    """Return the destination of an op that moves a tensor; None for other ops."""
    if isinstance(arg, CopyArg):
        return arg.device
    return arg.devices if isinstance(arg, ShardArg) else None


class TensorCore:
    """The members of every tensor. The mixins add the functions."""

    __slots__ = ("__weakref__", "_grad", "_value", "_view")

    _value: Value
    _grad: Self | None
    # The view of elements that other tensors may show too; None for a tensor without views.
    _view: View[TensorCore] | None

    # With None, numpy leaves operators between an array and a tensor to the tensor.
    __array_ufunc__ = None

    @property
    def node(self) -> UOp:
        """Return the node of the tensor graph that this tensor stands for."""
        return self._value.node

    @property
    def shape(self) -> Shape:
        """Return the size of each axis. A symbolic size is an expression.

        Examples:
            >>> Tensor.zeros(3, 5).shape
            (3, 5)
        """
        return graph.shape_of(self._value.node)

    @property
    def dtype(self) -> DType:
        """Return the type of the elements.

        Examples:
            >>> Tensor([1]).dtype, Tensor([1.0]).dtype
            (dtypes.int32, dtypes.float32)
        """
        return self._value.node.dtype

    @property
    def device(self) -> Place:
        """Return the canonical name of the device that holds, or will compute, the elements.

        For a tensor on several devices, return a tuple of names.

        Examples:
            >>> Tensor([1], device="PYTHON").device
            'PYTHON'
        """
        return self._value.device

    @property
    def ndim(self) -> int:
        """Return the number of axes.

        Examples:
            >>> Tensor.zeros(3, 5).ndim
            2
        """
        return len(self.shape)

    def size(self, dim: int | None = None) -> sint | Shape:
        """Return the shape, or the size of axis `dim`.

        Examples:
            >>> Tensor.zeros(3, 5).size(), Tensor.zeros(3, 5).size(1)
            ((3, 5), 5)
        """
        if dim is None:
            return self.shape
        axis = axis_of(dim, self.ndim, "size")
        if not self.shape:
            raise UserIndexError(f"size: dim {dim} is out of range for a tensor with 0 axes")
        return self.shape[axis]

    def numel(self) -> sint:
        """Return the number of elements. If a size is symbolic, this is an expression.

        Examples:
            >>> Tensor.zeros(3, 5).numel()
            15
        """
        return product(self.shape)

    def element_size(self) -> int:
        """Return the bytes of one element.

        Examples:
            >>> Tensor([1.0]).element_size()
            4
        """
        return self.dtype.itemsize

    def nbytes(self) -> int:
        """Return the bytes of all elements. Raises `UserError` for a symbolic size without a value.

        Examples:
            >>> Tensor.zeros(3, 5).nbytes()
            60
        """
        return math.prod(bound_sizes(self.shape)) * self.dtype.itemsize

    def is_floating_point(self) -> bool:
        """Return True for a float type, including the 8-bit floats.

        Examples:
            >>> Tensor([1.0]).is_floating_point(), Tensor([1]).is_floating_point()
            (True, False)
        """
        return self.dtype.is_float


def steps_of(tensor: TensorCore) -> Steps:
    """Return the steps from the base to this view of it; none for a tensor that is not a view."""
    return () if tensor._view is None else tensor._view.steps


def whole_tensors(tensor: TensorCore) -> list[TensorCore]:
    """Return the living tensors that are the whole base of `tensor`; none without a view."""
    tensors = [] if tensor._view is None else tensor._view.storage.tensors()
    return [other for other in tensors if not steps_of(other)]


def store_separately(value: Value) -> None:
    """Make the next computation of `value` store it in memory of its own, if need be as a copy."""
    with graph_lock:
        parts = tuple(UOp(Ops.CONTIGUOUS, part.dtype, (part,)) for part in parts_of(value.node))
        value.node = value.node.replace(src=parts) if value.node.op is Ops.MULTI else parts[0]
        registry.add(value)


def same_node(x: T) -> T:
    """Return another tensor with the node of this one, but without its record for gradients."""
    # A node that is read before another thread computes it, and registered after, is stale:
    # its assignments would run a second time.
    with graph_lock:
        return from_node(type(x), x.node, x.device)


def independent(x: T) -> T:
    """Return a tensor of the same elements, computed from this one, that shares no writes."""
    result = apply(x, Ops.RESHAPE, arg=ShapeArg(x.shape))
    leave_storage(result)
    return result


def take_value(x: T, value: Value) -> None:
    """Make this tensor stand for `value`."""
    value.owner = weakref.ref(x)
    value.session = capturing.get()
    name_node(value.node)
    with graph_lock:
        x._value = value
        registry.add(value)


def note_change(x: T) -> None:
    """Tell the current capture that this tensor is about to stand for another value."""
    session = capturing.get()
    if session is not None:
        session.before_change(x)


def apply(
    x: T,
    op: Ops,
    *others: T,
    arg: Payload = None,
    dtype: DType | None = None,
    is_view: bool = False,
) -> T:
    """Return the result of `op` on this tensor and `others`, with a record for gradients.

    For ops of `VIEW_OPS`, and with `is_view`, the result is a view of this tensor.
    """
    sources = (x, *others)
    session = capturing.get()
    if session is not None:
        for source in sources:
            session.read(source._value)
    device = _target(arg) or (common_device(op, sources) if others else x._value.device)
    # Without the lock, another thread could replace the nodes of the sources meanwhile.
    with graph_lock:
        node = build(op, arg, dtype, [source._value.node for source in sources])
        value = Value(node, device)
        if op is not Ops.DETACH:
            _record(value, op, arg, sources)
        result = from_value(type(x), value)
        if is_view or op in VIEW_OPS:
            make_view_of(result, x, Step(op, arg, x.shape, x.dtype, node.dtype))
        return result


def _record(value: Value, rule: Ops | str, arg: object, sources: Sequence[TensorCore]) -> None:
    """Record how a value was computed, if gradients need it."""
    if is_recording() and value.node.dtype.is_float:
        parents = tuple([source._value for source in sources])
        value.record = Record(rule, arg, parents)
        value.requires_grad = any(parent.requires_grad for parent in parents)


def with_rule(
    x: T, rule: Ops | str, compute: Callable[..., T], *others: T, arg: object = None
) -> T:
    """Return `compute(x, *others)`, recorded as one step with the gradient rule `rule`.

    rule: an op, or the name of a rule in `RULES`. arg: the payload for the rule.
    """
    sources = (x, *others)
    with GradientSwitch():
        result = compute(*sources)
    with graph_lock:
        value = Value(result.node, result.device)
        _record(value, rule, arg, sources)
        return from_value(type(x), value)


def make_view_of(x: T, source: T, step: Step | None) -> None:
    """Make this tensor a view of `source` through `step`; without a step, of all elements."""
    with graph_lock:
        if source._view is None:
            storage: Storage[TensorCore] = Storage()
            storage.add(source)
            source._view = View(storage)
        view = source._view
        leave_storage(x)
        x._view = view if step is None else view.through(step, x.shape)
        x._view.storage.add(x)
        x._value.before = source._value.before


def leave_storage(x: T) -> None:
    """Make this tensor independent: it has elements of its own and is no view."""
    if x._view is not None:
        x._view.storage.remove(x)
        x._view = None


def shares_storage(x: T, other: T) -> bool:
    """Return True if this tensor and `other` are views of the same elements."""
    if x._view is None or other._view is None:
        return x is other
    return x._view.storage is other._view.storage


def apart_from(x: T, source: T) -> T:
    """Return this tensor; if it is a view of `source`, an independent copy.

    So an operator in place on a function's result never changes the function's argument.
    """
    return independent(x) if shares_storage(x, source) else x


def as_view_of(x: T, source: T) -> T:
    """Return this view of `source`; for `source` itself, another tensor that shows it."""
    return x if x is not source else apply(x, Ops.RESHAPE, arg=ShapeArg(x.shape))


def reshape(x: T, shape: Shape) -> T:
    """Show the elements in another shape of the same size; `x` itself if it has that shape."""
    return x if shape == x.shape else apply(x, Ops.RESHAPE, arg=ShapeArg(shape))


def expand(x: T, shape: Shape) -> T:
    """Repeat axes of size 1; `x` itself if it has that shape."""
    return x if shape == x.shape else apply(x, Ops.EXPAND, arg=ShapeArg(shape))


def pad(x: T, bounds: Bounds, is_view: bool = False) -> T:
    """Add zeros around the elements. Set `is_view` only if a later step cuts the zeros off."""
    return apply(x, Ops.PAD, arg=BoundsArg(bounds), is_view=is_view)


def shrink(x: T, bounds: Bounds) -> T:
    """Show the elements from `begin` to before `end` of each axis."""
    return apply(x, Ops.SHRINK, arg=BoundsArg(bounds))


def reduce_over(x: T, op: Ops, axes: tuple[int, ...]) -> T:
    """Reduce over `axes`, which stay with size 1."""
    return apply(x, Ops.REDUCE, arg=ReduceArg(op, axes)) if axes else x


def broadcast_to(x: T, shape: Shape) -> T:
    """Expand to `shape`, which `arguments.broadcast` returned to the caller."""
    return expand(reshape(x, (1,) * (len(shape) - x.ndim) + x.shape), shape)


def value_of(x: TensorCore) -> Value:
    """Return the current value of a tensor."""
    return x._value


def from_value(cls: type[T], value: Value) -> T:
    """Return a new tensor with a fresh value."""
    tensor = object.__new__(cls)
    initialise(tensor, value)
    return tensor


def initialise(x: TensorCore, value: Value) -> None:
    """Initialise a tensor object with a fresh value."""
    x._grad = None
    x._view = None
    take_value(x, value)


def from_node(cls: type[T], node: UOp, device: Place) -> T:
    """Return a tensor that stands for a node."""
    return from_value(cls, Value(node, device))


def peek_value(cls: type[T], value: Value) -> T:
    """Return a temporary tensor for reading a value that another tensor owns or owned."""
    tensor = object.__new__(cls)
    tensor._grad = None
    tensor._view = None
    tensor._value = value
    return tensor


def common_device(op: Ops, sources: Sequence[TensorCore]) -> Place:
    """Return the device of all sources. A constant has no memory and fits any device."""
    device = sources[0]._value.device
    if all(source._value.device == device for source in sources):
        return device
    placed = {source.device for source in sources if graph.device_of(source.node)}
    if len(placed) > 1:
        raise UserError(
            f"{op.name.lower()}: tensors are on "
            f"{' and '.join(sorted(map(describe_place, placed)))}: "
            f"bring them to one device with .to(device)"
        )
    return placed.pop() if placed else device


def storage_of(x: TensorCore) -> Storage[TensorCore] | None:
    """Return the storage of `x`; None for a tensor that never was a view and never had one."""
    return None if x._view is None else x._view.storage


def set_view(x: TensorCore, storage: Storage[TensorCore], steps: Steps = ()) -> None:
    """Make `x`, a tensor of this storage, show its elements through these steps."""
    x._view = View(storage, steps)


def shows_same(x: TensorCore, other: TensorCore) -> bool:
    """Return True if `other` is this tensor, or the same view of the same elements."""
    return other is x or (other._view is not None and other._view == x._view)


def gradient_of(x: T) -> T | None:
    """Return the gradient that `backward` has accumulated at `x`."""
    return x._grad


def set_gradient(x: TensorCore, gradient: TensorCore | None) -> None:
    """Set `x.grad`."""
    x._grad = gradient


def request_gradient(x: T, requires_grad: bool | None) -> None:
    """Set `x.requires_grad`. None means False until an optimiser sets it to True."""
    value_of(x).is_frozen = requires_grad is False
    if requires_grad and not x.dtype.is_float:
        raise UserTypeError(
            f"requires_grad: a {x.dtype.name} tensor has no gradient: accepted are floats"
        )
    if bool(requires_grad) is not value_of(x).requires_grad:
        # From here on it is a leaf: gradients stop here, or do not reach it at all.
        value_of(x).requires_grad = bool(requires_grad)
        value_of(x).record = None


def constant_like(x: T, value: ConstType, dtype: DType) -> T:
    """Return a constant without axes, on the device of `x`."""
    return from_node(type(x), graph.constant(as_const(value, dtype), dtype), x.device)


def cast_to(x: T, dtype: DType) -> T:
    """Convert the elements; `x` itself if it has that type."""
    return x if dtype is x.dtype else apply(x, Ops.CAST, dtype=dtype)


def choose(condition: T, chosen: T, other: T) -> T:
    """Select from `chosen` where `condition` is true, else from `other`. All have one shape."""
    return apply(condition, Ops.WHERE, chosen, other)


def as_tensor(x: T, value: object, argument: str) -> T:
    """Return `value` as a tensor of the class of `x`. Raises `UserTypeError` for no tensor."""
    if not isinstance(value, TensorCore):
        raise wrong_type(argument, value, "is a Tensor")
    return cast(T, value)
