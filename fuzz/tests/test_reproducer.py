"""Reproducers show the fault by themselves, in a process of their own; five lines say it all."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from faults import large_case

from tinyref import Context
from tinyref.dtype import dtypes
from tinyref.optimise.opt import parse_opts
from tinyref.uops import build
from tinyref.uops.ops import Ops
from tinyref_fuzz.findings.examine import examine
from tinyref_fuzz.findings.reproducer import MAX_LINES, reproducer, terminal_lines
from tinyref_fuzz.generate.equivalent import equivalents
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.judge import judge
from tinyref_spec.kernel_case import Case, Mode, Pair, Symptom, Verdict
from tinyref_spec.kernels.corpus import corpus_kernels
from tinyref_spec.kernels.notation import kernel_of, load

HERE = Path(__file__).parent
CORPUS = corpus_kernels()


def output_of(script: str, tmp_path: Path) -> str:
    """What a script prints, in a process that knows nothing of this one."""
    file = tmp_path / "reproducer.py"
    file.write_text(script)
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    words = [sys.executable, str(file)]
    done = subprocess.run(
        words, check=False, capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def values_of(output: str) -> list[list]:
    """The lists that a reproducer prints."""
    return [ast.literal_eval(line.partition(": ")[2]) for line in output.splitlines()]


@pytest.mark.long
def test_a_broken_device_shows_its_fault_in_a_process_of_its_own(tmp_path):
    case = large_case()
    device = "faults:ModOffByOne"
    verdict = judge(case, device, thorough=False)
    assert (verdict.pair, verdict.symptom) == (Pair.DEVICE, Symptom.VALUE)
    finding = examine(case, verdict, device, 600.0)
    script = reproducer(finding.case, finding.verdict, device)
    assert script.count("\n") <= MAX_LINES == 40
    output = output_of(script, tmp_path)
    assert "slot 0 interpreter: " in output
    assert "slot 0 faults:ModOffByOne: " in output
    right, wrong = values_of(output)
    assert wrong == [value + 1 for value in right]


def test_a_script_has_the_level_of_the_compiler_that_is_at_fault(tmp_path):
    x, y = np.array([1, 3], np.int32), np.array([1, 1], np.int32)
    value = build.binary(Ops.XOR, load(1, dtypes.int32, (2,)), load(2, dtypes.int32, (2,)))
    case = Case(kernel_of(value, 2), (np.zeros(2, np.int32), x, y))
    device = "faults:WrongWhenHard"
    verdict = judge(case, device, thorough=True)
    assert (verdict.pair, verdict.symptom) == (Pair.DEVICE, Symptom.VALUE)
    assert verdict.detail.endswith("is 1 instead of 0, at CPU_LEVEL=2")
    output = output_of(reproducer(case, verdict, device), tmp_path)
    assert values_of(output) == [[0, 2], [1, 3]]
    with Context(CPU_LEVEL=2):
        # Who has set the level needs no word of it.
        verdict = judge(case, device, thorough=True)
        assert verdict.detail.endswith("is 1 instead of 0")


SCRIPTS = {
    Pair.PLAIN: ("evaluator", "interpreter"),
    Pair.OPTIMISED: ("plain", "optimised"),
    Pair.DEVICE: ("interpreter", "CPU"),
    Pair.EQUIVALENT: ("kernel", "equivalent"),
}


def healthy(name: str, opts: str = "", mode: Mode = Mode.EXACT) -> Case:
    kernel = CORPUS[name]
    case = Case(kernel.ast, kernel.buffers(), opts=(parse_opts(opts),), bindings=kernel.bindings)
    return replace(case, equivalent=equivalents(case.ast, Tape(seed=3), 2), mode=mode)


def run_here(script: str, capsys) -> str:
    capsys.readouterr()
    exec(compile(script, "reproducer.py", "exec"), {})
    return capsys.readouterr().out


@pytest.mark.parametrize("pair", SCRIPTS)
@pytest.mark.parametrize("name", ["sum-rows", "sum-float16", "matmul-int32"])
def test_both_values_are_printed_and_agree_where_nothing_is_wrong(pair, name, capsys):
    case = healthy(name, "UPCAST(0, 2)")
    script = reproducer(case, Verdict(pair, Symptom.VALUE, "injected", 0), "CPU")
    assert script.count("\n") <= MAX_LINES
    output = run_here(script, capsys)
    first, second = SCRIPTS[pair]
    assert f"slot 0 {first}: " in output
    assert f"slot 0 {second}: " in output
    left, right = values_of(output)
    assert left == right
    assert left


def test_the_list_of_the_heuristics_is_written_out(capsys):
    case = replace(healthy("sum-rows"), opts=())
    script = reproducer(case, Verdict(Pair.OPTIMISED, Symptom.VALUE, "", 0), "PYTHON")
    assert 'parse_opts("UNROLL(1, 4) UNROLL(1, 0) LOCAL(0, 4)")' in script
    left, right = values_of(run_here(script, capsys))
    assert left == right


def test_five_lines_for_the_terminal():
    case = healthy("sum-rows", "GROUP(1, 4)")
    verdict = Verdict(Pair.OPTIMISED, Symptom.RACE, "a race\nand more", 0)
    lines = terminal_lines(case, verdict, "/a b/case.json").splitlines()
    assert lines[0] == "fault   OPTIMISED RACE: a race"
    assert lines[1].startswith("kernel  b0:")
    assert lines[2] == "opts    GROUP(1, 4)"
    assert lines[3].startswith("data    b0 = [")
    assert lines[4] == "replay  tinyref fuzz replay '/a b/case.json'"
    assert len(lines) == 5
    assert max(map(len, lines)) <= 100
    plain = terminal_lines(replace(case, opts=()), replace(verdict, trial=-1), "case.json")
    assert plain.splitlines()[2] == "opts    none"
