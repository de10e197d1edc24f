"""The kernels of a rung use no more of a device than the rungs up to it show."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tinyref.runtimes.kernel import Kernel
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SpecialArg
from tinyref.uops.program import Program
from tinyref_spec import device_under_test
from tinyref_spec.case import Profile, Row, Rung
from tinyref_spec.catalogue import all_rows
from tinyref_spec.device_under_test import DeviceUnderTest, Runnable
from tinyref_spec.styles import Style


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """Return the programs that were compiled from ASTs."""
    collected: list[Program] = []
    compiled: Callable[..., Kernel] = device_under_test.compile_for

    def noted(device: str, kernel: Runnable, style: Style) -> Kernel:
        loaded = compiled(device, kernel, style)
        if not isinstance(kernel, Program):
            collected.append(loaded.program)
        return loaded

    monkeypatch.setattr(device_under_test, "compile_for", noted)
    return collected


def rows_on(*rungs: Rung) -> list[Row]:
    """Some rows, of every kind."""
    levels = ("memory", "kernel", "isa")
    rows = [row for row in all_rows() if row.rung in rungs and row.level in levels]
    return rows[::7]


def run(rows: list[Row], device: str) -> None:
    subject = DeviceUnderTest(device)
    for row in rows:
        for case in row.cases(Profile.QUICK)[:2]:
            if case.needs.unmet(subject.capabilities) is None:
                assert case.run(subject).passed, case.id


def used(programs: list[Program]) -> set[str]:
    """Return what the programs use in addition to scalars of one work-item."""
    features = set()
    for program in programs:
        for node in program.uops:
            if isinstance(node.arg, SpecialArg):
                features.add(node.arg.scope)
            elif node.op is Ops.RANGE:
                features.add("loop")
            elif node.dtype.lanes > 1:
                features.add("vector")
    return features


@pytest.mark.parametrize("device", ["PYTHON", "CPU"])
def test_the_lowest_kernels_are_straight(device: str, programs: list[Program]) -> None:
    run(rows_on(Rung.STORE, Rung.ONE_ALU), device)
    assert len(programs) > 5
    assert used(programs) == set()


@pytest.mark.long
@pytest.mark.parametrize(("device", "element"), [("PYTHON", {"group"}), ("CPU", {"loop"})])
def test_kernels_up_to_gates_have_one_index_for_an_element(
    device: str, element: set[str], programs: list[Program]
) -> None:
    run(rows_on(Rung.INDEX, Rung.ALU, Rung.CAST, Rung.GATE), device)
    assert len(programs) > 50
    assert used(programs) == element
