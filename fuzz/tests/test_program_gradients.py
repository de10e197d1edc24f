"""Gradients of the eager evaluator, by literals."""

from __future__ import annotations

import numpy as np
import pytest

from tinyref_fuzz.programs.arithmetic import InexactError, UndefinedError
from tinyref_fuzz.programs.oracle import evaluate
from tinyref_fuzz.programs.reverse import slopes_of
from tinyref_fuzz.programs.steps import ProgramStep, TensorProgram


@pytest.mark.parametrize(
    ("op", "operands", "values", "expected"),
    [
        ("square", ([3.0, -5.0],), (), [[24.0, -60.0]]),
        ("cast", ([3.0, -5.0],), ("float16",), [[4.0, 6.0]]),
        ("mul", ([3.0, -5.0], [2.0]), (), [[8.0, 12.0], [-18.0]]),
        ("where", ([True, False], [1.0, 1.0], [2.0]), (), [None, [4.0, 0.0], [6.0]]),
        ("sum", ([[1.0, 2.0], [3.0, 4.0]],), ((0,), False), [[4.0, 6.0, 4.0, 6.0]]),
        ("cumsum", ([1.0, 2.0],), (0,), [[10.0, 6.0]]),
        (
            "matmul",
            ([[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]),
            (),
            [[36.0, 56.0], [4.0, 6.0, 8.0, 12.0]],
        ),
        ("prod", ([[2.0, 3.0], [5.0, 7.0]],), ((1,), False), [[12.0, 8.0, 42.0, 30.0]]),
        # Without a slope, the documented convention holds.
        ("relu", ([0.0, 1.0],), (), [[0.0, 6.0]]),
        ("max_number", ([1.0, 2.0],), (1,), [[2.0, 6.0]]),
        ("maximum", ([1.0, 2.0], [1.0, 3.0]), (), [[2.0, 0.0], [2.0, 6.0]]),
        ("minimum", ([1.0, 2.0], [1.0, 3.0]), (), [[2.0, 6.0], [2.0, 0.0]]),
        ("max", ([[5.0, 5.0], [5.0, 4.0]],), ((1,), False), [[2.0, 2.0, 6.0, 0.0]]),
        ("prod", ([[0.0, 3.0], [0.0, 0.0]],), ((1,), False), [[12.0, 0.0, 0.0, 0.0]]),
    ],
)
def test_each_operand_gets_its_gradient(op, operands, values, expected):
    arrays = [np.array(operand) for operand in operands]
    weights = np.array([4.0, 6.0])
    slopes = slopes_of(op, arrays, values)()
    parts = [None if slope is None else (weights @ slope).tolist() for slope in slopes]
    assert parts == expected


@pytest.mark.parametrize("x", [np.float64(3), np.array([[1.0, 2.0], [3.0, 4.0]]).T])
def test_elements_move_whatever_the_layout_of_their_memory_is(x):
    (slope,) = slopes_of("neg", [x], ())()
    assert slope.tolist() == (-np.eye(x.size)).tolist()


def test_a_share_that_rounds_is_refused():
    three = ProgramStep("data", (), (1,), ("float32", (3,), (5, 5, 5), 0, True))
    largest = ProgramStep("max", (1,), (2,), ((0,), False))
    with pytest.raises(InexactError):
        evaluate(TensorProgram((three, largest, ProgramStep("backward", (2,)))))


# --- gradients of `backward`, by literals -------------------------------------------------------


def data(number: int, *elements: float, grad: bool = False) -> ProgramStep:
    return ProgramStep("data", (), (number,), ("float32", (len(elements),), elements, 0, grad))


def reads(*steps: ProgramStep) -> list[object]:
    return [elements.tolist() for elements in evaluate(TensorProgram(steps))]


LEAF = data(1, 1, 2, 3, grad=True)
FIRST = ((0, 1, None),)


def test_gradients_add_up_until_they_are_cleared():
    results = reads(
        LEAF,
        ProgramStep("square", (1,), (3,)),
        ProgramStep("backward", (3, 1)),
        ProgramStep("grad", (1,), (4,)),
        ProgramStep("backward", (3, 3)),
        ProgramStep("grad", (1,), (5,)),
        ProgramStep("zero_grad", (1,)),
        ProgramStep("backward", (3, 1)),
        ProgramStep("grad", (1,), (6,)),
        *(ProgramStep("read", (number,)) for number in (4, 5, 6)),
    )
    assert results == [[2.0, 8.0, 18.0], [4.0, 24.0, 72.0], [2.0, 8.0, 18.0]]


def test_a_write_takes_the_gradient_of_what_it_overwrites():
    # The loss is the sum of w x, with w = x = [7, 4, 6]. The first element no longer depends on
    # leaf.
    results = reads(
        LEAF,
        data(2, 7),
        ProgramStep("mul_number", (1,), (3,), (2,)),
        ProgramStep("setitem", (3, 2), (), (FIRST,)),
        ProgramStep("backward", (3, 3)),
        ProgramStep("grad", (1,), (4,)),
        ProgramStep("read", (4,)),
    )
    assert results == [[0.0, 8.0, 12.0]]


def test_a_leaf_that_was_written_has_gradients_at_its_new_elements():
    results = reads(
        LEAF,
        ProgramStep("assign_number", (1,), (), (9,)),
        ProgramStep("square", (1,), (2,)),
        ProgramStep("backward", (2, 2)),
        ProgramStep("grad", (1,), (3,)),
        ProgramStep("read", (3,)),
    )
    assert results == [[1458.0, 1458.0, 1458.0]]


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((ProgramStep("grad", (1,), (2,)),), "there is none"),
        ((ProgramStep("setitem_number", (1,), (), (FIRST, 5)),), "a write to a leaf"),
        ((ProgramStep("square", (1,), (2,)), ProgramStep("backward", (2,))), "without weights"),
        (
            (
                ProgramStep("square", (1,), (2,)),
                ProgramStep("assign_number", (1,), (), (9,)),
                ProgramStep("backward", (2, 2)),
            ),
            "have been overwritten",
        ),
        (
            (
                ProgramStep("function", (), (9,), ((2,),), (ProgramStep("backward", (1, 1)),)),
                ProgramStep("call", (9,), (3,)),
            ),
            "depends on a replay",
        ),
    ],
    ids=["no-grad", "leaf", "no-weights", "lost", "replay"],
)
def test_steps_without_a_certain_gradient_are_undefined(steps, words):
    with pytest.raises(UndefinedError, match=words):
        evaluate(TensorProgram((LEAF, *steps)))
