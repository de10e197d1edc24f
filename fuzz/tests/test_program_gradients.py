"""The gradients of the eager evaluator: by central differences, at kinks by literals."""

from __future__ import annotations

import numpy as np
import pytest

from tinyref_fuzz.programs.arithmetic import COMPUTE, InexactError, UndefinedError
from tinyref_fuzz.programs.oracle import evaluate
from tinyref_fuzz.programs.reverse import BACK, rule_of
from tinyref_fuzz.programs.steps import Program, Step

# Elements are so far apart that a step of one reaches no kink.
X = np.array([[3.0, -4.0, 8.0], [0.0, 12.0, -9.0]])
Y = np.array([[-5.0, 16.0, 2.0], [6.0, 0.0, -13.0]])
ROW = np.array([[20.0, -21.0, 24.0]])
CHOICE = np.array([[True, False, True], [False, False, True]])
PLACES = np.array([1, 0, 1, 1])
CASES = {
    "neg": [((X,), ())],
    "relu": [((X + 0.5 * (X == 0) * 8,), ())],
    "square": [((X,), ())],
    "cast": [((X,), ("float32",))],
    "add_number": [((X,), (3,))],
    "mul_number": [((X,), (-3,))],
    "max_number": [((X,), (5,))],
    "add": [((X, Y), ()), ((X, ROW), ()), ((ROW, X), ())],
    "sub": [((X, Y), ()), ((X, ROW), ()), ((ROW, X), ())],
    "mul": [((X, Y), ()), ((X, ROW), ()), ((np.float64(3), X), ())],
    "maximum": [((X, Y), ()), ((X, ROW), ())],
    "minimum": [((X, Y), ()), ((ROW, X), ())],
    "where": [((CHOICE, X, Y), ()), ((CHOICE, ROW, Y), ()), ((CHOICE, X, ROW), ())],
    "sum": [((X,), ((0,), False)), ((X,), ((0, 1), True))],
    "max": [((X,), ((1,), False)), ((X,), ((0, 1), True))],
    # One factor of zero in a product, and none.
    "prod": [((X,), ((1,), False)), ((X,), ((0,), True)), ((X,), ((0, 1), False))],
    "cumsum": [((X,), (0,)), ((X,), (1,))],
    "matmul": [((X, Y.T), ())],
    "cat": [((X, ROW), (0,))],
    "stack": [((X, Y), (1,)), ((X, Y), (0,))],
    "pad": [((X,), (((1, 0), (2, 1)),))],
    "take": [((X, PLACES), ())],
    **{name: [((X,), (0,))] for name in ("contiguous", "clone", "to")},
}


def test_every_rule_has_a_case():
    assert CASES.keys() == BACK.keys()


@pytest.mark.parametrize("op", CASES)
def test_a_rule_gives_what_central_differences_give(op):
    for operands, values in CASES[op]:
        made = np.asarray(COMPUTE[op](operands, values))
        weights = np.arange(1.0, made.size + 1).reshape(made.shape)
        found = rule_of(op, [np.asarray(each) for each in operands], values)(weights)
        for place, operand in enumerate(operands):
            if operand.dtype.kind != "f":
                assert found[place] is None
                continue
            # Exact: every function is linear or square in each element, where it has no kink.
            for at in np.ndindex(operand.shape):
                step = np.zeros_like(operand)
                step[at] = 1.0
                up, down = (
                    COMPUTE[op]([*operands[:place], operand + by, *operands[place + 1 :]], values)
                    for by in (step, -step)
                )
                slope = ((up.astype(np.float64) - down.astype(np.float64)) * weights).sum() / 2
                assert found[place][at] == slope, (op, place, at)


@pytest.mark.parametrize(
    ("op", "operands", "values", "wanted"),
    [
        ("relu", ([0.0, 1.0],), (), [[0.0, 6.0]]),
        ("max_number", ([1.0, 2.0],), (1,), [[2.0, 6.0]]),
        ("maximum", ([1.0, 2.0], [1.0, 3.0]), (), [[2.0, 0.0], [2.0, 6.0]]),
        ("minimum", ([1.0, 2.0], [1.0, 3.0]), (), [[2.0, 6.0], [2.0, 0.0]]),
        ("max", ([[5.0, 5.0], [5.0, 4.0]],), ((1,), False), [[[2.0, 2.0], [6.0, 0.0]]]),
        ("prod", ([[0.0, 3.0], [0.0, 0.0]],), ((1,), False), [[[12.0, 0.0], [0.0, 0.0]]]),
    ],
)
def test_where_there_is_no_slope_the_convention_holds(op, operands, values, wanted):
    arrays = [np.array(each) for each in operands]
    weights = np.array([4.0, 6.0])
    assert [part.tolist() for part in rule_of(op, arrays, values)(weights)] == wanted


def test_a_share_that_rounds_is_refused():
    three = Step("data", (), (1,), ("float32", (3,), (5, 5, 5), 0, True))
    largest = Step("max", (1,), (2,), ((0,), False))
    with pytest.raises(InexactError):
        evaluate(Program((three, largest, Step("backward", (2,)))))


# --- what `backward` leaves, by literals ---------------------------------------------------------


def data(number: int, *elements: float, grad: bool = False) -> Step:
    return Step("data", (), (number,), ("float32", (len(elements),), elements, 0, grad))


def reads(*steps: Step) -> list[object]:
    return [each.tolist() for each in evaluate(Program(steps))]


LEAF = data(1, 1, 2, 3, grad=True)
FIRST = ((0, 1, None),)


def test_gradients_add_up_until_they_are_cleared():
    found = reads(
        *(LEAF, Step("square", (1,), (3,))),
        *(Step("backward", (3, 1)), Step("grad", (1,), (4,)), Step("backward", (3, 3))),
        *(Step("grad", (1,), (5,)), Step("zero_grad", (1,)), Step("backward", (3, 1))),
        *(Step("grad", (1,), (6,)), *(Step("read", (number,)) for number in (4, 5, 6))),
    )
    assert found == [[2.0, 8.0, 18.0], [4.0, 24.0, 72.0], [2.0, 8.0, 18.0]]


def test_a_write_takes_the_gradient_of_what_it_overwrites():
    # The sum of w x with w = x as it is then: of x = [7, 4, 6] the first is no part of 2 leaf.
    found = reads(
        *(LEAF, data(2, 7), Step("mul_number", (1,), (3,), (2,))),
        *(Step("setitem", (3, 2), (), (FIRST,)), Step("backward", (3, 3))),
        *(Step("grad", (1,), (4,)), Step("read", (4,))),
    )
    assert found == [[0.0, 8.0, 12.0]]


@pytest.mark.parametrize("op", ["neg", "square"])
def test_only_rules_that_read_no_elements_go_back_through_what_is_lost(op):
    steps = (
        *(LEAF, Step(op, (1,), (2,)), Step("assign_number", (1,), (), (9,))),
        *(Step("backward", (2, 2)), Step("grad", (1,), (3,)), Step("read", (3,))),
    )
    if op == "neg":
        assert reads(*steps) == [[1.0, 2.0, 3.0]]
        return
    with pytest.raises(UndefinedError, match="other elements by now"):
        reads(*steps)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((Step("grad", (1,), (2,)),), "there is none"),
        ((Step("setitem_number", (1,), (), (FIRST, 5)),), "a write to a leaf"),
        ((Step("square", (1,), (2,)), Step("backward", (2,))), "without weights"),
        (
            (
                Step("function", (), (9,), ((2,),), (Step("backward", (1, 1)),)),
                Step("call", (9,), (3,)),
            ),
            "depends on a replay",
        ),
    ],
    ids=["no-grad", "leaf", "no-weights", "replay"],
)
def test_what_tinyref_refuses_or_leaves_open_is_undefined(steps, words):
    with pytest.raises(UndefinedError, match=words):
        evaluate(Program((LEAF, *steps)))
