"""Check that kernels of the suite compile for an architecture, without a device of it.

The kernels are those that cases ask for before they read a first value, made for the capabilities
of such a device. A kernel that compiles is in the right language and within its limits. Nothing is
said about what it computes.
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

# Number of sources in one call of a compiler that takes many.
BATCH = 16


@dataclass(frozen=True)
class RefusedKernel:
    """A kernel that does not compile, the first case that uses it, and the compiler's message."""

    case: str
    message: str
    source: str


@dataclass
class CompileReport:
    """The result for one architecture; equal sources count once."""

    target: str
    cases: int = 0
    kernels: int = 0
    seconds: float = 0.0
    refused: list[RefusedKernel] = field(default_factory=list)

    def text(self) -> str:
        """Return a line of counts, and the first line of each refusal."""
        counts = (
            f"{self.target}: {self.kernels:,} kernels of {self.cases:,} cases compiled in "
            f"{self.seconds:.0f} s, {len(self.refused):,} of them refused"
        )
        # A compiler that crashes may print pages, which `write` stores in full.
        lines = [f"  {one.case}: {one.message.splitlines()[0]}" for one in self.refused]
        return "\n".join([counts, *lines, ""])

    def write(self, folder: Path) -> None:
        """Write a file for each refused kernel: the compiler's message, then the source."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, kernel in enumerate(self.refused):
            path = folder / f"{number}-{file_name(kernel.case)}.txt"
            path.write_text(printable(f"{kernel.message}\n\n{kernel.source}"), encoding="utf-8")


def compile_suite(
    target: CompileTarget,
    query: str = EVERYTHING,
    sample: int = 0,
    jobs: int = 1,
) -> CompileReport:
    """Compile the kernels of the quick profile for `target`.

    sample: number of kernels, from the cases that tell most; 0 for all. jobs: number of compilers
    that run at a time. Raises `UserError` for a query that names no case.
    """
    # Stored kernels may be for another target, and would not be asked for again.
    forget_kernels()
    report = CompileReport(target.name)
    started = time.perf_counter()

    def compiled(batch: Sequence[_Text]) -> list[tuple[_Text, str]]:
        return list(zip(batch, _problems_of(target, batch), strict=True))

    texts = _texts(target, query, sample, report)
    with ThreadPoolExecutor(jobs) as pool:
        # The kernels of the profile are hundreds of MB of text, so only a few are held at a time.
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
    """A source, or a program's nodes and the error of the renderer; with its first case."""

    case: str
    source: str
    problem: str = ""


def _problems_of(target: CompileTarget, texts: Sequence[_Text]) -> list[str]:
    """Return why each text does not compile, or an empty text; in one call if possible."""
    compiler = target.compiler
    if isinstance(compiler, BatchCompiler) and not any(text.problem for text in texts):
        with contextlib.suppress(DeviceError):
            results = compiler.compile_many([text.source for text in texts])
            return [_words(result) if isinstance(result, DeviceError) else "" for result in results]
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
    """Yield each text once, with the first case that uses it."""
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
