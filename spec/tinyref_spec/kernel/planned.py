"""The kernels of the rungs up to loops once more, with the optimisations that heuristics choose.

On their own rungs they use no groups, vectors or optimisations (`tinyref_spec.styles`).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator

from tinyref_spec.case import Case, Measurement, Profile, Row, Rung
from tinyref_spec.checks import unaligned_cases
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.ladder import foundations

RUNGS = frozenset({Rung.INDEX, Rung.GATE, Rung.LOOP})
# Plans of elementwise kernels depend on the size of an element, and not otherwise on its dtype.
QUICK_DTYPES = frozenset({"int32", "float32", "uint8", "float16"})
# Rows of programs, of which nothing is planned.
_PROGRAMS = ("kernel.program.", "kernel.launch.", "memory.order", "memory.wait")


def _run(
    run: Callable[[DeviceUnderTest], Measurement], all_unaligned: bool, device: DeviceUnderTest
) -> Measurement:
    return run(device.on_rung(Rung.OPTIMISED, all_unaligned))


def _planned_id(name: str) -> str:
    return f"kernel.planned.{name.removeprefix('kernel.')}"


def _planned_case(case: Case, all_unaligned: bool) -> Case:
    return dataclasses.replace(
        case,
        id=_planned_id(case.id),
        row=_planned_id(case.row),
        level="kernel",
        rung=Rung.OPTIMISED,
        depends_on=foundations(Rung.OPTIMISED, case.dtype),
        run=functools.partial(_run, case.run, all_unaligned),
    )


def _cases(row: Row, profile: Profile) -> list[Case]:
    quick = row.cases(Profile.QUICK)[::2]
    is_quick = row.rung is not Rung.INDEX or row.dtype in QUICK_DTYPES
    if profile is Profile.QUICK and not is_quick:
        return []
    names = {case.id for case in quick}
    cases = row.cases(profile)
    kinds = [(case.id in names, case.needs) for case in cases]
    unaligned = unaligned_cases(_planned_id(row.id), kinds)
    return [
        _planned_case(case, number in unaligned)
        for number, case in enumerate(cases)
        if profile is Profile.FULL or case.id in names
    ]


def rows_of(plain: Iterable[Row]) -> Iterator[Row]:
    """For each row of the rungs up to loops whose kernels are ASTs, the same with heuristics."""
    for row in plain:
        if row.rung in RUNGS and not row.id.startswith(_PROGRAMS):
            yield dataclasses.replace(
                row,
                id=_planned_id(row.id),
                sentence=f"With what heuristics choose: {row.sentence}",
                level="kernel",
                rung=Rung.OPTIMISED,
                make_cases=functools.partial(_cases, row),
            )
