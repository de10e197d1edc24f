"""The limit of optional steps: a compile of fewer steps is right too, and caches keep it apart."""

from __future__ import annotations

import numpy as np
import pytest

from tinyref.algebra.rewrite import Steps, listening
from tinyref.codegen.compile import compile_kernel
from tinyref.config import Context
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.interpret import run_program
from tinyref.optimise.opt import parse_opts
from tinyref.runtimes.kernel import compile_ast
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.program import Program
from tinyref_spec.kernels.notation import kernel_of, load, shaped, total

PYTHON = Device["PYTHON"].capabilities
I32 = dtypes.int32


def gather() -> UOp:
    """y[j] = the sum over i of x[i] where i is k[j], in rows of 4: x is slot 1, k is slot 2."""
    x = load(1, I32, shaped(1, 5, 4).expand((6, 5, 4)))
    position = load(2, I32, shaped(6, 1, 1).expand((6, 5, 4)))
    here = build.equal(build.iota(shaped(1, 5, 1).expand((6, 5, 4))), position)
    return kernel_of(total(build.where(here, x, build.const(I32, 0)), 1), 6, 1, 4)


def sum_of_rows() -> UOp:
    """Return the sums of the rows of a padded 6 by 8 array."""
    padded = shaped(6, 8).pad(((0, 0), (1, 1)))
    return kernel_of(total(load(1, I32, padded), 1), 6, 1)


X = np.arange(20, dtype=np.int32)
K = np.array([3, 0, 9, 4, -1, 1], np.int32)
GATHERED = [12, 13, 14, 15, 0, 1, 2, 3, 0, 0, 0, 0, 16, 17, 18, 19, 0, 0, 0, 0, 4, 5, 6, 7]
ROWS = [28, 92, 156, 220, 284, 348]
KERNELS = [
    (gather(), "UPCAST(0, 2)", (np.zeros(24, np.int32), X, K), GATHERED),
    (
        sum_of_rows(),
        "UNROLL(1, 2) UPCAST(0, 3)",
        (np.zeros(6, np.int32), np.arange(48, dtype=np.int32)),
        ROWS,
    ),
]


def compiled(ast: UOp, opts: str, limit: int | None = None) -> tuple[Program, list[str]]:
    """Compile with at most `limit` steps; return the program and the steps."""
    steps = Steps(limit)
    with listening(steps=steps):
        program = compile_kernel(ast, PYTHON, opts=parse_opts(opts))
    return program, [str(step) for step in steps.taken]


@pytest.mark.parametrize(("ast", "opts", "buffers", "expected"), KERNELS, ids=["gather", "rows"])
def test_a_compile_of_any_number_of_steps_is_right(ast, opts, buffers, expected):
    _, steps = compiled(ast, opts)
    assert len(steps) > 5
    for limit in range(len(steps) + 1):
        program, taken = compiled(ast, opts, limit)
        assert taken == steps[:limit]
        contents = [np.array(buffer) for buffer in buffers]
        run_program(program, contents)
        assert contents[0].tolist() == expected


def test_steps_are_rules_optimisations_and_passes():
    _, steps = compiled(gather(), "UPCAST(0, 2)")
    assert steps[0] == "pass fold_ranges"
    assert "opt UPCAST" in steps
    assert any(step.startswith("rule ") for step in steps)
    assert compiled(gather(), "UPCAST(0, 2)", 0)[1] == []
    _, steps = compiled(sum_of_rows(), "UNROLL(1, 2)", 1)
    assert steps == ["opt UNROLL"]


def test_what_heuristics_choose_is_limited_too():
    ast = sum_of_rows()
    with Context(BISECT=0):
        plain = compile_kernel(ast, PYTHON)
    assert plain.uops == compiled(ast, "", 0)[0].uops
    assert plain.uops != compile_kernel(ast, PYTHON).uops


def test_the_flag_names_the_last_step_and_no_cache_mixes_limits(capsys):
    ast = sum_of_rows()
    before = compile_ast("PYTHON", ast).program
    with Context(BISECT=0):
        assert compile_ast("PYTHON", ast).program != before
    assert "bisect r_6_10: 0 steps\n" in capsys.readouterr().err
    with Context(BISECT=1):
        compile_ast("PYTHON", ast)
    assert "bisect r_6_10: 1 steps: opt " in capsys.readouterr().err
    assert compile_ast("PYTHON", ast).program == before
    assert compile_kernel(ast, PYTHON).uops == before.uops
    assert capsys.readouterr().err == ""


def test_a_limit_is_at_least_minus_one():
    with pytest.raises(UserError, match="flag BISECT: got -2, accepted is an integer from -1"):
        Context(BISECT=-2)
