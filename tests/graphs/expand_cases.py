"""Indexed kernels with lane ranges: built by hand, run as loops, and run expanded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tinyref.algebra.simplify import simplify
from tinyref.capabilities import Capabilities
from tinyref.codegen.accumulate import accumulate
from tinyref.codegen.decompose import decompose
from tinyref.codegen.expand import expand
from tinyref.codegen.linearise import linearise
from tinyref.codegen.narrow import narrow_index
from tinyref.dtype import DType, PtrDType, dtypes, numpy_dtype
from tinyref.interpret import run_program
from tinyref.uops import build
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import ALU, Dialect, Ops
from tinyref.uops.payload import AxisKind, RangeArg, SlotArg, SpecialArg
from tinyref.uops.program import Parameter, Program
from tinyref.verify import verify

OPS = frozenset(op.name for op in ALU) | {"LOAD", "STORE"}
SCALARS = Capabilities(
    frozenset(dtypes.all), OPS, has_grid=True, has_groups=True, shared_bytes=1 << 16
)
FOURS = replace(SCALARS, vector_lanes=(1, 4))
VECTORS = replace(SCALARS, vector_lanes=(1, 2, 4, 8, 16))
DEVICES = {"scalars": SCALARS, "fours": FOURS, "vectors": VECTORS}

_KINDS = {AxisKind.UPCAST: AxisKind.LOOP, AxisKind.UNROLL: AxisKind.REDUCE}
_OUTSIDE = (AxisKind.LOOP, AxisKind.UPCAST)


def loop(extent: int | UOp, number: int) -> UOp:
    return build.counter(extent, number, AxisKind.LOOP)


def upcast(extent: int, number: int) -> UOp:
    return build.counter(extent, number, AxisKind.UPCAST)


def reduced(extent: int, number: int) -> UOp:
    return build.counter(extent, number, AxisKind.REDUCE)


def unroll(extent: int, number: int) -> UOp:
    return build.counter(extent, number, AxisKind.UNROLL)


def position(*parts: UOp | int | tuple[UOp, int]) -> UOp:
    """Return the sum of counters, of counters with strides, and of constants."""
    at = build.const(dtypes.index, 0)
    for part in parts:
        at = build.add(at, build.mul(*part) if isinstance(part, tuple) else part)
    return simplify(at)


def at(memory: UOp, *parts: UOp | int | tuple[UOp, int]) -> UOp:
    return build.index(memory, position(*parts))


def as_loops(root: UOp) -> UOp:
    """Return the oracle: the same kernel with a loop for every lane range. A BARRIER closes it."""
    ranges = [node for node in root.toposort() if isinstance(node.arg, RangeArg)]
    ranges.sort(key=lambda node: (node.arg.kind not in _OUTSIDE, node.arg.number))
    loops = {
        node: node.replace(arg=RangeArg(number, _KINDS.get(node.arg.kind, node.arg.kind)))
        for number, node in enumerate(ranges)
    }
    lanes = {node for node in ranges if node.arg.kind in _KINDS}
    closing: dict[UOp, UOp] = {}
    for node in root.toposort():
        src = tuple(closing.get(source, source) for source in node.src)
        changed = node.replace(src=src)
        if node.op in (Ops.BARRIER, Ops.AFTER):
            first = 0 if node.op is Ops.BARRIER else 1
            over = dict.fromkeys(
                lane for source in src[first:] for lane in source.toposort() if lane in lanes
            )
            changed = node.replace(src=(*src, *over))
        closing[node] = changed
    return substitute(closing[root], loops)


def program_of(root: UOp, capabilities: Capabilities = VECTORS) -> Program:
    """Run the rest of the pipeline, with the verifiers."""
    root = decompose(accumulate(root), capabilities)
    verify(Dialect.INDEXED, narrow_index(root, capabilities))
    uops = linearise(narrow_index(root, capabilities))
    verify(Dialect.PROGRAM, uops)
    buffers = {node.arg.slot: node for node in uops if isinstance(node.arg, SlotArg)}
    parameters = []
    for slot, node in sorted(buffers.items()):
        assert isinstance(node.dtype, PtrDType)
        parameters.append(Parameter(slot, node.dtype.base, node.dtype.size, True, True))
    extents = {
        (node.arg.scope, node.arg.dim): int(node.src[0].arg.value)
        for node in uops
        if isinstance(node.arg, SpecialArg)
    }
    grid, group = (
        tuple(extents.get((scope, dim), 1) for dim in range(3)) for scope in ("group", "item")
    )
    variables = tuple(node for node in uops if node.op is Ops.DEFINE_VAR)
    return Program("expanded", uops, tuple(parameters), variables, grid, group)


def run(
    program: Program, buffers: Sequence[np.ndarray], bindings: Mapping[str, int] | None = None
) -> list[np.ndarray]:
    copies = [array.copy() for array in buffers]
    with np.errstate(all="ignore"):
        run_program(program, copies, bindings)
    return copies


def agree(
    root: UOp,
    buffers: Sequence[np.ndarray],
    expected: Mapping[int, Any] | None = None,
    bindings: Mapping[str, int] | None = None,
    expansion: Callable[[UOp, Capabilities], UOp] = expand,
) -> dict[str, UOp]:
    """Assert that the expanded kernel writes the same bits as its loops, on every device.

    The sanitizer checks every access. Return the expanded kernels by device.
    """
    root = simplify(root)
    reference = run(program_of(as_loops(root)), buffers, bindings)
    for slot, values in (expected or {}).items():
        assert reference[slot].tolist() == list(values)
    expanded = {}
    for name, capabilities in DEVICES.items():
        expanded[name] = expansion(root, capabilities)
        actual = run(program_of(expanded[name], capabilities), buffers, bindings)
        for slot, (values, others) in enumerate(zip(reference, actual, strict=True)):
            assert values.tobytes() == others.tobytes(), f"{name}: slot {slot}"
    return expanded


def widths(root: UOp, op: Ops, slot: int | None = None) -> list[int]:
    """Return the lanes of every LOAD or STORE (of one slot), smallest first."""
    lanes = []
    for node in root.toposort():
        if node.op is op and slot in (None, slot_of(node)):
            lanes.append((node if op is Ops.LOAD else node.src[1]).dtype.lanes)
    return sorted(lanes)


def numbers(count: int, dtype: DType = dtypes.int32, seed: int = 0) -> np.ndarray:
    """Return small integers, exact in every type and in sums of some hundred of them."""
    low, high = (0, 2) if dtype.is_bool else (0, 4) if dtype.is_unsigned else (-3, 4)
    if dtype in dtypes.fp8s:
        low, high = (0, 2)
    values = np.random.default_rng(seed).integers(low, high, count)
    return values.astype(numpy_dtype(dtype))


def zeros(count: int, dtype: DType = dtypes.int32) -> np.ndarray:
    return np.zeros(count, numpy_dtype(dtype))
