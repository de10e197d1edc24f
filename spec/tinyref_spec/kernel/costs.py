"""What compiled kernels may cost: accesses, loops, operations, lanes and live values, as recorded.

No value shows that accesses are no longer joined into wide ones, that loads are repeated, that
lanes are put together one by one, or that addresses are no longer simplified. So the kernels of the
legal optimisations are compiled, for the reference device and with each list of optimisations that
the tables say, and kernels of single ops for devices that lack these (`lacking.py`): no heuristics
choose, and nothing runs. Of what constants decide, nothing may be left. The record is `costs.json`;
where a compiler does better, nothing need be done, and `python -m tinyref_spec.kernel.costs` writes
it anew.
"""

from __future__ import annotations

import functools
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tinyref.codegen.compile import compile_kernel
from tinyref.device import Device
from tinyref.optimise.opt import parse_opts
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg
from tinyref.uops.program import Program
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.device_under_test import REFERENCE, DeviceUnderTest
from tinyref_spec.kernel.lacking import DEVICES, Lacking, lacking
from tinyref_spec.kernel.opt_legal import LEGAL, Legal
from tinyref_spec.kernel.opt_tiles import SMALL, SMALL_TILE, Use, plain, planned_on
from tinyref_spec.kernel.opts import features_of, subject_of

PATH = Path(__file__).with_name("costs.json")
# Of a kernel with optimisations another order of a sum is no loss: a quarter more operations are
# accepted, and few. What is made of a single op is what it is.
SLACK, FEW = 4, 1
# Products on a tile, in a loop and without one.
TILED = (Use(plain), *SMALL)
# What takes no register: it is constant, an address that the access computes, or nothing at all.
_FREE = frozenset({Ops.CONST, Ops.SPECIAL, Ops.RANGE, Ops.INDEX, Ops.STORE, Ops.UPDATE_ACC}) | {
    *(Ops.DEFINE_GLOBAL, Ops.DEFINE_LOCAL, Ops.DEFINE_VAR, Ops.BARRIER, Ops.END)
}


@dataclass(frozen=True)
class Cost:
    """How often each stands in a program: an access or an operation of many lanes counts once.

    lanes: nodes that only take lanes or put them together. live: the most values that wait for
    their last use at a time, in the order of the program.
    """

    accesses: int
    loops: int
    operations: int
    lanes: int
    live: int

    def excess_over(self, recorded: Cost, is_exact: bool = False) -> str:
        """What is more than is recorded, in words; "" where nothing is."""
        more = 0 if is_exact else recorded.operations // SLACK + FEW
        problems = [
            f"{found} {what}, {limit} at most are owed"
            for what, found, limit in (
                ("accesses", self.accesses, recorded.accesses),
                ("loops", self.loops, recorded.loops),
                ("operations", self.operations, recorded.operations + more),
                ("lanes taken or joined", self.lanes, recorded.lanes),
                ("values at a time", self.live, recorded.live),
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
        lanes=sum(op in (Ops.GEP, Ops.VECTORIZE) for op in ops),
        live=_most_live(program.uops),
    )


def _most_live(uops: Sequence[UOp]) -> int:
    """The most values that have a user yet to come."""
    last_use = {source: place for place, node in enumerate(uops) for source in node.src}
    values = {node: place for node, place in last_use.items() if node.op not in _FREE}
    ending = Counter(values.values())
    live = most = 0
    for place, node in enumerate(uops):
        live += (node in values) - ending[place]
        most = max(most, live)
    return most


def decided_in(program: Program) -> str:
    """The operations of constants alone, in words; "" where there is none."""
    found = [node.op.name for node in program.uops if node.op in ALU and _is_decided(node)]
    return f"constants decide {', '.join(found)}" if found else ""


def _is_decided(node: UOp) -> bool:
    return all(source.op is Ops.CONST for source in node.src)


def unspecified_in(program: Program) -> str:
    """The first shift by a constant that is as many bits as there are, in words; "" without one.

    What it gives is another value on another device, and the same as a smaller one on some.
    """
    for node in program.uops:
        if node.op in (Ops.SHL, Ops.SHR) and isinstance(node.src[1].arg, ConstArg):
            count = node.src[1].arg.value
            if not 0 <= count < node.dtype.scalar.bits:
                return f"{node.dtype.name} is shifted by {count} bits"
    return ""


@dataclass(frozen=True)
class Costed:
    """A program whose cost is recorded, by its name there. what: the kernel in words."""

    name: str
    what: str
    program: Program
    is_exact: bool = False

    def excess(self) -> str:
        """What is more than is owed, in words; "" where nothing is."""
        # What is made of single ops leaves constants to the device, and nothing to chance.
        problem = unspecified_in(self.program) if self.is_exact else decided_in(self.program)
        recorded = recorded_costs()[self.name]
        return problem or cost_of(self.program).excess_over(recorded, self.is_exact)


def names_of(legal: Legal) -> list[str]:
    """The name of each list of a legal use in the record; those after the first have a number."""
    numbers = range(2, len(legal.uses) + 1)
    return [legal.name, *(f"{legal.name}.{number}" for number in numbers)]


def of_legal(legal: Legal) -> Iterator[Costed]:
    """What the kernel of a legal use compiles to with each list."""
    kernel = subject_of(legal.kernel, legal.dtype).kernel
    for name, (text, _) in zip(names_of(legal), legal.uses, strict=True):
        program = compile_kernel(kernel, Device[REFERENCE].capabilities, opts=parse_opts(text))
        yield Costed(name, f"{legal.kernel} with {text}", program)


def of_tile(use: Use) -> Iterator[Costed]:
    """What a use of a small tile compiles to."""
    capabilities = Device[REFERENCE].capabilities
    plan = planned_on(SMALL_TILE, use, capabilities)
    program = compile_kernel(plan.form.ast, capabilities, opts=plan.opts)
    yield Costed(f"tc.{use.name}", f"{use.name} on {SMALL_TILE.name}", program, is_exact=True)


def of_lacking(each: Lacking) -> Iterator[Costed]:
    """What the kernel of an op compiles to on a device that lacks it."""
    program = compile_kernel(each.kernel(), each.capabilities, opts=())
    yield Costed(each.name, f"an op of {each.name}", program, is_exact=True)


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


def _measure(
    several: Sequence[Callable[[], Iterator[Costed]]], case_id: str, device: DeviceUnderTest
) -> Measurement:
    compared = 0
    for compared, costed in enumerate((each for make in several for each in make()), 1):
        if excess := costed.excess():
            return Measurement(False, f"{costed.what}: {excess}", compared)
    return Measurement(True, compared=compared)


def _row(group: str, sentence: str, checks: Callable[[], list[Check]]) -> Row:
    return make_row(
        f"kernel.cost.{group}",
        sentence,
        ("kernel.cost",),
        Rung.OPTIMISED,
        "",
        "",
        "no more than is recorded",
        kernel_needs(),
        checks,
    )


def rows() -> Iterator[Row]:
    """A row for the kernels of each optimisation, and one for each device that lacks ops."""
    by_group: dict[str, list[Legal]] = {}
    for legal in measurable():
        by_group.setdefault(legal.name.partition(".")[0], []).append(legal)
    for group, several in by_group.items():
        sentence = (
            f"Kernels with {group} have no more accesses, loops and operations than is recorded."
        )
        yield _row(group, sentence, functools.partial(_checks, several))
    sentence = "Kernels on a matrix tile cost no more than is recorded."
    yield _row("tc", sentence, _checks_of_tiles)
    for device in DEVICES:
        sentence = f"What is made of ops for a device of {device} costs no more than is recorded."
        yield _row(f"lacking.{device}", sentence, functools.partial(_checks_of_ops, device))


def _checks(several: list[Legal]) -> list[Check]:
    return [
        Check(
            legal.name.partition(".")[2] or "plain",
            functools.partial(_measure, [functools.partial(of_legal, legal)]),
        )
        for legal in several
    ]


def _checks_of_tiles() -> list[Check]:
    return [
        Check(use.name, functools.partial(_measure, [functools.partial(of_tile, use)]))
        for use in TILED
    ]


def _checks_of_ops(device: str) -> list[Check]:
    by_op: dict[str, list[Callable[[], Iterator[Costed]]]] = {}
    for each in lacking(device):
        op = each.name.split(".")[2]
        by_op.setdefault(op, []).append(functools.partial(of_lacking, each))
    return [Check(op, functools.partial(_measure, several)) for op, several in by_op.items()]


def all_costed() -> Iterator[Costed]:
    """Every program whose cost is recorded."""
    for legal in measurable():
        yield from of_legal(legal)
    for use in TILED:
        yield from of_tile(use)
    for device in DEVICES:
        for each in lacking(device):
            yield from of_lacking(each)


def main() -> None:
    """Writes the record."""
    found = {each.name: asdict(cost_of(each.program)) for each in all_costed()}
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(cost)}" for name, cost in found.items())
    PATH.write_text(f"{{\n{lines}\n}}\n")
    sys.stdout.write(f"{len(found)} costs\n")


if __name__ == "__main__":
    main()
