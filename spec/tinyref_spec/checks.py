"""Rows whose cases are written one by one: memory, kernel forms, tensor functions."""

from __future__ import annotations

import functools
import zlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tinyref.dtype import DType
from tinyref_spec.bits import Array, to_bits
from tinyref_spec.case import (
    Case,
    CaseNeeds,
    Measurement,
    Profile,
    Row,
    Rung,
    is_size_of_launch,
)
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.error_rules import Ulp
from tinyref_spec.ladder import foundations

Run = Callable[[str, DeviceUnderTest], Measurement]
KERNELS = frozenset({"kernels"})
EXACT = Ulp(0).sentence


@dataclass(frozen=True)
class Check:
    """One case of a row: `run` takes the case's id and the device.

    name: follows the id of the row; after a dot, unless it begins with a colon itself.
    full_only: not in the quick profile. needs: in addition to those of the row.
    """

    name: str
    run: Run
    full_only: bool = False
    needs: CaseNeeds | None = None

    def id(self, row_id: str) -> str:
        """Return the id of the case."""
        return f"{row_id}{self.name}" if self.name.startswith(":") else f"{row_id}.{self.name}"


def kernel_needs(*dtypes: DType, features: Iterable[str] = ()) -> CaseNeeds:
    """Return what a kernel over these dtypes needs."""
    return CaseNeeds(frozenset(dtypes), KERNELS | frozenset(features))


def launch_needs(grid: Sequence[int] = (), group: Sequence[int] = (), shared: int = 0) -> CaseNeeds:
    """Return what a program with such a launch and shared memory needs."""
    sizes = [
        f"{name}:{'x'.join(map(str, it))}" for name, it in (("grid", grid), ("group", group)) if it
    ]
    return kernel_needs(features=[*sizes, f"shared:{shared}"] if shared else sizes)


def make_row(
    row_id: str,
    sentence: str,
    *,
    clauses: tuple[str, ...],
    rung: Rung,
    checks: Mapping[str, Run] | Callable[[], Iterable[Check]],
    op: str = "",
    dtype: DType | str = "",
    uses: Iterable[DType] | None = None,
    features: Iterable[str] = (),
    needs: CaseNeeds | None = None,
    error_rule: str = EXACT,
    advice: str = "",
) -> Row:
    """Return a row whose level is the first word of its id.

    Args:
        checks: its cases, by name, or a function that is called when cases are listed.
        uses: the types that its kernels compute in, by default `dtype`.
        features: what else a device must declare.
        needs: replaces both for a row that is not about kernels.
        advice: where to look if a case fails.
    """
    level = row_id.partition(".")[0]
    if uses is None:
        uses = () if isinstance(dtype, str) else (dtype,)
    type_name = dtype if isinstance(dtype, str) else dtype.name
    required = kernel_needs(*uses, features=features) if needs is None else needs

    def make_cases(profile: Profile) -> list[Case]:
        listed = _listed(checks)
        kinds = [(check.full_only, _kind_of(check.needs)) for check in listed]
        unaligned = unaligned_cases(row_id, kinds)
        return [
            Case(
                id=check.id(row_id),
                row=row_id,
                level=level,
                rung=rung,
                op=op,
                dtype=type_name,
                clauses=clauses,
                needs=_join_needs(required, check.needs),
                depends_on=foundations(rung, type_name),
                run=functools.partial(
                    _run_on,
                    functools.partial(check.run, check.id(row_id)),
                    rung,
                    number in unaligned,
                ),
            )
            for number, check in enumerate(listed)
            if profile is Profile.FULL or not check.full_only
        ]

    return Row(
        id=row_id,
        sentence=sentence,
        clauses=clauses,
        rung=rung,
        level=level,
        op=op,
        dtype=type_name,
        error_rule=error_rule,
        needs=required,
        make_cases=make_cases,
        advice={"": advice} if advice else {},
    )


def sized_checks(
    make: Callable[..., Measurement], dtype: DType, sizes: Iterable[int], name: str = "size"
) -> list[Check]:
    """Return a case for each size, which calls `make` with the type and the size."""
    return [Check(f"{name}:{size}", functools.partial(make, dtype, size)) for size in sizes]


def _listed(checks: Mapping[str, Run] | Callable[[], Iterable[Check]]) -> list[Check]:
    if isinstance(checks, Mapping):
        return [Check(name, run) for name, run in checks.items()]
    return list(checks())


def _kind_of(needs: CaseNeeds | None) -> CaseNeeds | None:
    """Return the kind of a case; cases that differ only in the size of their launch share it."""
    if needs is None:
        return None
    others = {feature for feature in needs.features if not is_size_of_launch(feature)}
    kind = replace(needs, features=frozenset(others))
    return None if kind == kernel_needs() else kind


def unaligned_cases(name: str, kinds: Sequence[Hashable]) -> frozenset[int]:
    """Return the cases of a row, by number, in which every buffer of a kernel begins unaligned.

    These are every other case of each kind, from a first one that the row's name selects. So a
    device meets such a case whichever kinds apply to it. The only case of a kind is always one.
    """
    of_kind: dict[Hashable, list[int]] = defaultdict(list)
    for number, kind in enumerate(kinds):
        of_kind[kind].append(number)
    drawn = zlib.crc32(name.encode())
    return frozenset(
        number for alike in of_kind.values() for number in alike[drawn % min(2, len(alike)) :: 2]
    )


def _run_on(
    run: Callable[[DeviceUnderTest], Measurement],
    rung: Rung,
    all_unaligned: bool,
    device: DeviceUnderTest,
) -> Measurement:
    """Run a case with kernels that use only what lower rungs have shown."""
    return run(device.on_rung(rung, all_unaligned))


def _join_needs(first: CaseNeeds, second: CaseNeeds | None) -> CaseNeeds:
    if second is None:
        return first
    return CaseNeeds(first.dtypes | second.dtypes, first.features | second.features)


def same_bytes(actual: Array, expected: Array, what: str) -> Measurement:
    """Compare two byte arrays; red zones count, so that the comparison is never empty."""
    good = to_bits(actual) == to_bits(expected)
    if bool(good.all()):
        return Measurement(True, compared=max(1, int(expected.size)))
    first = int(np.flatnonzero(~good)[0])
    return Measurement(
        False,
        f"{what}: element {first}: expected {expected[first]}, got {actual[first]}",
        compared=int(expected.size),
    )


def judge_pairs(triples: Iterable[tuple[str, object, object]]) -> Measurement:
    """Compare arrays; each triple has a name, the actual array and the expected one."""
    compared = 0
    for what, actual, expected in triples:
        have, want = np.asarray(actual), np.asarray(expected)
        compared += max(want.size, 1)
        if have.shape != want.shape or not np.array_equal(have, want):
            message = f"{what}: expected {want.reshape(-1)[:4]}, got {have.reshape(-1)[:4]}"
            return Measurement(False, message, compared)
    return Measurement(True, "", compared)
