"""Computing tensors, reading and showing elements, moving them between devices, pickling them.

Pickles and deep copies hold tensors by value, on the devices that they were on. What is written to
a device that only holds data is computed elsewhere first, and written at once; so whatever waits to
be computed from the old bytes is computed before.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from tinyref.algebra.symbolic import describe_shape, product
from tinyref.arrays import Array, np
from tinyref.device import Device
from tinyref.dtype import ConstType, DType, dtypes, from_numpy_dtype, numpy_dtype, to_dtype
from tinyref.errors import TinyrefError, UserError, UserStateError, UserTypeError, printable
from tinyref.lazy import graph
from tinyref.lazy.buffers import (
    buffer_of,
    is_lost,
    new_buffer_like,
    only_holds_data,
    overwrite,
    refuse_lost,
)
from tinyref.lazy.folding import uniform_value
from tinyref.lazy.graph import new_buffer
from tinyref.lazy.shape import device_of, is_empty, shape_of
from tinyref.lazy.shards import (
    Place,
    canonical_devices,
    describe_layout,
    describe_place,
    even_sizes,
    join_parts,
    layout_of,
    shape_with_size,
    spans,
)
from tinyref.tensor.arguments import axis_of, bound_sizes, fixed
from tinyref.tensor.core import (
    GradientSwitch,
    TensorCore,
    Value,
    apply,
    as_tensor,
    capturing,
    from_node,
    gradient_of,
    initialise,
    leave_storage,
    note_change,
    registry,
    request_gradient,
    set_gradient,
    show_part_of,
    take_value,
    value_of,
)
from tinyref.tensor.elementwise import Elementwise
from tinyref.tensor.literals import MAX_AXES
from tinyref.tensor.movement import Movement, in_layout
from tinyref.tensor.registry import (
    below_views,
    graph_lock,
    is_computed,
    parts_of,
    shown_buffers,
)
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import MOVEMENT, Ops
from tinyref.uops.payload import BufferArg, ShardArg

T = TypeVar("T", bound="Data")


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
    values = [value_of(tensor) for tensor in tensors]
    try:
        _compute(tensors)
    except BaseException:
        if any(value.before is not None for value in values):
            from tinyref.tensor.realisation import undo_assignments

            with graph_lock:
                undo_assignments(values)
        raise


def _compute(tensors: Sequence[TensorCore]) -> None:
    refuse_lost([tensor.node for tensor in tensors])
    waiting = [tensor for tensor in tensors if not is_computed(tensor.node)]
    if not waiting:
        return
    session = capturing.get()
    with graph_lock:
        if session is not None:
            session.before_compute([tensor.node for tensor in waiting])
        write_empty(waiting)
        from tinyref.tensor.realisation import compute_graphs

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


VERSION = 1
Sizes = tuple[int, ...]


class Data(Elementwise, Movement):
    """Reading elements computes what is not computed yet.

    A tensor on several devices computes what it would on one, each device its part. Its device is a
    tuple of names. Operations on tensors with the same devices run on each device with what that
    device has; where they need elements of another, those are copied, and sums over the axis that
    was cut come together on every device. Gradients lie as their tensors do.
    """

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

        with graph_lock:
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
        from tinyref.tensor.realisation import schedule_of

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
        if self.node.op is Ops.MULTI:
            return self._gather_elements()
        value = uniform_value(self.node)
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
        with graph_lock:
            buffer = buffer_of(buffer_node(self))
            array = np.frombuffer(buffer.copy_out(), dtype=numpy_dtype(self.dtype))
        return array[: math.prod(shape)].reshape(shape)

    def _gather_elements(self) -> Array:
        """The elements that lie on several devices."""
        with graph_lock:
            compute([self])
            layout = layout_of(self.node)
            places = zip(self.node.src, layout.devices, strict=True)
            parts = [from_node(type(self), part, device) for part, device in places]
        if layout.axis is None:
            return parts[0].numpy()
        return np.concatenate([part.numpy() for part in parts], axis=layout.axis)

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
        header, elements = describe_tensor(self), self._shown_elements()
        between = "\n" if "\n" in elements else " "
        return f"<{header}:{between}{elements}>" if elements else f"<{header}>"

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        return as_html(describe_tensor(self), self._shown_elements())

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
        return "" if capturing.get() is not None else shown_elements(self.node)

    # New elements

    def clone(self) -> Self:
        """The same elements in a tensor of its own, through which gradients flow.

        Examples:
            >>> x = Tensor([1, 2])
            >>> x.clone().tolist(), x.clone() is x
            ([1, 2], False)
        """
        return apply(self, Ops.CONTIGUOUS)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Says whether `backward` fills `grad`; returns this tensor.

        Examples:
            >>> Tensor([1.0]).requires_grad_().requires_grad
            True
        """
        request_gradient(self, requires_grad)
        return self

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to this tensor, or through it.

        Examples:
            >>> Tensor([1.0], requires_grad=True).requires_grad
            True
        """
        return value_of(self).requires_grad

    @requires_grad.setter
    def requires_grad(self, requires_grad: bool | None) -> None:
        request_gradient(self, requires_grad)

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
            with graph_lock:
                note_change(self)
                leave_storage(self)
                become_leaf(self, moved.node, moved.device)
        return self

    def replace(self, x: Self, allow_shape_mismatch: bool = False) -> Self:
        """This tensor stands for what `x` stands for, and is a view of it; returns this tensor.

        Raises `UserError` where shapes differ, unless that is allowed.

        Examples:
            >>> x = Tensor([1, 2])
            >>> x.replace(Tensor([3, 4])).tolist()
            [3, 4]
        """
        as_tensor(self, x, "replace: x")
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
            session.read(value_of(x))
        with graph_lock:
            note_change(self)
            show_part_of(self, x, None)
            become_leaf(self, x.node, x.device)
        return self

    def shard(self, devices: tuple[str, ...], axis: int | None = None) -> Self:
        """The same elements on several devices: cut along `axis`, or all on each without one.

        A size that the number of devices does not divide gives parts that differ by one, the
        larger ones first. Raises `UserError` for an axis that does not exist, for a size that is
        symbolic, and for devices that are unknown or named twice.

        Examples:
            >>> Tensor([1, 2, 3, 4]).shard(("CPU:0", "CPU:1"), axis=0).device
            ('CPU', 'CPU:1')
        """
        if not isinstance(devices, tuple | list):
            raise UserTypeError(
                f"shard: devices is {devices!r}, accepted is a tuple of names such as "
                f"('CPU:0', 'CPU:1')"
            )
        return in_layout(self, self._even_layout(canonical_devices(devices), axis))

    def shard_(self, devices: tuple[str, ...], axis: int | None = None) -> Self:
        """Moves this tensor itself to several devices, as `shard` does; returns it.

        Examples:
            >>> x = Tensor([1, 2, 3, 4])
            >>> x.shard_(("CPU:0", "CPU:1"), axis=0).tolist()
            [1, 2, 3, 4]
        """
        return self._move(lambda: self.shard(devices, axis))

    def _even_layout(self, devices: Sequence[str], axis: int | None) -> ShardArg:
        if axis is None:
            return ShardArg(tuple(devices))
        place = axis_of(axis, self.ndim, "shard")
        (size,) = fixed((self.shape[place],), "shard")
        return ShardArg(tuple(devices), place, even_sizes(size, len(devices)))

    def __getstate__(self) -> dict[str, object]:
        """The elements, computed if need be, and all else that a tensor is; no memory is shared.

        A view becomes a tensor of its own; a symbolic shape has the sizes that it is bound to.
        Raises `UserError` for a tensor that was computed from others that require grad, and for
        one in a file.
        """
        if value_of(self).requires_grad and value_of(self).record is not None:
            raise UserStateError(
                "pickle: this tensor was computed from tensors that require grad, which would be "
                "lost: accepted are leaves: use detach()"
            )
        if any(only_holds_data(part) for part in parts_of(self.node)):
            raise UserError(
                f"pickle: this tensor is on {describe_place(self.device)}, which no pickle or copy "
                f"contains: copy it to a device that computes first, as with .to('CPU')"
            )
        is_sharded = self.node.op is Ops.MULTI
        constant = None if is_sharded else uniform_value(self.node)
        return {
            "version": VERSION,
            "dtype": self.dtype.name,
            "device": self.device,
            "shape": bound_sizes(self.shape),
            "layout": (layout_of(self.node).axis, layout_of(self.node).sizes)
            if is_sharded
            else None,
            "parts": () if constant is not None else self._contents(),
            "constant": constant,
            "requires_grad": value_of(self).requires_grad,
            "is_frozen": value_of(self).is_frozen,
            "grad": gradient_of(self),
        }

    def _contents(self) -> tuple[bytes, ...]:
        """The bytes on each device."""
        self.realize()
        devices = self.device if isinstance(self.device, tuple) else (self.device,)
        pairs = zip(parts_of(self.node), devices, strict=True)
        parts = [from_node(type(self), part, device) for part, device in pairs]
        return tuple(part.numpy().tobytes() for part in parts)

    def __setstate__(self, state: object) -> None:
        """The tensor that `__getstate__` described.

        Raises `UserError` for a description of another version or with too few elements, and where
        its device is not here.
        """
        version = state.get("version") if isinstance(state, dict) else None
        if version != VERSION:
            raise _damage_error(f"it is of version {version!r}, accepted is {VERSION}")
        found = cast(dict[str, Any], state)
        place: Place = found["device"]
        for device in place if isinstance(place, tuple) else (place,):
            check_device(device, "the tensor was")
        node = _node_of(found, to_dtype(found["dtype"]))
        initialise(self, Value(node, place, None, found["requires_grad"], found["is_frozen"]))
        set_gradient(self, found["grad"])


WIDTH = 100
# What is read to be shown of a tensor of many axes; with more there are no elements shown.
MAX_READ = 4096

Places = tuple[tuple[int, ...], ...]


def shown_elements(node: UOp) -> str:
    """The elements of what is in memory, or constant, as numpy shows them; else nothing.

    Nothing is computed and nothing allocated for it, and of a large tensor only the elements that
    are shown are read.
    """
    shape = shape_of(node)
    sizes = tuple(size for size in shape if isinstance(size, int))
    if len(sizes) < len(shape) or len(sizes) > MAX_AXES:
        return ""
    options = np.get_printoptions()
    is_elided = math.prod(sizes) > options["threshold"]
    edge = options["edgeitems"] if is_elided else max(sizes, default=0)
    places = tuple(_shown_places(size, edge) for size in sizes)
    if math.prod(map(len, places)) > max(MAX_READ, options["threshold"]):
        return ""
    try:
        found = _elements(node, places)
    except (TinyrefError, OSError):
        # What cannot be read, such as a file that is gone, cannot be shown.
        return ""
    return "" if found is None else _text(found, 0 if is_elided else math.prod(sizes) + 1)


def _shown_places(size: int, edge: int) -> tuple[int, ...]:
    """The first and the last of an axis, and one between them, which numpy shows as dots."""
    if size <= 2 * edge + 1:
        return tuple(range(size))
    return (*range(edge), edge, *range(size - edge, size))


def _elements(node: UOp, places: Places) -> Array | None:
    """The elements at `places` of each axis; None where they are not to be had."""
    if node.op is Ops.MULTI:
        return _of_parts(node, places)
    dtype = numpy_dtype(node.dtype)
    counts = tuple(map(len, places))
    value = uniform_value(node)
    if value is not None:
        return np.full(counts, value, dtype)
    if 0 in counts:
        return np.empty(counts, dtype)
    backing = graph.backing(node)
    buffer = None if backing is None else buffer_of(backing)
    if buffer is None or not (buffer if buffer.base is None else buffer.base).is_allocated:
        return None
    if not Device[buffer.device].capabilities.keeps_values:
        return None
    sizes = [size for size in shape_of(node) if isinstance(size, int)]
    flat = np.zeros((), np.int64)
    for size, chosen in zip(sizes, places, strict=True):
        flat = flat[..., None] * size + np.array(chosen, np.int64)
    parts = []
    for begin, count in _ranges_of(flat.ravel().tolist()):
        part = buffer.view(begin * node.dtype.itemsize, count, node.dtype)
        parts.append(np.frombuffer(part.copy_out(), dtype))
    return np.concatenate(parts).reshape(counts)


def _ranges_of(positions: Sequence[int]) -> list[tuple[int, int]]:
    """Rising positions as ranges: begin and length."""
    found: list[tuple[int, int]] = []
    for _, group in itertools.groupby(enumerate(positions), lambda pair: pair[1] - pair[0]):
        run = [position for _, position in group]
        found.append((run[0], len(run)))
    return found


def _of_parts(node: UOp, places: Places) -> Array | None:
    layout = layout_of(node)
    if layout.axis is None:
        return _elements(node.src[0], places)
    found: list[Array] = []
    for part, (begin, end) in zip(node.src, spans(layout), strict=True):
        chosen = tuple(place - begin for place in places[layout.axis] if begin <= place < end)
        inside = (*places[: layout.axis], chosen, *places[layout.axis + 1 :])
        elements = _elements(part, inside)
        if elements is None:
            return None
        found.append(elements)
    return np.concatenate(found, axis=layout.axis)


def _text(elements: Array, threshold: int) -> str:
    if from_numpy_dtype(elements.dtype) in (dtypes.bfloat16, *dtypes.fp8s):
        elements = elements.astype(np.float32)
    return np.array2string(elements, max_line_width=WIDTH, separator=", ", threshold=threshold)


def as_html(header: str, elements: str) -> str:
    """The text of a tensor as HTML: the header above the elements."""
    import html

    lines = f"<div><code>{html.escape(header)}</code>"
    return f"{lines}<pre>{html.escape(elements)}</pre></div>" if elements else f"{lines}</div>"


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


def _node_of(state: dict[str, Any], dtype: DType) -> UOp:
    shape: Sizes = state["shape"]
    constant: ConstType | None = state["constant"]
    if constant is not None:
        return graph.full(shape, constant, dtype)
    if state["layout"] is None:
        return _in_memory(state["parts"][0], state["device"], shape, dtype)
    axis, lengths = state["layout"]
    layout = ShardArg(state["device"], axis, lengths)
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


def write_held(tensor: TensorCore, elements: Callable[[], Array], name: str) -> None:
    """Writes what `elements` reads where `tensor`, on a device that only holds data, shows it.

    A copy to there is made before it is written. Raises `UserError` within a capture, and for what
    shows one element at several places.
    """
    from tinyref.engine.capture import forbid_while_capturing

    device = device_of(tensor.node)
    forbid_while_capturing(f"{device} is assigned to")
    found = elements()
    if below_views(tensor.node).op is Ops.COPY:
        compute([tensor])
    _keep_old(device)
    overwrite(tensor.node, found, name)


def _keep_old(device: str | None) -> None:
    """Computes what is to be computed from bytes of `device`; its views show the new ones."""
    for value in registry.computable():
        if shown_buffers(value.node) or not _reads_device(value.node, device):
            continue
        if value.tensor is None:
            # Only gradients may want it, and they are refused then.
            value.is_overwritten = True
        else:
            compute([value.tensor])


def _reads_device(node: UOp, device: str | None) -> bool:
    arguments = (part.arg for part in toposort([node]) if part.op is Ops.BUFFER)
    return any(isinstance(found, BufferArg) and found.device == device for found in arguments)


def write_empty(tensors: Sequence[TensorCore]) -> None:
    """A copy without elements to a device that only holds data has memory too: an empty file."""
    for tensor in tensors:
        node = tensor.node
        if node.op is Ops.COPY and is_empty(shape_of(node)) and only_holds_data(node):
            held = new_buffer(device_of(node) or "", shape_of(node), node.dtype)
            for buffer in shown_buffers(held):
                buffer_of(buffer).copy_in(memoryview(b""))
            value_of(tensor).node = held
            registry.add(value_of(tensor))


def buffer_node(x: T) -> UOp:
    """The BUFFER that holds exactly the elements, in order, after computing them."""
    if not only_holds_data(x.node):
        compute([x])
    found = graph.backing(x.node)
    if found is None:
        with GradientSwitch():
            # A device that only holds data cannot put elements in order.
            moved = x.to(None) if only_holds_data(x.node) else x
            copy = moved.contiguous()
        compute([copy])
        found = graph.backing(copy.node)
    if found is None:
        raise RuntimeError(f"realize left {x.node!r} where a buffer is expected")
    # The memory lives as long as this node, which the caller holds.
    return found


def describe_tensor(x: T) -> str:
    """Return shape, type, devices and state in words."""
    states = dict.fromkeys(map(_state, parts_of(x.node)))
    state = ", ".join(states)
    wants = ", requires grad" if value_of(x).requires_grad else ""
    return printable(
        f"Tensor {describe_shape(x.shape)} {x.dtype.name} "
        f"on {describe_layout(x.node, x.device)}, {state}{wants}"
    )


def become_leaf(x: T, node: UOp, device: Place) -> None:
    """A new value, as a leaf; what was computed from this tensor keeps the old one."""
    was = value_of(x)
    take_value(x, Value(node, device, None, was.requires_grad, was.is_frozen))
