"""Kernels of models and mutations of them: valid and runnable."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.interpret.evaluate import evaluate
from tinyref.uops import build
from tinyref.uops.ops import Dialect, Ops
from tinyref.uops.payload import ViewArg
from tinyref.verify import verify
from tinyref_fuzz.generate import mutate
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.policies import POLICIES
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.kernels.corpus import corpus_kernels

PYTHON = Device["PYTHON"].capabilities
KERNELS = corpus_kernels()
f32, i32 = dtypes.float32, dtypes.int32


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_chains_of_mutations_stay_valid(first):
    for seed in range(first, first + 10):
        tape = Tape(seed=seed)
        ast = list(KERNELS.values())[seed % len(KERNELS)].ast
        for _ in range(4):
            ast = mutate.mutate_kernel(ast, tape, PYTHON)
            verify(Dialect.AST, ast)


def test_what_breaks_a_rule_is_not_taken():
    ast = KERNELS["in-place-add"].ast
    load = next(node for node in ast.toposort() if node.op is Ops.LOAD)
    view = load.src[0]
    backward = view.replace(arg=ViewArg(view.arg.tracker.flip((0,))))
    broken = build.sink(build.store(view, load.replace(src=(backward,))))
    assert mutate.is_valid(ast, PYTHON)
    assert not mutate.is_valid(broken, PYTHON)
    without = replace(PYTHON, dtypes=frozenset({f32, dtypes.bool}))
    assert not mutate.is_valid(ast, without)


@pytest.mark.long
def test_real_kernels_are_there_and_run():
    names = {kernel.name for kernel in mutate.real_kernels(PYTHON)}
    assert set(KERNELS) <= names
    assert len(names) > len(KERNELS)
    for seed in range(10):
        case = generate(Tape(seed=seed), PYTHON, replace(POLICIES["models"], lists=(0, 0)))
        evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)
