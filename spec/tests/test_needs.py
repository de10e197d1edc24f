"""Rows of the level `tensor` declare every type that their kernels compute in."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import pytest

from tinyref.capabilities import CORE_DTYPES
from tinyref.dtype import DType, dtypes
from tinyref.engine import runner
from tinyref.uops.node import UOp
from tinyref_spec import catalogue
from tinyref_spec.case import Case, Measurement, Profile, Row, Rung
from tinyref_spec.catalogue import all_rows
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest

# Rows that declare more than the types of their inputs and results.
TELLING = (
    "sort.float64",
    "mod.float64",
    "std.float64",
    "topk.float16",
    "isclose.int32",
    "interpolate.float32",
    "rand.float32",
)


def types_of(ast: UOp) -> set[DType]:
    return {node.dtype.scalar for node in ast.toposort()} & set(dtypes.all)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> set[DType]:
    """The types in the kernels that were run."""
    found: set[DType] = set()
    compile_ast = runner.compile_ast

    def noted(device: str, ast: UOp, *rest: object) -> object:
        found.update(types_of(ast))
        return compile_ast(device, ast, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(runner, "compile_ast", noted)
    return found


def undeclared(
    cases: Iterable[Case], computed: set[DType], device: DeviceUnderTest
) -> dict[str, set[DType]]:
    found = {}
    for case in cases:
        computed.clear()
        case.run(device)
        missing = computed - case.needs.dtypes
        if missing:
            found[case.id] = missing
    return found


def cases_of(rows: Iterable[Row]) -> list[Case]:
    return [case for row in rows for case in row.cases(Profile.QUICK)[:3]]


def tensor_rows() -> list[Row]:
    rows = [row for row in all_rows() if row.level == "tensor"]
    return [row for row in rows if row.id.endswith((".forward", ".backward"))]


# Cases whose kernels compute in types that neither their inputs nor their results have.
LITERALS = (
    "tensor.special.literal.multinomial_of_nothing",
    "tensor.conversion.literal.wide_bound",
    "system.fuzzed.eager:3",
    "system.fuzzed.eager:13",
    "system.state.ggml_data_to_tensor.values",
)


@pytest.mark.parametrize("case_id", LITERALS)
def test_cases_beside_the_rows_of_functions_declare_what_they_compute_in(
    case_id: str, computed: set[DType], cpu: DeviceUnderTest
) -> None:
    found = undeclared([catalogue.find(case_id)], computed, cpu)
    # Every device has those of the core.
    assert {id: types - CORE_DTYPES for id, types in found.items()} in ({}, {case_id: set()})
    assert computed - CORE_DTYPES


@pytest.mark.slow
def test_every_fuzzed_program_declares_what_it_computes_in(
    computed: set[DType], cpu: DeviceUnderTest
) -> None:
    cases = catalogue.cases(Profile.QUICK, "system.fuzzed")
    found = undeclared(cases, computed, cpu)
    assert {id: types for id, types in found.items() if types - CORE_DTYPES} == {}


@pytest.mark.long
def test_telling_rows_declare_what_they_compute_in(
    computed: set[DType], cpu: DeviceUnderTest
) -> None:
    rows = [
        row for row in tensor_rows() if row.id.startswith(tuple(f"tensor.{x}." for x in TELLING))
    ]
    assert len(rows) >= len(TELLING)
    assert undeclared(cases_of(rows), computed, cpu) == {}
    assert computed


@pytest.mark.slow
def test_every_row_declares_what_it_computes_in(computed: set[DType], cpu: DeviceUnderTest) -> None:
    assert undeclared(cases_of(tensor_rows()), computed, cpu) == {}


def test_a_type_that_is_not_declared_is_seen(computed: set[DType], cpu: DeviceUnderTest) -> None:
    (row,) = (row for row in tensor_rows() if row.id == "tensor.sort.float64.forward")
    case = cases_of([row])[0]
    silent = dataclasses.replace(case, needs=kernel_needs(*case.needs.dtypes - {dtypes.int64}))
    assert undeclared([silent], computed, cpu) == {case.id: {dtypes.int64}}
    (row,) = (row for row in tensor_rows() if row.id == "tensor.gather.float16.forward")
    case = cases_of([row])[0]
    silent = dataclasses.replace(case, needs=kernel_needs(*case.needs.dtypes - {dtypes.uint16}))
    assert undeclared([silent], computed, cpu) == {case.id: {dtypes.uint16}}


@pytest.mark.parametrize(
    ("case_id", "lacks"),
    [
        ("kernel.program.grid.2x3x4", "a grid of 2x3x4"),
        ("kernel.program.item.2x3x4", "a group of 2x3x4 work-items"),
        ("kernel.program.group.reverse:2", "8 bytes of shared memory"),
        ("kernel.program.limit.shared.all", "4 bytes of shared memory"),
        ("kernel.opt.group.row_sum:group_1_4", "192 bytes of shared memory"),
        ("kernel.program.grid.3x5x1", None),
        ("kernel.program.item.2x3x1", None),
        ("kernel.opt.local.elementwise:local_0_8", None),
    ],
)
def test_programs_are_owed_by_devices_that_can_launch_them(case_id: str, lacks: str | None) -> None:
    capabilities = DeviceUnderTest("accelerators:FlatGrid").capabilities
    unmet = catalogue.find(case_id).needs.unmet(capabilities)
    assert unmet == (None if lacks is None else f"the device does not declare {lacks}")


@pytest.mark.parametrize(
    ("has_grid", "limit", "lacks"),
    [
        (True, (7, 5, 40), "a grid of 70001 work-items"),
        (True, (70_000, 1, 1), "a grid of 70001 work-items"),
        (True, (300, 300, 1), None),
        (False, (1, 1, 1), None),
    ],
)
def test_large_buffers_are_owed_where_a_launch_has_as_many_work_items(
    has_grid: bool, limit: tuple[int, int, int], lacks: str | None
) -> None:
    flat = DeviceUnderTest("accelerators:FlatGrid").capabilities
    capabilities = dataclasses.replace(flat, has_grid=has_grid, grid_limit=limit)
    unmet = catalogue.find("kernel.size.int32.size:70001").needs.unmet(capabilities)
    assert unmet == (None if lacks is None else f"the device does not declare {lacks}")


@pytest.mark.long
@pytest.mark.parametrize("query", ["kernel.program,kernel.launch", "kernel.opt"])
def test_a_device_of_a_flat_grid_without_shared_memory_passes_all_that_it_owes(query: str) -> None:
    device = DeviceUnderTest("accelerators:FlatGrid")
    owed = [
        case
        for case in catalogue.cases(Profile.QUICK, query)
        if case.needs.unmet(device.capabilities) is None and ".limit.grid" not in case.id
    ]
    assert len(owed) >= 20
    failed = {case.id: found.message for case in owed if not (found := case.run(device)).passed}
    assert failed == {}


def test_cases_that_differ_in_the_size_of_their_launch_are_of_one_kind() -> None:
    """Of one kind, every other case has all of its buffers unaligned."""
    sizes = ("grid:2x3x4", "group:8x1x1", "shared:32")
    checks = [
        Check(f"case:{size}", lambda *_: Measurement(True), needs=kernel_needs(features=[size]))
        for size in sizes
    ]
    row = make_row(
        "kernel.any",
        "Any.",
        clauses=(),
        rung=Rung.INDEX,
        dtype=dtypes.int32,
        checks=lambda: checks,
    )
    found = [case.run.args[2] for case in row.cases(Profile.QUICK)]  # type: ignore[attr-defined]
    assert found in ([True, False, True], [False, True, False])
