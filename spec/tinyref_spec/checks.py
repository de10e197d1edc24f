"""Rows whose cases are written one by one: memory, kernel forms, tensor functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tinyref.dtype import DType
from tinyref_spec.case import Case, Measurement, Needs, Profile, Row, Rung
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.ladder import foundations

Run = Callable[[str, DeviceUnderTest], Measurement]
KERNELS = frozenset({"kernels"})


@dataclass(frozen=True)
class Check:
    """One case of a row: `run` takes the case's id and the device.

    name: what follows the id of the row; after a dot, unless it begins with a colon itself.
    full_only: left out of the quick profile. needs: beyond those of the row.
    """

    name: str
    run: Run
    full_only: bool = False
    needs: Needs | None = None

    def id(self, row_id: str) -> str:
        """The id of the case."""
        return f"{row_id}{self.name}" if self.name.startswith(":") else f"{row_id}.{self.name}"


def kernel_needs(*dtypes: DType, features: Iterable[str] = ()) -> Needs:
    """What a kernel over these dtypes needs."""
    return Needs(frozenset(dtypes), frozenset(), KERNELS | frozenset(features))


def make_row(
    row_id: str,
    sentence: str,
    clauses: tuple[str, ...],
    rung: Rung,
    op: str,
    dtype: str,
    error_rule: str,
    needs: Needs,
    checks: Callable[[], Iterable[Check]],
) -> Row:
    """A row whose level is the first word of its id; `checks` is called when cases are listed."""
    level = row_id.partition(".")[0]

    def make_cases(profile: Profile) -> list[Case]:
        return [
            Case(
                check.id(row_id),
                row_id,
                level,
                rung,
                op,
                dtype,
                clauses,
                _join_needs(needs, check.needs),
                foundations(rung, dtype),
                functools.partial(_run_on, rung, functools.partial(check.run, check.id(row_id))),
            )
            for check in checks()
            if profile is Profile.FULL or not check.full_only
        ]

    return Row(row_id, sentence, clauses, rung, level, op, dtype, error_rule, needs, make_cases)


def _run_on(
    rung: Rung, run: Callable[[DeviceUnderTest], Measurement], device: DeviceUnderTest
) -> Measurement:
    """Runs a case with kernels that use no more than what the rungs below have shown."""
    return run(device.on_rung(rung))


def _join_needs(first: Needs, second: Needs | None) -> Needs:
    if second is None:
        return first
    return Needs(
        first.dtypes | second.dtypes, first.ops | second.ops, first.features | second.features
    )
