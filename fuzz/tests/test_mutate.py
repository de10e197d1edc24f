"""Kernels of models and mutations of them: valid and runnable."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tinyref.algebra.kernel_shape import kernel_shape
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.formats.text import to_text
from tinyref.interpret.evaluate import evaluate
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect, Ops
from tinyref.uops.payload import ViewArg
from tinyref.verify import verify
from tinyref_fuzz.generate import iterations, mutate
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.policies import POLICIES
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.kernel_case import Mode
from tinyref_spec.kernels.corpus import corpus_kernels
from tinyref_spec.kernels.family import CorpusKernel
from tinyref_spec.kernels.notation import kernel_of, largest, load, total

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


def reached(name: str, mutation) -> list[UOp]:
    """The valid kernels that a mutation makes of one of the corpus."""
    ast = KERNELS[name].ast
    found = (mutation(ast, Tape(seed=seed), PYTHON) for seed in range(40))
    return [each for each in found if each is not None and mutate.is_valid(each, PYTHON)]


def texts(name: str, mutation) -> str:
    return "\n".join(to_text(each) for each in reached(name, mutation))


def test_each_mutation_does_what_it_is_called():
    assert "SUB int32" in texts("multiply-add-int32", mutate.change_op)
    assert "Reduce{op=MAX axes=(1,)}" in texts("sum-rows", mutate.change_op)
    assert "int64" in texts("sum-rows", mutate.change_dtype)
    assert "float16" in texts("sum-float32", mutate.change_dtype)
    assert "strides=(8, -1)" in texts("multiply-add-int32", mutate.change_view)
    assert "mask=((0, 24), (1, 8))" in texts("multiply-add-int32", mutate.change_view)
    inserted = reached("sum-rows", mutate.insert)
    assert any(len(a.toposort()) > len(KERNELS["sum-rows"].ast.toposort()) for a in inserted)


def test_a_reduce_inside_of_another_one_iterates_for_each_term():
    assert iterations.iterations(KERNELS["multiply-add-int32"].ast) == 24 * 8
    rows, columns = 12, 16
    x = load(1, i32, (rows, columns))
    ast = kernel_of(total(build.sub(x, largest(x, 1)), 1), rows, 1)
    assert iterations.iterations(ast) == rows * columns * columns
    assert mutate.is_valid(ast, PYTHON)


def test_kernels_of_too_many_iterations_are_not_taken(monkeypatch):
    ast = KERNELS["matmul-int32"].ast
    most = iterations.iterations(ast)
    monkeypatch.setattr(iterations, "MAX_ITERATIONS", most)
    assert mutate.is_valid(ast, PYTHON)
    monkeypatch.setattr(iterations, "MAX_ITERATIONS", most - 1)
    assert not mutate.is_valid(ast, PYTHON)


def test_an_extent_changes_in_every_view():
    shapes = {
        tuple(kernel_shape(store.src[1]))
        for ast in reached("matmul-int32", mutate.change_extent)
        for store in ast.src
    }
    assert {(16, 16, 1), (7, 16, 1), (16, 13, 1)} <= shapes
    for ast in reached("matmul-int32", mutate.change_extent):
        buffers = [node for node in ast.toposort() if node.op is Ops.DEFINE_GLOBAL]
        assert all(buffer.dtype.size <= 32 * 16 for buffer in buffers)


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


@pytest.mark.parametrize(
    ("make", "modes"),
    [(f32, {Mode.FLOAT, Mode.EDGE}), (i32, {Mode.EXACT, Mode.EDGE})],
    ids=["floats", "integers"],
)
def test_real_kernels_with_floats_may_round(make, modes):
    kernel = CorpusKernel("own", frozenset({"elementwise"}), kernel_of(load(1, make, (4,)), 4))
    policy = replace(POLICIES["models"], lists=(0, 0), kernels=(kernel,))
    cases = [generate(Tape(seed=seed), PYTHON, policy) for seed in range(80)]
    assert {case.mode for case in cases if case.ast is kernel.ast} == modes
