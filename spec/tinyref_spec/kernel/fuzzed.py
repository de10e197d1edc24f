"""Kernels that a fuzzer made: what meets in them nobody has put together on purpose.

Other rows have what somebody thought of, one thing at a time. These are small kernels of the
fuzzer's policies, chosen for what of the compiler they reach and others do not; the values that
each owes stand beside it in the file, so that nothing that runs says what is right. A list of
optimisations that this device refuses leaves the kernel without: a refusal is as good as the right
value.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinyref.dtype import DType, to_dtype
from tinyref.errors import UserError
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, Run, kernel_needs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest, Optimised, Runnable
from tinyref_spec.error_rules import Ulp
from tinyref_spec.kernel.regressions import legal_opts, measure_case
from tinyref_spec.kernel_case import Array, Case
from tinyref_spec.kernel_case.buffers import buffer_from_json
from tinyref_spec.kernel_case.document import record_from_json
from tinyref_spec.kernel_case.files import read_json
from tinyref_spec.kernel_case.members import read_list, read_object

FILE = Path(__file__).parent.parent / "fuzzed" / "kernels.json"
MAX_ITEMS = 10_000
# Zeros of either sign are equal, and so are NaNs.
RULE = Ulp(0, signed_zero=False)


@dataclass(frozen=True)
class Fuzzed:
    """A line of the file, of which the kernel is not read before it runs.

    policy: that by which it was drawn. number: of its policy. dtypes: all that it computes in.
    """

    policy: str
    number: int
    dtypes: tuple[DType, ...]
    record: Mapping[str, Any]
    wanted: tuple[Mapping[str, Any], ...]

    @functools.cached_property
    def case(self) -> Case:
        """The kernel, its data and its lists of optimisations."""
        return record_from_json(self.record).case

    @functools.cached_property
    def owed(self) -> list[Array]:
        """What each of the written slots holds afterwards, in their order."""
        return [buffer_from_json(each, "wanted") for each in self.wanted]


@functools.cache
def kernels(file: Path = FILE) -> tuple[Fuzzed, ...]:
    """All of them, by policies and numbers. Raises `UserError`."""
    found: defaultdict[str, list[Fuzzed]] = defaultdict(list)
    for item in stored_items(file, ("policy", "dtypes", "case", "wanted")):
        alike = found[item["policy"]]
        used = tuple(map(to_dtype, item["dtypes"]))
        wanted = tuple(item["wanted"])
        alike.append(Fuzzed(item["policy"], len(alike), used, item["case"], wanted))
    return tuple(kernel for policy in sorted(found) for kernel in found[policy])


def stored_items(file: Path, members: Collection[str]) -> list[dict[str, Any]]:
    """The objects in a list of JSON, with these members each. Raises `UserError`."""
    try:
        items = read_list(read_json(file), MAX_ITEMS, "list")
        return [read_object(item, f"item {at}", members) for at, item in enumerate(items)]
    except UserError as error:
        raise UserError(f"{file}: {str(error).removeprefix(f'{file}: ')}") from None


def _measure(
    fuzzed: Fuzzed, kernel: Runnable, case_id: str, device: DeviceUnderTest
) -> Measurement:
    return measure_case(fuzzed.case, kernel, fuzzed.owed, RULE, case_id, device)


def run_plain(fuzzed: Fuzzed, case_id: str, device: DeviceUnderTest) -> Measurement:
    """The kernel without optimisations."""
    return _measure(fuzzed, Optimised(fuzzed.case.ast, ()), case_id, device)


def run_optimised(
    fuzzed: Fuzzed, number: int, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """The kernel with one of its lists of optimisations."""
    case = fuzzed.case
    opts = legal_opts(case, case.opts[number], device)
    return _measure(fuzzed, Optimised(case.ast, opts), case_id, device)


def run_chosen(fuzzed: Fuzzed, case_id: str, device: DeviceUnderTest) -> Measurement:
    """The kernel with the optimisations that the heuristics choose."""
    return _measure(fuzzed, fuzzed.case.ast, case_id, device)


def _checks(alike: Sequence[Fuzzed]) -> Iterator[Check]:
    for fuzzed in alike:
        needs = kernel_needs(*fuzzed.dtypes)
        runs: dict[str, Run] = {"plain": functools.partial(run_plain, fuzzed)}
        for number in range(len(fuzzed.record["opts"])):
            runs[f"opts{number}"] = functools.partial(run_optimised, fuzzed, number)
        runs["heuristics"] = functools.partial(run_chosen, fuzzed)
        for name, run in runs.items():
            yield Check(f":{fuzzed.number}.{name}", run, needs=needs)


def rows() -> Iterator[Row]:
    """A row for each policy of the fuzzer."""
    found: defaultdict[str, list[Fuzzed]] = defaultdict(list)
    for fuzzed in kernels():
        found[fuzzed.policy].append(fuzzed)
    for policy, alike in found.items():
        yield make_row(
            f"kernel.fuzzed.{policy}",
            f"Kernels that a fuzzer drew by its policy {policy} give what they owe.",
            clauses=("kernel.fuzzed",),
            rung=Rung.OPTIMISED,
            op="SINK",
            error_rule=RULE.sentence,
            checks=functools.partial(_checks, alike),
        )
