"""Generated kernels: valid, exact, replayable; and a judge that names the stage that is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tinyref.dtype import dtypes, numpy_dtype
from tinyref.uops.evaluate import evaluate
from tinyref.uops.ops import Dialect, Ops
from tinyref.uops.verify import verify
from tinyref_fuzz import __main__ as lane
from tinyref_fuzz import judge as judging
from tinyref_fuzz.generate import DTYPES, exact_bound, generate
from tinyref_fuzz.judge import judge
from tinyref_fuzz.tape import Tape

ALL = frozenset(DTYPES)


def kernels(count: int) -> list:
    return [generate(Tape(seed=seed), ALL) for seed in range(count)]


def test_every_kernel_is_valid_and_its_answer_is_a_small_integer():
    for case in kernels(300):
        verify(Dialect.AST, case.ast)
        output = evaluate(case.ast, dict(enumerate(case.buffers)))[0].astype(np.float64)
        dtype = next(node.dtype for node in case.ast.toposort() if node.op is Ops.DEFINE_GLOBAL)
        finite = output[np.isfinite(output)]
        assert np.array_equal(finite, np.trunc(finite)), dtype


@pytest.mark.slow
def test_kernels_cover_types_ops_and_shapes():
    seen_ops, seen_dtypes, empty, masked = set(), set(), 0, 0
    for case in kernels(600):
        for node in case.ast.toposort():
            seen_ops.add(node.op)
            seen_dtypes.add(node.dtype)
            if node.op is Ops.VIEW:
                empty += node.arg.tracker.size == 0
                masked += node.arg.tracker.is_masked
    arithmetic = {Ops.ADD, Ops.MUL, Ops.MAX, Ops.SUB, Ops.IDIV, Ops.MOD, Ops.WHERE, Ops.CMPLT}
    assert arithmetic | {Ops.REDUCE, Ops.CAST, Ops.XOR} <= seen_ops
    assert seen_dtypes >= ALL
    assert empty > 5
    assert masked > 50


def test_a_tape_replays_the_same_kernel_and_the_same_data():
    for case in kernels(50):
        again = generate(Tape(choices=case.choices), ALL)
        assert again.ast is case.ast
        assert all(
            a.tobytes() == b.tobytes() for a, b in zip(again.buffers, case.buffers, strict=True)
        )


def test_a_cut_tape_still_gives_a_valid_kernel():
    for case in kernels(50):
        for length in range(0, len(case.choices), 7):
            verify(Dialect.AST, generate(Tape(choices=case.choices[:length]), ALL).ast)


@pytest.mark.parametrize(
    ("dtype", "bound"),
    [("float16", 2048), ("bfloat16", 256), ("int8", 127), ("uint8", 255), ("bool", 1)],
)
def test_exact_bounds(dtype, bound):
    found = next(known for known in DTYPES if known.name == dtype)
    assert exact_bound(found) == bound
    if found.is_float:
        # One more integer would not fit: the bound is as large as it may be.
        assert np.float64(bound + 1) != np.float64(bound + 1).astype(numpy_dtype(found))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("device", ["PYTHON", "CPU"])
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_healthy_devices_agree(device, first):
    for seed in range(first, first + 10):
        verdict = judge(generate(Tape(seed=seed), ALL), device)
        assert verdict.agrees, (seed, verdict)


def test_only_declared_types_are_generated():
    only = frozenset({dtypes.int32, dtypes.float32})
    for seed in range(50):
        case = generate(Tape(seed=seed), only)
        used = {node.dtype.base for node in case.ast.toposort() if node.op is Ops.DEFINE_GLOBAL}
        assert used <= only


def test_the_lane_counts_and_exits(capsys, monkeypatch):
    assert lane.main(["--device", "PYTHON", "--kernels", "3", "--seed", "5"]) == 0
    assert "3 kernels, 0 disagree" in capsys.readouterr().out
    monkeypatch.setattr(judging.Guarded, "stray", lambda memory: "planted")
    assert lane.main(["--device", "PYTHON", "--kernels", "2", "--seed", "5"]) == 1
    shown = capsys.readouterr().out
    assert "between the evaluator and the plain program: planted" in shown
    assert "again: python -m tinyref_fuzz --device PYTHON --kernels 1 --seed 6" in shown
    assert lane.main(["--device", "GPU9"]) == 2
    assert "unknown device 'GPU9'" in capsys.readouterr().err
