"""A case for a terminal: values and stages, the first difference marked, in short lines."""

from __future__ import annotations

from dataclasses import replace

from faults import FAULTS, large_case

from tinyref.uops import build
from tinyref_fuzz.findings.show import difference, side_by_side
from tinyref_fuzz.judge.judge import judge
from tinyref_fuzz.reduce import reduce_case
from tinyref_spec.kernel_case import Blame, Equivalent, KernelCase, KernelVerdict, Pair, Symptom

WIDTH = 100
BY_NAME = {fault.name: fault for fault in FAULTS}


def lines_of(name: str, monkeypatch, blame: Blame, reduces: bool = False) -> list[str]:
    """Return the lines for an injected fault."""
    fault = BY_NAME[name]
    fault.inject(monkeypatch)
    case = large_case(*fault.lists)
    verdict = judge(case, fault.device, thorough=False)
    if reduces:
        reduction = reduce_case(case, verdict, fault.device, 600.0)
        case, verdict = reduction.case, reduction.verdict
    text = side_by_side(case, verdict, fault.device, WIDTH, blame)
    assert text.endswith("\n")
    assert max(map(len, text.splitlines())) <= WIDTH
    assert all(line == line.rstrip() for line in text.splitlines())
    return text.splitlines()


def marked(lines: list[str]) -> list[str]:
    return [line for line in lines if line.lstrip().startswith(">")]


def test_an_optimised_program_stands_next_to_the_plain_one(monkeypatch):
    lines = lines_of("lanes", monkeypatch, Blame("expand", "UPCAST", "seen there"))
    assert lines[0].startswith("fault   OPTIMISED VALUE: ")
    sentence, _, after = "\n".join(lines).partition("\nblame   ")
    assert " ".join(sentence.split()).endswith("; the first wrong stage is expand: UPCAST")
    assert after.startswith("expand: UPCAST\n        seen there\nkernel  ")
    assert any(line.startswith("opts    UPCAST(0, ") for line in lines)
    assert any("plain" in line and "optimised" in line and "b0" in line for line in lines)
    (first,) = (line for line in lines if "the first that differs" in line)
    assert first.startswith("--- lower: ")
    (blamed,) = (line for line in lines if line.endswith("blamed"))
    assert blamed.startswith("--- expand: ")
    assert lines[lines.index(first) + 1].startswith("  @@ ")


def test_a_wrong_device_stands_next_to_the_interpreter(monkeypatch):
    lines = lines_of("tail", monkeypatch, Blame("device"))
    (heading,) = (line for line in lines if line.startswith("values "))
    assert "interpreter" in heading
    assert "faults:LastElementLost" in heading
    assert marked(lines)
    assert "--- linearise: " in "\n".join(lines)


def test_an_error_is_shown_where_it_happens(monkeypatch):
    lines = lines_of("outputs", monkeypatch, Blame("device"))
    (problem,) = (line for line in lines if line.startswith("values "))
    assert problem == (
        "values  faults:NoTwoOutputs fails: DeviceError: PYTHON: the second output does not fit"
    )


def with_equivalent(change) -> KernelCase:
    """Return a case whose equivalent kernel stores `change` of the first output."""
    case = large_case()
    store, *others = case.ast.src
    wrong = build.sink(build.store(store.src[0], change(store.src[1])), *others)
    return replace(case, equivalent=Equivalent(case.ast, (("step", wrong),)))


def test_a_wrong_equivalent_kernel_stands_next_to_the_kernel():
    case = with_equivalent(lambda value: build.add(value, 1.0))
    verdict = KernelVerdict(Pair.EQUIVALENT, Symptom.VALUE, "evaluator, wrong")
    text = side_by_side(case, verdict, "PYTHON", WIDTH, Blame("evaluate"))
    lines = text.splitlines()
    (title,) = [line for line in lines if line.startswith("values  ")]
    assert title.split() == ["values", "b0", "kernel", "equivalent"]
    assert "        4 of 4 elements differ" in lines
    assert any(line.startswith("--- ast: ") for line in lines)


def test_a_difference_is_marked_and_short():
    assert list(difference("a\nb\nc\n", "a\nx\nc\n", 60))[1:] == ["   a", "  -b", "  +x", "   c"]
    assert list(difference("a\n", "a\n", 60)) == []
    lines = list(difference("", "\n".join(map(str, range(500))), 60))
    assert lines[-1] == "  ... 441 lines more"
