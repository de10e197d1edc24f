"""The first node of a program whose value on a device is not that of the interpreter.

One node after the other is stored as well, for every work-item and every iteration of the loops
around it: the program with that store more runs on the device and on the interpreter.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref.algebra.evaluate import launch_grid, value_of
from tinyref.dtype import PtrDType, dtypes, float_bits_apart, from_numpy_dtype, numpy_dtype
from tinyref.errors import TinyrefError
from tinyref.formats.text import node_text
from tinyref.interpret import run_program
from tinyref.runtimes.kernel import compile_program
from tinyref.runtimes.red_zones import POISONS, GuardedBuffer
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SpecialArg
from tinyref.uops.program import Parameter, Program

Array = npt.NDArray[Any]

# A node with more values than that is not looked at, and the search ends after so many seconds.
MAX_VALUES = 1 << 20
MAX_SECONDS = 60.0
# What may be off by a few units in the last place on a good device.
_ROUNDED = frozenset((Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.POW, Ops.SQRT, Ops.RECIP, Ops.FDIV))
_ROUNDED_ULPS = 16
_UNTRACED = frozenset((Ops.CONST, Ops.DEFINE_VAR, Ops.INDEX))


class GuardedKernel:
    """A program loaded on a device with a buffer for each parameter, to be launched repeatedly.

    unaligned: the slots of buffers that begin where vectors are not aligned.
    """

    def __init__(self, device: str, program: Program, unaligned: Collection[int] = ()) -> None:
        self.parameters = program.parameters
        self.kernel = compile_program(device, program)
        self.buffers = [
            GuardedBuffer(device, item.dtype, item.size, item.slot in unaligned)
            for item in self.parameters
        ]

    def launch(
        self,
        inputs: Sequence[Array | None],
        bindings: Mapping[str, int],
        poison: int = POISONS[0],
    ) -> list[Array]:
        """Return the buffers after one launch, by parameter; outputs without input are poisoned.

        Raises `MemoryDamageError` for a write outside of the outputs, else as the device raises.
        """
        for parameter, buffer in zip(self.parameters, self.buffers, strict=True):
            data = inputs[parameter.slot]
            buffer.fill(poison if data is None else data.view(numpy_dtype(parameter.dtype)))
        self.kernel([buffer.view for buffer in self.buffers], bindings)
        results = []
        # In the order of the slots: a device may wait for its launch at the second read only.
        for parameter, buffer in zip(self.parameters, self.buffers, strict=True):
            if not parameter.is_written:
                buffer.check_unchanged()
            results.append(buffer.read())
        return results


def interpreted_values(
    program: Program, inputs: Sequence[Array | None], bindings: Mapping[str, int]
) -> list[Array]:
    """The same by the interpreter, without its checks."""
    arrays = []
    for parameter in program.parameters:
        dtype = numpy_dtype(parameter.dtype)
        data = inputs[parameter.slot]
        poison = np.full(parameter.size * dtype.itemsize, POISONS[0], np.uint8)
        arrays.append(poison.view(dtype) if data is None else data.view(dtype).copy())
    slots = max((parameter.slot for parameter in program.parameters), default=-1) + 1
    by_slot = [np.zeros(0, np.uint8)] * slots
    for parameter, array in zip(program.parameters, arrays, strict=True):
        by_slot[parameter.slot] = array
    run_program(program, by_slot, bindings, sanitize=False)
    return arrays


def first_difference(
    device: str,
    program: Program,
    inputs: Sequence[Array | None],
    bindings: Mapping[str, int],
    unaligned: Collection[int] = (),
    seconds: float = MAX_SECONDS,
) -> str:
    """Return a sentence that names the first node of `program` with another value on `device`.

    unaligned: the slots of buffers that begin where vectors are not aligned. seconds: how long it
    may look.
    """
    end = time.monotonic() + seconds
    for traced in _traced_programs(program, len(inputs), bindings):
        if time.monotonic() > end:
            return f"no node differs up to {node_text(traced.node)}; looked no further"
        try:
            wanted = interpreted_values(traced.program, [*inputs, None], bindings)[-1]
            kernel = GuardedKernel(device, traced.program, unaligned)
            found = kernel.launch([*inputs, None], bindings)[-1]
        except TinyrefError as error:
            if traced.node.op is Ops.SPECIAL:
                # Work-items that share an index store it to one place: a device may forbid that.
                continue
            return f"no node differs before {node_text(traced.node)}; storing that fails: {error}"
        wrong = _wrong(traced.node, found, wanted)
        if wrong.size:
            return _sentence(traced, int(wrong[0]), found, wanted, wrong.size)
    return "no node differs from the interpreter's: the stores do"


@dataclass(frozen=True)
class _Traced:
    """A program that stores the values of `node` to its last buffer, and where each comes from.

    axes: names and extents of launch indices and loops, the last of which runs fastest.
    """

    node: UOp
    program: Program
    axes: tuple[tuple[str, int], ...]


def _sentence(traced: _Traced, place: int, found: Array, wanted: Array, count: int) -> str:
    lanes = traced.node.dtype.lanes
    at, lane, names = place // lanes, place % lanes, []
    for name, extent in reversed(traced.axes):
        names.append(f"{name} {at % extent}")
        at //= extent
    if lanes > 1:
        names.insert(0, f"lane {lane}")
    where = f" at {', '.join(reversed(names))}" if names else ""
    return (
        f"the first node that differs is {node_text(traced.node)}{where}: "
        f"{_value(found[place : place + 1])}, {_value(wanted[place : place + 1])} by the "
        f"interpreter; {count} of {wanted.size} values differ"
    )


def _value(values: Array) -> str:
    bits = values.tobytes()
    return "nothing" if bits == bytes([POISONS[0]] * len(bits)) else f"{values[0]}"


def _wrong(node: UOp, found: Array, wanted: Array) -> npt.NDArray[np.intp]:
    limit = _ROUNDED_ULPS if node.op in _ROUNDED and node.dtype.is_float else 0
    return np.flatnonzero(ulps_apart(found, wanted) > limit)


def ulps_apart(found: Array, wanted: Array) -> Array:
    """Return units in the last place from one to the other; 0 for equal bits and for two NaNs.

    Infinite for a NaN and a number, and for zeros of different signs. Other types than floats are
    0 or infinitely far apart.
    """
    unsigned = np.dtype(f"u{wanted.dtype.itemsize}")
    first, second = found.view(unsigned), wanted.view(unsigned)
    differs = first != second
    if not from_numpy_dtype(wanted.dtype).is_float:
        return np.where(differs, np.inf, 0.0)
    apart = float_bits_apart(first, second)
    apart = np.where(differs & (apart == 0), np.inf, apart)
    nan, other = np.isnan(found), np.isnan(wanted)
    return np.where(nan | other, np.where(nan & other, 0.0, np.inf), apart)


def _traced_programs(program: Program, slot: int, bindings: Mapping[str, int]) -> Iterator[_Traced]:
    """Yield a program for each node that has a value: launch indices first, then in their order.

    slot: of the buffer that each program has in addition; no input has that number, used or not.
    """
    seen: set[UOp] = set()
    places: list[tuple[int, tuple[UOp, ...]]] = []
    open_loops: list[UOp] = []
    for place, node in enumerate(program.uops):
        if node.op is Ops.RANGE:
            open_loops.append(node)
        elif node.op is Ops.END:
            open_loops.remove(node.src[0])
        if node not in seen and _has_value(node):
            seen.add(node)
            places.append((place, tuple(open_loops)))
    places.sort(key=lambda item: program.uops[item[0]].op is not Ops.SPECIAL)
    for place, loops in places:
        found = _trace(program, place, loops, slot, bindings)
        if found is not None:
            yield found


def _has_value(node: UOp) -> bool:
    is_plain = node.dtype.scalar in dtypes.all and not isinstance(node.dtype, PtrDType)
    return is_plain and node.op not in _UNTRACED


def _trace(
    program: Program, place: int, loops: Sequence[UOp], slot: int, bindings: Mapping[str, int]
) -> _Traced | None:
    """The program with a store of its node at `place`; None where that has too many values."""
    node = program.uops[place]
    axes = [
        *_launch_axes(program, bindings),
        *((loop, _iterations(loop, bindings)) for loop in loops),
    ]
    if node.op is Ops.SPECIAL:
        # By itself: another launch index that is wrong would be taken for this one.
        axes = [(axis, extent) for axis, extent in axes if axis is node]
    count = math.prod(extent for _, extent in axes) * node.dtype.lanes
    if not 0 < count <= MAX_VALUES:
        return None
    dtype = node.dtype.scalar
    memory = build.define_global(slot, dtype, count)
    stores = _stores(memory, node, axes)
    uops = _insert_stores(program.uops, place, stores)
    parameter = Parameter(slot, dtype, count, True, False)
    named = tuple((_axis_name(axis), extent) for axis, extent in axes)
    traced = replace(program, uops=uops, parameters=(*program.parameters, parameter))
    return _Traced(node, traced, named)


def _launch_axes(program: Program, bindings: Mapping[str, int]) -> Iterator[tuple[UOp, int]]:
    """The launch indices of more than one value, groups first, and their extents."""
    grid = launch_grid(program, bindings)
    for scope, extents in (("group", grid), ("item", program.group)):
        for dim in (2, 1, 0):
            if extents[dim] > 1:
                yield _special(program, scope, dim, extents[dim]), extents[dim]


def _special(program: Program, scope: str, dim: int, extent: int) -> UOp:
    for node in program.uops:
        if isinstance(node.arg, SpecialArg) and (node.arg.scope, node.arg.dim) == (scope, dim):
            return node
    return build.special(scope, dim, extent, dtypes.int32)


def _iterations(loop: UOp, bindings: Mapping[str, int]) -> int:
    return value_of(loop.src[0], bindings)


def _axis_name(axis: UOp) -> str:
    if isinstance(axis.arg, SpecialArg):
        return f"{axis.arg.scope} {'xyz'[axis.arg.dim]}"
    return "iteration"


def _stores(memory: UOp, node: UOp, axes: Sequence[tuple[UOp, int]]) -> list[UOp]:
    number: UOp = build.const(dtypes.int32, 0)
    for axis, extent in axes:
        number = build.add(build.mul(number, extent), _as_int32(axis))
    lanes = node.dtype.lanes
    values = [node] if lanes == 1 else [build.gep(node, lane) for lane in range(lanes)]
    first = build.mul(number, lanes)
    return [
        build.store(build.index(memory, build.add(first, lane)), value)
        for lane, value in enumerate(values)
    ]


def _as_int32(axis: UOp) -> UOp:
    return axis if axis.dtype is dtypes.int32 else build.cast(axis, dtypes.int32)


def _insert_stores(uops: tuple[UOp, ...], place: int, stores: Sequence[UOp]) -> tuple[UOp, ...]:
    """`uops` with stores after the node at `place`, each node once in what is open there."""
    scopes: list[set[UOp]] = [set()]
    found: list[UOp] = []
    for number, node in enumerate(uops):
        if node.op in (Ops.END, Ops.ENDIF):
            scopes.pop()
        elif any(node in scope for scope in scopes) and node.op is not Ops.BARRIER:
            continue
        found.append(node)
        scopes[-1].add(node)
        if node.op in (Ops.RANGE, Ops.IF):
            scopes.append({node})
        if number == place:
            for store in stores:
                for source in store.toposort():
                    if not any(source in scope for scope in scopes):
                        found.append(source)
                        scopes[-1].add(source)
    return tuple(found)
