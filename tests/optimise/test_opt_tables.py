"""The tables of legal and refused optimisations, asked of plans alone: nothing is compiled."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from kernel_cases import GRID, LOOPS

from tinyref.capabilities import Capabilities
from tinyref.optimise.opt import KernelOptError, parse_opts
from tinyref.optimise.plan import Plan
from tinyref_spec.kernel.opt_legal import LEGAL
from tinyref_spec.kernel.opt_refused import REFUSED
from tinyref_spec.kernel.opts import features_of, subject_of

LANES = (1, 2, 4, 8, 16)
DEVICES = {
    "groups": dataclasses.replace(GRID, vector_lanes=LANES, shared_bytes=1 << 16),
    "loops": dataclasses.replace(LOOPS, vector_lanes=LANES, shared_bytes=1 << 16, threads=8),
}
# What each kind of device has of the features that rows ask for.
HAS = {"groups": {"groups", "grid"}, "loops": {"scratch", "threads"}}


def legal_problems(capabilities: Capabilities, has: set[str]) -> Iterator[str]:
    for row in LEGAL:
        for text, axes in row.uses:
            if not features_of(text) <= has:
                continue
            try:
                plan = Plan.of(subject_of(row.kernel, row.dtype).kernel, capabilities)
                found = ", ".join(map(str, plan.apply_all(parse_opts(text)).axes))
            except KernelOptError as error:
                found = str(error)
            yield "" if found == axes else f"{row.name}: {text}: {found}, not {axes}"


def refused_problems(capabilities: Capabilities, has: set[str]) -> Iterator[str]:
    for row in REFUSED:
        (opt,) = parse_opts(row.opt)
        if not row.features | features_of(row.before) <= has:
            continue
        kernel = subject_of(row.kernel, row.dtype).kernel
        plan = Plan.of(kernel, row.change(capabilities)).apply_all(parse_opts(row.before))
        try:
            found = f"accepted as {plan.apply(opt)}"
        except KernelOptError as error:
            found = str(error)
        is_named = row.reason in found and row.opt in found
        yield "" if is_named else f"{row.name}: {found}, not {row.reason}"


@pytest.mark.table
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("problems", "least"), [(legal_problems, 80), (refused_problems, 40)], ids=["legal", "refused"]
)
def test_plans_are_those_of_the_tables(device: str, problems, least: int) -> None:
    found = list(problems(DEVICES[device], HAS[device]))
    assert [each for each in found if each] == []
    assert len(found) > least
