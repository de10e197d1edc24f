"""Test the normal form: it keeps the value, and outputs or one group own every axis."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from kernel_cases import DEVICES

from tinyref.algebra.shapes import kernel_shape
from tinyref.codegen.compile import compile_kernel
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.interpret import run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise import normal_form as module
from tinyref.optimise.normal_form import OUTPUT, NormalForm, normal_form
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ReduceArg, ViewArg
from tinyref.views.shape_tracker import ShapeTracker, tracker_of
from tinyref.views.view import View
from tinyref_fuzz.strategies import kernels
from tinyref_spec.kernel_case import KernelCase
from tinyref_spec.kernels.corpus import corpus_kernels
from tinyref_spec.kernels.family import CorpusKernel
from tinyref_spec.kernels.notation import kernel_of, largest, load, shaped, store, total

i32 = dtypes.int32
KERNELS = tuple(corpus_kernels().values())


def rows(slot: int = 1, shape: tuple[int, ...] = (4, 8)) -> UOp:
    return load(slot, i32, shape)


def form_of(value: UOp, shape: tuple[int, ...]) -> NormalForm:
    return normal_form(kernel_of(value, *shape))


def check(form: NormalForm) -> None:
    """Assert what holds for every normal form, from the AST alone."""
    nodes = form.ast.toposort()
    rank = len(form.owners)
    reduces = [node for node in nodes if isinstance(node.arg, ReduceArg)]
    for node in nodes:
        if isinstance(node.arg, ViewArg):
            # Computed positions come after the buffer; they are axes of the view.
            computed = len(node.src) - (node.op is Ops.VIEW)
            assert len(node.arg.tracker.shape) == rank + computed
    for axis, owner in enumerate(form.owners):
        over = [node for node in reduces if axis in node.arg.axes]
        assert bool(over) == (owner != OUTPUT), f"axis {axis} of {owner}"
        # All reduces over one axis go over the same axes: they are one group.
        assert len({node.arg.axes for node in over}) <= 1
        # None of them is inside another: a reduce that needs another has axes of its own.
        for node in over:
            assert not any(other in node.src[0].toposort() for other in over)
        assert form.shape[axis] != 1
    for store_node in form.ast.src:
        for axis, size in enumerate(kernel_shape(store_node.src[0])):
            assert size == 1 or form.owners[axis] == OUTPUT
    # Outputs come first, then groups in the order of their numbers.
    groups = [owner for owner in form.owners if owner != OUTPUT]
    assert form.owners == (OUTPUT,) * (rank - len(groups)) + tuple(sorted(groups))


def agrees(ast: UOp, contents: Mapping[int, np.ndarray], bindings: Mapping[str, int]) -> None:
    form = normal_form(ast)
    check(form)
    expected = evaluate(ast, contents, bindings)
    actual = evaluate(form.ast, contents, bindings)
    for slot, values in actual.items():
        np.testing.assert_array_equal(values, expected[slot])
    for slot in expected.keys() - actual.keys():
        assert expected[slot].size == 0 or 0 in kernel_shape(ast.src[slot].src[0])
    again = normal_form(form.ast)
    assert (again.ast, again.shape) == (form.ast, form.shape)


@pytest.mark.table
@pytest.mark.sampled(5)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_kernels_of_the_corpus_keep_their_value(kernel: CorpusKernel) -> None:
    agrees(kernel.ast, dict(enumerate(kernel.buffers())), kernel.bindings)


@pytest.mark.slow
@settings(max_examples=150)
@given(kernels("PYTHON", "small"))
def test_generated_kernels_keep_their_value(case: KernelCase) -> None:
    generated_agrees(case)


def chosen(position: UOp, value: UOp, otherwise: UOp) -> UOp:
    """Return `value` where `position` is the one element of slot 2, else `otherwise`."""
    index = load(2, i32, (1,) * len(kernel_shape(position)))
    return UOp(Ops.WHERE, i32, (build.not_equal(position, index), otherwise, value))


def hidden_by_a_reduce_of_one() -> UOp:
    value = chosen(build.iota(shaped(12, 1)), rows(1, (12, 1)), build.const(i32, 1))
    return build.reduce(Ops.MUL, total(value, 1), (0,))


def hidden_by_a_reduce_of_nothing() -> UOp:
    nothing = total(load(3, i32, (1, 0), 1), 1)
    return total(chosen(build.iota(shaped(12, 1)), rows(1, (12, 1)), nothing), 0)


def over_axes_that_become_one() -> UOp:
    position = build.iota(shaped(12).reshape((3, 4)))
    return total(chosen(position, rows(1, (3, 4)), build.const(i32, 0)), 0, 1)


@pytest.mark.parametrize(
    "make", [hidden_by_a_reduce_of_one, hidden_by_a_reduce_of_nothing, over_axes_that_become_one]
)
def test_a_choice_that_the_form_itself_brings_to_light_is_folded(make: Callable[[], UOp]) -> None:
    ast = kernel_of(make(), 1, 1)
    contents = {0: np.zeros(1, np.int32), 1: np.arange(100, 112, dtype=np.int32)}
    contents |= {2: np.array([7], np.int32), 3: np.zeros(1, np.int32)}
    agrees(ast, contents, {})
    assert evaluate(normal_form(ast).ast, contents)[0].tolist() == [107]
    assert normal_form(ast).owners == ()


def generated_agrees(case: KernelCase) -> None:
    agrees(case.ast, dict(enumerate(case.buffers)), case.bindings)
    if case.equivalent is not None:
        agrees(case.equivalent.ast, dict(enumerate(case.buffers)), case.bindings)


# --- whose axes -----------------------------------------------------------------------------------


def test_an_elementwise_kernel_is_one_axis() -> None:
    form = form_of(build.add(rows(), rows(2)), (4, 8))
    assert (form.shape, form.owners) == ((32,), (OUTPUT,))


def test_a_row_sum_has_an_axis_of_each() -> None:
    form = form_of(total(rows(), 1), (4, 1))
    assert (form.shape, form.owners) == ((4, 8), (OUTPUT, 0))


def test_softmax_has_three_axes_over_its_rows() -> None:
    x = rows()
    above = build.sub(x, largest(x, 1))
    form = form_of(build.idiv(above, total(above, 1)), (4, 8))
    assert form.shape == (4, 8, 8, 8)
    assert form.owners == (OUTPUT, OUTPUT, 0, 1)
    maximum, sum_of_all = (n for n in form.ast.toposort() if isinstance(n.arg, ReduceArg))
    # The maximum is one value for the row, wherever it is needed.
    assert (maximum.arg.op, sum_of_all.arg.op) == (Ops.MAX, Ops.ADD)
    assert maximum in sum_of_all.toposort()
    assert set(maximum.arg.axes).isdisjoint(sum_of_all.arg.axes)


def test_siblings_share_their_axis() -> None:
    x = rows()
    form = form_of(build.add(total(x, 1), largest(x, 1)), (4, 1))
    assert (form.shape, form.owners) == ((4, 8), (OUTPUT, 0))
    assert {n.arg.axes for n in form.ast.toposort() if isinstance(n.arg, ReduceArg)} == {(1,)}


def test_siblings_of_other_lengths_do_not() -> None:
    form = form_of(build.add(total(rows(), 1), total(rows(2, (4, 5)), 1)), (4, 1))
    assert (sorted(form.shape[1:]), form.owners) == ([5, 8], (OUTPUT, 0, 1))


def test_nested_reduces_have_their_own_axes_the_outer_first() -> None:
    x = rows(shape=(4, 6, 8))
    form = form_of(total(largest(x, 2), 1), (4, 1, 1))
    assert (form.shape, form.owners) == ((4, 6, 8), (OUTPUT, 0, 1))


def test_one_reduce_in_two_contexts_is_two() -> None:
    # The row sums of x are needed for a row of the output and for each summed row.
    x = rows(shape=(4, 8))
    sums = total(x, 1)
    form = form_of(build.sub(sums, largest(sums, 0)), (4, 1))
    over = [n.arg for n in form.ast.toposort() if isinstance(n.arg, ReduceArg)]
    assert sorted(arg.op.name for arg in over) == ["ADD", "ADD", "MAX"]
    assert form.shape == (4, 4, 8, 8) or form.shape == (4, 8, 4, 8)
    assert len(set(form.owners)) == 4


def test_reduces_over_several_axes_are_one_group() -> None:
    form = form_of(total(rows(shape=(3, 4, 5)), 0, 2), (1, 4, 1))
    assert (form.shape, form.owners) == ((4, 3, 5), (OUTPUT, 0, 0))


def test_neighbours_merge_only_within_an_owner() -> None:
    form = form_of(total(rows(shape=(3, 4, 5)), 1, 2), (3, 1, 1))
    assert (form.shape, form.owners) == ((3, 20), (OUTPUT, 0))


def test_a_reduce_of_one_is_its_term_and_of_none_its_identity() -> None:
    one = form_of(total(rows(shape=(4, 1)), 1), (4, 1))
    assert one.owners == (OUTPUT,)
    assert all(node.op is not Ops.REDUCE for node in one.ast.toposort())
    nothing = load(1, i32, (4, 0))
    none = form_of(build.add(largest(nothing, 1), 1), (4, 1))
    assert any(n.op is Ops.CONST and n.arg.value == -(2**31) for n in none.ast.toposort())


def test_outputs_of_nothing_are_gone() -> None:
    empty = store(0, load(1, i32, (0, 4)), (0, 4))
    assert normal_form(build.sink(empty)) == NormalForm(build.sink(), ())


def test_symbolic_sizes_are_sizes() -> None:
    extent = build.variable("n", 1, 9)
    x = load(1, i32, (extent, 8))
    form = normal_form(kernel_of(total(x, 1), extent, 1))
    assert form.shape == (extent, 8)
    assert form.owners == (OUTPUT, 0)


def test_outputs_that_do_not_fit_are_refused() -> None:
    two = build.sink(store(0, rows(2, (6,)), (6,)), store(1, rows(3, (5,)), (5,)))
    with pytest.raises(UserError, match="sizes 6 and 5 meet on axis 0"):
        normal_form(two)


def test_contexts_do_not_multiply() -> None:
    # x - max(x), repeated: its contexts would double with every round.
    value = rows()
    for _ in range(12):
        value = build.sub(value, largest(value, 1))
    form = form_of(value, (4, 8))
    assert len(form.owners) == 14
    # There are 12 values, each at the positions of the output and of every maximum above.
    assert len(form.ast.toposort()) < 400


# --- the checks can fail --------------------------------------------------------------------------


def test_the_form_is_kept_with_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    x = load(1, i32, (4, 6))
    ast = kernel_of(x, 4, 6)
    form = normal_form(ast)
    assert form.shape == (24,)
    assert normal_form(form.ast) == form
    monkeypatch.setattr(module, "unmerged_form", None)
    assert normal_form(ast) is form
    assert normal_form(form.ast) == form


def test_a_kernel_that_is_its_own_form_does_not_keep_itself() -> None:
    gc.disable()
    try:
        x = load(1, i32, (24,))
        ast = kernel_of(x, 24)
        assert normal_form(ast).ast is ast
        kernel = weakref.ref(ast)
        del ast
        assert kernel() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [(Ops.ADD, Ops.ADD, 24), (Ops.ADD, Ops.MUL, 36), (Ops.MUL, Ops.MUL, 2**4 * 3**4 * 4**4)],
)
def test_an_empty_reduce_keeps_the_axes_of_the_reduce_around_it(
    outer: Ops, inner: Ops, expected: int
) -> None:
    # Over i of 3 and j of 4: x[i] = 1, 2, 3 and an empty reduce, whose only axis is j.
    nothing = build.reduce(inner, load(1, i32, (0, 1, 4), 1), (0,))
    value = build.add(nothing, rows(2, (1, 3, 1)))
    whole = build.reduce(outer, value, (1, 2))
    ast = kernel_of(whole, 1, 1, 1)
    for device in DEVICES.values():
        arrays = [np.zeros(1, np.int32), np.zeros(1, np.int32), np.array([1, 2, 3], np.int32)]
        run_program(compile_kernel(ast, device), arrays)
        assert arrays[0].tolist() == [expected]


def test_a_view_whose_axes_stay_is_in_normal_form_too() -> None:
    # Two unmerged views read the last of 30 elements first.
    tracker = ShapeTracker((View((15, 2), (2, 1), 4), View((30,), (-1,), 29)))
    form = form_of(load(1, i32, tracker, 40), (30,))
    (loaded,) = (node for node in form.ast.toposort() if node.op is Ops.LOAD)
    assert tracker_of(loaded.src[0]).views == (View((30,), (-1,), 33),)
