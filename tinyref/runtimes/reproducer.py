"""Functions for the script of a failure: they compute something again and check the result.

A child of the script computes, so the script survives a crash and a hang. It exits with 0 if all is
right and with 1 if not, as `git bisect run` expects.

A wrong launch is explained by the first node whose value differs from the interpreter's. Each node
in turn is also stored, for every work-item and every iteration of its loops. The program with this
additional store runs on the device and on the interpreter.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tinyref import config
from tinyref.algebra.evaluate import launch_grid, value_of
from tinyref.dtype import PtrDType, dtypes, float_bits_apart, from_numpy_dtype
from tinyref.errors import TinyrefError
from tinyref.formats.text import node_text
from tinyref.runtimes.kernel import forget_kernels
from tinyref.runtimes.red_zones import POISONS, RedZoneKernel
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SpecialArg
from tinyref.uops.program import Parameter, Program
from tinyref.workers.processes import describe_exit

Array = npt.NDArray[Any]

# Nodes with more values are skipped; the search ends after MAX_SECONDS.
MAX_VALUES = 1 << 20
MAX_SECONDS = 60.0
# Ops whose results may be wrong by a few units in the last place on a good device.
_ROUNDED = frozenset((Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.POW, Ops.SQRT, Ops.RECIP, Ops.FDIV))
_ROUNDED_ULPS = 16
_UNTRACED = frozenset((Ops.CONST, Ops.DEFINE_VAR, Ops.INDEX))

IN_THIS_PROCESS = "--in-this-process"


@dataclass(frozen=True)
class ReproducedLaunch:
    """One launch of `program` on `device`.

    inputs: by slot, flat; None for an output.
    unaligned: the slots of buffers whose start is not aligned for vectors.
    before: inputs and bindings of earlier launches in the same buffers.
    """

    device: str
    program: Program
    inputs: Sequence[Array | None]
    bindings: Mapping[str, int] = field(default_factory=dict)
    unaligned: Collection[int] = ()
    before: Sequence[tuple[Sequence[Array | None], Mapping[str, int]]] = ()

    def first_difference(self, seconds: float = MAX_SECONDS) -> str:
        """Return a sentence that names the first node with another value on the device.

        seconds: time limit of the search.
        """
        end = time.monotonic() + seconds
        inputs, bindings = [*self.inputs, None], self.bindings
        for traced in _traced_programs(self.program, len(self.inputs), bindings):
            if time.monotonic() > end:
                return f"no node differs up to {node_text(traced.node)}; looked no further"
            try:
                with config.Context(SANITIZE=0):
                    expected = RedZoneKernel("PYTHON", traced.program).launch(inputs, bindings)[-1]
                kernel = RedZoneKernel(self.device, traced.program, self.unaligned)
                actual = kernel.launch(inputs, bindings)[-1]
            except TinyrefError as error:
                if traced.node.op is Ops.SPECIAL:
                    # Work-items that share an index store it to one element: some devices refuse.
                    continue
                text = node_text(traced.node)
                return f"no node differs before {text}; storing that fails: {error}"
            wrong = _wrong(traced.node, actual, expected)
            if wrong.size:
                return _sentence(traced, int(wrong[0]), actual, expected, wrong.size)
        return "no node differs from the interpreter's: the stores do"


@dataclass(frozen=True)
class Wanted:
    """The expected elements `places` of the array with the number `slot`.

    values: one for each place, and `others` that are as good.
    ulps: the accepted error in units in the last place.
    bounds: the lowest and highest value for each place.
    shape: of the whole array, if its shape and type are checked too. Otherwise integers may be of
    another type than the values, because some libraries use wider ones.
    """

    slot: int
    places: Sequence[int]
    values: Array
    others: Sequence[Array] = ()
    ulps: float = 0
    bounds: tuple[Array, Array] | None = None
    shape: tuple[int, ...] | None = None

    def problem(self, result: Array) -> str:
        """Return the first error in an array; empty if there is none."""
        dtype = self.values.dtype
        if self.shape is not None and (result.shape, result.dtype) != (self.shape, dtype):
            return f"expected {dtype} of shape {self.shape}, got {result.dtype} of {result.shape}"
        actual = result.reshape(-1)[list(self.places)]
        if actual.dtype != dtype:
            narrowed = actual.astype(dtype)
            if not np.array_equal(narrowed, actual):
                return f"expected elements of {dtype}, got {actual}"
            actual = narrowed
        good = np.logical_or.reduce(
            [ulps_apart(actual, values) <= self.ulps for values in (self.values, *self.others)]
        )
        if self.bounds is not None:
            lowest, highest = self.bounds
            with np.errstate(all="ignore"):
                number = actual.astype(lowest.dtype)
                good = good | ((lowest <= number) & (number <= highest))
        wrong = np.flatnonzero(~good)
        if not wrong.size:
            return ""
        first = int(wrong[0])
        values = [_format_value(array[first : first + 1]) for array in (self.values, actual)]
        return f"element {self.places[first]}: expected {values[0]}, got {values[1]}"


def _format_value(values: Array) -> str:
    bits = int.from_bytes(values.tobytes(), sys.byteorder)
    return f"{values[0]} (0x{bits:0{2 * values.dtype.itemsize}x})"


def run(problem: Callable[[], str], seconds: float = 60.0) -> NoReturn:
    """Compute in a child of this script, print what is wrong, and exit: 0 if right, 1 if wrong.

    Errors of the device count as wrong; any other error ends the script with its traceback. With
    `--in-this-process` there is no child, so a debugger sees the launch. The current folder, which
    may contain a backend, is the last import folder, as it is for the commands.
    """
    sys.path.append(os.getcwd())
    if IN_THIS_PROCESS in sys.argv[1:]:
        try:
            answer = problem()
        except TinyrefError as error:
            answer = f"wrong: {type(error).__name__}: {error}"
        _say(answer or "right")
        sys.exit(1 if answer else 0)
    command = [sys.executable, sys.argv[0], IN_THIS_PROCESS]
    try:
        code = subprocess.run(command, check=False, timeout=seconds).returncode
    except subprocess.TimeoutExpired:
        _say(f"wrong: no end within {seconds:g} s")
        sys.exit(1)
    if code not in (0, 1):
        _say(f"wrong: the launch ended its process: {describe_exit(code)}")
    sys.exit(1 if code else 0)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def check(launch: ReproducedLaunch, wanted: Sequence[Wanted]) -> str:
    """Return what is wrong with the launch, and the first wrong node; empty if all is right.

    It is launched over two poisons, each in new buffers. Then a newly loaded kernel makes the
    earlier launches, or one with other inputs, and this launch in the same buffers.
    """
    for poison in POISONS:
        problem = _problem(launch, wanted, _loaded(launch), poison)
        if problem:
            return f"wrong: {problem}\n{launch.first_difference()}"
    forget_kernels()
    kernel = _loaded(launch)
    for inputs, bindings in launch.before or [_with_other_inputs(launch)]:
        kernel.launch(inputs, bindings)
    problem = _problem(launch, wanted, kernel, POISONS[0])
    return f"wrong after a launch with other inputs: {problem}" if problem else ""


def check_values(compute: Callable[[], Sequence[Array]], wanted: Sequence[Wanted]) -> str:
    """Return what is wrong with the arrays that `compute` returns; empty if they are right.

    It is called with memory as it is, then with new memory that holds one of two poisons: an
    element that no kernel writes could have the right value from an earlier computation.
    """
    for poison in (0, *POISONS):
        with config.Context(POISON=poison):
            arrays = compute()
        for item in wanted:
            problem = item.problem(arrays[item.slot])
            if problem:
                where = f"array {item.slot}: " if len(arrays) > 1 else ""
                return f"wrong: {where}{problem}"
    return ""


def _loaded(launch: ReproducedLaunch) -> RedZoneKernel:
    return RedZoneKernel(launch.device, launch.program, launch.unaligned)


def _problem(
    launch: ReproducedLaunch, wanted: Sequence[Wanted], kernel: RedZoneKernel, poison: int
) -> str:
    slots = [parameter.slot for parameter in launch.program.parameters]
    results = kernel.launch(launch.inputs, launch.bindings, poison)
    for item in wanted:
        dtype = item.values.dtype
        problem = item.problem(results[slots.index(item.slot)].view(dtype))
        if problem:
            return problem
    return ""


def _with_other_inputs(launch: ReproducedLaunch) -> tuple[list[Array | None], Mapping[str, int]]:
    """Return each input rotated by one element: the same values at other indices."""
    turned = [None if data is None else np.roll(data, 1) for data in launch.inputs]
    return turned, launch.bindings


# --- the first node that differs ------------------------------------------------------------------


@dataclass(frozen=True)
class _Traced:
    """A program that stores the values of `node` to its last buffer, with their origin.

    axes: names and extents of launch indices and loops; the last one runs fastest.
    """

    node: UOp
    program: Program
    axes: tuple[tuple[str, int], ...]


def _sentence(traced: _Traced, position: int, actual: Array, expected: Array, count: int) -> str:
    lanes = traced.node.dtype.lanes
    at, lane, names = position // lanes, position % lanes, []
    for name, extent in reversed(traced.axes):
        names.append(f"{name} {at % extent}")
        at //= extent
    if lanes > 1:
        names.insert(0, f"lane {lane}")
    where = f" at {', '.join(reversed(names))}" if names else ""
    return (
        f"the first node that differs is {node_text(traced.node)}{where}: "
        f"{_value(actual[position : position + 1])}, "
        f"{_value(expected[position : position + 1])} by the "
        f"interpreter; {count} of {expected.size} values differ"
    )


def _value(values: Array) -> str:
    bits = values.tobytes()
    return "nothing" if bits == bytes([POISONS[0]] * len(bits)) else f"{values[0]}"


def _wrong(node: UOp, actual: Array, expected: Array) -> npt.NDArray[np.intp]:
    limit = _ROUNDED_ULPS if node.op in _ROUNDED and node.dtype.is_float else 0
    return np.flatnonzero(ulps_apart(actual, expected) > limit)


def ulps_apart(actual: Array, expected: Array) -> Array:
    """Return the units in the last place between two arrays; 0 for equal bits and for two NaNs.

    The result is infinite for a NaN and a number, and for zeros of different signs. Types other
    than floats are 0 or infinitely far apart.
    """
    unsigned = np.dtype(f"u{expected.dtype.itemsize}")
    first, second = actual.view(unsigned), expected.view(unsigned)
    differs = first != second
    if not from_numpy_dtype(expected.dtype).is_float:
        return np.where(differs, np.inf, 0.0)
    apart = float_bits_apart(first, second)
    apart = np.where(differs & (apart == 0), np.inf, apart)
    nan, other = np.isnan(actual), np.isnan(expected)
    return np.where(nan | other, np.where(nan & other, 0.0, np.inf), apart)


def _traced_programs(program: Program, slot: int, bindings: Mapping[str, int]) -> Iterator[_Traced]:
    """Yield a program for each node with a value: launch indices first, then in program order.

    slot: of the additional buffer of each program; no input has that number, used or not.
    """
    seen: set[UOp] = set()
    positions: list[tuple[int, tuple[UOp, ...]]] = []
    open_loops: list[UOp] = []
    for position, node in enumerate(program.uops):
        if node.op is Ops.RANGE:
            open_loops.append(node)
        elif node.op is Ops.END:
            open_loops.remove(node.src[0])
        if node not in seen and _has_value(node):
            seen.add(node)
            positions.append((position, tuple(open_loops)))
    positions.sort(key=lambda item: program.uops[item[0]].op is not Ops.SPECIAL)
    for position, loops in positions:
        traced = _trace(program, position, loops, slot, bindings)
        if traced is not None:
            yield traced


def _has_value(node: UOp) -> bool:
    is_plain = node.dtype.scalar in dtypes.all and not isinstance(node.dtype, PtrDType)
    return is_plain and node.op not in _UNTRACED


def _trace(
    program: Program, position: int, loops: Sequence[UOp], slot: int, bindings: Mapping[str, int]
) -> _Traced | None:
    """Store the node at `position` in the program; None if it has too many values."""
    node = program.uops[position]
    axes = [
        *_launch_axes(program, bindings),
        *((loop, _iterations(loop, bindings)) for loop in loops),
    ]
    if node.op is Ops.SPECIAL:
        # Alone: a wrong value of another launch index would be mistaken for this one's.
        axes = [(axis, extent) for axis, extent in axes if axis is node]
    count = math.prod(extent for _, extent in axes) * node.dtype.lanes
    if not 0 < count <= MAX_VALUES:
        return None
    dtype = node.dtype.scalar
    memory = build.define_global(slot, dtype, count)
    stores = _stores(memory, node, axes)
    uops = _insert_stores(program.uops, position, stores)
    parameter = Parameter(slot, dtype, count, True, False)
    named = tuple((_axis_name(axis), extent) for axis, extent in axes)
    traced = replace(program, uops=uops, parameters=(*program.parameters, parameter))
    return _Traced(node, traced, named)


def _launch_axes(program: Program, bindings: Mapping[str, int]) -> Iterator[tuple[UOp, int]]:
    """Yield the launch indices with more than one value, groups first, and their extents."""
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


def _insert_stores(uops: tuple[UOp, ...], position: int, stores: Sequence[UOp]) -> tuple[UOp, ...]:
    """Insert stores after the node at `position`, each node once in the scopes open there."""
    scopes: list[set[UOp]] = [set()]
    result: list[UOp] = []
    for number, node in enumerate(uops):
        if node.op in (Ops.END, Ops.ENDIF):
            scopes.pop()
        elif any(node in scope for scope in scopes) and node.op is not Ops.BARRIER:
            continue
        result.append(node)
        scopes[-1].add(node)
        if node.op in (Ops.RANGE, Ops.IF):
            scopes.append({node})
        if number == position:
            for store in stores:
                for source in store.toposort():
                    if not any(source in scope for scope in scopes):
                        result.append(source)
                        scopes[-1].add(source)
    return tuple(result)
