"""Chooses the fuzzed kernels and programs of the quick suite: `python -m` with this module's name.

Many are drawn, and those kept that reach blocks of the compiler which few of the kept ones reach: a
kernel with the list of optimisations that adds most. What each owes is what the fuzzer's oracle
says, where it has one value for every element on every device: also on one that flushes subnormals,
contracts or reassociates. The files are `tinyref_spec/fuzzed/*.json`; a later state of the
generator would draw others, which is no reason to draw again.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinyref_fuzz.mutants.blocks import Marks, record_into

if TYPE_CHECKING:
    from tinyref.capabilities import Capabilities
    from tinyref.dtype import DType
    from tinyref.optimise.opt import Opt
    from tinyref.uops.node import UOp
    from tinyref_fuzz.judge.oracles import Allowed
    from tinyref_fuzz.programs.steps import Program
    from tinyref_spec.kernel_case import Array, Case
    from tinyref_spec.system.fuzzed import Read

# Kernels of the policies "rules" and "views" are too large.
POLICIES = (
    *("even", "even", "small", "index", "groups", "edges", "vectors", "reduces", "wide"),
    *("matmul", "plans"),
)
# A kernel for every launch of which a device takes long is none for the quick suite.
MAX_NODES, MAX_BUFFERS, MAX_ELEMENTS, MAX_POSITIONS = 70, 8, 256, 8192
MAX_LINES, MAX_CHARACTERS = 30, 3000
_REFERENCE = "PYTHON"
# What the smallest one costs, in nodes or lines.
_LAUNCH = 15

Blocks = frozenset[int]


@dataclass(frozen=True)
class Drawn:
    """What may be kept.

    item: its line of the file. size: nodes or lines, which it costs. base: the blocks that it
    always reaches. lists: of a kernel, the texts of optimisations that it may have, and what each
    of them reaches.
    """

    item: dict[str, Any]
    size: int
    base: Blocks
    lists: tuple[tuple[str, Blocks], ...] = ()


def main() -> None:
    """Writes the two files, or those that are given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kernels", type=int, nargs=2, default=(3000, 160), metavar=("OF", "KEPT"))
    parser.add_argument("--programs", type=int, nargs=2, default=(1500, 64), metavar=("OF", "KEPT"))
    parser.add_argument("--folder", type=Path, help="where the files go: those of the suite")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        # Before anything of the compiler is imported.
        marks = record_into(Path(scratch) / "blocks")
        from tinyref_spec.kernel import fuzzed

        folder = flags.folder or fuzzed.FILE.parent
        many, few = flags.kernels
        kernels = choose(_kernels(marks, flags.seed, many), few)
        _write(folder / "kernels.json", sorted(kernels, key=lambda item: item["policy"]))
        many, few = flags.programs
        programs = choose_programs(_programs(marks, flags.seed, many), few)
        _write(folder / "programs.json", programs)


def _write(file: Path, items: Sequence[dict[str, Any]]) -> None:
    """A list of JSON, each item in a line of its own."""
    from tinyref_spec.kernel_case.files import write_text

    lines = (json.dumps(item, separators=(",", ":"), sort_keys=True) for item in items)
    write_text(file, "[\n" + ",\n".join(lines) + "\n]\n")
    sys.stdout.write(f"{len(items)} in {file}\n")


def choose(drawn: Iterable[Drawn], count: int) -> list[dict[str, Any]]:
    """Lines of the file: one by one what adds most for its cost, a block for the nth time 1/n."""
    waiting, reached = list(drawn), Counter[int]()

    def gain(blocks: Blocks) -> float:
        return sum(1 / (1 + reached[block]) for block in blocks)

    found: list[dict[str, Any]] = []
    while waiting and len(found) < count:
        best = max(waiting, key=lambda each: gain(each.base) / (_LAUNCH + each.size))
        waiting.remove(best)
        found.append(best.item)
        reached.update(best.base)
        if best.lists:
            text, blocks = max(best.lists, key=lambda each: gain(each[1] - best.base))
            reached.update(blocks - best.base)
            found[-1] = best.item | {"case": best.item["case"] | {"opts": [text]}}
    return found


def choose_programs(drawn: Iterable[Drawn], count: int) -> list[dict[str, Any]]:
    """As `choose`: a quarter of those that capture, which reach little more than the others."""
    programs = list(drawn)
    captured = [each for each in programs if any("@TinyJit" in line for line in each.item["text"])]
    others = [each for each in programs if each not in captured]
    return choose(captured, count // 4) + choose(others, count - count // 4)


# --- kernels --------------------------------------------------------------------------------------


def _kernels(marks: Marks, seed: int, count: int) -> Iterator[Drawn]:
    from tinyref_fuzz.campaign.cases import case_at
    from tinyref_fuzz.judge.judge import judge_of

    judge = judge_of(_REFERENCE)
    for number in range(count):
        policy = POLICIES[number % len(POLICIES)]
        case = case_at(judge, seed, number, policy)
        case = dataclasses.replace(case, choices=(), equivalent=None)
        drawn = _drawn_kernel(marks, case, policy)
        if drawn is not None:
            yield drawn
        _tell(number, "kernels")


def _kernel_item(case: Case, policy: str) -> dict[str, Any] | None:
    """Its line, without lists; None of a kernel that is large, or has results within bounds."""
    from tinyref.algebra.kernel_shape import kernel_shape
    from tinyref_fuzz.judge.oracles import Arithmetic, oracle_for
    from tinyref_spec.kernel.regressions import dtypes_of
    from tinyref_spec.kernel_case import CaseRecord, Mode
    from tinyref_spec.kernel_case.buffers import buffer_to_json
    from tinyref_spec.kernel_case.document import record_to_json

    nodes = case.ast.toposort()
    sizes = [tuple(n for n in kernel_shape(each) or () if isinstance(n, int)) for each in nodes]
    is_small = (
        len(nodes) <= MAX_NODES
        and max(map(math.prod, sizes)) <= MAX_POSITIONS
        and len(case.buffers) <= MAX_BUFFERS
        and all(buffer.size <= MAX_ELEMENTS for buffer in case.buffers)
    )
    if case.mode is Mode.FLOAT or not is_small:
        return None
    oracle = oracle_for(case, Arithmetic(flushes=True, contracts=True, reassociates=True))
    allowed = [oracle.allowed[slot] for slot in oracle.slots]
    before = [case.buffers[slot] for slot in oracle.slots]
    if not all(each.is_exact for each in allowed) or not any(map(_differs, before, allowed)):
        return None
    return {
        "policy": policy,
        "dtypes": [dtype.name for dtype in dtypes_of(case.ast)],
        "case": record_to_json(CaseRecord(case)) | {"opts": []},
        "wanted": [buffer_to_json(each.low) for each in allowed],
    }


def _differs(before: Array, allowed: Allowed) -> bool:
    """Whether a slot shows that something was written."""
    return before.tobytes() != allowed.low.tobytes()


def _drawn_kernel(marks: Marks, case: Case, policy: str) -> Drawn | None:
    from tinyref.device import Device
    from tinyref.dtype import dtypes
    from tinyref.errors import UserError
    from tinyref.optimise.opt import KernelOptError, opts_text
    from tinyref_fuzz.judge.expressions.lacks import lacks

    item = _kernel_item(case, policy)
    if item is None:
        return None
    whole, core = Device[_REFERENCE].capabilities, lacks()[0][1]
    core = dataclasses.replace(core, dtypes=core.dtypes | {dtypes.float64})
    try:
        ways = (((), whole), (None, whole), ((), core))
        base = frozenset[int]().union(*(_reached(marks, case.ast, *way) for way in ways))
    except UserError:
        # It has positions or bits that a device of 32 bits refuses.
        return None
    lists = []
    for opts in case.opts:
        with contextlib.suppress(KernelOptError):
            lists.append((opts_text(opts), _reached(marks, case.ast, opts, whole)))
    return Drawn(item, len(case.ast.toposort()), base, tuple(lists))


def _reached(
    marks: Marks, ast: UOp, opts: Sequence[Opt] | None, capabilities: Capabilities
) -> Blocks:
    """What compiling a kernel reaches. Raises as that does."""
    from tinyref.codegen.compile import compile_kernel
    from tinyref_fuzz.judge.caches import forget_case

    forget_case()
    marks.take()
    compile_kernel(ast, capabilities, opts=opts)
    return frozenset(marks.take())


# --- programs -------------------------------------------------------------------------------------


def _programs(marks: Marks, seed: int, count: int) -> Iterator[Drawn]:
    from tinyref_fuzz.campaign.cases import tape_seed
    from tinyref_fuzz.generate.tape import Tape
    from tinyref_fuzz.programs.generator import generate, opening_steps
    from tinyref_fuzz.programs.stateful import generate_stateful, is_stateful

    for number in range(count):
        # Of one device: not every one has a second.
        tape = Tape(seed=tape_seed(seed, number))
        stateful = is_stateful(number)
        program = (
            generate_stateful(tape, 1) if stateful else generate(tape, 1, opening_steps(number))
        )
        drawn = _drawn_program(marks, program)
        if drawn is not None:
            yield drawn
        _tell(number, "programs")


def _drawn_program(marks: Marks, program: Program) -> Drawn | None:
    """A program as it may be kept; None of one that is large, inexact or refused."""
    from tinyref_fuzz.judge.caches import forget
    from tinyref_fuzz.programs.judge import difference, wanted_reads
    from tinyref_fuzz.programs.run import run
    from tinyref_fuzz.programs.script import Places, script_lines
    from tinyref_spec.system.fuzzed import DEVICE

    reads = wanted_reads(program)
    lines = [line.text for line in script_lines(program, Places((DEVICE,)))]
    is_small = len(lines) <= MAX_LINES and sum(map(len, lines)) <= MAX_CHARACTERS
    if not reads or not is_small:
        return None
    forget()
    marks.take()
    with _compiled_types() as used:
        found = run(program, Places((_REFERENCE,)))
    reached = frozenset(marks.take())
    if found.error or difference(program, reads, found):
        return None
    return Drawn(_program_item(lines, reads, used), len(lines), reached)


@contextlib.contextmanager
def _compiled_types() -> Iterator[set[DType]]:
    """The types of the kernels that are compiled in the block."""
    from tinyref.algebra.rewrite import listening
    from tinyref.uops.node import UOp
    from tinyref_spec.kernel.regressions import dtypes_of

    found: set[DType] = set()

    def listen(stage: str, before: object, value: object) -> None:
        if stage == "ast" and isinstance(value, UOp):
            found.update(dtypes_of(value))

    with listening(stages=listen):
        yield found


def _program_item(lines: list[str], reads: Sequence[Read], used: set[DType]) -> dict[str, Any]:
    from tinyref.dtype import from_numpy_dtype
    from tinyref_spec.kernel_case.buffers import buffer_to_json

    types = used | {from_numpy_dtype(read.elements.dtype) for read in reads}
    return {
        "text": lines,
        "dtypes": sorted(dtype.name for dtype in types),
        "reads": [
            {
                "values": buffer_to_json(read.elements.reshape(-1)),
                "shape": list(read.elements.shape),
                "bound": read.bound,
            }
            for read in reads
        ],
    }


def _tell(number: int, what: str) -> None:
    if number % 100 == 99:
        sys.stderr.write(f"{number + 1} {what}\n")


if __name__ == "__main__":
    main()
