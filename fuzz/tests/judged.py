"""Cases of the corpus, and the judge's verdict on them."""

from __future__ import annotations

from tinyref.optimise.opt import parse_opts
from tinyref_fuzz.judge.judge import judge
from tinyref_spec.kernel_case import KernelCase, Mode, Pair, Symptom
from tinyref_spec.kernels.corpus import corpus_kernels

CORPUS = corpus_kernels()


def case_of(name: str, *opts: str, mode: Mode = Mode.EXACT) -> KernelCase:
    """Return a kernel of the corpus with lists of optimisations."""
    kernel = CORPUS[name]
    lists = tuple(parse_opts(text) for text in opts)
    return KernelCase(kernel.ast, kernel.buffers(), opts=lists, bindings=kernel.bindings, mode=mode)


def pair_and_symptom(
    case: KernelCase, device: str, thorough: bool | None = True
) -> tuple[Pair | None, Symptom | None]:
    verdict = judge(case, device, thorough)
    assert bool(verdict.detail) != verdict.agrees
    assert "\n" not in verdict.detail
    return verdict.pair, verdict.symptom


GROUPED = case_of("sum-rows", "GROUP(1, 4)")
ELEMENTWISE = case_of("multiply-add-int32", "UPCAST(0, 2)")
