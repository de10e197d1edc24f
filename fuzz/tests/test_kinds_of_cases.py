"""Kinds of cases that survivors of mutants asked for: rows have each, and a fault that they find.

Devices that have such faults, for what is asked of a device alone, are in the tests of conformance:
launches over an input that is still read, and sums of negative zeros.
"""

from __future__ import annotations

import pytest
from mutated import mutated

from tinyref_fuzz.mutants import programs
from tinyref_fuzz.mutants.catalogue import MUTANTS
from tinyref_fuzz.mutants.mutant import Mutant
from tinyref_spec.case import Profile
from tinyref_spec.catalogue import cases
from tinyref_spec.device_under_test import DeviceUnderTest

RESHAPED = Mutant(
    name="reshaped-from-the-second-element",
    kind="symbolic",
    module="tinyref.schedule.prepare",
    old="graph.shrink(flat, ((0, lower(want)),))",
    new="graph.shrink(flat, ((1, lower(want) + 1),))",
    resembles="a reshape that fits for the bound number alone shows other elements",
    stages=("schedule",),
)
NARROWED = Mutant(
    name="narrowed-by-one-too-many",
    kind="symbolic",
    module="tinyref.schedule.variables",
    old="min(before[1], high)",
    new="min(before[1], high - 1)",
    resembles="of two bounds of a variable the upper one is taken too low",
    stages=("schedule",),
)
FAULTS = {mutant.name: mutant for mutant in (*MUTANTS.values(), *programs.MUTANTS)}
FAULTS |= {mutant.name: mutant for mutant in (RESHAPED, NARROWED)}
# The kind, the rows that have it, and a fault.
KINDS = [
    ("a variable at its ends by several views", "kernel.symbolic.*.views", "only-last-mask"),
    ("assigned, read by a view, assigned again", "system.memory.*.assign", "write-before-read"),
    ("a constant operand", "isa.constant.int32.mod1", "remainder-floored"),
    ("a comparison at the wrap", "isa.sequence.simplified.chosen*.int32", "linear-wraps-unseen"),
    ("parts not aligned", "kernel.opt.upcast.local", "vector-of-unaligned-address"),
    ("a mask through a flip", "kernel.view.pad.int32.read", "mask-begin-excluded"),
    ("a choice in padding", "kernel.gather.int32.padded*", "numbers-ignore-mask"),
    ("a reshape by the bound number", "system.symbolic.*.reshaped", RESHAPED.name),
    ("two bounds of one variable", "system.symbolic.*.narrowed", NARROWED.name),
]


def failing(query: str) -> list[str]:
    """The cases that do not pass, errors too, on a device that has kept no kernels."""
    device = DeviceUnderTest("PYTHON")
    found = cases(Profile.QUICK, query)
    assert found, f"no case is of {query}"
    failed = []
    for case in found:
        try:
            is_wrong = not case.run(device).passed
        except Exception:  # as for the runner, an error is a failure
            is_wrong = True
        failed += [case.id] if is_wrong else []
    return failed


@pytest.mark.long
@pytest.mark.parametrize(("kind", "query", "fault"), KINDS, ids=[kind for kind, _, _ in KINDS])
def test_rows_have_the_kind_and_find_its_fault(kind: str, query: str, fault: str) -> None:
    assert failing(query) == []
    with mutated(FAULTS[fault]):
        assert failing(query) != []
    assert failing(query) == []
