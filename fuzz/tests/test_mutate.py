"""Mutated kernels of the corpus and of models are valid, and can be evaluated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tinyref.device import Device
from tinyref.interpret.evaluate import evaluate
from tinyref.uops.ops import Dialect
from tinyref.verify import verify
from tinyref_fuzz.generate import mutate
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.policies import POLICIES
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.kernels.corpus import corpus_kernels

PYTHON = Device["PYTHON"].capabilities
KERNELS = corpus_kernels()


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_chains_of_mutations_stay_valid(first):
    for seed in range(first, first + 10):
        tape = Tape(seed=seed)
        ast = list(KERNELS.values())[seed % len(KERNELS)].ast
        for _ in range(4):
            ast = mutate.mutate_kernel(ast, tape, PYTHON)
            verify(Dialect.AST, ast)


@pytest.mark.long
def test_real_kernels_are_there_and_run():
    names = {kernel.name for kernel in mutate.real_kernels(PYTHON)}
    assert set(KERNELS) <= names
    assert len(names) > len(KERNELS)
    for seed in range(10):
        case = generate(Tape(seed=seed), PYTHON, replace(POLICIES["models"], lists=(0, 0)))
        evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)
