"""The search: a candidate is taken where it is valid, smaller, and fails alike."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import Concatenate, ParamSpec

from tinyref.device import Device
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect
from tinyref.verify import verify
from tinyref_fuzz.generate.equivalent import transform
from tinyref_fuzz.generate.optimisations import on_fixed_machine
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.reduce.exact import is_exact
from tinyref_fuzz.reduce.fault import is_same_fault
from tinyref_fuzz.reduce.kernel import tidy
from tinyref_fuzz.reduce.measure import Measure, measure, work
from tinyref_fuzz.reduce.opts_fit import fit_opts
from tinyref_spec.kernel_case import Case, Equivalent, Mode, Verdict

P = ParamSpec("P")
Key = tuple[Hashable, ...]
JudgeFunction = Callable[[Case, str], Verdict]

# Where a transformation of the smaller kernel is made: the first places of it.
_SITES = 4
# Members of a measure before those of optimisations.
_WITHOUT_AMOUNTS = 8


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
    seen: set[Key] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.size: Measure = measure(self.case)
        # No candidate takes much longer than the case that came in.
        self.limit = 2 * work(self.case)
        self.seen.add(case_key(self.case))
        # Those with which the judge compiles: what is legal for one device is not for another.
        self.capabilities = on_fixed_machine(Device[self.device].capabilities)
        self.supported = self.capabilities.dtypes | self.capabilities.emulated
        # A kernel that is broken enough may fail these itself: then they say nothing.
        self.checks_exact = self.case.mode is Mode.EXACT and _holds(is_exact, self.case)
        self.checks_opts = False

    def trust_plans(self) -> None:
        """From now on candidates whose optimisations no plan accepts are left out.

        Not where the plan already refuses those of the case: then that is the fault.
        """
        ast, capabilities = self.case.ast, self.capabilities
        self.checks_opts = all(
            _holds(lambda opts: fit_opts(ast, opts, capabilities) == opts, opts)
            for opts in self.case.opts
        )

    def offer(
        self, change: Callable[Concatenate[Case, P], Case], *args: P.args, **kwargs: P.kwargs
    ) -> bool:
        """Takes what `change` makes of the case where that is smaller and fails alike.

        Raises `OutOfTimeError` at the deadline.
        """
        self.check_time()
        candidate = self._make(lambda: change(self.case, *args, **kwargs))
        if candidate is None:
            return False
        return any(self._accepts(variant) for variant in self._variants(candidate))

    def check_time(self) -> None:
        """Raises `OutOfTimeError` at the deadline."""
        if time.monotonic() >= self.deadline:
            raise OutOfTimeError

    def _make(self, make: Callable[[], Case]) -> Case | None:
        """The candidate, or None for one that is no valid kernel, not new, or not smaller."""
        try:
            candidate = tidy(make())
            if not self._is_new(candidate) or work(candidate) > self.limit:
                return None
            # Optimisations are still to be fitted, the last members may become smaller.
            if measure(candidate)[:_WITHOUT_AMOUNTS] > self.size[:_WITHOUT_AMOUNTS]:
                return None
            verify(Dialect.AST, candidate.ast)
        except Exception:
            # The compiler under test is broken, and movements of views are part of it: whatever
            # goes wrong while a candidate is made, there is none.
            return None
        return candidate

    def _is_new(self, candidate: Case) -> bool:
        """Whether the case was not looked at before; it is noted."""
        key = case_key(candidate)
        is_new = key not in self.seen
        self.seen.add(key)
        return is_new

    def _variants(self, candidate: Case) -> Iterator[Case]:
        """The candidate with optimisations that are legal for it, and equivalent kernels."""
        fitting = self._with_legal_opts(candidate)
        if fitting is None:
            return
        if fitting is not candidate and not self._is_new(fitting):
            return
        candidate = fitting
        if candidate.equivalent is None or candidate.equivalent.origin is candidate.ast:
            yield candidate
        else:
            yield from self._transform_again(candidate)

    def _with_legal_opts(self, candidate: Case) -> Case | None:
        """The candidate with its optimisations as the plan of its kernel accepts them."""
        if not self.checks_opts or not candidate.opts:
            return candidate
        if candidate.ast is self.case.ast and candidate.opts == self.case.opts:
            return candidate
        try:
            fits = [fit_opts(candidate.ast, each, self.capabilities) for each in candidate.opts]
        except Exception:
            # Plans may be what is broken: the judge will see.
            return candidate
        opts = tuple(each for each in fits if each is not None)
        if opts == candidate.opts:
            return candidate
        return replace(candidate, opts=opts) if len(opts) == len(fits) else None

    def _transform_again(self, candidate: Case) -> Iterator[Case]:
        """The candidate with the last transformation made anew, in each of the first places."""
        assert candidate.equivalent is not None
        label = candidate.equivalent.labels[-1]
        found: set[UOp] = set()
        for site in range(_SITES):
            tape = Tape(choices=(site,) * 3)
            try:
                exact = candidate.mode is Mode.EXACT
                new = transform(
                    candidate.ast, label, tape, self.supported, exact, self.capabilities
                )
            except Exception:
                # Transformations move views, which may be what is broken.
                return
            if new is not None and new not in found:
                found.add(new)
                equivalent = Equivalent(candidate.ast, ((label, new),))
                yield replace(candidate, equivalent=equivalent)

    def _accepts(self, candidate: Case) -> bool:
        self.check_time()
        size = measure(candidate)
        if not size < self.size or not self._is_valid(candidate):
            return False
        self.tried += 1
        verdict = self.judge(candidate, self.device)
        if not is_same_fault(self.verdict, verdict):
            return False
        self.case, self.size, self.verdict = candidate, size, verdict
        return True

    def _is_valid(self, candidate: Case) -> bool:
        if candidate.mode is not Mode.EXACT:
            return True
        if self.case.mode is Mode.EXACT and not self.checks_exact:
            return True
        return _holds(is_exact, candidate)


def _holds(check: Callable[P, bool], *args: P.args, **kwargs: P.kwargs) -> bool:
    """What the check says; False where it fails itself, in a compiler that is broken."""
    try:
        return check(*args, **kwargs)
    except Exception:
        return False


def case_key(case: Case) -> Key:
    """Equal for equal cases: equal kernels are one object, which the key keeps alive."""
    digest = hashlib.blake2b(digest_size=16)
    for buffer in case.buffers:
        digest.update(f"{buffer.dtype.name} {buffer.size} ".encode() + buffer.tobytes())
    bindings = tuple(sorted(case.bindings.items()))
    return case.ast, case.equivalent, case.opts, bindings, case.mode, digest.digest()
