"""What a captured function is called with, and what it returns: containers, tensors, constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from tinyref.algebra.symbolic import describe, describe_shape, product, variables_of
from tinyref.arrays import np
from tinyref.device import Buffer
from tinyref.dtype import ConstType, DType
from tinyref.engine.capture import RecordedBuffer, Recorder
from tinyref.errors import UserError, UserStateError, UserTypeError
from tinyref.lazy import graph
from tinyref.lazy.buffers import buffer_of, new_buffer_like
from tinyref.lazy.folding import uniform_value
from tinyref.lazy.shape import is_empty, leave_unnamed
from tinyref.lazy.shards import Place, join_parts, layout_of
from tinyref.schedule.prepare import unbound
from tinyref.tensor.core import TensorCore, from_node, registry, same_node, storage_of, value_of
from tinyref.tensor.data import compute
from tinyref.tensor.jit.session import CaptureSession, compute_copies
from tinyref.tensor.registry import parts_of, shown_numbers
from tinyref.tensor.tensor import Tensor
from tinyref.tensor.variable import rebound, values_bound
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BufferArg, ShapeArg, ShardArg

_PLAIN = (bool, int, str, bytes, complex, type(None))

# A kind, and all of a part of a call that must be equal in each call: see `_describe`.
Spec = tuple[Any, ...]


class _Same:
    """Equal to another one of the same object: of most objects no change would be seen."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass
class Arguments:
    """All parts of a call in a fixed order: a capture fits if `specs` and `paths` are equal.

    values: those of the variables, by name.
    """

    specs: list[Spec] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    tensors: list[TensorCore] = field(default_factory=list)
    tensor_paths: list[str] = field(default_factory=list)
    values: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, names: Sequence[str], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> Arguments:
        """Read a call; `names` are those of the positional parameters.

        Raises `UserError` for what no replay takes.
        """
        arguments = cls()
        try:
            for number, value in enumerate(args):
                arguments._add(value, names[number] if number < len(names) else str(number))
            for name in sorted(kwargs):
                arguments._add(kwargs[name], name)
        except RecursionError:
            raise UserError("TinyJit: an argument nests too many containers") from None
        return arguments

    def _add(self, value: object, path: str) -> None:
        self.paths.append(path)
        kind = type(value)
        if isinstance(value, TensorCore):
            self.specs.append(self._tensor_spec(value, path))
        elif isinstance(value, UOp):
            self._bind([value], path)
            self.specs.append(("size", unbound(value)))
        elif isinstance(value, dict):
            self.specs.append(("container", kind, tuple(value)))
            for key, item in value.items():
                self._add(item, f"{path}[{key!r}]")
        elif isinstance(value, list | tuple):
            self.specs.append(("container", kind, len(value)))
            for number, item in enumerate(value):
                self._add(item, f"{path}[{number}]")
        elif isinstance(value, np.ndarray | set | bytearray | memoryview):
            raise UserTypeError(
                f"TinyJit: argument {path} is a {kind.__name__}, whose contents a replay would "
                f"not see: pass a Tensor"
            )
        elif isinstance(value, float):
            self.specs.append(("value", kind, value.hex()))
        else:
            self.specs.append(("value", kind, value if kind in _PLAIN else _Same(value)))

    def _tensor_spec(self, tensor: TensorCore, path: str) -> Spec:
        self.tensors.append(tensor)
        self.tensor_paths.append(path)
        shape = tensor.shape
        if UOp in map(type, shape):
            self._bind([size for size in shape if isinstance(size, UOp)], path)
            shape = tuple(unbound(size) for size in shape)
        argument = tensor.node.arg
        layout = argument if isinstance(argument, ShardArg) else None
        return "tensor", shape, tensor.dtype, tensor.device, layout

    def _bind(self, sizes: Sequence[UOp], path: str) -> None:
        for name, value in values_bound(sizes, f"TinyJit: argument {path}").items():
            if self.values.setdefault(name, value) != value:
                raise UserError(
                    f"TinyJit: argument {path}: variable {name} is {value} here and "
                    f"{self.values[name]} in an argument before: accepted is one value"
                )

    def check(self, call: Arguments) -> None:
        """Raise `UserError` if a call differs from what was captured."""
        if call.specs != self.specs or call.paths != self.paths:
            raise UserError(
                f"TinyJit: {self._mismatch(call)}: "
                f"call it as it was captured, or reset() it to capture it again"
            )

    def _mismatch(self, call: Arguments) -> str:
        for have, got, path, other in zip(
            self.specs, call.specs, self.paths, call.paths, strict=False
        ):
            if path != other:
                return f"argument {other} came where {path} was captured"
            if have != got:
                is_value = have[0] == got[0] == "value"
                reason = "; a Python value is part of the capture" if is_value else ""
                return (
                    f"argument {path} is {_describe(got)}, captured was {_describe(have)}{reason}"
                )
        if len(self.specs) < len(call.specs):
            return f"argument {call.paths[len(self.specs)]} was not there when it was captured"
        return f"argument {self.paths[len(call.specs)]} is missing"

    def describe(self) -> tuple[str, ...]:
        """Return a line for each tensor, and for each variable."""
        pairs = zip(self.paths, self.specs, strict=True)
        tensors = [f"{path}: {_describe(spec)}" for path, spec in pairs if spec[0] == "tensor"]
        return *tensors, *(f"{name}: a variable" for name in self.values)


def _describe(spec: Spec) -> str:
    kind, first, *others = spec
    if kind == "tensor":
        dtype, device, layout = others
        where = (
            f", axis {layout.axis} in {layout.sizes}" if layout and layout.axis is not None else ""
        )
        return f"a {dtype.name} tensor of shape {describe_shape(first)} on {device}{where}"
    if kind == "size":
        names = ", ".join(f"{node.arg}" for node in variables_of([first]))
        return f"the symbolic size {describe(first)} of {names}"
    (value,) = others
    if kind == "container":
        what = f"{value} items" if isinstance(value, int) else f"the keys {value}"
        return f"a {first.__name__} of {what}"
    if isinstance(value, _Same):
        value = value.value
    text = repr(float.fromhex(value) if first is float else value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True)
class Placeholder:
    """Stands for a tensor in what a function returned: number `number` of its results.

    is_argument: of its arguments.
    """

    number: int
    is_argument: bool


def rebuilt(value: object, kind: type, replace: Callable[..., object]) -> object:
    """Return `value` with `replace` applied to every `kind` in it; containers are copied."""
    if isinstance(value, kind):
        return replace(value)
    made: object
    if isinstance(value, dict):
        made = {key: rebuilt(item, kind, replace) for key, item in value.items()}
    elif isinstance(value, list | tuple):
        made = [rebuilt(item, kind, replace) for item in value]
    else:
        return value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return cast(Callable[..., object], type(value))(*cast(list[object], made))
    try:
        return made if type(value) in (dict, list) else cast(Any, type(value))(made)
    except TypeError as error:
        raise UserTypeError(
            f"TinyJit: cannot copy a {type(value).__name__}: {error}: "
            f"accepted are tuples, lists and dicts"
        ) from error


def check_returned(value: object, path: str = "the result") -> None:
    """Raise `UserError` unless a replay can return `value`: tensors, numbers, texts, None."""
    if isinstance(value, dict):
        for key, item in value.items():
            check_returned(item, f"{path}[{key!r}]")
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            check_returned(item, f"{path}[{number}]")
    elif not isinstance(value, TensorCore | bool | int | float | str | bytes | None):
        raise UserTypeError(
            f"TinyJit: {path} is a {type(value).__name__}: accepted are Tensors, numbers, texts "
            f"and None, in tuples, lists and dicts"
        )


# --- tensors of a call in memory ----------------------------------------------------------------


def buffers_behind(node: UOp) -> list[UOp]:
    """Return the BUFFERs behind a computed tensor, one a part; none for what has no elements."""
    if node.op is not Ops.MULTI:
        buffer = graph.backing(node)
        return [] if buffer is None else [buffer]
    return [buffer for part in node.src for buffer in buffers_behind(part)]


def is_backed(node: UOp) -> bool:
    """Return True if the elements are in memory, in order, on each device."""
    return len(buffers_behind(node)) == len(parts_of(node))


def argument_in_memory(tensor: TensorCore, path: str) -> UOp:
    """Return a node of the elements in memory, in order: compute and copy them if need be."""
    if value_of(tensor).requires_grad and value_of(tensor).record is not None:
        raise UserStateError(
            f"TinyJit: argument {path} was computed from tensors that require grad, and no "
            f"gradient flows through a replay: pass {path}.detach()"
        )
    if not is_backed(tensor.node) and not is_empty(tensor.shape):
        compute([tensor])
        if not is_backed(tensor.node):
            return _copied(tensor).node
    return tensor.node


def _copied(tensor: TensorCore) -> TensorCore:
    """Return a tensor of the same elements in memory of its own."""
    copy = same_node(tensor)
    compute_copies([value_of(copy)])
    return copy


def copy_in_memory(node: UOp) -> UOp:
    """Return a node of the same elements as a computed one, in memory of its own."""
    copies = {}
    for buffer in buffers_behind(node):
        copies[buffer], memory = new_buffer_like(cast(BufferArg, buffer.arg), buffer.dtype)
        memory.copy_from(buffer_of(buffer))
    return substitute(node, copies)


def hand_over(tensor: TensorCore, node: UOp) -> None:
    """Assign the elements of `node`, which is computed, to an argument."""
    with Tensor.no_grad():
        cast(Tensor, tensor).assign(from_node(Tensor, node, tensor.device))
    compute([tensor])


def is_alone(tensor: TensorCore, node: UOp) -> bool:
    """Return True if `tensor` is in memory as `node`, and no other tensor shows its elements."""
    storage = storage_of(tensor)
    views = 1 if storage is None else len(storage.tensors())
    is_same = tensor.node is node and views == 1
    return is_same and all(registry.count_showing(n) == 1 for n in shown_numbers(node))


class Results:
    """What a call returned: its tensors in order, and a template of all around them."""

    def __init__(
        self, returned: object, args: Sequence[TensorCore], session: CaptureSession | None = None
    ) -> None:
        check_returned(returned)
        places = {id(tensor): Placeholder(place, True) for place, tensor in enumerate(args)}
        originals: list[TensorCore] = []

        def take(tensor: TensorCore) -> object:
            self.is_bare = False
            if id(tensor) not in places:
                places[id(tensor)] = Placeholder(len(originals), False)
                originals.append(tensor)
                if session is not None:
                    session.read(value_of(tensor))
            return places[id(tensor)]

        self.is_bare = True
        self.template = rebuilt(returned, TensorCore, take)
        # From here on the function's own tensors are held by whoever keeps them outside.
        self.tensors = [same_node(tensor) for tensor in originals]

    def compute(self, others: Sequence[TensorCore], recorder: Recorder | None) -> None:
        """Compute the tensors, with `others`, each in memory that no other tensor shows.

        recorder: its steps must fill that memory.
        """
        compute([*self.tensors, *others])
        taken: set[int] = set()
        for place, tensor in enumerate(self.tensors):
            if not _is_private(tensor, taken, recorder):
                # One by one: equal copies that are computed together have one memory.
                self.tensors[place] = _copied(tensor)
            taken.update(shown_numbers(self.tensors[place].node))

    def build(self, args: Sequence[TensorCore]) -> object:
        """Return what a call with these tensors returns."""
        return fill(self.template, self.tensors, args)


def fill(template: object, tensors: Sequence[object], args: Sequence[object]) -> object:
    """Return `template` with results and arguments in the place of what stands for them."""

    def tensor_of(mark: Placeholder) -> object:
        return (args if mark.is_argument else tensors)[mark.number]

    return rebuilt(template, Placeholder, tensor_of)


def _is_private(tensor: TensorCore, taken: set[int], recorder: Recorder | None) -> bool:
    """Return True for a constant, and for memory that nothing else shows and steps fill."""
    node = tensor.node
    if uniform_value(node) is not None or is_empty(tensor.shape):
        return True
    numbers = shown_numbers(node)
    others = (value.tensor for number in numbers for value in registry.showing(number))
    return (
        is_backed(node)
        and taken.isdisjoint(numbers)
        and all(other is None or other is tensor for other in others)
        and (recorder is None or all(map(recorder.makes, numbers)))
    )


@dataclass(frozen=True)
class _Part:
    """One part of a result in a replay: `buffer` is its BUFFER, None for a constant `value`.

    is_whole: it is a reshape of all of a buffer.
    """

    buffer: RecordedBuffer | None
    dtype: DType
    shape: ShapeArg
    is_whole: bool
    value: ConstType

    @classmethod
    def of(cls, node: UOp, recorder: Recorder) -> _Part:
        """Return the part of a computed result."""
        shape = tuple(unbound(size) for size in graph.shape_of(node))
        value = uniform_value(node)
        (number,) = shown_numbers(node) if value is None and not is_empty(shape) else (None,)
        recorded = None if number is None else recorder.buffers[number]
        size = 0 if recorded is None else recorded.argument.size
        is_whole = product(shape) == size and shape != (size,)
        return cls(recorded, node.dtype, ShapeArg(shape), is_whole, 0 if value is None else value)

    def fresh(self, values: Mapping[str, int], exchanged: dict[RecordedBuffer, Buffer]) -> UOp:
        """Return a node for the result of the next replay; its memory is added to `exchanged`."""
        if self.buffer is None:
            shape = tuple(rebound(size, values) for size in self.shape.shape)
            return graph.full(shape, self.value, self.dtype)
        node, exchanged[self.buffer] = new_buffer_like(self.buffer.argument, self.dtype)
        if self.is_whole:
            # What `window` builds, without its checks: each replay does this.
            node = UOp(Ops.RESHAPE, self.dtype, (node,), self.shape)
        else:
            node = graph.window(node, tuple(rebound(size, values) for size in self.shape.shape))
        # It is memory, as what is computed is, and no function's view of that.
        leave_unnamed(node)
        return node


# A tensor among the results: its device, its parts, and their layout on several devices.
Output = tuple[Place, tuple[_Part, ...], ShardArg | None]


def output_of(tensor: TensorCore, recorder: Recorder) -> Output:
    """Return the output that a computed result becomes."""
    node = tensor.node
    parts = tuple(_Part.of(part, recorder) for part in parts_of(node))
    return tensor.device, parts, layout_of(node) if node.op is Ops.MULTI else None


def fresh_result(
    output: Output, values: Mapping[str, int], exchanged: dict[RecordedBuffer, Buffer]
) -> TensorCore:
    """Return the tensor of a replay for one result."""
    device, parts, layout = output
    nodes = [part.fresh(values, exchanged) for part in parts]
    return from_node(Tensor, nodes[0] if layout is None else join_parts(layout, nodes), device)
