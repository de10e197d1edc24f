"""What compiled kernels may cost: more is seen, and the record is of all kernels there are."""

from __future__ import annotations

from typing import cast

import pytest
from no_device import NoDevice

from tinyref.codegen.compile import compile_kernel
from tinyref.codegen.decompose import missing
from tinyref.codegen.expand import copies, vectors
from tinyref.codegen.expand.accesses import Accesses
from tinyref.codegen.linearise.order import BlockOrder
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_fuzz.judge.caches import forget
from tinyref_spec.case import Measurement, Profile
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel.costs import (
    TILED,
    Cost,
    cost_of,
    measurable,
    names_of,
    of_legal,
    recorded_costs,
    rows,
    unspecified_in,
)
from tinyref_spec.kernel.lacking import DEVICES, lacking
from tinyref_spec.kernels.notation import kernel_of, load

LEGAL = {legal.name: legal for legal in measurable()}
CASES = {
    case.id.removeprefix("kernel.cost."): case
    for row in rows()
    for case in row.cases(Profile.QUICK)
}


def measured(name: str) -> Measurement:
    return CASES[name].run(cast(DeviceUnderTest, NoDevice()))


RECORD = Cost(8, 2, 40, 6, 5)
# What a kernel costs, and what is said of it.
EXCESSES = [
    (RECORD, ""),
    (Cost(2, 0, 9, 0, 1), ""),
    # A quarter more operations, and one.
    (Cost(8, 2, 51, 6, 5), ""),
    (Cost(8, 2, 52, 6, 5), "52 operations, 51 at most are owed"),
    (Cost(9, 2, 40, 6, 5), "9 accesses, 8 at most are owed"),
    (Cost(8, 3, 52, 6, 5), "3 loops, 2 at most are owed; 52 operations, 51 at most are owed"),
    (Cost(8, 2, 40, 7, 5), "7 lanes taken or joined, 6 at most are owed"),
    (Cost(8, 2, 40, 6, 6), "6 values at a time, 5 at most are owed"),
]


@pytest.mark.table
@pytest.mark.parametrize(("cost", "said"), EXCESSES)
def test_what_is_too_much(cost: Cost, said: str) -> None:
    assert cost.excess_over(RECORD) == said


def test_of_a_single_op_no_more_operations_are_accepted() -> None:
    more = Cost(8, 2, 41, 6, 5)
    assert more.excess_over(RECORD, is_exact=True) == "41 operations, 40 at most are owed"
    assert RECORD.excess_over(RECORD, is_exact=True) == ""


def test_a_literal_cost() -> None:
    # Twenty-four sums by vectors of four: two loads and a store of four lanes, and no loop.
    costed = next(of_legal(LEGAL["upcast.elementwise"]))
    assert (costed.name, costed.what) == ("upcast.elementwise", "add with UPCAST(0, 4)")
    # Both vectors wait for the sum.
    assert cost_of(costed.program) == Cost(accesses=3, loops=0, operations=2, lanes=0, live=2)


def test_vectors_and_wide_accesses_that_are_lost_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured("upcast.elementwise").passed
    forget()
    with monkeypatch.context() as patch:
        patch.setattr("tinyref.codegen.expand.choose_widths", lambda *given: {})
        found = measured("upcast.elementwise")
    assert ": 5 operations, 3 at most are owed" in found.message
    forget()
    with monkeypatch.context() as patch:
        patch.setattr(Accesses, "_is_regular", lambda *given: False)
        found = measured("upcast.elementwise")
    forget()
    assert "12 accesses, 3 at most are owed" in found.message


def test_what_constants_decide_and_is_left_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes of a padded row that are outside of it have 0 for an element, to which 1 is added."""
    forget()
    with monkeypatch.context() as patch:
        for place in (copies, vectors):
            patch.setattr(place, "tidy", lambda node: node)
        found = measured("upcast.masked")
    forget()
    assert found.message == "padded with UPCAST(0, 0): constants decide ADD"


def _last_first(order: BlockOrder) -> list[int]:
    """A legal order: of what may come next, what stands last in the graph."""
    return [order.members[place] for place in order.sorted(lambda place: -place)]


def test_an_order_that_keeps_more_values_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    forget()
    with monkeypatch.context() as patch:
        patch.setattr(BlockOrder, "best", _last_first)
        found = measured("upcast.matmul")
    forget()
    assert "values at a time" in found.message


def test_an_operation_more_for_an_op_that_a_device_lacks_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twice -1: the value is the same."""
    forget()
    with monkeypatch.context() as patch:
        negated = {Ops.NEG: lambda src, capabilities: build.mul(build.mul(src[0], -1), 1.0)}
        patch.setattr(missing, "DECOMPOSITIONS", {**missing.DECOMPOSITIONS, **negated})
        found = measured("lacking.core.neg")
    forget()
    assert found.message.startswith("an op of lacking.core.neg.float32: 2 operations")


def test_the_record_is_of_all_programs_and_cases_are_of_the_record() -> None:
    legal = [name for each in LEGAL.values() for name in names_of(each)]
    lacked = [each.name for device in DEVICES for each in lacking(device)]
    tiles = [f"tc.{use.name}" for use in TILED]
    assert sorted(recorded_costs()) == sorted([*legal, *tiles, *lacked])
    assert len(legal) > len(LEGAL) > 100
    assert len(set(lacked)) == len(lacked) > 90
    of_ops = [name for name in CASES if name.startswith("lacking.")]
    assert len(CASES) == len(LEGAL) + len(tiles) + len(of_ops)
    assert len(of_ops) > 20


@pytest.mark.table
@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("lacking.")])
def test_what_is_made_of_an_op_costs_no_more_than_is_recorded(name: str) -> None:
    assert measured(name).message == ""


@pytest.mark.long
def test_every_kernel_costs_no_more_than_is_recorded() -> None:
    assert [found.message for name in CASES if not (found := measured(name)).passed] == []


@pytest.mark.table
@pytest.mark.parametrize(("count", "said"), [(31, ""), (32, "int32 is shifted by 32 bits")])
def test_a_shift_by_all_bits_is_seen(count: int, said: str) -> None:
    source = load(1, dtypes.int32, (4,))
    shifted = UOp(Ops.SHR, dtypes.int32, (source, build.const(dtypes.int32, count)))
    capabilities = Device["PYTHON"].capabilities
    assert unspecified_in(compile_kernel(kernel_of(shifted, 4), capabilities, opts=())) == said
