"""Check buckets: one for each cause, whatever else varies."""

from __future__ import annotations

import pytest
from faults import large_case

from tinyref.optimise.opt import parse_opts
from tinyref_fuzz.findings.bucket import bucket_of
from tinyref_fuzz.findings.examine import blame_or_pair
from tinyref_spec.kernel_case import Blame, KernelCase, KernelVerdict, Pair, Symptom
from tinyref_spec.kernels.corpus import corpus_kernels

CORPUS = corpus_kernels()
WRONG = KernelVerdict(Pair.OPTIMISED, Symptom.VALUE, "element 3 of 4 is 1 instead of 0", 0)


def key(
    stage: str, cause: str = "", opts: str = "", verdict: KernelVerdict = WRONG, name="sum-rows"
):
    kernel = CORPUS[name]
    lists = (parse_opts(opts),) if opts else ()
    case = KernelCase(kernel.ast, kernel.buffers(), opts=lists)
    return bucket_of(Blame(stage, cause), case, verdict)


def failing(symptom: Symptom, detail: str = "", pair: Pair = Pair.PLAIN) -> KernelVerdict:
    return KernelVerdict(pair, symptom, detail)


def test_keys_are_short_texts():
    assert key("optimise", "PADTO", "PADTO(0, 3)") == "optimise/PADTO"
    assert key("lower", "PADTO", "PADTO(0, 3)") == "optimise/PADTO"
    assert key("simplify", "mod-of-mod") == "simplify/mod-of-mod"
    assert key("lower") == "lower value {reduce}"
    assert key("device") == "device value {ADD}"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # Amounts, axes and the order are incidental.
        (("optimise", "UPCAST", "UPCAST(0, 2)"), ("optimise", "UPCAST", "UPCAST(1, 4)")),
        (("optimise", "GROUPTOP", "GROUPTOP(1, 2)"), ("optimise", "GROUP", "GROUP(1, 2)")),
        # A rule is one cause, however it fired.
        (("simplify", "rule", "UPCAST(0, 2)"), ("simplify", "rule")),
    ],
)
def test_incidental_differences_share_a_bucket(first, second):
    assert key(*first) == key(*second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("optimise", "PADTO", "PADTO(0, 3)"), ("optimise", "SWAP", "SWAP(0, 1)")),
        (("simplify", "one"), ("simplify", "two")),
        (("device", "", "", WRONG, "sum-rows"), ("device", "", "", WRONG, "matmul-int32")),
        (
            ("lower", "", "", failing(Symptom.ERROR, "VerifyError: indexed.load.1: x")),
            ("lower", "", "", failing(Symptom.ERROR, "VerifyError: indexed.gate.1: x")),
        ),
        (
            ("device", "", "", failing(Symptom.CRASH)),
            ("device", "", "", failing(Symptom.VALUE)),
        ),
    ],
)
def test_other_causes_are_other_buckets(first, second):
    assert key(*first) != key(*second)


# --- examined -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pair", "stage"),
    [
        (Pair.PLAIN, "lower"),
        (Pair.OPTIMISED, "optimise"),
        (Pair.DEVICE, "device"),
        (Pair.EQUIVALENT, "evaluate"),
    ],
)
def test_without_blame_the_pair_names_the_stage(pair, stage):
    def fails(*args):
        raise KeyError("no\nstage")

    blame = blame_or_pair(large_case(), KernelVerdict(pair, Symptom.VALUE), "PYTHON", fails)
    assert (blame.stage, blame.cause) == (stage, "")
    assert "KeyError" in blame.detail
    assert "\n" not in blame.detail
