"""Test shape trackers: literals, symbolic sizes against concrete ones, refusals."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyref.algebra.evaluate import evaluate_expression, value_of
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.interpret.evaluate import view_elements
from tinyref.uops import build as b
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, BoundsArg, FlipArg, Payload, PermuteArg, ShapeArg
from tinyref.views.composition import compose
from tinyref.views.shape_tracker import ShapeTracker, apply_movement
from tinyref.views.view import View

N = b.variable("n", 1, 4)
M = b.variable("m", 0, 3)


def shape(*sizes: int | UOp) -> ShapeTracker:
    return ShapeTracker.from_shape(sizes)


def rows(tracker: ShapeTracker) -> Any:
    """Return elements as nested lists, None where invalid."""
    indices, valid = tracker.numpy_indices()
    return np.where(valid, indices.astype(object), None).tolist()


# --- literals ------------------------------------------------------------------------------------


def test_a_row_major_shape() -> None:
    tracker = shape(2, 3)
    assert tracker.views == (View((2, 3), (3, 1)),)
    assert tracker.views[0].is_contiguous
    assert not tracker.is_masked
    assert rows(tracker) == [[0, 1, 2], [3, 4, 5]]
    assert tracker.real_size() == 6
    assert tracker.views[0].size == 6


def test_equal_trackers_are_one_object() -> None:
    assert shape(2, 3).permute((1, 0)) is shape(2, 3).permute([1, 0])
    assert shape(2, 3).permute((1, 0)).permute((1, 0)) is shape(2, 3)
    assert shape(2, 1).expand((2, 4)) is shape(2).reshape((2, 1)).expand((2, 4))
    numpy_sizes = shape(*np.array([2, 3])).pad(((np.int64(1), 0), (0, 0)))
    assert numpy_sizes is shape(2, 3).pad(((1, 0), (0, 0)))
    assert View((3,), (1,), 0, ((0, 3),)) is View((3,), (1,))
    assert View((3, 1), (1, 7)) is View((3, 1), (1, 0))
    assert View((0, 3), (9, 9), 5) is View.contiguous((0, 3))
    assert View((0, 3), (0, 0), 0, ((0, 0), (0, 0))) is View.contiguous((0, 3))
    # An axis with one visible position has no stride; an axis with none has nothing.
    assert View((4, 2), (1, 4), 0, ((2, 3), (0, 2))) is View((4, 2), (0, 4), 2, ((2, 3), (0, 2)))
    assert View((4, 2), (1, 4), 3, ((2, 2), (0, 2))) is View((4, 2), (0, 0), 0, ((0, 0), (0, 0)))
    assert View((4, 2), (1, 4), 3, ((2, 3), (0, 2))).strides == (0, 4)
    assert View((4,), (1,), 0, ((1, 3),)).strides == (1,)
    assert View((4,), (2,), 1, ((2, 3),)) is View((4,), (0,), 5, ((2, 3),))
    assert View((4,), (2,), 1, ((2, 2),)) is View((4,), (0,), 0, ((0, 0),))


def test_shapes_without_axes_and_without_elements() -> None:
    assert rows(shape()) == 0
    assert shape().reshape((1, 1)).reshape(()) is shape()
    assert shape(3, 0).reshape((0, 5)).shape == (0, 5)
    assert shape(0).pad(((1, 1),)).reshape((2, 1)).views == (
        View((2, 1), (0, 0), 0, ((0, 0), (0, 0))),
    )
    nothing = shape(0).pad(((0, 1),)).reshape(())
    assert rows(nothing) is None
    assert rows(nothing.reshape((1,)).expand((2,))) == [None, None]
    index, valid = nothing.index_and_valid([])
    assert (index.op, valid) == (Ops.CONST, b.const(dtypes.bool, False))


def test_composition_with_rows_that_are_all_invalid() -> None:
    column = View((6, 4), (1, 6), -12, ((2, 4), (0, 4)))
    nothing = View((3,), (0,), 0, ((0, 0),))
    assert compose(View((3,), (1,), 0), column) is nothing
    assert compose(View((3,), (1,), 16), column) is nothing
    assert compose(View((3,), (1,), 8), column) is View((3,), (6,), -10)
    assert compose(View((), (), 16), column) is None


def test_real_strides() -> None:
    assert shape(2, 1, 3).real_strides() == (3, 0, 1)
    assert shape(2, 1, 3).flip((0,)).expand((2, 5, 3)).real_strides() == (-3, 0, 1)
    two = shape(3, 4).permute((1, 0)).reshape((12,))
    assert two.real_strides() == (None,)
    assert two.reshape((1, 12)).expand((7, 12)).real_strides() == (0, None)
    blocks = shape(4, 4).permute((1, 0)).reshape((2, 8))
    assert blocks.real_strides()[0] == 2
    hidden = ShapeTracker((View((12,), (1,), 0, ((3, 3),)), View((4, 3), (1, 4))))
    assert hidden.real_strides() == (0, 0)


def test_index_and_valid() -> None:
    i = b.counter(3, 0, AxisKind.LOOP)
    j = b.counter(4, 1, AxisKind.LOOP)
    index, valid = shape(3, 4).index_and_valid((i, j))
    assert index is b.add(b.mul(i, 4), j)
    assert valid is b.const(dtypes.bool, True)
    assert shape(3, 4).index_and_valid() == shape(3, 4).index_and_valid()
    assert shape(3, 4).index_and_valid()[0].dtype is dtypes.index
    _, valid = shape(3, 2).pad(((0, 0), (0, 2))).index_and_valid((i, j))
    assert valid is b.less(j, 2)


def test_index_and_valid_wants_one_position_per_axis() -> None:
    with pytest.raises(UserError, match=r"index: 1 positions for shape \(3, 4\)"):
        shape(3, 4).index_and_valid([N])


def test_trackers_and_views_do_not_pickle() -> None:
    for value in (shape(3), View.contiguous((3,))):
        with pytest.raises(TypeError, match="do not pickle"):
            pickle.dumps(value)


# --- refusals ------------------------------------------------------------------------------------


def test_a_cached_value_does_not_admit_values_that_compare_equal() -> None:
    # True == 1 == 1.0: a cache that is asked first would confuse them.
    start = ShapeTracker.from_shape((12, 1))
    for good, bad, rule in (
        ((1, 12), (True, 12), "reshape"),
        ((2, 6), (2.0, 6), "reshape"),
        ((12, 1), (12, True), "expand"),
        ((1, 0), (True, 0), "permute"),
        ((1, 0), (1.0, 0), "permute"),
        ((0,), (False,), "flip"),
        ((0,), (0.0,), "flip"),
        (((0, 1), (0, 1)), ((0, True), (0, 1)), "pad"),
        (((0, 1), (0, 1)), ((0, 1.0), (0, 1)), "shrink"),
    ):
        getattr(start, rule)(good)
        with pytest.raises(UserError, match=rule):
            getattr(start, rule)(bad)
    with pytest.raises(UserError, match="shape: a size is an integer"):
        ShapeTracker.from_shape((12, True))


@pytest.mark.table
@pytest.mark.parametrize(
    ("name", "argument", "message"),
    [
        ("reshape", (5, 2), "reshape: cannot view (3, 4) as (5, 2): 12 elements against 10"),
        ("reshape", (-1, 12), "reshape: axis 0 has size -1, accepted are sizes from 0 up"),
        ("reshape", (2.0, 6), "reshape: a size is an integer or an index expression, got 2.0"),
        ("reshape", (True, 12), "reshape: a size is an integer or an index expression, got True"),
        ("reshape", (b.variable("k", 1, 12),), "12 elements against k"),
        ("reshape", (b.variable("k", 1, 9, dtypes.int32),), "reshape: a symbolic size has dtype"),
        ("permute", (0, 0), "permute: order (0, 0) is not a permutation of the 2 axes"),
        ("permute", (0,), "permute: order (0,) is not a permutation of the 2 axes"),
        ("permute", (0, -1), "permute: order (0, -1) is not a permutation of the 2 axes"),
        ("expand", (3, 8), "expand: cannot grow axis 1 from 4 to 8: only axes of size 1 expand"),
        ("expand", (3, 0), "expand: cannot grow axis 1 from 4 to 0"),
        ("expand", (3,), "expand: 1 entries for shape (3, 4), accepted is one per axis, 2"),
        ("pad", ((0, 0), (-1, 0)), "pad: axis 1 has bounds (-1, 0), accepted are bounds from 0"),
        ("pad", ((0, 0),), "pad: 1 entries for shape (3, 4)"),
        ("pad", (1, 1), "pad: bounds are pairs, got 1"),
        ("pad", ((0, 0), (1, 1, 1)), "pad: bounds are pairs, got (1, 1, 1)"),
        ("shrink", ((0, 3), (1,)), "shrink: bounds are pairs, got (1,)"),
        ("shrink", ((0, 4), (0, 4)), "shrink: axis 0 of size 3 cannot keep (0, 4)"),
        ("shrink", ((2, 1), (0, 4)), "accepted is 0 <= begin <= end <= 3"),
        ("shrink", ((-1, 1), (0, 4)), "shrink: axis 0 of size 3 cannot keep (-1, 1)"),
        ("shrink", ((0, b.variable("k", 0, 4)), (0, 4)), "shrink: axis 0 of size 3 cannot keep"),
        ("flip", (2,), "flip: axes (2,) of 2, accepted are different axes from 0 up"),
        ("flip", (0, 0), "flip: axes (0, 0) of 2"),
        ("flip", (-1,), "flip: axes (-1,) of 2"),
    ],
)
def test_a_wrong_movement_is_refused(name: str, argument: Any, message: str) -> None:
    with pytest.raises(UserError) as caught:
        getattr(shape(3, 4), name)(argument)
    assert message in str(caught.value)


def test_wrong_views_are_refused() -> None:
    with pytest.raises(UserError, match="got no view"):
        ShapeTracker(())
    with pytest.raises(UserError, match="view 1 reaches elements 0 to 3 of the 3 of the view"):
        ShapeTracker((View.contiguous((3,)), View.contiguous((4,))))
    with pytest.raises(UserError, match="view 1 reaches elements -1 to 1"):
        ShapeTracker((View.contiguous((3,)), View((3,), (1,), -1)))
    with pytest.raises(UserError, match="reaches elements 0 to 5"):
        shape(2).followed_by(shape(6))
    with pytest.raises(UserError, match=r"mask \(\(-1, 2\),\) is not inside"):
        View((3,), (1,), 0, ((-1, 2),))
    with pytest.raises(UserError, match=r"view: mask \(\(0, 4\),\) is not inside shape \(3,\)"):
        View((3,), (1,), 0, ((0, 4),))
    with pytest.raises(UserError, match="1 sizes against 2 bounds"):
        View((3,), (1,), 0, ((0, 2), (0, 2)))


MOVES: list[tuple[Ops, Payload, tuple[int, ...]]] = [
    (Ops.RESHAPE, ShapeArg((4, 3)), (4, 3)),
    (Ops.EXPAND, ShapeArg((3, 4)), (3, 4)),
    (Ops.PERMUTE, PermuteArg((1, 0)), (4, 3)),
    (Ops.PAD, BoundsArg(((1, 0), (0, 2))), (4, 6)),
    (Ops.SHRINK, BoundsArg(((1, 2), (0, 2))), (1, 2)),
    (Ops.FLIP, FlipArg((0,)), (3, 4)),
]


@pytest.mark.parametrize(("op", "payload", "sizes"), MOVES)
def test_apply_movement(op: Ops, payload: Payload, sizes: tuple[int, ...]) -> None:
    assert apply_movement(shape(3, 4), op, payload).shape == sizes
    with pytest.raises(UserError, match=f"movement: cannot move by {op.name} with payload"):
        apply_movement(shape(3, 4), op, None)


def test_apply_movement_takes_movements_alone() -> None:
    with pytest.raises(UserError, match="movement: cannot move by ADD"):
        apply_movement(shape(3), Ops.ADD, None)


# --- symbolic sizes ------------------------------------------------------------------------------


def test_symbolic_shapes_have_one_form() -> None:
    assert shape(N, 4).reshape((b.mul(4, N),)) is shape(b.mul(N, 4))
    assert shape(b.add(N, 1), 2).views[0].size is shape(b.add(b.mul(2, N), 2)).shape[0]
    assert shape(N, 4).reshape((4, N)).reshape((N, 2, 2)) is shape(N, 2, 2)
    assert shape(b.add(N, 0), b.const(dtypes.index, 3)).shape == (N, 3)
    assert shape(N, M).permute((1, 0)).permute((1, 0)) is shape(N, M)


def test_symbolic_views_merge() -> None:
    assert len(shape(N, 4).reshape((N, 2, 2)).permute((0, 2, 1)).views) == 1
    assert shape(10).shrink(((0, N),)).views == (View((N,), (1,)),)
    assert shape(4, 5).shrink(((0, N), (1, 4))).real_strides() == (5, 1)
    assert shape(N, 3).flip((0,)).views == (
        View((N, 3), (-3, 1), b.add(b.mul(N, 3), b.const(dtypes.index, -3))),
    )
    assert shape(N, 3).flip((0,)).flip((0,)) is shape(N, 3)
    assert shape(1, 3).expand((N, 3)).real_strides() == (0, 1)
    assert shape(N, 3).real_size() == 12
    assert shape(4).shrink(((b.variable("a", 0, 2), 4),)).real_size() == 4


def test_what_cannot_be_proved_takes_a_second_view() -> None:
    z = b.variable("z", -2, 2)
    swaying = View((3,), (z,), 4)
    assert swaying.reach() == (-2, 10)
    assert swaying.ends() is not None
    assert compose(View((2,), (1,), 1), swaying) is View((2,), (z,), b.add(z, 4))
    assert len(shape(6, N).permute((1, 0)).reshape((b.mul(N, 3), 2)).views) == 2
    assert len(shape(6, N).permute((1, 0)).reshape((N, 3, 2)).views) == 1
    assert len(shape(N, M).permute((1, 0)).reshape((b.mul(N, M),)).views) == 2


def test_wording() -> None:
    tracker = shape(N, 3).pad(((0, 0), (1, 1)))
    assert repr(tracker) == "ShapeTracker(View((n, 5), (3, 1), -1, ((0, n), (1, 4))))"
    assert repr(shape(3)) == "ShapeTracker(View((3,), (1,), 0, None))"


def test_symbolic_padding() -> None:
    tracker = shape(N).pad(((1, b.add(b.mul(N, -1), 4)),))
    assert tracker.shape == (5,)
    assert tracker.shrink(((1, b.add(N, 1)),)) is shape(N)
    assert tracker.variables() == (N,)


def test_substitute() -> None:
    tracker = shape(N, 4).permute((1, 0)).pad(((0, 0), (M, 1)))
    assert tracker.variables() == (M, N)
    three = b.const(dtypes.index, 3)
    concrete = tracker.substitute({N: three, M: b.const(dtypes.index, 0)})
    assert concrete is shape(3, 4).permute((1, 0)).pad(((0, 0), (0, 1)))


def test_numpy_indices_need_every_variable_within_its_bounds() -> None:
    assert rows_with(shape(N, 2), {"n": 2}) == [[0, 1], [2, 3]]
    with pytest.raises(UserError, match=r"variable n has no value: give one from 1 to 4"):
        shape(N).numpy_indices()
    with pytest.raises(UserError, match=r"variable n is 5, accepted is 1 to 4"):
        shape(N).numpy_indices({"n": 5})
    bound = UOp(Ops.BIND, dtypes.index, (N, b.const(dtypes.index, 2)))
    assert rows_with(shape(bound), {"n": 2}) == [0, 1]


def rows_with(tracker: ShapeTracker, bindings: dict[str, int]) -> Any:
    indices, valid = tracker.numpy_indices(bindings)
    return np.where(valid, indices.astype(object), None).tolist()


class SymbolicChain:
    """Movements of a symbolic shape, with a function that repeats them on concrete sizes."""

    def __init__(self, sizes: tuple[int | UOp, ...]) -> None:
        self.sizes = sizes
        self.tracker = ShapeTracker.from_shape(sizes)
        self.steps: list[tuple[str, Any]] = []

    def move(self, draw: st.DrawFn) -> None:
        sizes = self.tracker.shape
        rank = len(sizes)
        name = draw(st.sampled_from(["permute", "pad", "shrink", "flip", "merge", "split", "one"]))
        argument: Any
        if name == "permute":
            argument = tuple(draw(st.permutations(range(rank))))
        elif name == "pad":
            ends = st.sampled_from([0, 1, 2, M])
            argument = tuple((draw(ends), draw(ends)) for _ in range(rank))
        elif name == "shrink":
            choices = {4: [(0, N), (M, 4), (1, 3), (3, 4)], 2: [(1, 2), (0, 1)], N: [(0, 1)]}
            argument = tuple(
                draw(st.sampled_from([*choices.get(size, []), (0, size)])) for size in sizes
            )
        elif name == "flip":
            argument = tuple(axis for axis in range(rank) if draw(st.booleans()))
        elif name == "merge" and rank >= 2:
            axis = draw(st.integers(0, rank - 2))
            merged = ShapeTracker.from_shape(sizes[axis : axis + 2]).views[0].size
            name, argument = "reshape", (*sizes[:axis], merged, *sizes[axis + 2 :])
        elif name == "split" and rank and sizes[0] != 0 and isinstance(sizes[0], int):
            divisors = [d for d in range(1, sizes[0] + 1) if sizes[0] % d == 0]
            part = draw(st.sampled_from(divisors))
            name, argument = "reshape", (part, sizes[0] // part, *sizes[1:])
        else:
            name, argument = "reshape", (1, *sizes)
        self.steps.append((name, argument))
        self.tracker = getattr(self.tracker, name)(argument)

    def concrete(self, bindings: dict[str, int]) -> ShapeTracker:
        def fix(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(fix, value))
            return value_of(value, bindings) if isinstance(value, UOp) else value

        tracker = ShapeTracker.from_shape(fix(self.sizes))
        for name, argument in self.steps:
            tracker = getattr(tracker, name)(fix(argument))
        return tracker


@st.composite
def symbolic_chains(draw: st.DrawFn) -> SymbolicChain:
    sizes = st.sampled_from([N, M, 1, 2, 4, b.mul(N, 2), b.add(N, M)])
    chain = SymbolicChain(tuple(draw(st.lists(sizes, min_size=1, max_size=3))))
    for _ in range(draw(st.integers(0, 5))):
        chain.move(draw)
    return chain


@pytest.mark.slow
@settings(max_examples=200)
@given(symbolic_chains(), st.integers(1, 4), st.integers(0, 3))
def test_symbolic_trackers_are_what_they_are_for_each_value(
    chain: SymbolicChain, n: int, m: int
) -> None:
    bindings = {"n": n, "m": m}
    want_index, want_valid = chain.concrete(bindings).numpy_indices()
    index, valid = chain.tracker.numpy_indices(bindings)
    np.testing.assert_array_equal(valid, want_valid)
    np.testing.assert_array_equal(index, want_index)
    np.testing.assert_array_equal(view_elements(chain.tracker, bindings), (want_index, want_valid))
    constants = {N: b.const(dtypes.index, n), M: b.const(dtypes.index, m)}
    index, valid = (substitute(node, constants) for node in chain.tracker.index_and_valid())
    counters = {x for root in (index, valid) for x in root.toposort() if x.op is Ops.RANGE}
    positions = list(itertools.product(*map(range, want_index.shape)))
    for position in positions[:: max(1, len(positions) // 12)]:
        values = {counter: np.array(position[counter.arg.number]) for counter in counters}
        assert evaluate_expression(valid, values) == want_valid[position], chain.steps
        actual = evaluate_expression(index, values)
        assert not want_valid[position] or actual == want_index[position]
    fixed = chain.tracker.substitute(constants)
    np.testing.assert_array_equal(fixed.numpy_indices()[0], want_index)
    reach = chain.tracker.reach()
    if want_valid.any():
        assert reach is not None
        assert reach[0] <= want_index[want_valid].min()
        assert reach[1] >= want_index[want_valid].max()
    for stride, axis in zip(chain.tracker.real_strides(), itertools.count(), strict=False):
        if stride is not None and want_index.shape[axis] > 1:
            step = value_of(stride, bindings)
            ahead = np.take(want_index, range(1, want_index.shape[axis]), axis)
            behind = np.take(want_index, range(want_index.shape[axis] - 1), axis)
            both = np.take(want_valid, range(1, want_index.shape[axis]), axis) & np.take(
                want_valid, range(want_index.shape[axis] - 1), axis
            )
            assert set((ahead - behind)[both].tolist()) <= {step}


def test_positions_of_a_view_of_more_than_memory_holds():
    row = ShapeTracker.from_shape((2, 1)).expand((2, 10**12)).reshape((2 * 10**12,))
    steps = row.shrink(((0, 4 * (5 * 10**11 - 1)),)).reshape((4, 5 * 10**11 - 1))
    indices, valid = steps.shrink(((0, 4), (0, 2))).numpy_indices()
    assert indices.tolist() == [[0, 0], [0, 0], [0, 0], [1, 1]]
    assert valid.all()
