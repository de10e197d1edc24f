"""Rows of the level `tensor` declare every type that their kernels compute in."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import pytest
from run_rows import failures

from tinyref.dtype import DType, dtypes
from tinyref.engine import runner
from tinyref.uops.node import UOp
from tinyref_spec import catalogue
from tinyref_spec.case import Case, Profile, Row
from tinyref_spec.catalogue import all_rows
from tinyref_spec.checks import kernel_needs
from tinyref_spec.device_under_test import DeviceUnderTest


def types_of(ast: UOp) -> set[DType]:
    return {node.dtype.scalar for node in ast.toposort()} & set(dtypes.all)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> set[DType]:
    """Return the types in the kernels that ran."""
    types: set[DType] = set()
    compile_ast = runner.compile_ast

    def noted(device: str, ast: UOp, *rest: object) -> object:
        types.update(types_of(ast))
        return compile_ast(device, ast, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(runner, "compile_ast", noted)
    return types


def undeclared(
    cases: Iterable[Case], computed: set[DType], device: DeviceUnderTest
) -> dict[str, set[DType]]:
    by_row = {}
    for case in cases:
        computed.clear()
        case.run(device)
        missing = computed - case.needs.dtypes
        if missing:
            by_row[case.id] = missing
    return by_row


def cases_of(rows: Iterable[Row]) -> list[Case]:
    return [case for row in rows for case in row.cases(Profile.QUICK)[:3]]


def tensor_rows() -> list[Row]:
    rows = [row for row in all_rows() if row.level == "tensor"]
    return [row for row in rows if row.id.endswith((".forward", ".backward"))]


PARTS = 20


@pytest.mark.long
@pytest.mark.sampled(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_rows_of_tensors_declare_what_they_compute_in(
    part: int, computed: set[DType], cpu: DeviceUnderTest
) -> None:
    assert undeclared(cases_of(tensor_rows()[part::PARTS]), computed, cpu) == {}


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
        (
            "kernel.program.limit.scratch.all",
            "scratch memory of a work-item (shared_bytes above 0, and no has_groups)",
        ),
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


@pytest.mark.long
@pytest.mark.parametrize("query", ["kernel.program,kernel.launch", "kernel.opt"])
def test_a_device_of_a_flat_grid_without_shared_memory_passes_all_that_it_owes(query: str) -> None:
    device = DeviceUnderTest("accelerators:FlatGrid")
    cases = [case for case in catalogue.cases(Profile.QUICK, query) if ".limit.grid" not in case.id]
    assert sum(case.needs.unmet(device.capabilities) is None for case in cases) >= 20
    assert failures(device, cases) == {}
