"""What is known of views through views: each thing that is not so is seen, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.node import sint
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_spec.proofs.known_views import drawn, one_view, shown, unjoined_views, wrong_view

ROW = View((6,), (1,))
TURNED = ShapeTracker.from_shape((2, 3)).permute((1, 0)).flip((0,))
ELEMENTS = np.array([[2, 5], [1, 4], [0, 3]])

# Two views, and the one that shows the same; None where there is none, or nobody looks for it.
PAIRS: list[tuple[View, View, View | None]] = [
    (ROW, View((2, 3), (3, 1)), View((2, 3), (3, 1))),
    (View((6,), (-1,), 5), View((2, 3), (3, 1)), View((2, 3), (-3, -1), 5)),
    # A mask that is met through steps back.
    (
        View((6,), (1,), -1, ((1, 5),)),
        View((6,), (-1,), 5),
        View((6,), (-1,), 4, ((1, 5),)),
    ),
    (View((3, 2), (1, 3)), View((6,), (1,)), None),
    (View((2, 3), (3, 1), 0, ((0, 2), (1, 3))), View((6,), (1,)), None),
    # All but one of the elements are hidden.
    (View((2, 3), (0, 0), 8, ((0, 2), (1, 2))), View((5,), (1,), -1, ((1, 5),)), None),
    # Steps over an axis that repeats: 75, 90 and 105 of 300 are elements 25, 40 and 55 by chance.
    (View((6, 2, 25), (25, 0, 1)), View((3,), (15,), 75), None),
    (View((4, 2), (1, 0)), View((4,), (2,)), View((4,), (1,))),
    # Nothing is owed of sizes that are not known, or that are many.
    (View((6,), (1,)), View((build.variable("n", 1, 6, dtypes.index),), (1,)), None),
    (View((1 << 20,), (1,)), View((1 << 19,), (1,)), None),
]


@pytest.mark.table
@pytest.mark.parametrize(("inner", "outer", "one"), PAIRS)
def test_views_that_stay_two_are_seen(inner: View, outer: View, one: View | None) -> None:
    found = unjoined_views(ShapeTracker((inner, outer)))
    assert (found.one if found else None) == one
    if found is not None:
        assert "views stay two" in found.describe()
        exec(found.script(), {})


def known(name: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is said of a tracker of which something else is known."""
    assert wrong_view(TURNED, ELEMENTS) is None
    monkeypatch.setattr(ShapeTracker, name, lambda self, *arguments: value)
    found = wrong_view(TURNED, ELEMENTS)
    assert found is not None
    return found.describe()


def test_other_elements_are_seen() -> None:
    found = wrong_view(TURNED, ELEMENTS + 1)
    assert found is not None
    assert found.describe() == f"the elements are other ones of {TURNED!r}"
    exec(found.script(), {})


def test_another_index_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    index = build.const(dtypes.index, 2), build.const(dtypes.bool, True)
    assert "the index gives other elements" in known("index_and_valid", index, monkeypatch)


@pytest.mark.parametrize("reach", [(0, 4), (1, 5), (0, 6), None])
def test_another_reach_is_seen(
    reach: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f"it reaches 0 to 5, not {reach}" in known("reach", reach, monkeypatch)


@pytest.mark.parametrize("strides", [(-1, 2), (-1, None)])
def test_other_steps_are_seen(
    strides: tuple[sint | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = known("real_strides", strides, monkeypatch)
    assert f"axis 1 has the steps {{3}}, not {strides[1]}" in said


def test_a_view_of_no_elements_that_is_not_the_plain_one_is_seen() -> None:
    nothing = np.zeros((0, 3), np.int64)
    assert wrong_view(ShapeTracker.from_shape((0, 3)), nothing) is None
    found = wrong_view(ShapeTracker((ROW, View((0, 3), (3, 1)))), nothing)
    assert found is not None
    assert "without elements it is not the plain view" in found.describe()


def test_what_is_drawn_has_every_kind() -> None:
    every = list(drawn("kinds", 300))
    assert any(elements.size == 0 for _, elements in every)
    assert any((elements < 0).any() for _, elements in every)
    assert {len(tracker.views) for tracker, _ in every} >= {1, 2}
    assert all(wrong_view(tracker, elements) is None for tracker, elements in every)


def test_one_view_is_found_by_trial() -> None:
    assert one_view(ELEMENTS) == View((3, 2), (-1, 3), 2)
    assert one_view(np.array([-1, 7, 9, -1])) == View((4,), (2,), 5, ((1, 3),))
    assert one_view(np.array([0, 1, 3])) is None
    assert one_view(np.array([0, -1, 2])) is None
    assert one_view(np.array(4)) == View((), (), 4)
    assert one_view(np.array(-1)) is None
    assert shown(ShapeTracker((View((2,), (2,)),))).tolist() == [0, 2]
