"""What compiled kernels may cost: accesses, loops and operations, as many as are recorded or fewer.

No value shows that accesses are no longer joined into wide ones, that loads are repeated, or that
addresses are no longer simplified. So the kernels of the legal optimisations are compiled, for the
reference device and with each list of optimisations that the tables say: no heuristics choose, and
nothing runs. Of what constants decide, nothing may be left. The record is `costs.json`; where a
compiler does better, nothing need be done, and `python -m tinyref_spec.kernel.costs` writes it anew.
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
from tinyref.uops.node import UOp
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


def decided_in(program: Program) -> str:
    """The operations of constants alone, in words; "" where there is none."""
    found = [node.op.name for node in program.uops if node.op in ALU and _is_decided(node)]
    return f"constants decide {', '.join(found)}" if found else ""


def _is_decided(node: UOp) -> bool:
    return all(source.op is Ops.CONST for source in node.src)


def names_of(legal: Legal) -> list[str]:
    """The name of each list of a legal use in the record; those after the first have a number."""
    numbers = range(2, len(legal.uses) + 1)
    return [legal.name, *(f"{legal.name}.{number}" for number in numbers)]


def programs_of(legal: Legal) -> Iterator[tuple[str, str, Program]]:
    """Of each list of a legal use its name in the record, its text, and what it compiles to."""
    kernel = subject_of(legal.kernel, legal.dtype).kernel
    for name, (text, _) in zip(names_of(legal), legal.uses, strict=True):
        opts = parse_opts(text)
        yield name, text, compile_kernel(kernel, Device[REFERENCE].capabilities, opts=opts)


def measurable() -> Iterator[Legal]:
    """The legal uses that the reference device has everything for."""
    declared = Device[REFERENCE].capabilities
    for legal in LEGAL:
        if kernel_needs(features=features_of(legal.uses[0][0])).unmet(declared) is None:
            yield legal


@functools.cache
def recorded_costs() -> Mapping[str, Cost]:
    """The record, by the name of the legal use and the number of its list."""
    return {name: Cost(**cost) for name, cost in json.loads(PATH.read_text()).items()}


def _measure(legal: Legal, case_id: str, device: DeviceUnderTest) -> Measurement:
    compared = 0
    for name, text, program in programs_of(legal):
        compared += 1
        excess = cost_of(program).excess_over(recorded_costs()[name]) or decided_in(program)
        if excess:
            return Measurement(False, f"{legal.kernel} with {text}: {excess}", compared)
    return Measurement(True, compared=compared)


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
    found = {
        name: asdict(cost_of(program))
        for legal in measurable()
        for name, _, program in programs_of(legal)
    }
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(cost)}" for name, cost in found.items())
    PATH.write_text(f"{{\n{lines}\n}}\n")
    sys.stdout.write(f"{len(found)} costs\n")


if __name__ == "__main__":
    main()
