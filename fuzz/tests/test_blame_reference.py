"""Wrong semantics, evaluator or interpreter are blamed as such, by the spec's references alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tinyref.algebra import semantics
from tinyref.algebra.op_table import OP_TABLE
from tinyref.dtype import dtypes
from tinyref.interpret import evaluate as evaluating
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_fuzz.blame.find import find_blame
from tinyref_fuzz.blame.scalar import MAX_STEPS, NotScalarError, run_scalar
from tinyref_fuzz.blame.stages import Chain, Subject
from tinyref_fuzz.judge.judge import Judge
from tinyref_fuzz.judge.oracles import Oracle, reference
from tinyref_fuzz.judge.oracles.reference import (
    Fault,
    element_at,
    evaluator_fault,
    op_problem,
    semantics_fault,
)
from tinyref_spec.kernel_case import Case, Pair, Symptom, Verdict
from tinyref_spec.kernels.corpus import corpus_kernels
from tinyref_spec.kernels.notation import load, shaped, store

KERNELS = corpus_kernels()
I32, F32, BF16, BOOL = dtypes.int32, dtypes.float32, dtypes.bfloat16, dtypes.bool


def remainder_of(*values: int) -> Case:
    """A kernel with a remainder of loads by 3."""
    data = np.array(values, np.int32)
    ast = build.sink(store(0, build.mod(load(1, I32, (data.size,)), 3), (data.size,)))
    return Case(ast, (np.zeros_like(data), data))


@pytest.fixture
def forgets_semantics():
    """What is kept of the semantics of ops is forgotten before and after a test that edits them."""
    for kept in (semantics._kernel, reference._signature_fault):
        kept.cache_clear()
    yield
    for kept in (semantics._kernel, reference._signature_fault):
        kept.cache_clear()


# --- the references -------------------------------------------------------------------------------


def test_values_are_compared_with_what_an_op_owes():
    three = np.array([3, 3], np.int32)
    modulo = (Ops.MOD, I32, (I32, I32))
    left = np.array([-7, 7], np.int32)
    assert op_problem(modulo, [left, three], np.array([-1, 1], np.int32)) == ""
    problem = op_problem(modulo, [left, three], np.array([2, 1], np.int32))
    assert problem == "MOD of -7, 3 as int32 is 2 instead of -1"
    # By zero nothing is owed.
    assert op_problem(modulo, [left, three * 0], np.array([9, 9], np.int32)) == ""


SIGNATURES = (
    *((op, I32, (I32, I32)) for op in (Ops.ADD, Ops.MUL, Ops.MOD, Ops.MAX, Ops.SHR)),
    (Ops.WHERE, BOOL, (BOOL, BOOL, BOOL)),
    (Ops.CMPLT, BOOL, (F32, F32)),
    (Ops.CAST, BF16, (dtypes.int64,)),
    (Ops.BITCAST, I32, (F32,)),
    (Ops.EXP2, F32, (F32,)),
    (Ops.THREEFRY, dtypes.uint64, (dtypes.uint64, dtypes.uint64)),
)


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda each: each[0].name)
def test_the_semantics_of_ops_are_right(signature):
    op, dtype, sources = signature
    loads = tuple(load(slot, source, (4,)) for slot, source in enumerate(sources, 1))
    assert semantics_fault([UOp(op, dtype, loads)]) is None


def test_wrong_semantics_are_found_though_all_share_them(forgets_semantics, monkeypatch):
    wrong = replace(OP_TABLE[Ops.MOD], semantics=lambda dtype, sources: np.mod)
    monkeypatch.setitem(OP_TABLE, Ops.MOD, wrong)
    # On the case's own data it does not even show.
    case = remainder_of(1, 2, 5)
    verdict = Judge("PYTHON").verdict(case)
    assert (verdict.pair, verdict.symptom) == (Pair.PLAIN, Symptom.VALUE)
    assert verdict.detail.startswith("evaluator: MOD of ")
    for pair in (Pair.PLAIN, Pair.DEVICE, Pair.OPTIMISED):
        found = find_blame(case, Verdict(pair, Symptom.VALUE, "injected"), "PYTHON")
        assert str(found) == "semantics: MOD"


def test_semantics_that_are_wrong_for_constants_alone_are_found(forgets_semantics, monkeypatch):
    fold = semantics.fold

    def wrong(op, dtype, values, sources=None):
        value = fold(op, dtype, values, sources)
        return value % 2**16 if dtype.is_int else value

    monkeypatch.setattr(semantics, "fold", wrong)
    found = semantics_fault(remainder_of(1).ast.toposort())
    assert found is not None
    assert (found.stage, found.cause) == ("semantics", "fold MOD")


@pytest.mark.parametrize("name", ["sum-float32", "maximum-float32", "sum-padded", "symbolic-pad"])
def test_the_evaluator_is_right(name):
    kernel = KERNELS[name]
    assert evaluator_fault(kernel.ast, kernel.buffers(), kernel.bindings, 64) is None


def test_an_evaluator_that_adds_one_element_less_is_blamed(monkeypatch):
    healthy = evaluating._reduce
    monkeypatch.setattr(
        evaluating, "_reduce", lambda node, value, arg: healthy(node, value[..., 1:], arg)
    )
    kernel = KERNELS["sum-rows"]
    case = Case(kernel.ast, kernel.buffers())
    found = find_blame(case, Verdict(Pair.PLAIN, Symptom.VALUE, "injected"), "PYTHON")
    assert str(found) == "evaluate: REDUCE"


def test_an_evaluator_that_reads_one_element_further_is_blamed(monkeypatch):
    def further(tracker, bindings, places=()):
        elements, valid = healthy(tracker, bindings, places)
        return np.maximum(elements - 1, 0), valid

    healthy = evaluating.view_elements
    monkeypatch.setattr(evaluating, "view_elements", further)
    kernel = KERNELS["sum-rows"]
    found = evaluator_fault(kernel.ast, kernel.buffers(), {})
    assert isinstance(found, Fault)
    assert (found.stage, found.cause) == ("evaluate", "views")
    assert found.detail.startswith("LOAD of slot 1 is ")


def test_an_element_of_a_view_by_its_definition():
    turned = shaped(2, 3).permute((1, 0)).reshape((2, 3)).pad(((0, 0), (1, 0)))
    assert [element_at(turned, (row, column), {}) for row in (0, 1) for column in range(4)] == [
        *(None, 0, 3, 1),
        *(None, 4, 2, 5),
    ]
    assert element_at(shaped(2), (2,), {}) is None


# --- programs -------------------------------------------------------------------------------------


def chain_of(name: str) -> Chain:
    kernel = KERNELS[name]
    buffers = tuple(kernel.buffers())
    subject = Subject(kernel.ast, buffers, kernel.bindings, Oracle({}))
    return Chain(subject, Judge("PYTHON").capabilities, ())


def test_a_program_by_references_gives_literals():
    case = remainder_of(-7, 7, 5)
    program = Chain(
        Subject(case.ast, case.buffers, {}, Oracle({})), Judge("PYTHON").capabilities, ()
    ).program
    assert program is not None
    found = run_scalar(program.uops, dict(enumerate(case.buffers)), {}, program.grid, program.group)
    assert found[0].tolist() == [-1, 1, 2]
    assert case.buffers[0].tolist() == [0, 0, 0]
    short = {slot: held[:1] for slot, held in enumerate(case.buffers)}
    with pytest.raises(IndexError, match="element 1 of 1"):
        run_scalar(program.uops, short, {}, program.grid, program.group)


@pytest.mark.long
def test_what_takes_too_long_is_refused():
    program = chain_of("sum-rows").program
    assert program is not None
    many = program.uops * (MAX_STEPS // len(program.uops) + 1)
    with pytest.raises(NotScalarError, match="more than"):
        run_scalar(many, dict(enumerate(KERNELS["sum-rows"].buffers())), {}, (1, 1, 1), (1, 1, 1))
