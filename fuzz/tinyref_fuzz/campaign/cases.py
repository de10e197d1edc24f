"""Generate and judge the numbered cases of a campaign.

Case `number` of `seed` is one tape. It depends only on these two, the device, the policy, and the
version of the code, and not on other cases.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import TypeVar

from tinyref.errors import UserError, explain_error
from tinyref_fuzz.campaign.results import DEFAULT_POLICY, CampaignCase
from tinyref_fuzz.generate.corpus.collection import kernels_from_json
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.mutate import MAX_POSITIONS, fitting
from tinyref_fuzz.generate.policies import opening, policy_named
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.judge import Judge, judge_of, verdict_of
from tinyref_spec.kernel_case import KernelCase, KernelVerdict, Pair, Symptom
from tinyref_spec.kernels.family import CorpusKernel

Case = TypeVar("Case")


def tape_seed(seed: int, number: int) -> int:
    """Return the seed of the tape of case `number`; seeds of neighbours are unrelated."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{number}".encode(), digest_size=8).digest())


def kernels_for(judge: Judge, collection: str) -> tuple[CorpusKernel, ...]:
    """Return the kernels of a collection that the judge's device runs; none for an empty text.

    Raises `UserError` for a bad collection, and if no kernel remains.
    """
    if not collection:
        return ()
    kernels = kernels_from_json(json.loads(collection))
    accepted = fitting(kernels, judge.capabilities)
    if not accepted:
        raise UserError(
            f"harvested: none of {len(kernels)} kernels has only types of the device and at most "
            f"{MAX_POSITIONS:,} positions"
        )
    return accepted


def case_at(
    judge: Judge,
    seed: int,
    number: int,
    policy: str = DEFAULT_POLICY,
    kernels: tuple[CorpusKernel, ...] = (),
) -> KernelCase:
    """Return case `number` for the judge's device; its form `real` draws from `kernels`, if any.

    Raises `UserError` for an unknown policy.
    """
    tape = Tape(seed=tape_seed(seed, number))
    chosen = replace(opening(policy_named(policy), number), kernels=kernels)
    return generate(tape, judge.capabilities, chosen)


def judge_cases(
    device: str,
    seed: int,
    policy: str = DEFAULT_POLICY,
    start: int = 0,
    collection: str = "",
) -> Iterator[tuple[int, KernelCase, KernelVerdict, float]]:
    """Yield the cases from number `start` on without end: number, case, verdict, and seconds.

    `collection` is an argument of `kernels_for`. The cases run in this process, so a crash or a
    hang ends it. Raises the errors of `judge_of`, `kernels_for` and `case_at`.
    """
    judge = judge_of(device)
    kernels = kernels_for(judge, collection)
    for number in count(start):
        began = time.perf_counter()
        case = case_at(judge, seed, number, policy, kernels)
        verdict = verdict_of(judge, case)
        yield number, case, verdict, time.perf_counter() - began


def result_of(
    judge: Judge, seed: int, number: int, policy: str, kernels: tuple[CorpusKernel, ...] = ()
) -> CampaignCase:
    """Generate and judge case `number`."""
    return judged_result(
        number,
        lambda: case_at(judge, seed, number, policy, kernels),
        lambda case: verdict_of(judge, case),
    )


def judged_result(
    number: int, make: Callable[[], Case], judge: Callable[[Case], KernelVerdict]
) -> CampaignCase:
    """Return the result of `make`, timed and judged."""
    began = time.perf_counter()
    try:
        case = make()
    except Exception as error:  # a failing generator is a bug too, and costs one case
        detail = f"while generating: {explain_error(error)}"
        verdict = KernelVerdict(Pair.PLAIN, Symptom.ERROR, detail)
    else:
        verdict = judge(case)
    return CampaignCase(
        number=number,
        seconds=round(time.perf_counter() - began, 4),
        judged=verdict.judged,
        verdict=None if verdict.agrees else verdict,
    )
