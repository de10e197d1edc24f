"""The rows of optimised kernels: devices of every kind pass them, and broken compilers do not.

Each mutant changes one decision of planning or lowering, as real compilers have got it wrong.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pytest
from simulated_device import SimulatedDevice

from tinyref.capabilities import Capabilities
from tinyref.codegen import lower
from tinyref.codegen.compile import compile_kernel
from tinyref.codegen.expand import copies
from tinyref.codegen.lower import Lowering
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.errors import TinyrefError
from tinyref.interpret import SanitizerError, run_program
from tinyref.optimise import moves
from tinyref.optimise.opt import Opt, OptOp, parse_opts
from tinyref.optimise.plan import Axis, Plan, changes
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind
from tinyref_spec import catalogue
from tinyref_spec.bits import Array
from tinyref_spec.case import Case, Profile
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel.opt_kernels import KERNELS, subject_of
from tinyref_spec.kernel.opts import ROWS

GROUPS = Device["PYTHON"].capabilities
HOST = dataclasses.replace(
    GROUPS, has_grid=False, has_groups=False, threads=2, vector_lanes=(1, 2, 4), matrix_tiles=()
)


DEVICES = {
    "host": HOST,
    "scalar host": dataclasses.replace(HOST, vector_lanes=(1,)),
    "grid": dataclasses.replace(GROUPS, has_groups=False, shared_bytes=0),
    "small grid": dataclasses.replace(GROUPS, grid_limit=(7, 5, 40)),
    "groups without grid": dataclasses.replace(GROUPS, has_grid=False),
}


def cases_of(*prefixes: str) -> list[Case]:
    return [
        case
        for row in catalogue.all_rows()
        if row.id.startswith(tuple(f"kernel.opt.{prefix}" for prefix in prefixes))
        for case in row.cases(Profile.QUICK)
    ]


def failures(device: DeviceUnderTest, cases: Iterable[Case]) -> list[str]:
    """What the device owes and does not give: wrong values, or errors on the way to them."""
    found = []
    for case in cases:
        if case.needs.unmet(device.capabilities) is not None:
            continue
        try:
            measured = case.run(device)
        except TinyrefError as error:
            found.append(f"{case.id}: {type(error).__name__}: {error}")
            continue
        if not measured.passed or not measured.compared:
            found.append(f"{case.id}: {measured.message}")
    return found


PARTS = 8


@pytest.mark.sampled(PARTS + 1)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", DEVICES)
def test_devices_of_every_kind_pass(name: str, part: int) -> None:
    assert failures(SimulatedDevice(DEVICES[name]), cases_of("")[part::PARTS]) == []


@pytest.mark.long
@pytest.mark.sampled(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_real_devices_pass(interpreter: DeviceUnderTest, cpu: DeviceUnderTest, part: int) -> None:
    assert failures(interpreter, cases_of("")[part::PARTS]) == []
    assert failures(cpu, cases_of("")[part::PARTS]) == []


def test_every_optimisation_has_rows_and_every_kernel_is_used() -> None:
    used = {op for row in ROWS for op in row.ops}
    assert used == set(OptOp) - {OptOp.TC}
    assert {row.kernel for row in ROWS} >= KERNELS.keys()


@pytest.mark.parametrize(
    ("kernel", "wanted"),
    [
        # By numpy, of the data of the rows.
        ("row_sum", lambda x: x.reshape(6, 16).sum(1)),
        ("nested", lambda x: x.reshape(4, 6, 8).max(2).sum(1)),
        ("nested_sums", lambda x: (x.reshape(4, 6, 8).sum(2) ** 2).sum(1)),
        ("padded", lambda x: np.pad(x.reshape(5, 6), ((1, 2), (0, 2))) + 1),
        ("negated_max", lambda x: (-x.reshape(7, 3)).max(1)),
    ],
)
def test_what_a_kernel_owes(kernel: str, wanted: Callable[[Array], Array]) -> None:
    subject = subject_of(kernel, dtypes.int32)
    x = np.asarray(subject.inputs[1]).astype(np.int64)
    assert subject.expected[0].tolist() == wanted(x).reshape(-1).astype(np.int32).tolist()


# --- mutants --------------------------------------------------------------------------------------

Patch = Callable[[pytest.MonkeyPatch], None]


def stale_item(patch: pytest.MonkeyPatch) -> None:
    """Work-items leave their parts in one place: the index of the item is not in the address."""
    healthy = lower.flat

    def flat(axes: Any, counters: dict[Axis, UOp]) -> UOp:
        stale = dict(counters)
        for axis in counters:
            if axis.kind is AxisKind.GROUP_REDUCE and counters[axis].op is not Ops.RANGE:
                stale[axis] = lower.ZERO
        return healthy(axes, stale)

    patch.setattr(lower, "flat", flat)


def stale_local(patch: pytest.MonkeyPatch) -> None:
    """Rows of a group that share one place: the local index is not in the address."""
    healthy = lower.flat

    def flat(axes: Any, counters: dict[Axis, UOp]) -> UOp:
        zero = {axis: lower.ZERO for axis in counters if axis.kind is AxisKind.LOCAL}
        return healthy(axes, {**counters, **zero})

    patch.setattr(lower, "flat", flat)


def no_leading_barrier(patch: pytest.MonkeyPatch) -> None:
    """In a loop the parts of the next iteration are written while others still read."""
    patch.setattr(Lowering, "is_in_loop", lambda self, node: False)


def no_barrier(patch: pytest.MonkeyPatch) -> None:
    """The parts are read before all have been written."""
    healthy = Lowering.kernel

    def kernel(self: Lowering) -> UOp:
        root = healthy(self)
        gone = {
            node: node.replace(src=(node.src[0], *node.src[1].src))
            for node in root.toposort()
            if node.op is Ops.AFTER and node.src[1].op is Ops.BARRIER
        }
        return substitute(root, gone)

    patch.setattr(Lowering, "kernel", kernel)


def gate_forgets_an_axis(patch: pytest.MonkeyPatch) -> None:
    """Of two group axes only the first gates the store of the result."""
    healthy = Lowering._store

    def store(self: Lowering, node: UOp) -> UOp | None:
        plan = self.plan
        last = [axis for axis in plan.axes if axis.kind is AxisKind.GROUP_REDUCE][1:]
        self.plan = dataclasses.replace(
            plan, axes=tuple(axis for axis in plan.axes if axis not in last)
        )
        try:
            return healthy(self, node)
        finally:
            self.plan = plan

    patch.setattr(Lowering, "_store", store)


def smaller_output_ungated(patch: pytest.MonkeyPatch) -> None:
    """A smaller output is written at every iteration along the axes that it does not have."""
    patch.setattr(lower, "OUTPUT", -99)


def outer_part_as_inner(
    plan: Plan, opt: Opt, kind: AxisKind, from_outside: bool = False
) -> Plan | str:
    """A cut whose outer part keeps the stride of the axis."""
    axis = plan.axes[opt.axis]
    assert isinstance(axis.extent, int)
    others = list(plan.axes)
    rest = axis.extent // opt.arg
    stride = axis.stride if from_outside else axis.stride * opt.arg
    others[opt.axis] = dataclasses.replace(axis, extent=rest, stride=stride)
    return plan.with_axes([*others, dataclasses.replace(axis, kind=kind, extent=opt.arg)])


def outer_stride_of_inner(patch: pytest.MonkeyPatch) -> None:
    """The outer part of a cut with the stride of an inner one."""
    patch.setattr(moves, "_split", outer_part_as_inner)


def memory_of_one_lane(patch: pytest.MonkeyPatch) -> None:
    """The lanes of a work-item share one place in local memory."""
    healthy = Lowering.define_local
    patch.setattr(
        Lowering, "define_local", lambda self, dtype, size: healthy(self, dtype, max(size // 2, 1))
    )


def pad_without_guard(patch: pytest.MonkeyPatch) -> None:
    """Padded positions are loaded and stored like all others."""
    patch.setattr(Lowering, "_valid", lambda self, targets, valid, positions: valid)


def pad_repeated_values(patch: pytest.MonkeyPatch) -> None:
    """A repeated value is taken to be the same in the lanes that padding has added."""

    def axes_of(self: Plan, node: UOp, *kinds: AxisKind) -> list[Axis]:
        targets = changes(node)
        return [axis for axis in self.axes if axis.kind in kinds and axis.target in targets]

    patch.setattr(Plan, "axes_of", axes_of)


def swap_loses_strides(patch: pytest.MonkeyPatch) -> None:
    """Axes that change places forget that they were cut."""
    healthy = moves.MOVES[OptOp.SWAP]

    def swap(plan: Plan, opt: Opt) -> Plan | str:
        found = healthy(plan, opt)
        if isinstance(found, str):
            return found
        axes = [
            dataclasses.replace(axis, stride=1) if axis.kind is AxisKind.GLOBAL else axis
            for axis in found.axes
        ]
        return found.with_axes(axes)

    patch.setitem(moves.MOVES, OptOp.SWAP, swap)


def unroll_adds(patch: pytest.MonkeyPatch) -> None:
    """The lanes of every reduce are added, whatever it is a reduce by."""
    healthy = copies.combine
    patch.setattr(copies, "combine", lambda op, values: healthy(Ops.ADD, values))


def pack_order(patch: pytest.MonkeyPatch) -> None:
    """A packed buffer is read in another order than it was filled in."""
    healthy = lower.flat
    filled: list[object] = []

    def flat(axes: Any, counters: dict[Axis, UOp]) -> UOp:
        is_read = any(axes is each for each in filled)
        filled.append(axes)
        return healthy(axes[::-1] if is_read else axes, counters)

    patch.setattr(lower, "flat", flat)


# mutant -> (capabilities, rows that see it, what one of the failures says)
MUTANTS: dict[Patch, tuple[Capabilities, tuple[str, ...], str]] = {
    stale_item: (GROUPS, ("group",), "race"),
    stale_local: (GROUPS, ("together.group_of_lanes",), "race"),
    no_leading_barrier: (GROUPS, ("group.nested", "together.group_in_loop"), "race"),
    no_barrier: (GROUPS, ("group.row_sum",), "race"),
    gate_forgets_an_axis: (GROUPS, ("group.two_lengths", "group.nested_both"), "race"),
    smaller_output_ungated: (GROUPS, ("local.smaller_output",), "race"),
    outer_stride_of_inner: (GROUPS, ("grouptop",), "expected"),
    partial(outer_stride_of_inner): (HOST, ("thread",), "race"),
    memory_of_one_lane: (GROUPS, ("together.group_of_lanes",), "temp0"),
    pad_without_guard: (GROUPS, ("padto",), "SanitizerError"),
    pad_repeated_values: (GROUPS, ("together.pad_and_group",), "expected"),
    partial(pad_repeated_values): (GROUPS, ("together.pad_around_group",), "race"),
    swap_loses_strides: (HOST, ("swap",), "expected"),
    unroll_adds: (HOST, ("unroll",), "expected"),
    pack_order: (HOST, ("pack", "together"), "expected"),
}


def mutant_name(mutant: Patch) -> str:
    return getattr(mutant, "__name__", "") or f"{mutant.func.__name__}_again"  # type: ignore[attr-defined]


@pytest.mark.long
@pytest.mark.sampled(7)
@pytest.mark.parametrize("mutant", MUTANTS, ids=mutant_name)
def test_a_mutant_is_caught(monkeypatch: pytest.MonkeyPatch, mutant: Patch) -> None:
    capabilities, prefixes, symptom = MUTANTS[mutant]
    device = SimulatedDevice(capabilities)
    assert failures(device, cases_of(*prefixes)) == []
    mutant(monkeypatch)
    found = failures(device, cases_of(*prefixes))
    assert any(symptom in message for message in found), found


def test_races_are_the_sanitizer_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """A barrier that is missing gives right values where items run in order: only it can tell."""
    no_leading_barrier(monkeypatch)
    subject = subject_of("nested", dtypes.int32)
    program = compile_kernel(subject.kernel, GROUPS, opts=parse_opts("GROUP(2, 4)"))
    buffers = [
        np.zeros(4, np.int32) if data is None else data.reshape(-1) for data in subject.inputs
    ]
    with pytest.raises(SanitizerError, match="race"):
        run_program(program, buffers)
