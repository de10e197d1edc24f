"""The rows of optimisations: devices of every kind pass them, and broken compilers do not.

Each mutant changes one decision of planning or lowering, as real compilers have got it wrong.
"""

from __future__ import annotations

import ast as python_ast
import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
import pytest

from tinyref.capabilities import Capabilities
from tinyref.codegen import lower
from tinyref.codegen.compile import compile_kernel
from tinyref.codegen.expand import copies
from tinyref.codegen.lower import Lowering
from tinyref.device import Device
from tinyref.dtype import dtypes, numpy_dtype
from tinyref.errors import TinyrefError
from tinyref.interpret import SanitizerError, run_program
from tinyref.optimise import limits, moves, padding
from tinyref.optimise.opt import KernelOptError, Opt, OptOp, parse_opts
from tinyref.optimise.plan import Axis, Plan, changes
from tinyref.runtimes.red_zones import POISONS
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind
from tinyref_spec import catalogue
from tinyref_spec.bits import Array
from tinyref_spec.case import Case, Profile, Row
from tinyref_spec.device_under_test import DeviceUnderTest, Inputs, Optimised, Runnable, slots_of
from tinyref_spec.kernel import opts
from tinyref_spec.kernel.opt_kernels import FORMS
from tinyref_spec.kernel.opt_legal import LEGAL, Legal
from tinyref_spec.kernel.opt_refused import REFUSED, Refused
from tinyref_spec.kernel.padded_terms import OTHER_BEYOND, ZERO_BEYOND, Terms

GROUPS = Device["PYTHON"].capabilities
HOST = dataclasses.replace(
    GROUPS, has_grid=False, has_groups=False, threads=2, vector_lanes=(1, 2, 4), matrix_tiles=()
)


class SimulatedDevice(DeviceUnderTest):
    """A device with any capabilities, played by the interpreter; it keeps no kernel."""

    def __init__(self, capabilities: Capabilities) -> None:
        super().__init__("PYTHON")
        self.declared = capabilities

    @property
    def capabilities(self) -> Capabilities:
        return self.declared

    def run_optimised(
        self,
        kernel: Optimised,
        inputs: Inputs,
        bindings: Mapping[str, int] | None = None,
        poison: int = POISONS[0],
    ) -> list[Array]:
        program = compile_kernel(kernel.ast, self.declared, opts=kernel.opts)
        slots = slots_of(kernel.ast)
        buffers = []
        for slot in slots:
            data = inputs[slot.number]
            raw = np.full(slot.size * slot.dtype.itemsize, poison, np.uint8)
            buffers.append(raw.view(numpy_dtype(slot.dtype)) if data is None else data.copy())
        run_program(program, buffers, bindings)
        return [buffers[slot.number] for slot in slots if slot.is_written]

    def source(self, kernel: Runnable) -> str:
        return ""

    def forms(self, kernel: Runnable) -> tuple[str, ...]:
        return ()


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


# --- the tables are whole -------------------------------------------------------------------------


def test_every_optimisation_has_legal_and_illegal_rows() -> None:
    for op in OptOp:
        if op is OptOp.TC:
            continue
        assert len([legal for legal in LEGAL if legal.op is op]) >= 4, op
        assert len([refused for refused in REFUSED if refused.op is op]) >= 3, op


def test_a_skip_is_declared_and_its_refusal_is_not_skipped() -> None:
    """Where a device has no groups, the row that says so runs."""
    for op, lacking in (("group", GROUPS), ("local", GROUPS), ("pack", GROUPS), ("thread", HOST)):
        rows = [row for row in catalogue.all_rows() if row.id.startswith(f"kernel.opt.{op}.")]
        legal = [row for row in rows if ".refuse." not in row.id]
        nothing = dataclasses.replace(
            lacking, has_groups=False, has_grid=False, shared_bytes=0, threads=1
        )
        assert all(row.needs.unmet(nothing) for row in legal)
        assert any(row.needs.unmet(nothing) is None for row in rows if ".refuse.no_" in row.id)


# A file and a line in it.
Place = tuple[str, int]


def refusing_lines() -> dict[Place, str]:
    """The lines of moves and limits that give a reason; those of tiles have rows of their own."""
    found = {}
    for module in (moves, limits):
        file = module.__file__
        for node in python_ast.walk(python_ast.parse(inspect.getsource(module))):
            if isinstance(node, python_ast.Return) and node.value is not None:
                text = python_ast.unparse(node.value)
                if (
                    isinstance(node.value, python_ast.JoinedStr | python_ast.Constant)
                    and text != "None"
                ):
                    found[file, node.lineno] = text
                if isinstance(node.value, python_ast.IfExp):
                    found[file, node.lineno] = text
    return {place: text for place, text in found.items() if "matrix tile" not in text}


def lines_run(work: Callable[[], None]) -> set[Place]:
    """The lines of the modules of moves and limits that `work` goes through."""
    seen: set[Place] = set()
    files = (moves.__file__, limits.__file__)

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            seen.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return seen


def refuse_all(rows: Iterable[Refused]) -> None:
    for refused in rows:
        for capabilities in (GROUPS, HOST):
            case = opts._refused_row(refused).cases(Profile.FULL)[0]
            if case.needs.unmet(capabilities) is None:
                kernel = FORMS[refused.kernel](opts.dtype_named(refused.dtype)).kernel
                plan = Plan.of(kernel, refused.change(capabilities))
                (opt,) = parse_opts(refused.opt)
                with pytest.raises(KernelOptError):
                    plan.apply_all(parse_opts(refused.before)).apply(opt)


@pytest.mark.long
def test_every_reason_for_a_refusal_has_a_row() -> None:
    lines = refusing_lines()
    assert len(lines) > 25
    # `_grid_problem`: the grids of the devices that there are are too large to fill.
    # `_long_index_problem`: 2 ** 31 positions are too many (tests/optimise/test_plan_padding.py).
    too_large = ("a grid of", "would need int64")
    missing = {line: lines[line] for line in lines.keys() - lines_run(lambda: refuse_all(REFUSED))}
    assert [text for text in missing.values() if not any(map(text.__contains__, too_large))] == []


def test_a_missing_row_is_seen() -> None:
    others = [refused for refused in REFUSED if refused.op is not OptOp.SWAP]
    lines = refusing_lines()
    missing = lines.keys() - lines_run(lambda: refuse_all(others))
    assert any("itself" in lines[line] for line in missing)


# --- the rows can fail ----------------------------------------------------------------------------


def legal_row(**changes: Any) -> Row:
    legal = Legal("upcast.test", "add", (("UPCAST(0, 4)", "global 6, upcast 4"),))
    return opts._legal_row(dataclasses.replace(legal, **changes))


def refused_row(**changes: Any) -> Row:
    refused = Refused("upcast.test", "add", "UPCAST(0, 5)", "5 is no amount that divides 24")
    return opts._refused_row(dataclasses.replace(refused, **changes))


def only_case(row: Row) -> Case:
    (case,) = row.cases(Profile.FULL)
    return case


def test_rows_fail_for_what_is_not_so(interpreter: DeviceUnderTest) -> None:
    def message(row: Row) -> str:
        return failures(interpreter, [only_case(row)])[0]

    assert failures(interpreter, [only_case(legal_row()), only_case(refused_row())]) == []
    assert "a legal use was refused" in message(legal_row(uses=(("UPCAST(0, 5)", ""),)))
    assert "the axes are" in message(legal_row(uses=(("UPCAST(0, 4)", "global 24"),)))
    assert "was accepted" in message(refused_row(opt="UPCAST(0, 4)"))
    assert "does not say" in message(refused_row(reason="there is no axis"))
    assert "was refused" in message(refused_row(before="UPCAST(7, 7)"))


def test_a_refusal_that_changes_the_plan_fails(
    monkeypatch: pytest.MonkeyPatch, interpreter: DeviceUnderTest
) -> None:
    def careless(plan: Plan, opt: Opt) -> Plan | str:
        object.__setattr__(plan, "axes", plan.axes[::-1])
        return "5 is no amount that divides 24"

    monkeypatch.setitem(moves.MOVES, OptOp.UPCAST, careless)
    row = refused_row(kernel="outer", opt="UPCAST(0, 5)")
    assert "changed the plan" in failures(interpreter, [only_case(row)])[0]


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


def split(wrong_size: bool = False, half_outside: bool = False) -> Callable[..., Plan | str]:
    def mutant(plan: Plan, opt: Opt, kind: AxisKind, from_outside: bool = False) -> Plan | str:
        axis = plan.axes[opt.axis]
        size = plan.shape[axis.target] if wrong_size else axis.extent
        if not isinstance(size, int) or not isinstance(axis.extent, int):
            return "symbolic extent"
        if opt.arg < 2 or size % opt.arg:
            return f"{opt.arg} is no amount that divides {size}"
        rest = axis.extent // opt.arg
        cut = dataclasses.replace(axis, kind=kind, extent=opt.arg)
        left = dataclasses.replace(axis, extent=rest, stride=axis.stride * opt.arg)
        if from_outside and half_outside:
            left = dataclasses.replace(axis, extent=rest)
        others = list(plan.axes)
        others[opt.axis] = left
        return plan.with_axes([*others, cut])

    return mutant


def divides_the_wrong_size(patch: pytest.MonkeyPatch) -> None:
    """An amount must divide what is left of an axis, not what the kernel has there."""
    patch.setattr(moves, "_split", split(wrong_size=True))


def outer_stride_of_inner(patch: pytest.MonkeyPatch) -> None:
    """The outer part of a cut with the stride of an inner one."""
    patch.setattr(moves, "_split", split(half_outside=True))


def unchecked_memory(patch: pytest.MonkeyPatch) -> None:
    """Shared memory is not counted."""
    patch.setattr(Plan, "shared_bytes", lambda self: 0)


def memory_of_one_lane(patch: pytest.MonkeyPatch) -> None:
    """The lanes of a work-item share one place in local memory."""
    healthy = Lowering.define_local
    patch.setattr(
        Lowering, "define_local", lambda self, dtype, size: healthy(self, dtype, max(size // 2, 1))
    )


def pad_any_reduce(patch: pytest.MonkeyPatch) -> None:
    """Padding adds zeros to a maximum, to a product, to terms that are not zero."""
    patch.setattr(padding, "padding_problem", lambda reduce, axis: None)


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


def lost_nolocals(patch: pytest.MonkeyPatch) -> None:
    """NOLOCALS is accepted and forgotten."""
    patch.setitem(moves.MOVES, OptOp.NOLOCALS, lambda plan, opt: plan)


def pad_inner_part(patch: pytest.MonkeyPatch) -> None:
    """The inner part of a cut is padded, so that its last iterations are those of the next part."""

    def pad(plan: Plan, opt: Opt) -> Plan | str:
        axis = plan.axes[opt.axis]
        if not isinstance(axis.extent, int):
            return "symbolic extent"
        axes = list(plan.axes)
        axes[opt.axis] = dataclasses.replace(axis, extent=-(-axis.extent // opt.arg) * opt.arg)
        return plan.with_axes(axes)

    patch.setitem(moves.MOVES, OptOp.PADTO, pad)


# mutant -> (capabilities, rows that see it, what one of the failures says)
MUTANTS: dict[Patch, tuple[Capabilities, tuple[str, ...], str]] = {
    stale_item: (GROUPS, ("group",), "race"),
    stale_local: (GROUPS, ("together.group_of_lanes",), "race"),
    no_leading_barrier: (GROUPS, ("group.nested", "together.group_in_loop"), "race"),
    no_barrier: (GROUPS, ("group.row_sum",), "race"),
    gate_forgets_an_axis: (GROUPS, ("group.two_lengths", "group.nested_both"), "race"),
    smaller_output_ungated: (GROUPS, ("local.smaller_output",), "race"),
    divides_the_wrong_size: (HOST, ("upcast",), "was accepted"),
    outer_stride_of_inner: (GROUPS, ("grouptop",), "expected"),
    partial(outer_stride_of_inner): (HOST, ("thread",), "race"),
    unchecked_memory: (GROUPS, ("group", "grouptop"), "was accepted"),
    memory_of_one_lane: (GROUPS, ("together.group_of_lanes",), "temp0"),
    pad_any_reduce: (HOST, ("padto.refuse",), "was accepted"),
    pad_without_guard: (GROUPS, ("padto",), "SanitizerError"),
    pad_repeated_values: (GROUPS, ("together.pad_and_group",), "got 0"),
    partial(pad_repeated_values): (GROUPS, ("together.pad_around_group",), "race"),
    swap_loses_strides: (HOST, ("swap",), "expected"),
    unroll_adds: (HOST, ("unroll",), "expected"),
    pack_order: (HOST, ("pack", "together"), "expected"),
    lost_nolocals: (GROUPS, ("local.refuse", "nolocals.refuse"), "was accepted"),
    pad_inner_part: (GROUPS, ("padto.refuse.inner",), "was accepted"),
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
    subject = FORMS["nested"](dtypes.int32)
    program = compile_kernel(subject.kernel, GROUPS, opts=parse_opts("GROUP(2, 4)"))
    buffers = [
        np.zeros(4, np.int32) if data is None else data.reshape(-1) for data in subject.inputs
    ]
    with pytest.raises(SanitizerError, match="race"):
        run_program(program, buffers)


@pytest.mark.long
@pytest.mark.parametrize("allows", [True, False])
def test_a_rule_of_padding_that_is_wrong_either_way_is_caught(
    monkeypatch: pytest.MonkeyPatch, allows: bool
) -> None:
    """Each op has a sum that may be padded, and one that may not where its sources differ."""
    unseen = set()
    for op, rule in padding._RULES.items():
        monkeypatch.setitem(padding._RULES, op, lambda node, sources: allows)
        if all(map(is_padded, ZERO_BEYOND)) and not any(map(is_padded, OTHER_BEYOND)):
            unseen.add(op.name)
        monkeypatch.setitem(padding._RULES, op, rule)
    # A sine of other terms is like a root of them; nested reduces have rows of their own.
    assert unseen == {"SIN", "REDUCE"}


def is_padded(terms: Terms) -> bool:
    kernel = FORMS[terms.form](getattr(dtypes, terms.dtype)).kernel
    try:
        Plan.of(kernel, GROUPS).apply_all(parse_opts("PADTO(1, 4)"))
    except KernelOptError:
        return False
    return True
