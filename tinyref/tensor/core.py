"""The core of Tensor: a node of the tensor graph, its device, the record that gradients read."""

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
    """A block, or a decorated function, within which a switch has a value."""

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


class Session(Protocol):
    """A function that is being captured, and what it must know of the tensors that it uses.

    is_over: it was captured; what was made within is like any other tensor from then on.
    """

    is_over: bool

    def read(self, value: Value) -> None:
        """The function is about to compute from `value`."""
        ...

    def write(self, tensor: Any, base: Any) -> None:
        """The function is about to assign to `tensor`, which is `base` or a view of it."""
        ...

    def before_change(self, tensor: TensorCore) -> None:
        """A tensor is about to stand for another value."""
        ...

    def before_compute(self, roots: Sequence[UOp]) -> None:
        """The function is about to compute `roots`."""
        ...


capturing: ContextVar[Session | None] = ContextVar("tinyref_session", default=None)


class Mode:
    """A switch that is read as an attribute of a class, such as `Tensor.training`.

    Python does not call a class when somebody assigns to one of its attributes. The assigned value
    hides this descriptor until `settle` gives it to the switch: before the next block, and before
    the next op that reads the mode. Set within a block, it holds for the rest of that block.

    classes: those that may be assigned to. read: return the value to show. write: take a value.
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
        """Take over a value that was assigned to a class. Raises `UserTypeError` for no bool."""
        for cls in self.classes:
            if self.name not in cls.__dict__:
                continue
            with graph_lock:
                value = cls.__dict__.get(self.name, self)
                if value is self:
                    continue  # Another thread took it over.
                delattr(cls, self.name)
                if not isinstance(value, bool | GradientSwitch):
                    raise UserTypeError(f"{self.name}: {value!r}: accepted are True and False")
                self._write(bool(value))


training = Switch("tinyref_training", False)
training_mode = Mode(
    "training",
    """True if dropout drops and batch normalisation learns; False at first.

    Examples:
        >>> Tensor.training
        False
    """,
    training.get,
    training.set,
)
no_grad_mode = Mode(
    "no_grad",
    """Record no gradients within `with Tensor.no_grad():`, or a function decorated with it.

    `Tensor.no_grad = True` does so everywhere, or for the rest of a block. In a condition
    `Tensor.no_grad` is True where no gradients are recorded.

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
    """Return False within `Tensor.no_grad()`. Asked for with every op."""
    for cls in Mode.classes:
        if "no_grad" in cls.__dict__:
            no_grad_mode.settle()
    return _recording.get()


def _target(arg: Payload) -> Place | None:
    """Where an operation that moves a tensor puts it."""
    if isinstance(arg, CopyArg):
        return arg.device
    return arg.devices if isinstance(arg, ShardArg) else None


class TensorCore:
    """What every tensor has; the mixins add what one can do with it."""

    __slots__ = ("__weakref__", "_grad", "_value", "_view")

    _value: Value
    _grad: Self | None
    # What it shows of elements that others may show as well; None where it is the only one.
    _view: View[TensorCore] | None

    # numpy leaves operators between an array and a tensor to the tensor.
    __array_ufunc__ = None

    @property
    def node(self) -> UOp:
        """The node of the tensor graph that this tensor stands for."""
        return self._value.node

    @property
    def shape(self) -> Shape:
        """The size of each axis; a symbolic size is an expression.

        Examples:
            >>> Tensor.zeros(3, 5).shape
            (3, 5)
        """
        return graph.shape_of(self._value.node)

    @property
    def dtype(self) -> DType:
        """The type of the elements.

        Examples:
            >>> Tensor([1]).dtype, Tensor([1.0]).dtype
            (dtypes.int32, dtypes.float32)
        """
        return self._value.node.dtype

    @property
    def device(self) -> Place:
        """The canonical name of the device that holds, or will compute, the elements.

        The names of all of them where there are several.

        Examples:
            >>> Tensor([1], device="PYTHON").device
            'PYTHON'
        """
        return self._value.device

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


def steps_of(tensor: TensorCore) -> Steps:
    """The steps through which a tensor shows what it is a view of; none of what is no view."""
    return () if tensor._view is None else tensor._view.steps


def whole_tensors(tensor: TensorCore) -> list[TensorCore]:
    """The living tensors that show all of what `tensor` is a view of; none of what is no view."""
    tensors = [] if tensor._view is None else tensor._view.storage.tensors()
    return [each for each in tensors if not steps_of(each)]


def store_apart(value: Value) -> None:
    """When `value` is computed next it gets memory of its own, even if it is in some already."""
    with graph_lock:
        parts = tuple(UOp(Ops.CONTIGUOUS, part.dtype, (part,)) for part in parts_of(value.node))
        value.node = value.node.replace(src=parts) if value.node.op is Ops.MULTI else parts[0]
        registry.add(value)


def same_node(x: T) -> T:
    """Another tensor of the node that this one has; no gradient goes back through it."""
    # A node that is read before another thread computes it, and registered after, is stale:
    # its assignments would run a second time.
    with graph_lock:
        return from_node(type(x), x.node, x.device)


def independent(x: T) -> T:
    """Another tensor of these elements, computed from this one; what is written to one is its
    own.
    """
    result = apply(x, Ops.RESHAPE, arg=ShapeArg(x.shape))
    leave_storage(result)
    return result


def take_value(x: T, value: Value) -> None:
    """From now on this tensor stands for `value`."""
    value.owner = weakref.ref(x)
    value.session = capturing.get()
    name_node(value.node)
    with graph_lock:
        x._value = value
        registry.add(value)


def note_change(x: T) -> None:
    """This tensor is about to stand for another value: a function that is captured notes it."""
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
    """The tensor that `op` makes of this one and `others`, recorded for gradients.

    It is a view of this one for the ops that are, and where `is_view` says so.
    """
    sources = (x, *others)
    session = capturing.get()
    if session is not None:
        for source in sources:
            session.read(source._value)
    device = _target(arg) or (common_device(op, sources) if others else x._value.device)
    # Another thread may give the sources other nodes until their user is registered.
    with graph_lock:
        node = build(op, arg, dtype, [source._value.node for source in sources])
        value = Value(node, device)
        if op is not Ops.DETACH:
            _record(value, op, arg, sources)
        result = from_value(type(x), value)
        if is_view or op in VIEW_OPS:
            show_part_of(result, x, Step(op, arg, x.shape, x.dtype, node.dtype))
        return result


def _record(value: Value, rule: Ops | str, arg: Payload, sources: Sequence[TensorCore]) -> None:
    """Note how a value was made, for its gradient."""
    if is_recording() and value.node.dtype.is_float:
        parents = tuple([source._value for source in sources])
        value.record = Record(rule, arg, parents)
        value.requires_grad = any(parent.requires_grad for parent in parents)


def with_rule(
    x: T, rule: Ops | str, compute: Callable[..., T], *others: T, arg: Payload = None
) -> T:
    """`compute` of this tensor and `others`, whose gradient is that of `rule` alone.

    rule: an op, or a name with which a rule is entered. arg: the payload that the rule reads.
    """
    sources = (x, *others)
    with GradientSwitch():
        result = compute(*sources)
    with graph_lock:
        value = Value(result.node, result.device)
        _record(value, rule, arg, sources)
        return from_value(type(x), value)


def show_part_of(x: T, source: T, step: Step | None) -> None:
    """From now on this tensor is a view of `source`; without a step it shows all of it."""
    with graph_lock:
        if source._view is None:
            storage: Storage[TensorCore] = Storage()
            storage.add(source)
            source._view = View(storage)
        shown = source._view
        leave_storage(x)
        x._view = shown if step is None else shown.through(step, x.shape)
        x._view.storage.add(x)
        x._value.before = source._value.before


def leave_storage(x: T) -> None:
    """From now on this tensor has elements of its own, and is a view of no other."""
    if x._view is not None:
        x._view.storage.remove(x)
        x._view = None


def shares_storage(x: T, other: T) -> bool:
    """Whether this tensor and `other` are views of the same elements."""
    if x._view is None or other._view is None:
        return x is other
    return x._view.storage is other._view.storage


def apart_from(x: T, source: T) -> T:
    """This tensor; where it is a view of `source` another one with elements of its own.

    So an operator in place on a function's result never changes what the function was given.
    """
    return independent(x) if shares_storage(x, source) else x


def as_view_of(x: T, source: T) -> T:
    """This view of `source`; where it is `source` itself another tensor that shows it."""
    return x if x is not source else apply(x, Ops.RESHAPE, arg=ShapeArg(x.shape))


def reshape(x: T, shape: Shape) -> T:
    """Show the elements in another shape, which has as many; `x` itself if it has that shape."""
    return x if shape == x.shape else apply(x, Ops.RESHAPE, arg=ShapeArg(shape))


def expand(x: T, shape: Shape) -> T:
    """Repeat axes of size 1; `x` itself if it has that shape."""
    return x if shape == x.shape else apply(x, Ops.EXPAND, arg=ShapeArg(shape))


def pad(x: T, bounds: Bounds, is_view: bool = False) -> T:
    """A view only where what follows takes the padding away again."""
    return apply(x, Ops.PAD, arg=BoundsArg(bounds), is_view=is_view)


def shrink(x: T, bounds: Bounds) -> T:
    """Show the elements from `begin` to before `end` of each axis."""
    return apply(x, Ops.SHRINK, arg=BoundsArg(bounds))


def reduce_over(x: T, op: Ops, axes: tuple[int, ...]) -> T:
    """Reduces over `axes`, which stay as size 1."""
    return apply(x, Ops.REDUCE, arg=ReduceArg(op, axes)) if axes else x


def broadcast_to(x: T, shape: Shape) -> T:
    """Expands to `shape`, which the caller found by `arguments.broadcast`."""
    return expand(reshape(x, (1,) * (len(shape) - x.ndim) + x.shape), shape)


def value_of(x: TensorCore) -> Value:
    """Return what a tensor stands for now."""
    return x._value


def from_value(cls: type[T], value: Value) -> T:
    """Return a tensor for a fresh value, which becomes its own."""
    tensor = object.__new__(cls)
    initialise(tensor, value)
    return tensor


def initialise(x: TensorCore, value: Value) -> None:
    """Make `x`, which is nothing yet, stand for a fresh value."""
    x._grad = None
    x._view = None
    take_value(x, value)


def from_node(cls: type[T], node: UOp, device: Place) -> T:
    """Return a tensor that stands for a node."""
    return from_value(cls, Value(node, device))


def peek_value(cls: type[T], value: Value) -> T:
    """Return a tensor to read a value with that belongs to another, or to none any more."""
    tensor = object.__new__(cls)
    tensor._grad = None
    tensor._view = None
    tensor._value = value
    return tensor


def common_device(op: Ops, sources: Sequence[TensorCore]) -> Place:
    """Return where all sources are; a constant has no memory and joins any device."""
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
    """Return the elements that `x` and others show; None where no other tensor has shown them."""
    return None if x._view is None else x._view.storage


def set_view(x: TensorCore, storage: Storage[TensorCore], steps: Steps = ()) -> None:
    """From now on `x`, which is in the storage, shows its elements through these steps."""
    x._view = View(storage, steps)


def shows_same(x: TensorCore, other: TensorCore) -> bool:
    """Return True if `other` is this tensor, or the same view of the same elements."""
    return other is x or (other._view is not None and other._view == x._view)


def gradient_of(x: T) -> T | None:
    """Return the gradient that `backward` added up at `x`."""
    return x._grad


def set_gradient(x: TensorCore, gradient: TensorCore | None) -> None:
    """Make `gradient` the one that `x.grad` gives."""
    x._grad = gradient


def request_gradient(x: T, requires_grad: bool | None) -> None:
    """True and False decide; None leaves it to an optimiser, which will ask for a gradient."""
    value_of(x).is_frozen = requires_grad is False
    if requires_grad and not x.dtype.is_float:
        raise UserTypeError(
            f"requires_grad: a {x.dtype.name} tensor has no gradient: accepted are floats"
        )
    if bool(requires_grad) is not value_of(x).requires_grad:
        # From here on it is a leaf: gradients end here, or do not come here at all.
        value_of(x).requires_grad = bool(requires_grad)
        value_of(x).record = None


def constant_like(x: T, value: ConstType, dtype: DType) -> T:
    """Return a constant without axes, where `x` is."""
    return from_node(type(x), graph.constant(as_const(value, dtype), dtype), x.device)


def cast_to(x: T, dtype: DType) -> T:
    """Convert the elements; `x` itself if it has that type."""
    return x if dtype is x.dtype else apply(x, Ops.CAST, dtype=dtype)


def choose(condition: T, chosen: T, other: T) -> T:
    """Return `chosen` where a condition of bools holds, else `other`; all of one shape."""
    return apply(condition, Ops.WHERE, chosen, other)


def as_tensor(x: T, value: object, argument: str) -> T:
    """Return an argument that has to be a tensor, as `x` is. Raises `UserTypeError`."""
    if not isinstance(value, TensorCore):
        raise wrong_type(argument, value, "is a Tensor")
    return cast(T, value)
