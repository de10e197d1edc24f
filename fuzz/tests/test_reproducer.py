"""Reproducers fail in their own process while the fault is there; four lines summarise it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from faults import FAULTS, large_case

from tinyref import config
from tinyref.cli.entry import run
from tinyref.dtype import dtypes
from tinyref.optimise.opt import parse_opts
from tinyref.uops import build
from tinyref.uops.ops import Ops
from tinyref_fuzz.findings.one_line import failing_kernel_line
from tinyref_fuzz.findings.reproducer import reproducer, terminal_lines
from tinyref_fuzz.generate.equivalent import equivalents
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.judge import judge
from tinyref_spec.kernel_case import (
    Blame,
    CaseRecord,
    Equivalent,
    KernelCase,
    KernelVerdict,
    Mode,
    Pair,
    Symptom,
)
from tinyref_spec.kernel_case.document import record_text
from tinyref_spec.kernels.corpus import corpus_kernels
from tinyref_spec.kernels.notation import kernel_of, load, store
from tinyref_spec.reproducer import MAX_LINES

HERE = Path(__file__).parent
CORPUS = corpus_kernels()


def healthy(name: str, opts: str = "") -> KernelCase:
    kernel = CORPUS[name]
    case = KernelCase(
        kernel.ast, kernel.buffers(), opts=(parse_opts(opts),), bindings=kernel.bindings
    )
    return replace(case, equivalent=equivalents(case.ast, Tape(seed=3), 2))


def run_here(script: str, capsys, monkeypatch) -> tuple[object, str]:
    """Return the exit code and the output of a script in this process."""
    assert script.count("\n") < MAX_LINES == 40
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", ["script.py", "--in-this-process"])
    # The variables that it sets are only for the process of a script.
    text = re.sub(r"^os\.environ\.update.*$", "", script, flags=re.M)
    with pytest.raises(SystemExit) as ended:
        exec(compile(text, "reproducer.py", "exec"), {})
    return ended.value.code, capsys.readouterr().out


def test_a_script_distinguishes_a_faulty_device(tmp_path):
    case, device = large_case(), "faults:ModOffByOne"
    verdict = judge(case, device, thorough=False)
    script = reproducer(case, verdict, device)
    file = tmp_path / "reproducer.py"
    for name, code, words in (
        (device, 1, "the first node that differs is MOD"),
        ("CPU", 0, "right"),
    ):
        file.write_text(script.replace(device, name))
        environment = {**os.environ, "PYTHONPATH": str(HERE)}
        command = [sys.executable, str(file)]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, env=environment, cwd=tmp_path
        )
        assert (done.returncode, done.stderr) == (code, "")
        assert words in done.stdout


def test_a_script_has_the_level_of_the_compiler_that_is_at_fault():
    x, y = np.array([1, 3], np.int32), np.array([1, 1], np.int32)
    value = build.binary(Ops.XOR, load(1, dtypes.int32, (2,)), load(2, dtypes.int32, (2,)))
    case = KernelCase(kernel_of(value, 2), (np.zeros(2, np.int32), x, y))
    verdict = judge(case, "faults:WrongWhenHard", thorough=True)
    assert verdict.detail.endswith("is 1, the reference gives 0, at CPU_LEVEL=2")
    assert "'TINYREF_CPU_LEVEL': '2'" in reproducer(case, verdict, "faults:WrongWhenHard")


@pytest.mark.parametrize("name", ["lanes", "maximum"])
def test_a_script_shows_a_fault_of_the_compiler(name, capsys, monkeypatch):
    fault = next(fault for fault in FAULTS if fault.name == name)
    with monkeypatch.context() as patch:
        fault.inject(patch)
        case = large_case(*fault.lists)
        script = reproducer(case, judge(case, fault.device, thorough=False), fault.device)
        assert run_here(script, capsys, monkeypatch)[0] == 1
    assert run_here(script, capsys, monkeypatch) == (0, "right\n")


def test_an_error_of_the_device_is_wrong(capsys, monkeypatch):
    case, device = large_case(), "faults:NoTwoOutputs"
    script = reproducer(case, judge(case, device, thorough=False), device)
    code, output = run_here(script, capsys, monkeypatch)
    assert code == 1
    assert "the second output does not fit" in output


def test_a_wrong_equivalent_kernel_is_launched(capsys, monkeypatch):
    case = large_case()
    store, *others = case.ast.src
    wrong = build.sink(build.store(store.src[0], build.add(store.src[1], 1.0)), *others)
    case = replace(case, equivalent=Equivalent(case.ast, (("step", wrong),)))
    script = reproducer(
        case, KernelVerdict(Pair.EQUIVALENT, Symptom.VALUE, "evaluator, wrong"), "PYTHON"
    )
    assert run_here(script, capsys, monkeypatch)[0] == 1


PAIRS = [
    KernelVerdict(Pair.PLAIN, Symptom.VALUE, 'say "so" \\'),
    KernelVerdict(Pair.OPTIMISED, Symptom.VALUE, "a\nb", 0),
    KernelVerdict(Pair.DEVICE, Symptom.VALUE, "", 0),
    KernelVerdict(Pair.EQUIVALENT, Symptom.VALUE, "device, wrong"),
]


@pytest.mark.parametrize("verdict", PAIRS, ids=lambda verdict: verdict.pair.name)
@pytest.mark.parametrize("name", ["sum-rows", "sum-float16", "matmul-int32"])
def test_a_script_without_a_fault_succeeds(name, verdict, capsys, monkeypatch):
    script = reproducer(healthy(name, "UPCAST(0, 2)"), verdict, "CPU")
    assert run_here(script, capsys, monkeypatch) == (0, "right\n")


@pytest.mark.long
def test_a_finding_is_exported_without_tinyref(tmp_path, monkeypatch):
    """Check that the script fails with another kernel."""
    case, verdict = healthy("matmul-int32", "UPCAST(0, 2)"), PAIRS[2]
    file, out = tmp_path / "case.json", tmp_path / "reproduce.py"
    file.write_text(record_text(CaseRecord(case, "", verdict, None, "CPU")))
    monkeypatch.chdir(tmp_path)
    assert run(["fuzz", "export", str(file), "--out", str(out)]) == 0
    text = out.read_text()
    assert not re.search(r"(import|from) tinyref", text)
    for changed, code in ((text, 0), (text.replace("= mul i32 ", "= add i32 "), 1)):
        out.write_text(changed)
        done = subprocess.run([sys.executable, str(out)], check=False, capture_output=True)
        assert done.returncode == code, done.stdout + done.stderr


def test_variables_and_numbers_without_a_literal(capsys, monkeypatch):
    case = healthy(next(name for name, kernel in CORPUS.items() if kernel.bindings))
    data = [buffer.copy() for buffer in case.buffers]
    for buffer in data:
        if buffer.dtype.kind == "f":
            buffer[:2] = np.nan, -np.inf
    case = replace(case, buffers=tuple(data), mode=Mode.EDGE)
    script = reproducer(case, KernelVerdict(Pair.PLAIN, Symptom.VALUE), "CPU")
    assert run_here(script, capsys, monkeypatch) == (0, "right\n")


@pytest.mark.parametrize(
    ("opts", "words"),
    [
        ("", "parse_opts('UNROLL(1, 4) UNROLL(1, 0) LOCAL(0, 4)')"),
        ("THREAD(0, 2)", "'TINYREF_THREADS': '4'"),
    ],
)
def test_a_script_has_the_optimisations_and_threads_of_the_judge(opts, words):
    case = healthy("sum-rows", opts)
    case = case if opts else replace(case, opts=())
    assert words in reproducer(
        case, KernelVerdict(Pair.OPTIMISED, Symptom.VALUE, "", 0), "CPU" if opts else "PYTHON"
    )


def test_the_lines_for_the_terminal_are_whole():
    case = healthy("sum-rows", "GROUP(1, 4)")
    verdict = KernelVerdict(Pair.OPTIMISED, Symptom.RACE, "a race\nand more", 0)
    lines = terminal_lines(case, verdict, Blame("expand", "UPCAST"))
    assert lines[0] == "fault   OPTIMISED RACE: a race; the first wrong stage is expand: UPCAST"
    assert lines[1].startswith("kernel  b0:")
    assert "opts    GROUP(1, 4)" in lines
    plain = terminal_lines(replace(case, opts=()), replace(verdict, trial=-1))
    assert "opts    none" in plain


def test_the_kernel_is_not_cut_and_data_are_inputs():
    case = large_case()
    lines = terminal_lines(case, KernelVerdict(Pair.DEVICE, Symptom.VALUE, "output b1: wrong", 0))
    assert max(map(len, lines)) <= 97
    text = " ".join(line.strip() for line in lines)
    assert (
        ": output b1: wrong; all stages of the reference agree, the device differs kernel" in text
    )
    # Both outputs are stored last.
    assert "b0:float32(4, 1) = ADD(" in text
    assert "b1:int32(4, 6) = v" in text
    assert " data    b2 = [" in text
    assert "b0 = [" not in text


def test_a_long_kernel_is_cut_to_the_output_that_differs():
    value = load(1, dtypes.int32, (2,))
    for number in range(200):
        value = build.binary(Ops.XOR, value, number + 1)
    short = store(2, build.add(load(1, dtypes.int32, (2,)), 5), (2,))
    ast = build.sink(store(0, value, (2,)), short)
    verdict = KernelVerdict(Pair.DEVICE, Symptom.VALUE, "output b2: element 0 of 2 is 1", 0)
    assert failing_kernel_line(ast, verdict) == (
        "b2:int32(2,) = ADD(b1:int32(2,), int32 5); and 1 other outputs"
    )


def test_a_script_names_no_folder_of_this_machine(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/finder")
    detail = f"clang: {tmp_path}/a.c:3: no, {tempfile.gettempdir()}/b.c, /home/finder/c.c"
    verdict = KernelVerdict(Pair.DEVICE, Symptom.ERROR, detail, 0)
    case = healthy("sum-rows")
    record = CaseRecord(case, "found", verdict, Blame("device", "", detail), "CPU")
    with config.Context(CC="/home/finder/bin/cc", CACHE_DIR="/home/finder/cache", RING=2):
        texts = (reproducer(case, verdict, "CPU"), record_text(record))
    for text in (*texts, *terminal_lines(case, verdict)):
        assert "/home/finder" not in text
        assert tempfile.gettempdir() not in text
        assert "CACHE_DIR" not in text
    assert "# Found with TINYREF_CC='~/bin/cc', a path: set it yourself.\n" in texts[0]
    assert "os.environ.update({'TINYREF_RING': '2'})" in texts[0]
