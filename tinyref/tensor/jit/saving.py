"""Captures in pickles and deep copies: kernels as programs, state by value.

A capture is saved as containers of plain values, tensors and what the caller's arguments and
results hold; nodes are JSON text, and BUFFERs go by the numbers that they had.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tinyref.algebra.sizes import Constraint
from tinyref.device import Buffer
from tinyref.dtype import to_dtype
from tinyref.engine.capture import CopyStep, KernelStep, Known, Recorder, Replay, Step
from tinyref.errors import TinyrefError, UserError, UserStateError
from tinyref.formats.json_format import from_json_text, program_to_json, to_json
from tinyref.lazy.buffers import buffer_of, new_buffer_node, new_number
from tinyref.runtimes.kernel import restored_kernel
from tinyref.tensor.core import TensorCore, whole_tensors
from tinyref.tensor.creation import streams
from tinyref.tensor.data import check_device, compute
from tinyref.tensor.jit.arguments import Arguments, SizeSpec, Spec, TensorSpec
from tinyref.tensor.jit.capture import Capture
from tinyref.tensor.jit.inputs import buffers_behind, is_backed, number_of
from tinyref.tensor.jit.results import Output, Part
from tinyref.tensor.jit.session import description_of
from tinyref.tensor.jit.state import State
from tinyref.tensor.registry import graph_lock, shown_numbers
from tinyref.tensor.tensor import Tensor
from tinyref.uops.node import UOp, sint
from tinyref.uops.payload import BufferArg, ShapeArg
from tinyref.uops.program import Program

Saved = dict[str, Any]


@dataclass(frozen=True)
class _Reference:
    """Stands for the node of that number among those that are saved."""

    number: int


@dataclass(frozen=True)
class _Drawn:
    """Stands for what random numbers are drawn from: each process has its own."""

    device: str
    role: str


class _Nodes:
    """The nodes that a capture refers to, each once."""

    def __init__(self) -> None:
        self._numbers: dict[UOp, int] = {}

    def add(self, node: UOp) -> _Reference:
        return _Reference(self._numbers.setdefault(node, len(self._numbers)))

    def add_sizes(self, sizes: tuple[sint, ...]) -> tuple[int | _Reference, ...]:
        return tuple(self.add(size) if isinstance(size, UOp) else size for size in sizes)

    def text(self) -> str:
        return json.dumps(to_json(tuple(self._numbers)))


class _ReadNodes:
    """The same nodes, read back."""

    def __init__(self, text: str) -> None:
        found = from_json_text(text)
        if not isinstance(found, tuple):
            raise UserError("the nodes are no sequence")
        self._nodes = found

    def get(self, reference: _Reference) -> UOp:
        return self._nodes[reference.number]

    def sizes(self, sizes: tuple[int | _Reference, ...]) -> tuple[sint, ...]:
        return tuple(self.get(size) if isinstance(size, _Reference) else size for size in sizes)


# --- saving ---------------------------------------------------------------------------------------


def saved_capture(capture: Capture) -> Saved:
    """All that `restored_capture` needs. Raises `UserError` where a replay could not run now."""
    with graph_lock:
        capture.state.before_replay(compute)
        nodes = _Nodes()
        holders = _holders(capture)
        saved = {
            "specs": [_saved_spec(spec, nodes) for spec in capture.arguments.specs],
            "paths": list(capture.arguments.paths),
            "tensor_paths": list(capture.arguments.tensor_paths),
            "values": dict(capture.arguments.values),
            "numbers": list(capture.numbers),
            "assigned": list(capture.written),
            "template": capture.template,
            "outputs": [_saved_output(output, nodes) for output in capture.outputs],
            "steps": [_saved_step(step, nodes) for step in capture.replayed.steps],
            "exchanged": sorted(capture.replayed.exchanged),
            "buffers": _saved_buffers(capture, holders),
            "written": sorted(capture.state.written),
            "needed": dict(capture.state.needed),
            "holders": [_saved_holder(tensor) for tensor in holders],
            "draws": bool(capture.locks),
            "constraints": [
                (nodes.add_sizes((asked.low, asked.high)), asked.what, asked.is_of_range)
                for asked in capture.replayed.constraints
            ],
        }
        return {**saved, "nodes": nodes.text()}


def _holders(capture: Capture) -> list[TensorCore]:
    """The tensors that hold the state: of each memory one, a view where nothing else is left.

    Others are views of it, which a pickle holds as tensors of their own.
    """
    tensors = [tensor for tensor in capture.state.tensors() if is_backed(tensor._node)]
    held: dict[int, TensorCore] = {}
    for tensor in sorted(tensors, key=_is_refused):
        for buffer in buffers_behind(tensor._node):
            held.setdefault(number_of(buffer), tensor)
    copied = capture.state.copies()
    for number, tensor in held.items():
        # What the function reads may be a view: a pickle knows it by what it is a view of.
        base, *others = _bases(tensor) or [tensor]
        if others or number not in shown_numbers(base._node):
            copied = tensor
        held[number] = base
    if copied is not None:
        raise UserStateError(
            f"TinyJit: cannot be saved: the function reads copies of a {description_of(copied)}, "
            f"as after clone() or x[:], which a pickle has once: give one of them memory of its "
            f"own before the capture, as in x.assign(Tensor(x.numpy()))"
        )
    for number, description in capture.state.needed.items():
        if number not in held:
            raise UserStateError(
                f"TinyJit: cannot be saved: only views show the memory of a {description} that "
                f"the captured function reads: keep the tensor itself"
            )
    return list({id(tensor): tensor for tensor in held.values()}.values())


def _bases(tensor: TensorCore) -> list[TensorCore]:
    """The tensors that `tensor` is a view of, or the same as, of which a pickle is not refused."""
    return [each for each in whole_tensors(tensor) if not _is_refused(each)]


def _is_refused(tensor: TensorCore) -> bool:
    """Whether a pickle of the tensor alone is refused: gradients would be lost."""
    return tensor._value.requires_grad and tensor._value.record is not None


def _saved_holder(tensor: TensorCore) -> object:
    role = streams.role_of(tensor)
    return tensor if role is None else _Drawn(*role)


def _saved_spec(spec: Spec, nodes: _Nodes) -> Spec | tuple[Any, ...]:
    if isinstance(spec, TensorSpec):
        return ("tensor", nodes.add_sizes(spec.shape), spec.dtype.name, spec.device, spec.layout)
    if isinstance(spec, SizeSpec):
        return ("size", nodes.add(spec.size))
    return spec


def _saved_output(output: Output, nodes: _Nodes) -> tuple[Any, ...]:
    parts = [
        (part.buffer, part.dtype.name, nodes.add_sizes(part.shape.shape), part.is_whole, part.value)
        for part in output.parts
    ]
    return (output.device, parts, output.input, output.layout)


def _saved_step(step: Step, nodes: _Nodes) -> Step | tuple[Any, ...]:
    if isinstance(step, CopyStep):
        return step
    program = json.dumps(program_to_json(step.kernel.program))
    ast = nodes.add(step.ast)
    bindings = dict(step.bindings)
    return (step.kernel.device, program, ast, step.buffers, bindings, step.written_numbers)


def _saved_buffers(capture: Capture, holders: list[TensorCore]) -> dict[int, tuple[Any, ...]]:
    """Device, size, type and contents of each BUFFER: bytes, the place of a holder, or None."""
    places: dict[int, tuple[int, int]] = {}
    for place, tensor in enumerate(holders):
        for part, buffer in enumerate(buffers_behind(tensor._node)):
            places.setdefault(number_of(buffer), (place, part))
    replayed = capture.replayed
    found: dict[int, tuple[Any, ...]] = {}
    for number, memory in replayed.memory.items():
        contents: object = None
        if number not in replayed.exchanged and number not in replayed.temporaries:
            contents = places.get(number)
            if contents is None:
                contents = bytes(memory.copy_out())
        found[number] = (memory.device, memory.size, memory.dtype.name, contents)
    return found


# --- restoring ------------------------------------------------------------------------------------


def restored_capture(saved: Saved) -> tuple[Capture, list[TensorCore]]:
    """The capture, and the tensors that must live as long.

    Raises `UserError` for what `saved_capture` did not make, and where a device is not here.
    """
    try:
        with graph_lock:
            return _restore_capture(saved)
    except TinyrefError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, AssertionError) as error:
        raise UserError(
            f"TinyJit: the pickle holds no capture that tinyref wrote: "
            f"{type(error).__name__}: {error}"
        ) from error


def _restore_capture(saved: Saved) -> tuple[Capture, list[TensorCore]]:
    nodes = _ReadNodes(saved["nodes"])
    for device in {entry[0] for entry in saved["buffers"].values()}:
        check_device(device, "the captured function ran")
    holders = [_restored_holder(holder) for holder in saved["holders"]]
    compute(holders)
    known = {
        number: _read_known(entry, holders, number in saved["exchanged"])
        for number, entry in saved["buffers"].items()
    }
    # The numbers of this process. What no kernel touches has no memory, but a number.
    numbers = {number: found.argument.number for number, found in known.items()}
    for number in saved["exchanged"]:
        numbers.setdefault(number, new_number())
    steps = [_restored_step(step, nodes, numbers) for step in saved["steps"]]
    constraints: dict[Constraint, None] = {}
    for sizes, what, is_of_range in saved["constraints"]:
        low, high = nodes.sizes(sizes)
        constraints[Constraint(low, high, what, is_of_range)] = None
    by_number = {found.argument.number: found for found in known.values()}
    recorder = Recorder(steps, constraints, by_number)
    for number in {number for step in steps for number in step.written_numbers}:
        recorder.known[number].is_written = True
    replayed = Replay(recorder, sorted(numbers[number] for number in saved["exchanged"]))
    state = State.from_saved(
        {numbers[number] for number in saved["written"]},
        {numbers[number]: text for number, text in saved["needed"].items()},
        holders,
    )
    arguments = Arguments(
        [_restored_spec(spec, nodes) for spec in saved["specs"]],
        saved["paths"],
        [],
        saved["tensor_paths"],
        saved["values"],
    )
    outputs = [_restored_output(output, nodes, numbers) for output in saved["outputs"]]
    capture = Capture(
        arguments,
        [tuple(numbers[number] for number in given) for given in saved["numbers"]],
        saved["assigned"],
        (saved["template"], outputs),
        replayed,
        state,
        [streams.lock] if saved["draws"] else [],
    )
    return capture, holders


def _restored_holder(holder: object) -> TensorCore:
    if isinstance(holder, _Drawn):
        return streams.in_role(Tensor, holder.device, holder.role)
    if not isinstance(holder, Tensor):
        raise TypeError(f"state is a {type(holder).__name__}")
    return holder


def _read_known(entry: tuple[Any, ...], holders: list[TensorCore], is_exchanged: bool) -> Known:
    device, size, name, contents = entry
    dtype = to_dtype(name)
    if isinstance(contents, tuple):
        place, part = contents
        node = buffers_behind(holders[place]._node)[part]
        assert isinstance(node.arg, BufferArg), "a BUFFER has a number"
        return Known(node.arg, dtype, weakref.ref(node), buffer_of(node), True)
    # A node that is gone: what has no memory either is a temporary.
    fresh = new_buffer_node(device, size, dtype)
    argument, gone = fresh.arg, weakref.ref(fresh)
    assert isinstance(argument, BufferArg), "a BUFFER has a number"
    memory = None
    if is_exchanged or contents is not None:
        memory = Buffer(device, size, dtype)
    if memory is not None and contents is not None:
        memory.copy_in(memoryview(contents))
    return Known(argument, dtype, gone, memory, memory is not None)


def _restored_spec(spec: Spec | tuple[Any, ...], nodes: _ReadNodes) -> Spec:
    if not isinstance(spec, tuple):
        return spec
    if spec[0] == "size":
        return SizeSpec(nodes.get(spec[1]))
    _, shape, dtype, device, layout = spec
    return TensorSpec(nodes.sizes(shape), to_dtype(dtype), device, layout)


def _restored_output(
    output: tuple[Any, ...], nodes: _ReadNodes, numbers: Mapping[int, int]
) -> Output:
    device, parts, place, layout = output
    return Output(device, tuple(_restored_part(p, nodes, numbers) for p in parts), place, layout)


def _restored_part(part: tuple[Any, ...], nodes: _ReadNodes, numbers: Mapping[int, int]) -> Part:
    buffer, dtype, shape, is_whole, value = part
    if buffer is not None:
        buffer = replace(buffer, number=numbers[buffer.number])
    return Part(buffer, to_dtype(dtype), ShapeArg(nodes.sizes(shape)), is_whole, value)


def _restored_step(
    step: Step | tuple[Any, ...], nodes: _ReadNodes, numbers: Mapping[int, int]
) -> Step:
    if isinstance(step, CopyStep):
        return CopyStep(numbers[step.target], numbers[step.source])
    if isinstance(step, KernelStep):
        raise TypeError("a step is not as it is saved")
    device, text, ast, buffers, bindings, written = step
    program = from_json_text(text)
    if not isinstance(program, Program):
        raise UserError("TinyJit: the pickle holds a kernel that is no program")
    return KernelStep(
        restored_kernel(device, nodes.get(ast), program),
        nodes.get(ast),
        tuple(numbers[number] for number in buffers),
        bindings,
        tuple(numbers[number] for number in written),
    )
