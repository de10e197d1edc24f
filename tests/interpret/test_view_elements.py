"""How the evaluator reads views: by the definition, against literals."""

from __future__ import annotations

import numpy as np
import pytest

from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.interpret.evaluate import size_value, view_elements
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.views import shape_tracker
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View

N = build.variable("n", 1, 4)


def shown(tracker: ShapeTracker, places: tuple[np.ndarray, ...] = (), **bindings: int) -> list:
    elements, valid = view_elements(tracker, bindings, places)
    return np.where(valid, elements, -1).tolist()


def test_strides_offset_and_mask() -> None:
    # Two rows of a matrix of three columns, from the last to the first, with a column around them.
    view = View((2, 5), (-3, 1), 2, ((0, 2), (1, 4)))
    assert shown(ShapeTracker((View.contiguous((6,)), view))) == [
        [-1, 3, 4, 5, -1],
        [-1, 0, 1, 2, -1],
    ]


def test_a_view_of_a_view_is_row_major() -> None:
    turned = ShapeTracker.from_shape((2, 3)).permute((1, 0)).reshape((2, 3))
    assert len(turned.views) == 2
    assert shown(turned) == [[0, 3, 1], [4, 2, 5]]


def test_what_is_masked_inside_stays_so_outside() -> None:
    padded = ShapeTracker.from_shape((2,)).pad(((1, 1),)).reshape((2, 2)).permute((1, 0))
    assert shown(padded.reshape((4,))) == [-1, 1, 0, -1]


def test_computed_places_are_positions_along_the_last_axes() -> None:
    places = (np.array([2, 0, -1, 3]),)
    assert shown(ShapeTracker.from_shape((4, 3)), places) == [2, 3, -1, -1]
    assert shown(ShapeTracker.from_shape((1, 3)), places) == [2, 0, -1, -1]
    assert shown(ShapeTracker.from_shape((4, 0)), places) == [-1, -1, -1, -1]


def test_symbolic_sizes_at_both_ends_through_two_views() -> None:
    rows = ShapeTracker.from_shape((4, 2)).shrink(((0, N), (0, 2))).flip((0,))
    turned = rows.permute((1, 0)).reshape((N * 2,))
    assert shown(turned, n=1) == [0, 1]
    assert shown(turned, n=4) == [6, 4, 2, 0, 7, 5, 3, 1]


def test_sizes_are_exact_and_truncate() -> None:
    seven = build.const(dtypes.index, 7)
    assert size_value(build.idiv(build.sub(N, seven), 2), {"n": 4}) == -1
    assert size_value(build.mod(build.sub(N, seven), 2), {"n": 4}) == -1
    for x, y, quotient, rest in (
        (-1, 1, -1, 0),
        (0, -3, 0, 0),
        (1, -1, -1, 0),
        (-7, -2, 3, -1),
        (7, -2, -3, 1),
        (5, 0, 0, 0),
        (-7, 7, -1, 0),
    ):
        sides = (build.add(N, x), build.add(N, y))
        given = tuple(build.sub(side, N) for side in sides)
        assert size_value(UOp(Ops.IDIV, dtypes.index, given), {"n": 4}) == quotient
        assert size_value(UOp(Ops.MOD, dtypes.index, given), {"n": 4}) == rest
    assert size_value(build.mul(N, 1 << 62), {"n": 4}) == 1 << 64
    assert size_value(build.maximum(N, 3), {"n": 2}) == 3
    with pytest.raises(UserError, match="variable n has no value"):
        size_value(N, {})
    with pytest.raises(UserError, match="SQRT does not belong in a size"):
        size_value(UOp(Ops.SQRT, dtypes.float32, (build.const(dtypes.float32, 4.0),)), {})


def test_the_views_of_the_compiler_may_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of what is lowered, nor of numpy_indices, is asked."""
    tracker = ShapeTracker.from_shape((2, 3)).permute((1, 0)).reshape((2, 3))

    def wrong(*given: object) -> None:
        raise AssertionError("the compiler's reading of views is asked")

    for name in ("index_and_valid", "numpy_indices"):
        monkeypatch.setattr(ShapeTracker, name, wrong)
    monkeypatch.setattr(View, "numpy_indices_at", wrong)
    monkeypatch.setattr(shape_tracker, "value_of", wrong)
    assert shown(tracker) == [[0, 3, 1], [4, 2, 5]]
