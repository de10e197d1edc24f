"""The numbered cases of a campaign, made and judged.

Case `number` of `seed` is one tape, so it can be made again from these two, the device, the policy,
its guide and the version of the code; nothing else of another case goes into it.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, count
from typing import TypeVar

from tinyref.algebra.rewrite import counting_rules
from tinyref.errors import UserError, explain_error
from tinyref_fuzz.campaign.results import DEFAULT_POLICY, CaseResult, Guide
from tinyref_fuzz.generate.corpus.collection import kernels_from_json
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.mutate import MAX_POSITIONS, fitting
from tinyref_fuzz.generate.policies import opening, policy_named
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.judge import Judge, judge_of, verdict_of
from tinyref_spec.kernel_case import Case, Opts, Pair, Symptom, Verdict
from tinyref_spec.kernels.family import CorpusKernel

Made = TypeVar("Made")


def tape_seed(seed: int, number: int) -> int:
    """The seed of the tape of case `number`: neighbours have nothing in common."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{number}".encode(), digest_size=8).digest())


def kernels_for(judge: Judge, collection: str) -> tuple[CorpusKernel, ...]:
    """The kernels in the text of a collection that the judge's device runs; none of an empty text.

    Raises `UserError` for what is no collection, and where no kernel is left.
    """
    if not collection:
        return ()
    found = kernels_from_json(json.loads(collection))
    kernels = fitting(found, judge.capabilities)
    if not kernels:
        raise UserError(
            f"harvested: none of {len(found)} kernels is of types of the device and of at most "
            f"{MAX_POSITIONS:,} positions"
        )
    return kernels


def case_at(
    judge: Judge,
    seed: int,
    number: int,
    policy: str = DEFAULT_POLICY,
    guide: Guide | None = None,
    kernels: tuple[CorpusKernel, ...] = (),
) -> Case:
    """Case `number` for the judge's device, its form `real` of `kernels` where there are some.

    Raises `UserError` for an unknown policy.
    """
    tape = Tape(seed=tape_seed(seed, number))
    chosen = replace(opening(policy_named(policy), number), kernels=kernels)
    return generate(tape, judge.capabilities, chosen)


def no_guide(number: int) -> None:
    """No guide, whatever the number."""


def judge_cases(
    device: str,
    seed: int,
    policy: str = DEFAULT_POLICY,
    start: int = 0,
    guide_of: Callable[[int], Guide | None] = no_guide,
    collection: str = "",
) -> Iterator[tuple[int, Case, Verdict, float]]:
    """The cases from number `start` on without end: number, case, verdict, and seconds it took.

    guide_of: the guide by the number of a case. collection: as of `kernels_for`. In this process:
    what crashes or hangs takes it down. Raises as `judge_of`, `kernels_for` and `case_at`.
    """
    judge = judge_of(device)
    kernels = kernels_for(judge, collection)
    for number in count(start):
        began = time.perf_counter()
        case = case_at(judge, seed, number, policy, guide_of(number), kernels)
        verdict = verdict_of(judge, case)
        yield number, case, verdict, time.perf_counter() - began


def result_of(
    judge: Judge,
    seed: int,
    number: int,
    policy: str,
    guide: Guide | None = None,
    kernels: tuple[CorpusKernel, ...] = (),
) -> CaseResult:
    """Makes and judges case `number`, and counts what it reached."""
    return counted_result(
        number,
        lambda: case_at(judge, seed, number, policy, guide, kernels),
        lambda case: pairs_of(case.opts),
        lambda case: verdict_of(judge, case),
    )


def counted_result(
    number: int,
    make: Callable[[], Made],
    count_pairs: Callable[[Made], Counter[str]],
    judge: Callable[[Made], Verdict],
) -> CaseResult:
    """What `make` gives, timed and judged, with the rules that fired and its pairs."""
    began = time.perf_counter()
    pairs: Counter[str] = Counter()
    with counting_rules() as fired:
        try:
            case = make()
        except Exception as error:  # a generator that fails is a bug as well, and costs one case
            detail = f"while generating: {explain_error(error)}"
            verdict = Verdict(Pair.PLAIN, Symptom.ERROR, detail)
        else:
            pairs = count_pairs(case)
            verdict = judge(case)
    return CaseResult(
        number=number,
        seconds=round(time.perf_counter() - began, 4),
        judged=verdict.judged,
        rules=dict(fired),
        pairs=dict(pairs),
        verdict=None if verdict.agrees else verdict,
    )


def pairs_of(lists: Sequence[Opts]) -> Counter[str]:
    """How many lists have an optimisation of one kind before one of another: `UPCAST LOCAL`."""
    found: Counter[str] = Counter()
    for opts in lists:
        ops = [opt.op.name for opt in opts]
        found.update({f"{first} {second}" for first, second in combinations(ops, 2)})
    return found
