"""Laws of shape trackers on random chains of movements, against numpy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uop_graphs import evaluated
from view_elements import drawn, one_view, shown, unjoined_views, wrong_view

from tinyref.interpret.evaluate import view_elements
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker

Array = npt.NDArray[Any]
LAW = settings(max_examples=250)


def factorisations(draw: st.DrawFn, size: int) -> tuple[int, ...]:
    """A random shape with `size` elements."""
    if size == 0:
        shape = draw(st.lists(st.integers(0, 4), min_size=0, max_size=3))
        shape.insert(draw(st.integers(0, len(shape))), 0)
        return tuple(shape)
    shape = []
    while size > 1 and len(shape) < 4:
        divisors = [d for d in range(2, size + 1) if size % d == 0]
        shape.append(draw(st.sampled_from(divisors)))
        size //= shape[-1]
    if size > 1:
        shape.append(size)
    for _ in range(draw(st.integers(0, 2))):
        shape.insert(draw(st.integers(0, len(shape))), 1)
    return tuple(draw(st.permutations(shape)))


class Chain:
    """A tracker and the array that numpy makes of the same movements; -1 is an invalid position."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.base = shape
        self.tracker = ShapeTracker.from_shape(shape)
        self.array: Array = np.arange(int(np.prod(shape))).reshape(shape)
        self.steps: list[tuple[str, Any]] = []

    def move(self, draw: st.DrawFn) -> None:
        shape = self.array.shape
        names = ["reshape", "permute", "pad", "shrink", "flip", "expand"]
        name = draw(st.sampled_from(names))
        argument: Any
        if name == "reshape":
            argument = factorisations(draw, self.array.size)
            self.array = self.array.reshape(argument)
        elif name == "permute":
            argument = tuple(draw(st.permutations(range(len(shape)))))
            self.array = self.array.transpose(argument)
        elif name == "pad":
            argument = tuple(
                (draw(st.integers(0, 2)), draw(st.integers(0, 2)))
                if self.array.size < 300
                else (0, 0)
                for _ in shape
            )
            self.array = np.pad(self.array, argument, constant_values=-1) if shape else self.array
        elif name == "shrink":
            begins = [draw(st.integers(0, max(size - 1, 0))) for size in shape]
            argument = tuple(
                (begin, draw(st.integers(min(begin + (size > 0), size), size)))
                for begin, size in zip(begins, shape, strict=True)
            )
            self.array = self.array[tuple(slice(*pair) for pair in argument)]
        elif name == "flip":
            argument = tuple(axis for axis in range(len(shape)) if draw(st.booleans()))
            self.array = np.flip(self.array, argument)
        else:
            argument = tuple(
                draw(st.integers(0, 4)) if size == 1 and self.array.size < 200 else size
                for size in shape
            )
            self.array = np.broadcast_to(self.array, argument)
        self.steps.append((name, argument))
        self.tracker = getattr(self.tracker, name)(argument)


@st.composite
def chains(draw: st.DrawFn, most: int = 7) -> Chain:
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=4)))
    if draw(st.booleans()):
        shape = tuple(max(size, 1) for size in shape)
    chain = Chain(shape)
    for _ in range(draw(st.integers(0, most))):
        chain.move(draw)
    return chain


@pytest.mark.long
@LAW
@given(chains())
def test_numpy_indices_agree_with_numpy(chain: Chain) -> None:
    assert chain.tracker.shape == chain.array.shape
    np.testing.assert_array_equal(shown(chain.tracker), chain.array)
    elements, valid = view_elements(chain.tracker, {})
    np.testing.assert_array_equal(np.where(valid, elements, -1), chain.array)


@pytest.mark.slow
@settings(LAW, max_examples=120)
@given(chains())
def test_index_and_valid_agree_with_numpy(chain: Chain) -> None:
    index, valid = chain.tracker.index_and_valid()
    counters = sorted(
        {node for root in (index, valid) for node in root.toposort() if node.op is Ops.RANGE},
        key=lambda node: node.arg.number,
    )
    positions = list(itertools.product(*map(range, chain.array.shape)))
    for position in positions[:: max(1, len(positions) // 40)]:
        values = {counter: position[counter.arg.number] for counter in counters}
        got = evaluated(index, values) if evaluated(valid, values) else -1
        assert got == chain.array[position], (position, chain.steps)


@pytest.mark.slow
@LAW
@given(chains(4), st.data())
def test_followed_by_is_composition(first: Chain, data: st.DataObject) -> None:
    second = Chain(first.array.shape)
    for _ in range(data.draw(st.integers(0, 4))):
        second.move(data.draw)
    flat = first.array.reshape(-1)
    expected = second.array
    if flat.size:
        expected = np.where(second.array < 0, -1, flat[np.maximum(second.array, 0)])
    np.testing.assert_array_equal(shown(first.tracker.followed_by(second.tracker)), expected)


@pytest.mark.slow
@LAW
@given(chains())
def test_real_strides(chain: Chain) -> None:
    for axis, stride in enumerate(chain.tracker.real_strides()):
        ahead = np.take(chain.array, range(1, chain.array.shape[axis]), axis)
        behind = np.take(chain.array, range(chain.array.shape[axis] - 1), axis)
        steps = (ahead - behind)[(ahead >= 0) & (behind >= 0)]
        assert stride is None or set(steps.tolist()) <= {stride}, chain.steps


@pytest.mark.slow
@LAW
@given(chains())
def test_reach_and_contiguity(chain: Chain) -> None:
    touched = chain.array[chain.array >= 0]
    reach = chain.tracker.reach()
    if touched.size:
        assert reach is not None
        assert reach[0] <= touched.min()
        assert reach[1] >= touched.max()
        assert chain.tracker.real_size() <= np.prod(chain.base)
        if len(chain.tracker.views) == 1:
            assert reach == (touched.min(), touched.max())
            assert chain.tracker.real_size() == touched.max() + 1
    elif len(chain.tracker.views) == 1:
        assert reach is None
    if chain.tracker is ShapeTracker.from_shape(chain.tracker.shape):
        np.testing.assert_array_equal(chain.array.reshape(-1), np.arange(chain.array.size))


@pytest.mark.slow
@LAW
@given(chains())
def test_simplify_finds_the_one_view_if_there_is_one(chain: Chain) -> None:
    views = chain.tracker.views
    if len(views) == 1 and chain.array.size:
        assert views == (one_view(chain.array),)
    assert unjoined_views(chain.tracker) is None, chain.steps


@pytest.mark.long
def test_views_through_views_are_right_and_joined_where_one_shows_the_same() -> None:
    for tracker, elements in drawn("kernel.known_view.chains.drawn", 240):
        assert wrong_view(tracker, elements) is None
