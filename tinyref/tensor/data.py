"""Compute tensors, read and show their elements, move them between devices, and pickle them.

Pickles and deep copies hold the elements of tensors and the names of their devices. A write to a
device that only holds data is computed on another device and then written at once. Before it,
every pending graph that reads the old bytes is computed.
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
    make_view_of,
    note_change,
    registry,
    request_gradient,
    set_gradient,
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
    viewed_buffers,
)
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import MOVEMENT, Ops
from tinyref.uops.payload import BufferArg, ShardArg

T = TypeVar("T", bound="Data")


if TYPE_CHECKING:
    from tinyref.schedule import Schedule


def compute(tensors: Sequence[TensorCore]) -> None:
    """Compute the graphs of `tensors` together, and put the results into all live graphs.

    No result is computed again: tensors that share a part of these graphs read its buffer. If an
    assignment here overwrites memory that another tensor reads, that tensor is computed first. So
    it has the elements of the time at which it was written in the program.

    After a failure, each of `tensors` has the elements from before its last assignment, unless that
    has run. Other tensors lose an assignment only if it needs a failed result.
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
    """The functions of Tensor that compute, read, move and save elements.

    Reading elements computes the tensor if needed. A tensor on several devices has the same results
    as on one, and each device computes its part. Its `device` is a tuple of names. An operation on
    tensors with the same devices runs on each device with its own elements. Elements of another
    device are copied if needed. A sum over the split axis is on every device. A gradient has the
    devices of its tensor.
    """

    __slots__ = ()

    def realize(self, *lst: Self, do_update_stats: bool = True) -> Self:
        """Compute this tensor, and those in `lst`, now. Return this tensor.

        After a failure or an interrupt, each of them has the elements from before its last
        assignment, unless that has run. Elements that were partly overwritten are lost: reading
        them raises `UserStateError` until the tensor is assigned to again.

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
        """Return the kernels and copies that `realize` would run for these tensors, in order.

        Nothing runs. Each kernel has the `names` of the functions that it computes. Raises
        `UserError` for graphs that no order of kernels can compute.

        Examples:
            >>> len((Tensor([1, 2]) + 1).sum().schedule().kernels)
            1
        """
        from tinyref.tensor.realisation import schedule_of

        _check_tensors("schedule", lst)
        return schedule_of((self, *lst))

    def numpy(self) -> Array:
        """Return the elements as a new numpy array; bfloat16 and fp8 have types of ml_dtypes.

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
        # The lock keeps replays of other threads from writing to this memory meanwhile.
        with graph_lock:
            buffer = buffer_of(buffer_node(self))
            data = np.empty(buffer.nbytes, dtype=np.uint8)
            buffer.copy_to(data.data)
        return data.view(numpy_dtype(self.dtype))[: math.prod(shape)].reshape(shape)

    def _gather_elements(self) -> Array:
        """Return the elements of a tensor on several devices."""
        with graph_lock:
            compute([self])
            layout = layout_of(self.node)
            pairs = zip(self.node.src, layout.devices, strict=True)
            parts = [from_node(type(self), part, device) for part, device in pairs]
        if layout.axis is None:
            return parts[0].numpy()
        return np.concatenate([part.numpy() for part in parts], axis=layout.axis)

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers; without axes, as one number.

        Examples:
            >>> Tensor([[1, 2], [3, 4]]).tolist()
            [[1, 2], [3, 4]]
        """
        array = self.numpy()
        if self.dtype.is_float:
            array = array.astype(np.float64)
        return array.tolist()

    def item(self) -> ConstType:
        """Return the only element as a number. Raises `UserError` unless there is exactly one.

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
        """Return a copy of the elements on the host, as a memoryview of the tensor's shape.

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
        """Return a numpy array for `np.array(tensor)`, always as a copy."""
        if copy is False:
            raise UserError("array: copy=False is not possible: elements are always copied")
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
        """Return shape, type, device and state, and the elements if they are in memory."""
        header, elements = describe_tensor(self), self._elements_as_text()
        between = "\n" if "\n" in elements else " "
        return f"<{header}:{between}{elements}>" if elements else f"<{header}>"

    def _repr_html_(self) -> str:
        """Return the same as `__repr__`, as HTML for notebooks."""
        return as_html(describe_tensor(self), self._elements_as_text())

    def __format__(self, spec: str) -> str:
        """Format the only element, as in f"{loss:.3f}"; without a spec, return `str(self)`."""
        if not spec:
            return str(self)
        if math.prod(bound_sizes(self.shape)) != 1:
            raise UserTypeError(
                f"format: {spec!r} needs one element, the shape is {describe_shape(self.shape)}: "
                f"use tolist()"
            )
        return format(self.item(), spec)

    def _elements_as_text(self) -> str:
        # Within a capture no elements are shown: a replay would not show them either.
        return "" if capturing.get() is not None else elements_as_text(self.node)

    # New elements

    def clone(self) -> Self:
        """Return an independent tensor of the same elements. Gradients flow through it.

        Examples:
            >>> x = Tensor([1, 2])
            >>> x.clone().tolist(), x.clone() is x
            ([1, 2], False)
        """
        return apply(self, Ops.CONTIGUOUS)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `requires_grad`, which makes `backward` fill `grad`. Return this tensor.

        Examples:
            >>> Tensor([1.0]).requires_grad_().requires_grad
            True
        """
        request_gradient(self, requires_grad)
        return self

    @property
    def requires_grad(self) -> bool:
        """Return True if gradients flow to this tensor, or through it.

        Examples:
            >>> Tensor([1.0], requires_grad=True).requires_grad
            True
        """
        return value_of(self).requires_grad

    @requires_grad.setter
    def requires_grad(self, requires_grad: bool | None) -> None:
        request_gradient(self, requires_grad)

    def to_(self, device: Place | None) -> Self:
        """Move this tensor in place to another device, or to several. Return this tensor.

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
        """Make this tensor a view of all of `x`. Return this tensor.

        Raises `UserError` if the shapes differ and `allow_shape_mismatch` is False.

        Examples:
            >>> x = Tensor([1, 2])
            >>> x.replace(Tensor([3, 4])).tolist()
            [3, 4]
        """
        as_tensor(self, x, "replace: x")
        if x.shape != self.shape and not allow_shape_mismatch:
            raise UserError(
                f"replace: x has shape {describe_shape(x.shape)}, this tensor has "
                f"{describe_shape(self.shape)}: use equal shapes, or allow_shape_mismatch=True"
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
            make_view_of(self, x, None)
            become_leaf(self, x.node, x.device)
        return self

    def shard(self, devices: tuple[str, ...], axis: int | None = None) -> Self:
        """Return the same elements on several devices: split along `axis`, or all on each device.

        If the number of devices does not divide the size, the first parts are larger by one. Raises
        `UserError` for an axis that does not exist, for a symbolic size, and for a device that is
        unknown or named twice.

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
        """Move this tensor in place to several devices, as `shard` does. Return this tensor.

        Examples:
            >>> x = Tensor([1, 2, 3, 4])
            >>> x.shard_(("CPU:0", "CPU:1"), axis=0).tolist()
            [1, 2, 3, 4]
        """
        return self._move(lambda: self.shard(devices, axis))

    def _even_layout(self, devices: Sequence[str], axis: int | None) -> ShardArg:
        if axis is None:
            return ShardArg(tuple(devices))
        number = axis_of(axis, self.ndim, "shard")
        (size,) = fixed((self.shape[number],), "shard")
        return ShardArg(tuple(devices), number, even_sizes(size, len(devices)))

    def __getstate__(self) -> dict[str, object]:
        """Return the computed elements, the type, the devices and the gradient, without a graph.

        A view becomes an independent tensor, and a symbolic size becomes its current value. Raises
        `UserError` for a tensor in a file, and for one computed from tensors that require grad.
        """
        if value_of(self).requires_grad and value_of(self).record is not None:
            raise UserStateError(
                "pickle: this tensor was computed from tensors that require grad, and a pickle "
                "would lose these: accepted are leaves: use detach()"
            )
        if any(only_holds_data(part) for part in parts_of(self.node)):
            raise UserError(
                f"pickle: this tensor is on {describe_place(self.device)}, which pickles and deep "
                f"copies cannot hold: copy it to a device that computes first, as with .to('CPU')"
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
        """Return the bytes on each device."""
        self.realize()
        devices = self.device if isinstance(self.device, tuple) else (self.device,)
        pairs = zip(parts_of(self.node), devices, strict=True)
        parts = [from_node(type(self), part, device) for part, device in pairs]
        return tuple(part.numpy().tobytes() for part in parts)

    def __setstate__(self, state: object) -> None:
        """Restore the tensor that `__getstate__` described.

        Raises `UserError` for another version, for too few elements, and for a missing device.
        """
        version = state.get("version") if isinstance(state, dict) else None
        if version != VERSION:
            raise _damage_error(f"it is of version {version!r}, accepted is {VERSION}")
        members = cast(dict[str, Any], state)
        device: Place = members["device"]
        for name in device if isinstance(device, tuple) else (device,):
            check_device(name, "the tensor was")
        node = _node_of(members, to_dtype(members["dtype"]))
        initialise(self, Value(node, device, None, members["requires_grad"], members["is_frozen"]))
        set_gradient(self, members["grad"])


WIDTH = 100
# The limit of elements that are read for the text of a tensor. Above it no elements are shown.
MAX_READ = 4096

# For each axis the positions of the elements to read.
Positions = tuple[tuple[int, ...], ...]


def elements_as_text(node: UOp) -> str:
    """Return the elements as numpy prints them, if they are in memory or constant; else "".

    It computes and allocates nothing. From a large tensor it reads only the printed elements.
    """
    shape = shape_of(node)
    sizes = tuple(size for size in shape if isinstance(size, int))
    if len(sizes) < len(shape) or len(sizes) > MAX_AXES:
        return ""
    options = np.get_printoptions()
    is_elided = math.prod(sizes) > options["threshold"]
    edge = options["edgeitems"] if is_elided else max(sizes, default=0)
    positions = tuple(_printed_positions(size, edge) for size in sizes)
    if math.prod(map(len, positions)) > max(MAX_READ, options["threshold"]):
        return ""
    try:
        elements = _elements(node, positions)
    except (TinyrefError, OSError):
        # The elements cannot be read: for example, their file was deleted.
        return ""
    return "" if elements is None else _text(elements, 0 if is_elided else math.prod(sizes) + 1)


def _printed_positions(size: int, edge: int) -> tuple[int, ...]:
    """Return the first and last positions, and one between them, which numpy prints as dots."""
    if size <= 2 * edge + 1:
        return tuple(range(size))
    return (*range(edge), edge, *range(size - edge, size))


def _elements(node: UOp, positions: Positions) -> Array | None:
    """Return the elements at `positions` of each axis; None if they are not in memory."""
    if node.op is Ops.MULTI:
        return _elements_of_parts(node, positions)
    dtype = numpy_dtype(node.dtype)
    counts = tuple(map(len, positions))
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
    for size, chosen in zip(sizes, positions, strict=True):
        flat = flat[..., None] * size + np.array(chosen, np.int64)
    parts = []
    for begin, count in _ranges_of(flat.ravel().tolist()):
        part = buffer.view(begin * node.dtype.itemsize, count, node.dtype)
        parts.append(np.frombuffer(part.copy_out(), dtype))
    return np.concatenate(parts).reshape(counts)


def _ranges_of(positions: Sequence[int]) -> list[tuple[int, int]]:
    """Return rising positions as ranges, each with its begin and length."""
    ranges: list[tuple[int, int]] = []
    for _, group in itertools.groupby(enumerate(positions), lambda pair: pair[1] - pair[0]):
        run = [position for _, position in group]
        ranges.append((run[0], len(run)))
    return ranges


def _elements_of_parts(node: UOp, positions: Positions) -> Array | None:
    layout = layout_of(node)
    if layout.axis is None:
        return _elements(node.src[0], positions)
    parts: list[Array] = []
    for part, (begin, end) in zip(node.src, spans(layout), strict=True):
        chosen = tuple(index - begin for index in positions[layout.axis] if begin <= index < end)
        inside = (*positions[: layout.axis], chosen, *positions[layout.axis + 1 :])
        elements = _elements(part, inside)
        if elements is None:
            return None
        parts.append(elements)
    return np.concatenate(parts, axis=layout.axis)


def _text(elements: Array, threshold: int) -> str:
    if from_numpy_dtype(elements.dtype) in (dtypes.bfloat16, *dtypes.fp8s):
        elements = elements.astype(np.float32)
    return np.array2string(elements, max_line_width=WIDTH, separator=", ", threshold=threshold)


def as_html(header: str, elements: str) -> str:
    """Return the text of a tensor as HTML: the header above the elements."""
    import html

    lines = f"<div><code>{html.escape(header)}</code>"
    return f"{lines}<pre>{html.escape(elements)}</pre></div>" if elements else f"{lines}</div>"


def check_device(device: str, subject: str) -> None:
    """Raise `UserError` if a device of a pickle is missing here. `subject` begins the message."""
    try:
        Device[device]
    except TinyrefError as error:
        raise UserStateError(
            f"pickle: {subject} on {device}, which is not here: {error}: move it to another "
            f"device before pickling, as with .to('CPU')"
        ) from error


def _damage_error(reason: str) -> UserError:
    return UserError(f"pickle: this is no tensor of tinyref, or it is damaged: {reason}")


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
    """Write the result of `elements()` to `tensor`, which is on a device that only holds data.

    A pending copy to that device runs first. Raises `UserError` within a capture, and for a view
    that repeats elements.
    """
    from tinyref.engine.capture import forbid_while_capturing

    device = device_of(tensor.node)
    forbid_while_capturing(f"{device} is assigned to")
    array = elements()
    if below_views(tensor.node).op is Ops.COPY:
        compute([tensor])
    _compute_readers(device)
    overwrite(tensor.node, array, name)


def _compute_readers(device: str | None) -> None:
    """Compute all pending graphs that read `device`, except views, which show the new bytes."""
    for value in registry.computable():
        if viewed_buffers(value.node) or not _reads_device(value.node, device):
            continue
        if value.tensor is None:
            # Only a gradient can still need the value, and is then refused.
            value.is_overwritten = True
        else:
            compute([value.tensor])


def _reads_device(node: UOp, device: str | None) -> bool:
    arguments = (part.arg for part in toposort([node]) if part.op is Ops.BUFFER)
    return any(isinstance(arg, BufferArg) and arg.device == device for arg in arguments)


def write_empty(tensors: Sequence[TensorCore]) -> None:
    """Create an empty file for each copy without elements to a device that only holds data."""
    for tensor in tensors:
        node = tensor.node
        if node.op is Ops.COPY and is_empty(shape_of(node)) and only_holds_data(node):
            empty = new_buffer(device_of(node) or "", shape_of(node), node.dtype)
            for buffer in viewed_buffers(empty):
                buffer_of(buffer).copy_in(memoryview(b""))
            value_of(tensor).node = empty
            registry.add(value_of(tensor))


def buffer_node(x: T) -> UOp:
    """Compute `x` and return the BUFFER that holds exactly its elements, in order."""
    if not only_holds_data(x.node):
        compute([x])
    buffer = graph.backing(x.node)
    if buffer is None:
        with GradientSwitch():
            # A device that only holds data cannot put elements in order.
            moved = x.to(None) if only_holds_data(x.node) else x
            copy = moved.contiguous()
        compute([copy])
        buffer = graph.backing(copy.node)
    if buffer is None:
        raise RuntimeError(f"realize left {x.node!r} where a buffer is expected")
    # The memory lives as long as this node: the caller must hold it.
    return buffer


def describe_tensor(x: T) -> str:
    """Return shape, type, devices and state in words."""
    states = dict.fromkeys(map(_state, parts_of(x.node)))
    state = ", ".join(states)
    gradient = ", requires grad" if value_of(x).requires_grad else ""
    return printable(
        f"Tensor {describe_shape(x.shape)} {x.dtype.name} "
        f"on {describe_layout(x.node, x.device)}, {state}{gradient}"
    )


def become_leaf(x: T, node: UOp, device: Place) -> None:
    """Give `x` a new value as a leaf. Tensors computed from `x` before refer to the old value."""
    old = value_of(x)
    take_value(x, Value(node, device, None, old.requires_grad, old.is_frozen))
