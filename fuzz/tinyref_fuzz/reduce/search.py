"""Search for a smaller case: accept a candidate if it is valid, smaller, and fails alike."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Concatenate, ParamSpec

from tinyref.device import Device
from tinyref.optimise.plan import Plan
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect
from tinyref.verify import verify
from tinyref_fuzz.generate.optimisations import on_fixed_machine
from tinyref_fuzz.judge.oracles import oracle_for
from tinyref_fuzz.reduce.fault import is_same_fault
from tinyref_fuzz.reduce.kernel import tidy
from tinyref_fuzz.reduce.measure import Measure, measure, work
from tinyref_spec.kernel_case import KernelCase, KernelVerdict, Mode, Opts

P = ParamSpec("P")
Key = tuple[Hashable, ...]
JudgeFunction = Callable[[KernelCase, str], KernelVerdict]


class OutOfTimeError(Exception):
    """End of the time limit: the best case so far is the result."""


@dataclass
class Search:
    """The smallest case so far, and everything that was tried."""

    case: KernelCase
    verdict: KernelVerdict
    device: str
    judge: JudgeFunction
    deadline: float
    """In seconds of `time.monotonic`."""
    tried: int = 0
    """The number of candidates that were judged."""
    seen: set[Key] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.size: Measure = measure(self.case)
        # No candidate may take much longer than the original case.
        self.limit = 2 * work(self.case)
        self.seen.add(_case_key(self.case))
        # The check itself fails for some faulty kernels; then it is not used.
        self.checks_exact = self.case.mode is Mode.EXACT and is_exact(self.case)
        self.capabilities = on_fixed_machine(Device[self.device].capabilities)
        # If the plan already refuses the optimisations of the case, that is the fault.
        self.fits_opts = all(self.fitting(self.case.ast, opts) == opts for opts in self.case.opts)

    def offer(
        self,
        change: Callable[Concatenate[KernelCase, P], KernelCase],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> bool:
        """Accept what `change` makes of the case if that is smaller and fails alike.

        Returns True if it was accepted. Raises `OutOfTimeError` at the deadline.
        """
        if time.monotonic() >= self.deadline:
            raise OutOfTimeError
        candidate = self._make(lambda: change(self.case, *args, **kwargs))
        if candidate is None or (self.checks_exact and not is_exact(candidate)):
            return False
        self.tried += 1
        verdict = self.judge(candidate, self.device)
        if not is_same_fault(self.verdict, verdict):
            return False
        self.case, self.size, self.verdict = candidate, measure(candidate), verdict
        return True

    def _make(self, make: Callable[[], KernelCase]) -> KernelCase | None:
        """Return the candidate, or None if it is invalid, already tried, or not smaller."""
        try:
            candidate = tidy(make())
            if self.fits_opts:
                fitting = (self.fitting(candidate.ast, opts) for opts in candidate.opts)
                candidate = replace(candidate, opts=tuple(fitting))
            key = _case_key(candidate)
            if key in self.seen or work(candidate) > self.limit:
                return None
            self.seen.add(key)
            if not measure(candidate) < self.size:
                return None
            verify(Dialect.AST, candidate.ast)
        except Exception:
            # The compiler under test is faulty, including its movements of views. If it fails while
            # a candidate is made, there is no candidate.
            return None
        return candidate

    def fitting(self, ast: UOp, opts: Opts) -> Opts:
        """Return the list, with smaller axes and amounts of 2 where a plan requires that.

        The list ends before an optimisation that no plan accepts.
        """
        accepted: Opts = ()
        with contextlib.suppress(Exception):  # plans may be faulty
            plan = Plan.of(ast, self.capabilities)
            for opt in opts:
                axes = range(opt.axis, -1, -1) if opt.spec.has_axis else (opt.axis,)
                near = [replace(opt, arg=arg, axis=axis) for arg in (opt.arg, 2) for axis in axes]
                chosen = next(filter(plan.legal, near))
                plan = plan.apply(chosen)
                accepted = (*accepted, chosen)
        return accepted


def is_exact(case: KernelCase) -> bool:
    """Return True if each element has one value, for any order of its sums."""
    try:
        oracle = oracle_for(replace(case, mode=Mode.FLOAT))
    except Exception:  # the evaluator may be faulty
        return False
    return all(allowed.is_exact for allowed in oracle.allowed.values())


def _case_key(case: KernelCase) -> Key:
    """Return a key that is equal for equal cases; it holds the kernel, which is unique."""
    digest = hashlib.blake2b(digest_size=16)
    for buffer in case.buffers:
        digest.update(f"{buffer.dtype.name} {buffer.size} ".encode() + buffer.tobytes())
    bindings = tuple(sorted(case.bindings.items()))
    return case.ast, case.equivalent, case.opts, bindings, digest.digest()
