"""Failures are grouped by what they have in common, and by nothing that right values have too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tinyref.device import Device
from tinyref.errors import TinyrefError
from tinyref_conformance import records
from tinyref_conformance.conform import ConformRequest, conform
from tinyref_conformance.diagnosis import Group, diagnose, shape_of
from tinyref_conformance.faulty.registry import ALL_FAULTY
from tinyref_conformance.records import Record
from tinyref_conformance.report import CaseResult, Report, RowResult
from tinyref_conformance.reports import terminal
from tinyref_conformance.settings import RunSettings
from tinyref_conformance.statuses import Status
from tinyref_spec import catalogue
from tinyref_spec.case import Case, Rung
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.evidence import Evidence, Explained

WRONG = "element 3: expected 1 (0x3f800000), got 2 (0x40000000), for x; 1 of 4 wrong"


def group_of(
    *rows: tuple[str, Evidence],
    message: str = WRONG,
    status: Status = Status.FAIL,
    fault: str = "",
    advice: Mapping[str, str] | None = None,
) -> list[Group]:
    measured = [row_of(name, Rung.ALU, evidence, advice) for name, evidence in rows]
    said = {"message": message, "phase": "accuracy", "fault": fault}
    failing = [CaseResult(f"{name}.0", name, status, **said) for name, _ in rows]
    return diagnose(measured, failing)


def row_of(
    name: str, rung: Rung, evidence: Evidence, advice: Mapping[str, str] | None = None
) -> RowResult:
    words = ("", (), (), rung, "", "", "", "")
    return RowResult(name, *words, evidence=evidence, advice=advice or {})


def evidence(wrong: int, right: int, **conditions: tuple[int, int]) -> Evidence:
    named = {name.replace("_", "-"): counts for name, counts in conditions.items()}
    return Evidence((wrong, right), named, cases=(1, 0))


def test_a_condition_explains_where_all_wrong_values_meet_it_and_no_right_one() -> None:
    assert evidence(3, 5, nan=(3, 0)).explains("nan") is Explained.FULLY
    assert evidence(3, 5, nan=(2, 0)).explains("nan") is Explained.NOT
    assert evidence(3, 5, nan=(3, 3)).explains("nan") is Explained.NOT
    # Without a right value there is no contrast, but of how values are wrong there need be none.
    assert evidence(3, 0, nan=(3, 0)).explains("nan") is Explained.NOT
    assert evidence(3, 0, zero=(3, 0)).explains("zero") is Explained.FULLY
    # A few of the right ones may meet what an operand is, where it cannot be chance ...
    assert evidence(8, 992, nan=(8, 8)).explains("nan") is Explained.IN_PART
    assert evidence(8, 10, nan=(8, 8)).explains("nan") is Explained.NOT
    assert evidence(8, 992, nan=(8, 9)).explains("nan") is Explained.NOT
    # ... and none what a place is.
    assert evidence(8, 992, last=(8, 1)).explains("last") is Explained.NOT


def test_rows_of_one_cause_are_one_group_and_those_of_another_are_not() -> None:
    first, second = group_of(
        ("isa.a.float32", evidence(3, 5, nan=(3, 0), negative=(3, 0))),
        ("isa.b.float32", evidence(2, 9, nan=(2, 0), last=(2, 0))),
        ("isa.c.float32", evidence(2, 9, nan=(2, 9), last=(2, 0))),
    )
    assert first.cause == "all wrong values have NaN as an operand or result"
    assert (first.rows, first.wrong) == (["isa.a.float32", "isa.b.float32"], 5)
    assert first.advice.startswith("look at comparisons (ordered or unordered)")
    assert second.cause == "all wrong values are the last element of their output"
    assert second.cases == ["isa.c.float32.0"]


def test_what_nothing_explains_is_grouped_by_family_and_by_what_it_says() -> None:
    first, second, third = group_of(
        ("isa.cast.float32", evidence(3, 5)),
        ("isa.cast.int32", evidence(3, 5)),
        ("kernel.view.flip", evidence(3, 5)),
        ("memory.copy.int8", Evidence()),
        message="the copy has 17 bytes",
        advice={"": "look here", "nan": "look there"},
    )
    assert first.rows == ["isa.cast.float32", "isa.cast.int32"]
    assert first.cause == "wrong values with nothing in common"
    assert first.advice == "look here"
    assert second.rows == ["kernel.view.flip"]
    assert third.cause == "the copy has # bytes"


def test_a_message_is_grouped_without_the_path_of_a_temporary_file() -> None:
    first, second = "/tmp/tmpab/k.c:1: error: 'x'", "/tmp/tmpqz/k.c:2: error: 'y'"
    assert shape_of(first) == shape_of(second) == "#:#: error: #"
    assert shape_of("x / y of a/b at http://c.d/e") == "x / y of a/b at http://c.d/e"


def test_titles_that_begin_alike_show_where_they_differ() -> None:
    long = f"the kernel does not compile: {'x' * 70}"
    one, two, three = terminal.distinct([f"{long} is f64: isa", f"{long} is f16: isa", "dies: isa"])
    assert one == "the kernel does not c … f64: isa"
    assert two == "the kernel does not c … f16: isa"
    assert three == "dies: isa"


def test_failures_of_one_form_are_one_group_where_none_of_it_passes() -> None:
    failing = Evidence((3, 3), {}, (3, 0), {"barrier": (3, 0), "loop": (3, 0)})
    passing = Evidence((0, 3), {}, (0, 3), {"loop": (0, 1)})
    rows = [row_of("kernel.a", Rung.GROUP, failing), row_of("kernel.b", Rung.LOOP, passing)]
    cases = [
        CaseResult(f"kernel.a.{index}", "kernel.a", Status.FAIL, WRONG, "accuracy")
        for index in range(3)
    ]
    (group,) = diagnose(rows, cases)
    assert group.cause == "all are of kernels with a barrier, and none passes"
    (group,) = diagnose(rows, cases[:2])
    assert group.cause == "wrong values with nothing in common"
    rows[1].evidence.forms["barrier"] = (0, 1)
    (group,) = diagnose(rows, cases)
    assert group.cause == "wrong values with nothing in common"


def test_lanes_explain_nothing_in_kernels_of_groups_without_vectors() -> None:
    """Do not count the first work-item of a group as a lane of a vector."""
    of_lanes = evidence(3, 21, lane_0_of_8=(3, 0), zero=(3, 0))
    lanes = "all wrong values are lane 0 of every 8 elements"
    assert group_of(("kernel.a", of_lanes))[0].cause.startswith(lanes)
    of_lanes.forms = {"group": (1, 0), "grid": (1, 0)}
    (group,) = group_of(("kernel.a", of_lanes))
    assert "lane" not in group.cause
    assert "are zero where another value is expected" in group.cause
    of_lanes.forms["vector"] = (1, 0)
    assert group_of(("kernel.a", of_lanes))[0].cause.startswith(lanes)


def test_copies_between_devices_are_measured_before_what_replays_and_sums_with_them() -> None:
    families = [row.id.split(".")[1] for row in catalogue.all_rows() if row.level == "system"]
    order = list(dict.fromkeys(families))
    assert order.index("transfer") < order.index("symbolic") < order.index("jit")
    assert order.index("transfer") < order.index("shard")


@pytest.mark.parametrize("count", [101, 107, 96])
def test_what_fails_after_a_hundred_launches_only_says_so(count: int) -> None:
    """Count the earlier cases of a worker, which depend on --jobs."""
    late = Evidence(cases=(1, 0), launches=(count, 40))
    assert group_of(("isa.a", late), status=Status.FLAKE)[0].cause == (
        "all fail after about 100 launches of a process, and pass alone"
    )
    both = Evidence(cases=(1, 0), launches=(101, 150))
    (group,) = group_of(("isa.a", both), status=Status.FLAKE)
    assert group.cause == "passes alone, and depends on what ran before"


@pytest.mark.long
def test_the_first_node_that_differs_is_looked_for_in_the_example(tmp_path: Path) -> None:
    settings = RunSettings(ALL_FAULTY["FloorDivision"].device, tmp_path, jobs=1, rerun_seconds=60.0)
    # Each failure is run again in a fresh process, so only a few are asked for.
    failing = "isa.binary.idiv.int32.edge,isa.binary.idiv.int32.random"
    query = f"{failing},memory.copy.uint8.size:3"
    report = conform(ConformRequest(settings, query=query)).report
    described = [case for case in report.cases if (case.details or {}).get("difference")]
    (group,) = report.groups
    assert [case.id for case in described] == group.cases[:1]
    assert described[0].details is not None
    assert (
        described[0].details["difference"].startswith("the first node that differs is IDIV int32")
    )


# Each fault, rows in which it shows, and its diagnosis.
FAULTS = {
    "FlushedSubnormals": (
        "isa.unary.neg.float32,isa.unary.sqrt.float32",
        "have a subnormal operand or result",
        "declare `keeps_subnormals=False`, or fix what flushes them",
    ),
    "LostNegativeZero": (
        "isa.binary.mul.float32,isa.unary.neg.float32",
        "are a zero of the wrong sign",
        "none of them keeps -0",
    ),
    "Tf32Rounding": (
        "isa.binary.mul.float32",
        "have an operand of more than 11 significant bits",
        "turn that mode off",
    ),
    "FloorDivision": (
        "isa.binary.idiv.int32",
        "are one less than the right ones",
        "C99, 6.5.5: towards zero",
    ),
    "OffByOneTail": (
        "kernel.store.constant.int32",
        "are the last element of their output and were never written",
        "a bound is off by one",
    ),
    "ReversedVectors": (
        "kernel.program.vector4",
        "are right values at other indices",
        "strides, the order of lanes",
    ),
    "MissingBarrier": ("kernel.program.group", "work-items race", "a barrier is missing"),
    "SwappedTileLane": (
        "kernel.program.wmma.apple*,kernel.program.group",
        "all are of kernels with matrix tiles, and none passes",
        "which lane holds which element of a fragment",
    ),
    "WrongGroupIndex": (
        "kernel.program.grid,kernel.elements.float32",
        "all are of kernels with a grid of more than one group, and 1 of that form pass",
        "look at the indices of groups",
    ),
    "CoarseSine": (
        "isa.unary.sin.float32",
        "all wrong values have an operand nearer to zero than 2^-4",
        "look at cancellation for small operands",
    ),
}


def measured_record(case: Case, device: DeviceUnderTest) -> Record:
    try:
        return records.of_measurement(case, case.run(device), 0.0, 1)
    except TinyrefError as error:
        return Record(case.id, Status.FAIL, phase="run", message=str(error), fault=error.fault)


def report_of_device(name: str, query: str) -> Report:
    """Return the report of the cases of a query, measured in this process."""
    device = DeviceUnderTest(name)
    rows: dict[str, RowResult] = {}
    results = []
    for case in catalogue.cases(query=query):
        if case.needs.unmet(device.capabilities):
            continue
        words = ("", (), (), case.rung, case.level, case.op, case.dtype, "")
        advice = catalogue.find_row(case.row).advice
        row = rows.setdefault(case.row, RowResult(case.row, *words, advice=advice))
        record = measured_record(case, device)
        said = record.status, record.message, record.phase
        results.append(CaseResult(case.id, case.row, *said, fault=record.fault))
        row.add(results[-1], record)
    return Report({}, list(rows.values()), results)


# Each is a single group that leads to the fault, and not to another one that looks alike.
MISLEADING = {
    "UnsignedCompare": (
        "isa.binary.cmplt.int32,isa.binary.cmplt.int8,isa.binary.add.int32",
        "all wrong values have operands of different signs",
        "compare signed integers by an instruction for signed ones",
    ),
    "Float32Remainder": (
        "isa.binary.mod.int32,isa.binary.mod.uint32,isa.binary.mod.int64",
        "have an operand or result of 2^24 or more",
        "some step goes through float32",
    ),
    "RoundedOffset": (
        "memory.launch.float32,kernel.one_alu,isa.unary.neg.float32,kernel.elements.int32,isa.binary.add.int8",
        "all are of kernels whose buffer 1 is unaligned",
        "how the offset of each argument is passed",
    ),
    "EarlyReads": (
        "kernel.store.constant.int32,kernel.one_alu.add.float32",
        "results arrive after they are read",
        "what a copy to the host waits for",
    ),
    "FirstBytes": (
        "kernel.store.constant.int8,kernel.copy.uint8",
        "all wrong values lie at addresses that are no multiple of 4",
        "how stores and fills of 1 and 2 bytes are made of words",
    ),
    "LostOffWord": (
        "kernel.store.constant.int8,kernel.store.constant.uint16,kernel.copy.int32",
        "store 1 or 2 bytes at an address that is no multiple of 4, and none passes",
        "how stores and fills of 1 and 2 bytes are made of words",
    ),
    "HalfSteps": (
        "kernel.matmul.float16,kernel.matmul.bfloat16.exact.33x17x31",
        "sums of products are noisier than their accumulator allows",
        "has fewer bits than the row says",
    ),
    "TruncatedBfloat16": (
        "kernel.matmul.bfloat16.signed,kernel.matmul.bfloat16.positive,tensor.exp.bfloat16",
        "are one unit nearer to zero than the right ones",
        "results are truncated",
    ),
    "RoundedTransferOffset": (
        "system.transfer.view.uint8,system.transfer.large.uint8,system.shard.ring.float32.ring:2",
        "copies between devices give other values",
        "offsets, sizes and directions of copies between devices",
    ),
}


@pytest.mark.parametrize(
    "name",
    [*FAULTS, *MISLEADING],
)
def test_a_fault_is_named_by_the_cause_of_its_group(name: str) -> None:
    query, cause, advice = {**FAULTS, **MISLEADING}[name]
    faulty = ALL_FAULTY.get(name)
    if faulty is not None and not Device.availability(faulty.healthy).works:
        pytest.skip(f"{faulty.healthy} does not work here")
    device = f"misleading_devices:{name}" if faulty is None else faulty.device
    group, *more = report_of_device(device, query).groups
    assert not more
    assert cause in group.cause
    assert advice in group.advice


def test_a_healthy_device_has_no_diagnosis() -> None:
    assert report_of_device("PYTHON", "isa.unary.neg.float32").groups == []
