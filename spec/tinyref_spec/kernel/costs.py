"""What compiled kernels may cost: accesses, loops and operations, as many as are recorded or fewer.

No value shows that accesses are no longer joined into wide ones, that loads are repeated, or that
addresses are no longer simplified. So the kernels of the legal optimisations are compiled, for the
reference device and with the optimisations that the tables say: no heuristics choose, and nothing
runs. The record is `costs.json`; where a compiler does better, nothing need be done, and
`python -m tinyref_spec.kernel.costs` writes it anew.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tinyref.codegen.compile import compile_kernel
from tinyref.device import Device
from tinyref.optimise.opt import parse_opts
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.program import Program
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.device_under_test import REFERENCE, DeviceUnderTest
from tinyref_spec.kernel.opt_legal import LEGAL, Legal
from tinyref_spec.kernel.opts import features_of, subject_of

PATH = Path(__file__).with_name("costs.json")
# Operations are many, and another order of a sum is no loss: a quarter more are accepted, and few.
SLACK, FEW = 4, 1


@dataclass(frozen=True)
class Cost:
    """How often each stands in a program: an access or an operation of many lanes counts once."""

    accesses: int
    loops: int
    operations: int

    def excess_over(self, recorded: Cost) -> str:
        """What is more than is recorded, in words; "" where nothing is."""
        most = recorded.operations + recorded.operations // SLACK + FEW
        problems = [
            f"{found} {what}, {limit} at most are owed"
            for what, found, limit in (
                ("accesses", self.accesses, recorded.accesses),
                ("loops", self.loops, recorded.loops),
                ("operations", self.operations, most),
            )
            if found > limit
        ]
        return "; ".join(problems)


def cost_of(program: Program) -> Cost:
    """What stands in a program."""
    ops = [node.op for node in program.uops]
    return Cost(
        accesses=sum(op in (Ops.LOAD, Ops.STORE) for op in ops),
        loops=ops.count(Ops.RANGE),
        operations=sum(op in ALU for op in ops),
    )


def compiled_cost(legal: Legal) -> Cost:
    """The cost of the kernel of a legal use, the first one, on the reference device."""
    opts = parse_opts(legal.uses[0][0])
    kernel = subject_of(legal.kernel, legal.dtype).kernel
    return cost_of(compile_kernel(kernel, Device[REFERENCE].capabilities, opts=opts))


def measurable() -> Iterator[Legal]:
    """The legal uses that the reference device has everything for."""
    declared = Device[REFERENCE].capabilities
    for legal in LEGAL:
        if kernel_needs(features=features_of(legal.uses[0][0])).unmet(declared) is None:
            yield legal


@functools.cache
def recorded_costs() -> Mapping[str, Cost]:
    """The record, by the name of the legal use."""
    return {name: Cost(**cost) for name, cost in json.loads(PATH.read_text()).items()}


def _measure(legal: Legal, case_id: str, device: DeviceUnderTest) -> Measurement:
    excess = compiled_cost(legal).excess_over(recorded_costs()[legal.name])
    message = f"{legal.kernel} with {legal.uses[0][0]}: {excess}" if excess else ""
    return Measurement(not excess, message, compared=1)


def rows() -> Iterator[Row]:
    """A row for the kernels of each optimisation."""
    by_group: dict[str, list[Legal]] = {}
    for legal in measurable():
        by_group.setdefault(legal.name.partition(".")[0], []).append(legal)
    for group, several in by_group.items():
        yield make_row(
            f"kernel.cost.{group}",
            f"Kernels with {group} have no more accesses, loops and operations than is recorded.",
            ("kernel.cost",),
            Rung.OPTIMISED,
            "",
            "",
            "no more than is recorded",
            kernel_needs(),
            functools.partial(_checks, several),
        )


def _checks(several: list[Legal]) -> list[Check]:
    return [
        Check(legal.name.partition(".")[2] or "plain", functools.partial(_measure, legal))
        for legal in several
    ]


def main() -> None:
    """Writes the record."""
    found = {legal.name: asdict(compiled_cost(legal)) for legal in measurable()}
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(cost)}" for name, cost in found.items())
    PATH.write_text(f"{{\n{lines}\n}}\n")
    sys.stdout.write(f"{len(found)} costs\n")


if __name__ == "__main__":
    main()
