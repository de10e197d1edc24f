"""Mutations of cases: valid, runnable, and exact where they say so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tinyref.algebra.kernel_shape import kernel_shape
from tinyref.device import Device
from tinyref.dtype import PtrDType, dtypes, numpy_dtype
from tinyref.formats.text import to_text
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.opt import parse_opts
from tinyref.optimise.plan import Plan
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect, Ops
from tinyref.uops.payload import SlotArg, ViewArg
from tinyref.verify import verify
from tinyref_fuzz.generate import iterations, mutate
from tinyref_fuzz.generate.exactness import is_exact
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.optimisations import legal_part, on_fixed_machine
from tinyref_fuzz.generate.policies import POLICIES
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.kernel_case import Case, Mode
from tinyref_spec.kernels.corpus import corpus_kernels
from tinyref_spec.kernels.notation import kernel_of, largest, load, total

PYTHON = Device["PYTHON"].capabilities
KERNELS = corpus_kernels()
POLICY = replace(POLICIES["mixed"], lists=(1, 2))
f16, f32, i32 = dtypes.float16, dtypes.float32, dtypes.int32


def chain(seed: int, length: int = 4) -> Iterator[Case]:
    """A kernel of the corpus or a generated one, and what mutations make of it in turn."""
    tape = Tape(seed=seed)
    kernel = list(KERNELS.values())[seed % len(KERNELS)]
    case = Case(kernel.ast, kernel.buffers(), bindings=kernel.bindings)
    if seed % 2:
        case = generate(tape, PYTHON, POLICY)
    for _ in range(length):
        yield case
        case = mutate.mutate_case(case, tape, PYTHON, POLICY)


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_chains_of_mutations_stay_valid(first):
    for seed in range(first, first + 10):
        for case in chain(seed):
            verify(Dialect.AST, case.ast)
            evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)
            plan = Plan.of(case.ast, on_fixed_machine(PYTHON))
            for opts in case.opts:
                plan.apply_all(opts)
            for node in case.ast.toposort():
                if isinstance(node.arg, SlotArg) and isinstance(node.dtype, PtrDType):
                    buffer = case.buffers[node.arg.slot]
                    assert buffer.dtype == numpy_dtype(node.dtype.base)
                    assert buffer.size == node.dtype.size


def test_a_tape_replays_a_mutation():
    kernel = KERNELS["matmul-int32"]
    case = Case(kernel.ast, kernel.buffers())
    for seed in range(10):
        tape = Tape(seed=seed)
        first = mutate.mutate_case(case, tape, PYTHON, POLICY)
        again = mutate.mutate_case(case, Tape(choices=tape.choices), PYTHON, POLICY)
        assert first.ast is again.ast
        assert first.opts == again.opts
        assert [b.tobytes() for b in first.buffers] == [b.tobytes() for b in again.buffers]


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
    removed = reached("multiply-add-int32", mutate.remove)
    assert any(all(node.op is not Ops.ADD for node in ast.toposort()) for ast in removed)
    # The sum of a row cannot be left out: what is stored would have another shape.
    assert reached("sum-rows", mutate.remove) == []
    assert any(len(ast.src) == 2 for ast in reached("sum-and-maximum", mutate.add_output))
    inserted = reached("sum-rows", mutate.insert)
    assert any(len(a.toposort()) > len(KERNELS["sum-rows"].ast.toposort()) for a in inserted)
    swapped = reached("sum-and-maximum", mutate.swap_operands)
    assert all(ast is not KERNELS["sum-and-maximum"].ast for ast in swapped)


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


# --- exactness ------------------------------------------------------------------------------------


def loaded(dtype, size: int = 4, slot: int = 1) -> UOp:
    return load(slot, dtype, (size,))


def exact(value: UOp, *data: float, dtype: str = "float16") -> bool:
    contents = np.array(data, dtype)
    return is_exact(kernel_of(value, contents.size), (contents, contents))


def test_what_rounds_is_not_exact():
    x = loaded(f16)
    assert exact(build.mul(x, x), 45, 1, 2, 3)
    assert not exact(build.mul(x, x), 46, 1, 2, 3)
    assert not exact(x, 0.5, 1, 2, 3)
    assert not exact(x, np.inf, 1, 2, 3)
    assert not exact(build.unary(Ops.SQRT, x), 4, 1, 0, 1)
    assert exact(build.reduce(Ops.ADD, x, (0,)), 512, 1, 2, 3)
    assert not exact(build.reduce(Ops.ADD, x, (0,)), 513, 1, 2, 3)
    assert exact(build.reduce(Ops.MUL, x, (0,)), 6, 1, 2, 3)
    assert not exact(build.reduce(Ops.MUL, x, (0,)), 7, 1, 2, 3)
    assert not exact(build.cast(x, dtypes.uint8), -1, 1, 2, 3)
    assert exact(build.cast(build.cast(x, dtypes.int8), f32), 100, 1, 2, 3)
    assert not exact(build.cast(loaded(i32), f16), 100, 1, 2, 3, dtype="int32")
    assert exact(build.less(x, 1.0), 100, 1, 2, 3)


def test_a_product_beyond_all_floats_is_not_exact():
    many = build.reduce(Ops.MUL, loaded(f32, 500), (0,))
    assert not exact(many, *[900] * 500, dtype="float32")
    assert exact(many, *[1] * 500, dtype="float32")


@pytest.mark.long
def test_a_share_of_the_generated_cases_is_mutated_with_their_lists():
    """A tape gives the same case up to there, and is drawn from further."""
    never, always = (replace(POLICIES["mixed"], mutated=share) for share in (0, 100))
    kernels, lists = [], []
    for seed in range(16):
        plain, changed = (generate(Tape(seed=seed), PYTHON, policy) for policy in (never, always))
        if not plain.opts:
            continue
        kernels.append(plain.ast is not changed.ast)
        lists.append(plain.opts != changed.opts)
        # Laws hold of any kernel; other transformations are of what was drawn.
        trail = () if changed.equivalent is None else changed.equivalent.trail
        assert all(label.startswith("law ") for label, _ in trail)
        again = generate(Tape(choices=changed.choices), PYTHON, always)
        assert (again.ast, again.opts) == (changed.ast, changed.opts)
    assert len(kernels) > 12
    assert sum(kernels) > len(kernels) // 2
    assert sum(lists) > len(lists) // 2


def test_a_kernel_that_is_no_longer_exact_is_judged_as_floats_are():
    x = loaded(f32)
    case = Case(kernel_of(build.unary(Ops.EXP2, x), 4), (np.zeros(4, "f4"), np.ones(4, "f4")))
    mode, buffers = mutate.data_of(case.ast, case, Tape(seed=1))
    assert mode is Mode.FLOAT
    assert not np.array_equal(buffers[1], np.trunc(buffers[1]))
    whole = replace(case, ast=kernel_of(build.add(x, x), 4))
    assert mutate.data_of(whole.ast, whole, Tape(seed=1))[0] is Mode.EXACT


# --- lists ----------------------------------------------------------------------------------------


def test_the_legal_part_of_a_list_is_kept():
    plan = Plan.of(KERNELS["sum-rows"].ast, PYTHON)
    opts = parse_opts("UPCAST(0, 4) UPCAST(0, 7) GROUPTOP(1, 8) UNROLL(9, 2) UNROLL(2, 4)")
    assert legal_part(plan, opts) == parse_opts("UPCAST(0, 4) GROUPTOP(1, 8) UNROLL(2, 4)")


@pytest.mark.long
def test_real_kernels_are_there_and_run():
    names = {kernel.name for kernel in mutate.real_kernels(PYTHON)}
    assert set(KERNELS) <= names
    assert len(names) > len(KERNELS)
    for seed in range(10):
        case = generate(Tape(seed=seed), PYTHON, replace(POLICIES["real"], lists=(0, 0)))
        evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)
