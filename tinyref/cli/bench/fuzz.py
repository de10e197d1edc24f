"""How many optimised kernels the fuzzer judges in a second of one core."""

from __future__ import annotations

import time
from dataclasses import dataclass

# Enough kernels that a few slow ones do not decide the number.
CASES = 40


@dataclass(frozen=True)
class JudgedCases:
    """What a run of the fuzzer's inner loop took, in seconds of one core, and what it judged."""

    optimised: int
    cases: int
    seconds: float

    @property
    def rate(self) -> float:
        """Optimised kernels judged per second and core, generating them included."""
        return self.optimised / self.seconds


def judged_cases(device: str, first: int, count: int = CASES) -> JudgedCases:
    """Generates and judges the cases of `count` seeds from `first` on, as a campaign does.

    Raises `DeviceError` where a case does not agree: then the time says nothing.
    """
    from tinyref.errors import DeviceError
    from tinyref_fuzz.generate.generate import generate
    from tinyref_fuzz.generate.tape import Tape
    from tinyref_fuzz.judge.judge import Judge

    judge = Judge(device)
    optimised = 0
    # Of this process alone: what else the machine does is not the fuzzer's cost.
    start = time.process_time()
    for seed in range(first, first + count):
        verdict = judge.verdict(generate(Tape(seed=seed), judge.capabilities))
        if not verdict.agrees:
            raise DeviceError(device, f"fuzz: the case of seed {seed}: {verdict.detail}")
        optimised += verdict.judged
    return JudgedCases(optimised, count, time.process_time() - start)
