"""Views and outputs that are drawn for one purpose: what they show, element by element."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.uops.build import slot_of
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.generate import views
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.policies import FORMS, Policy
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.generate.views import Movement
from tinyref_spec.kernel_case import Mode

PYTHON = Device["PYTHON"].capabilities
EVERY_FORM = Policy("every form")
EXACT = {Mode.EXACT: 1.0, Mode.FLOAT: 0.0, Mode.EDGE: 0.0}


def shown(movement: Movement, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """The number of the element that each position shows, -1 where it shows none."""
    sizes = []

    def rest(inner: tuple[int, ...]) -> ShapeTracker:
        sizes.append(inner)
        return ShapeTracker.from_shape(inner)

    tracker = movement(Tape(seed=seed), shape, rest)
    assert tracker.shape == shape
    numbers, valid = tracker.numpy_indices()
    return np.where(valid, numbers, -1).reshape(shape)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_blanked_leaves_the_others_where_they_were(seed: int) -> None:
    found = shown(views.blank_ends, (4, 7), seed)
    places = np.arange(28).reshape(4, 7)
    assert np.array_equal(found[found >= 0], places[found >= 0])
    # One axis alone has no elements at its ends, which may be all of it.
    rows, columns = (found >= 0).any(axis=1), (found >= 0).any(axis=0)
    assert rows.all() or columns.all() or not (found >= 0).any()


def test_blanks_are_drawn() -> None:
    assert any((shown(views.blank_ends, (6,), seed) < 0).any() for seed in range(8))


@pytest.mark.parametrize("seed", range(12))
def test_what_overlaps_begins_anew_after_a_period(seed: int) -> None:
    found = shown(views.overlap, (9,), seed)
    inside = found[found >= 0]
    period = int(inside.max()) + 1
    assert np.array_equal(inside, np.arange(inside.size) % period)
    assert np.flatnonzero(found >= 0).tolist() == list(
        range(np.flatnonzero(found >= 0)[0], np.flatnonzero(found >= 0)[0] + inside.size)
    )


def test_periods_are_drawn_that_are_one_short() -> None:
    """The last element of all is the first one again: where a bound that is off by one shows."""
    periods = []
    for seed in range(40):
        inside = shown(views.overlap, (9,), seed)
        inside = inside[inside >= 0]
        periods.append(inside.size - 1 == inside.max() + 1)
    assert any(periods)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_sampled_steps_through_a_row_beyond_32_bits(seed: int) -> None:
    tracker = views.sample(Tape(seed=seed), (5,), ShapeTracker.from_shape)
    sizes = [size for view in tracker.views for size in view.shape]
    assert tracker.shape == (5,)
    assert max(sizes) > 1_000_000_000
    # Elements come again and again; their numbers rise along the row of blocks.
    numbers, valid = tracker.numpy_indices()
    assert valid.all()
    assert int(numbers.min()) >= 0


# --- outputs --------------------------------------------------------------------------------------


def only(form: str, **changes: object) -> object:
    policy = replace(EVERY_FORM, forms={each: float(each == form) for each in FORMS})
    return replace(policy, lists=(0, 0), **changes)


@pytest.mark.long
def test_another_output_reads_what_one_overwrites() -> None:
    policy = replace(EVERY_FORM, outputs=100, in_place=100, lists=(0, 0), equivalent=0)
    found = 0
    for seed in range(60):
        case = generate(Tape(seed=seed), PYTHON, policy)
        written = {slot_of(store) for store in case.ast.src}
        for store in case.ast.src:
            loads = [node for node in store.src[1].toposort() if node.op is Ops.LOAD]
            found += bool({slot_of(load) for load in loads} & written - {slot_of(store)})
    assert found >= 10


def test_an_output_in_place_may_be_read_by_others_alone() -> None:
    policy = replace(EVERY_FORM, in_place=100, lists=(0, 0), equivalent=0)
    alone = 0
    for seed in range(60):
        case = generate(Tape(seed=seed), PYTHON, policy)
        reads = {
            slot_of(store): {slot_of(n) for n in store.src[1].toposort() if n.op is Ops.LOAD}
            for store in case.ast.src
        }
        alone += any(
            own not in reads[own] and any(own in read for read in reads.values()) for own in reads
        )
    assert alone >= 10


def test_rows_of_texels_are_of_whole_texels() -> None:
    for seed in range(20):
        case = generate(Tape(seed=seed), PYTHON, only("texels", modes=EXACT))
        loads = [node for node in case.ast.toposort() if node.op is Ops.LOAD]
        floats = [node for node in loads if node.dtype in (dtypes.float32, dtypes.float16)]
        assert floats
        shapes = [node.src[0].arg.tracker.shape for node in floats]
        assert any(size % 4 == 0 and size for shape in shapes for size in shape)
