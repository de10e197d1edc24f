"""The rows of many devices: right ones pass, wrong ones are seen."""

from __future__ import annotations

import pytest
from run_rows import failed

from tinyref.lazy import all_reduce, graph, multi
from tinyref.lazy.shards import join_parts, layout_of
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import Payload
from tinyref_spec.system import sharding

PROGRAMS = sorted({*sharding.PROGRAMS, "all_reduce", "moved_back", "ring"})


@pytest.mark.slow
def test_right_devices_pass() -> None:
    assert failed("system.shard", "CPU", "int32") == []


@pytest.mark.slow
@pytest.mark.parametrize("device", ["CPU", "PYTHON", "CPU:2"])
def test_all_pass(device: str) -> None:
    assert failed("system.shard", device) == []


def only_parts(op: Ops) -> multi.Rule:
    """A rule that leaves each part to itself, whatever has to come from others."""

    def rule(node: UOp, arg: Payload) -> UOp:
        made = [multi._plain(op, arg, None, (part,)) for part in node.src]
        return join_parts(layout_of(node), made)

    return rule


@pytest.mark.parametrize(
    ("op", "seen"),
    [
        (Ops.REDUCE, "sum"),
        (Ops.REDUCE, "matmul"),
        (Ops.FLIP, "moved"),
        (Ops.RESHAPE, "moved"),
        (Ops.PERMUTE, "matmul"),
    ],
)
def test_a_rule_that_forgets_the_other_parts_is_seen(
    op: Ops, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(multi.RULES, op, only_parts(op))
    assert failed(f"system.shard.{seen}.int32", "CPU")


def test_parts_that_change_places_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def exchanged(parts: list[UOp], axis: int) -> UOp:
        return kept(list(reversed(parts)), axis)

    kept = multi.gather_to.__globals__["concatenate_parts"]
    monkeypatch.setitem(multi.gather_to.__globals__, "concatenate_parts", exchanged)
    assert failed("system.shard.moved_back", "CPU")


def test_an_all_reduce_that_differs_by_device_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_own_part_first(op: Ops, parts: list[UOp], devices: list[str]) -> list[UOp]:
        results = []
        for place, device in enumerate(devices):
            own = graph.copy(parts[place], device)
            for number, part in enumerate(parts):
                if number != place:
                    tiny = graph.constant(1e-3 * place, part.dtype)
                    own = graph.alu(op, own, graph.alu(Ops.ADD, graph.copy(part, device), tiny))
            results.append(own)
        return results

    monkeypatch.setattr(all_reduce, "_naive", by_own_part_first)
    assert failed("system.shard.all_reduce", "CPU")


def test_a_lost_assignment_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tinyref.tensor.methods.assignment.assign", lambda target, value: target)
    assert failed("system.shard.assign.int32", "CPU")


@pytest.mark.long
def test_every_program_has_a_row() -> None:
    rows = {row.id.split(".")[2] for row in sharding.rows()}
    assert sorted(rows) == PROGRAMS
    assert all("second" in row.needs.features for row in sharding.rows())
