"""Kernels of the suite compiled for an architecture of which no device is there.

The kernels are those that the cases ask for before they read a first value, made for what such a
device would declare. That they compile says that the text is of its language and within its limits,
and nothing of what they compute.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tinyref.contract import BatchCompiler, Compiler, CompileTarget
from tinyref.errors import DeviceError, UserError, printable
from tinyref.folders import file_name
from tinyref.formats.text import program_to_text
from tinyref.runtimes.kernel import forget_kernels
from tinyref.runtimes.null import programs_of
from tinyref.uops.program import Program
from tinyref_conformance.budget import telling_order
from tinyref_conformance.plan import make_plan
from tinyref_conformance.queries import EVERYTHING
from tinyref_conformance.suite import Suite
from tinyref_conformance.worker import run_on
from tinyref_spec.case import Case, Profile

# So many texts are compiled in one call, if the compiler takes many.
BATCH = 16


@dataclass(frozen=True)
class RefusedKernel:
    """A kernel that does not compile, the first case that asks for it, and the compiler's words."""

    case: str
    message: str
    source: str


@dataclass
class CompileReport:
    """What was compiled for one architecture: texts that are the same count once."""

    target: str
    cases: int = 0
    kernels: int = 0
    seconds: float = 0.0
    refused: list[RefusedKernel] = field(default_factory=list)

    def text(self) -> str:
        """A line of counts, and the first words of each refusal."""
        counts = (
            f"{self.target}: {self.kernels:,} kernels of {self.cases:,} cases compiled in "
            f"{self.seconds:.0f} s, {len(self.refused):,} of them refused"
        )
        # A compiler that crashes says a page; `write` keeps it.
        lines = [f"  {each.case}: {each.message.splitlines()[0]}" for each in self.refused]
        return "\n".join([counts, *lines, ""])

    def write(self, folder: Path) -> None:
        """The text of each refused kernel as a file, under what the compiler says of it."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, each in enumerate(self.refused):
            path = folder / f"{number}-{file_name(each.case)}.txt"
            path.write_text(printable(f"{each.message}\n\n{each.source}"), encoding="utf-8")


def compile_suite(
    target: CompileTarget,
    query: str = EVERYTHING,
    sample: int = 0,
    jobs: int = 1,
) -> CompileReport:
    """Compiles the kernels of the quick profile for `target`.

    sample: only so many kernels, of the most telling cases first; 0 is all. jobs: how many are
    compiled at a time. Raises `UserError` for a query that
    names no case.
    """
    # What is kept was of another target, maybe, and would be asked for no more.
    forget_kernels()
    report = CompileReport(target.name)
    started = time.perf_counter()

    def compiled(batch: Sequence[_Text]) -> list[tuple[_Text, str]]:
        return list(zip(batch, _problems_of(target, batch), strict=True))

    texts = _texts(target, query, sample, report)
    with ThreadPoolExecutor(jobs) as pool:
        # Not more at a time: all kernels of the profile are hundreds of MB of text.
        while group := list(itertools.islice(texts, BATCH * jobs)):
            batches = [group[start : start + BATCH] for start in range(0, len(group), BATCH)]
            for text, problem in itertools.chain.from_iterable(pool.map(compiled, batches)):
                report.kernels += 1
                if problem:
                    report.refused.append(RefusedKernel(text.case, problem, text.source))
    report.seconds = time.perf_counter() - started
    return report


@dataclass(frozen=True)
class _Text:
    """A source, or the nodes of a program that the renderer refuses and why; and its first case."""

    case: str
    source: str
    problem: str = ""


def _problems_of(target: CompileTarget, texts: Sequence[_Text]) -> list[str]:
    """Why each text does not compile; empty where it does. Together, if the compiler takes many."""
    compiler = target.compiler
    if isinstance(compiler, BatchCompiler) and not any(text.problem for text in texts):
        with contextlib.suppress(DeviceError):
            results = compiler.compile_many([text.source for text in texts])
            return [_words(each) if isinstance(each, DeviceError) else "" for each in results]
    return [text.problem or _problem_of(compiler, text.source) for text in texts]


def _problem_of(compiler: Compiler, source: str) -> str:
    try:
        compiler.compile(source)
    except DeviceError as error:
        return _words(error)
    return ""


def _words(error: DeviceError) -> str:
    return error.message.strip() or "the compiler does not say why"


def _texts(
    target: CompileTarget, query: str, sample: int, report: CompileReport
) -> Iterator[_Text]:
    """Each text once, with the case that asks for it first."""
    seen: set[str] = set()
    for case in _telling_cases(query):
        report.cases += 1
        for program in programs_of(target, functools.partial(run_on, case)):
            text = _rendered(target, program, case)
            if text.source not in seen:
                seen.add(text.source)
                yield text
            if sample and len(seen) == sample:
                return


def _rendered(target: CompileTarget, program: Program, case: Case) -> _Text:
    try:
        return _Text(case.id, target.renderer.render(program))
    except UserError as error:
        return _Text(case.id, program_to_text(program), f"is not rendered: {error}")


def _telling_cases(query: str) -> Iterator[Case]:
    planned = {row.id: row for row in make_plan(Suite(), Profile.QUICK, query).rows}
    for row_id, case_ids in telling_order(planned.values()):
        yield from (case for case in planned[row_id].cases if case.id in case_ids)
