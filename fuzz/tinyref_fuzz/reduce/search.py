"""The search: a candidate is taken where it is valid, smaller, and fails alike."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Concatenate, ParamSpec

from tinyref.device import Device
from tinyref.errors import TinyrefError
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect
from tinyref.uops.optimise.opt import KernelOptError
from tinyref.uops.optimise.plan import Plan
from tinyref.uops.verify import verify
from tinyref_fuzz.case import Array, Case, Mode, Opts, Pair, Verdict
from tinyref_fuzz.equivalent import Equivalent, transformed
from tinyref_fuzz.reduce.exact import is_exact
from tinyref_fuzz.reduce.fault import is_same_fault
from tinyref_fuzz.reduce.kernel import tidied
from tinyref_fuzz.reduce.measure import Measure, measure, work
from tinyref_fuzz.reduce.opts_fit import fitted
from tinyref_fuzz.tape import Tape

P = ParamSpec("P")
JudgeFunction = Callable[[Case, str], Verdict]

# Where a transformation of the smaller kernel is made: the first places of it.
_SITES = 4
# A smaller case may compute a little more, where a value becomes a buffer.
_SLACK = 16


class OutOfTimeError(Exception):
    """The time is over: what was found so far counts."""


@dataclass
class Search:
    """The smallest case so far, and everything that was tried.

    deadline: of `time.monotonic`. tried: how many candidates were judged.
    """

    case: Case
    verdict: Verdict
    device: str
    judge: JudgeFunction
    deadline: float
    tried: int = 0
    seen: set[bytes] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.size: Measure = measure(self.case)
        self.effort = work(self.case)
        capabilities = Device[self.device].capabilities
        self.capabilities = Device["PYTHON"].capabilities
        self.supported = capabilities.dtypes | capabilities.emulated
        # A kernel that is broken enough may fail these itself: then they say nothing.
        self.checks_exact = self.case.mode is Mode.EXACT and _holds(is_exact, self.case)
        self.checks_opts = False

    def trust_plans(self) -> None:
        """From now on candidates whose optimisations no plan accepts are left out.

        Not where the plan already refuses those of the case: then that is the fault.
        """
        ast, capabilities = self.case.ast, self.capabilities
        self.checks_opts = all(
            _holds(lambda opts: fitted(ast, opts, capabilities) == opts, opts)
            for opts in self.case.opts
        )

    def offer(
        self, change: Callable[Concatenate[Case, P], Case], *args: P.args, **kwargs: P.kwargs
    ) -> bool:
        """Takes what `change` makes of the case where that is smaller and fails alike.

        Raises `OutOfTimeError` at the deadline.
        """
        self.check_time()
        candidate = self.made(lambda: change(self.case, *args, **kwargs))
        if candidate is None:
            return False
        return any(self._accepts(variant) for variant in self._variants(candidate))

    def check_time(self) -> None:
        """Raises `OutOfTimeError` at the deadline."""
        if time.monotonic() >= self.deadline:
            raise OutOfTimeError

    def made(self, make: Callable[[], Case]) -> Case | None:
        """The candidate, or None for one that is no valid kernel."""
        try:
            candidate = tidied(make())
            if work(candidate) > self.effort + _SLACK:
                return None
            verify(Dialect.AST, candidate.ast)
        except Exception:
            # The compiler under test is broken, and movements of views are part of it: whatever
            # goes wrong while a candidate is made, there is none.
            return None
        return candidate

    def _variants(self, candidate: Case) -> Iterator[Case]:
        """The candidate with optimisations that are legal for it, and equivalent kernels."""
        opts = candidate.opts
        if self.checks_opts and opts and candidate.ast is not self.case.ast:
            found = [fitted(candidate.ast, each, self.capabilities) for each in opts]
            opts = tuple(each for each in found if each is not None)
            if len(opts) < len(found):
                return
            candidate = replace(candidate, opts=opts)
        elif self.checks_opts and not all(is_legal(candidate.ast, each, self) for each in opts):
            return
        if candidate.equivalent is None or candidate.equivalent.origin is candidate.ast:
            yield candidate
        else:
            yield from self._transformed(candidate)

    def _transformed(self, candidate: Case) -> Iterator[Case]:
        """The candidate with the last transformation made anew, in each of the first places."""
        assert candidate.equivalent is not None
        label = candidate.equivalent.labels[-1]
        found: set[UOp] = set()
        for site in range(_SITES):
            tape = Tape(choices=(site,) * 3)
            try:
                new = transformed(
                    candidate.ast, label, tape, self.supported, candidate.mode is Mode.EXACT
                )
            except TinyrefError:
                return
            if new is not None and new not in found:
                found.add(new)
                equivalent = Equivalent(candidate.ast, ((label, new),))
                yield replace(candidate, equivalent=equivalent)

    def _accepts(self, candidate: Case) -> bool:
        self.check_time()
        key = case_key(candidate)
        if key in self.seen:
            return False
        self.seen.add(key)
        size = measure(candidate)
        if not size < self.size or not self._is_valid(candidate):
            return False
        self.tried += 1
        verdict = self.judge(candidate, self.device)
        if not is_same_fault(self.verdict, verdict):
            return False
        self.case, self.size, self.verdict = candidate, size, verdict
        self.effort = work(candidate)
        return True

    def _is_valid(self, candidate: Case) -> bool:
        if candidate.mode is not Mode.EXACT:
            return True
        if self.case.mode is Mode.EXACT and not self.checks_exact:
            return True
        return _holds(is_exact, candidate)

    @property
    def is_equivalent(self) -> bool:
        """Whether the fault is between the kernel and its equivalent."""
        return self.verdict.pair is Pair.EQUIVALENT


def is_legal(ast: UOp, opts: Opts, search: Search) -> bool:
    """Whether the plan of a kernel accepts the list; what fails otherwise is left to the judge."""
    try:
        Plan.of(ast, search.capabilities).apply_all(opts)
    except KernelOptError:
        return False
    except Exception:
        return True
    return True


def _holds(check: Callable[P, bool], *args: P.args, **kwargs: P.kwargs) -> bool:
    """What the check says; False where it fails itself, in a compiler that is broken."""
    try:
        return check(*args, **kwargs)
    except Exception:
        return False


def case_key(case: Case) -> bytes:
    """Equal for equal cases: kernels by their nodes, which are the same objects while they live."""
    digest = hashlib.blake2b(digest_size=16)
    trail = case.equivalent.trail if case.equivalent is not None else ()
    kernels = [text_of(case.ast), *(label + text_of(ast) for label, ast in trail)]
    for part in (*kernels, str(case.opts), str(sorted(case.bindings.items())), case.mode.name):
        digest.update(part.encode() + b"\0")
    for buffer in case.buffers:
        digest.update(bytes_of(buffer))
    return digest.digest()


def text_of(ast: UOp) -> str:
    """A kernel as text."""
    from tinyref.uops.text import to_text

    return to_text(ast)


def bytes_of(buffer: Array) -> bytes:
    """Type, size and contents of a buffer."""
    return f"{buffer.dtype.name} {buffer.size} ".encode() + buffer.tobytes()
