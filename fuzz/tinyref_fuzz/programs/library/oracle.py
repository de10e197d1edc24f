"""Evaluate a program without side effects: exact elements, or values with derived bounds.

A result is exact if the exact oracle has it. If a float rounds, the result is a bounded value of
the spec: every operation propagates the errors of its operands and adds its own rounding. No
tolerance is fixed, and none depends on the library.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyref.dtype import dtype_from_name, numpy_dtype
from tinyref_fuzz.programs.arithmetic import (
    COMPUTE,
    MOVEMENTS,
    Elements,
    InexactError,
    UndefinedError,
    check_exact,
    compute,
)
from tinyref_fuzz.programs.arrays import Array
from tinyref_fuzz.programs.library.functions import APPLY, BOUNDED, LARGEST
from tinyref_fuzz.programs.oracle import Environment
from tinyref_fuzz.programs.steps import ProgramStep, TensorProgram
from tinyref_spec import bounded
from tinyref_spec.bounded import SLACK, expected_of
from tinyref_spec.bounded import Value as BoundedValue
from tinyref_spec.error_rules import smallest_normal
from tinyref_spec.oracles import Expected, round_to

DIV = "div"
# Operations that move or select elements, and never round.
_MOVING = frozenset({*MOVEMENTS, "cat", "stack", "pad", "contiguous", "clone", "where", "max"})
# The largest accepted error, relative to the largest result; with more, a program tests little.
_LEAST_DIGITS = 1 / 16
# Largest integers that float64 holds exactly.
_WHOLE = 2.0**53


class PureEnvironment(Environment):
    """The values of a program: elements, and a bounded value if a float rounded."""

    def __init__(self) -> None:
        super().__init__()
        self.bounds: dict[int, BoundedValue] = {}
        # The results of the reads, and their shapes and types.
        self.expected: list[Expected] = []
        self.read_arrays: list[Array] = []

    def run(self, step: ProgramStep) -> None:
        """Run one step. Raises `UndefinedError` if it has a side effect or an uncertain result."""
        with np.errstate(all="ignore"):
            if step.op == "read":
                self._read(step.args[0])
            elif step.op in ("data", "full", "arange"):
                self._store(step.target, _source(step))
            elif step.op in (*COMPUTE, *MOVEMENTS, APPLY, DIV):
                self._evaluate(step)
            else:
                raise UndefinedError(f"{step.op}: it has side effects, or no bound")

    def _read(self, number: int) -> None:
        array = self.arrays[number]
        self.read_arrays.append(array)
        if number in self.bounds:
            self.expected.append(expected_of(self.bounds[number], dtype_from_name(array.dtype)))
        else:
            self.expected.append(Expected(array.elements.reshape(-1)))

    def _store(self, number: int, elements: Elements) -> None:
        """Store elements, which may be inexact."""
        array = Array.unchecked(elements, device=0)
        array.store.number = number
        self.arrays[number] = array

    def _evaluate(self, step: ProgramStep) -> None:
        operands = [self.arrays[number].elements for number in step.args]
        inexact = [number for number in step.args if number in self.bounds]
        try:
            if inexact or step.op in (APPLY, DIV):
                raise InexactError("a float that rounds")
            self._store(step.target, _exact(step, operands))
        except InexactError:
            self._bound(step, operands)

    def _bound(self, step: ProgramStep, operands: Sequence[Elements]) -> None:
        values = [self._value(number) for number in step.args]
        floats = {value.dtype for value in values[step.op == "where" :]}
        if len(floats) > 1:
            raise UndefinedError("operands of several types")
        certain = _certain(step, values)
        if certain is not None:
            self._store(step.target, certain)
            return
        if step.op == "where":
            result = bounded.choose(operands[0], *values[1:])
        elif step.op in BOUNDED:
            result = BOUNDED[step.op](values, step.values)
        else:
            raise UndefinedError(f"{step.op}: has no bound")
        _check_useful(result)
        rounded = round_to(result.value, result.dtype).astype(numpy_dtype(result.dtype))
        self._store(step.target, rounded)
        if np.any(result.error):
            self.bounds[step.target] = result

    def _value(self, number: int) -> BoundedValue:
        if number in self.bounds:
            return self.bounds[number]
        array = self.arrays[number]
        elements = array.elements
        if elements.dtype.kind in "iu" and np.any(np.abs(elements.astype(np.float64)) > _WHOLE):
            raise UndefinedError("integers that float64 does not hold exactly")
        return bounded.exact(elements, dtype_from_name(array.dtype))


def _source(step: ProgramStep) -> Elements:
    match step.op:
        case "data":
            dtype, shape, elements, _, _ = step.values
            return np.array(elements, dtype).reshape(shape)
        case "full":
            dtype, shape, number, _ = step.values
            return np.full(shape, number, dtype)
    start, count, _ = step.values
    return np.arange(start, start + count, dtype="int32")


def _exact(step: ProgramStep, operands: Sequence[Elements]) -> Elements:
    """Return the elements if nothing rounds. Raises `InexactError` if something may."""
    if step.op in MOVEMENTS:
        return np.asarray(MOVEMENTS[step.op][1](operands, step.values))
    if step.op in _MOVING:
        return compute(step.op, operands, step.values)
    result = compute(step.op, operands, step.values)
    if _may_round(step):
        for elements in (*operands, result):
            check_exact(elements)
    return result


def _may_round(step: ProgramStep) -> bool:
    """Return False for comparisons and casts to integers: they never round."""
    is_cast = step.op == "cast" and not dtype_from_name(step.values[0]).is_float
    return not is_cast and step.op not in ("lt", "lt_number", "ne", "not")


def _certain(step: ProgramStep, values: Sequence[BoundedValue]) -> Elements | None:
    """Return the bools or integers that a step computes from floats with errors.

    Returns None for a step that computes floats. Raises `UndefinedError` if the errors leave an
    element undecided.
    """
    low = [value.value - SLACK * value.error for value in values]
    high = [value.value + SLACK * value.error for value in values]
    match step.op:
        case "lt" | "lt_number":
            ends = (low[1], high[1]) if step.op == "lt" else (step.values[0], step.values[0])
            result = np.asarray(high[0] < ends[0])
            is_open = ~result & ~np.asarray(low[0] >= ends[1])
        case "ne":
            result = np.asarray((high[0] < low[1]) | (high[1] < low[0]))
            is_open = ~result
        case "not":
            is_open = ~np.asarray((low[0] > 0) | (high[0] < 0))
            result = is_open
        case "cast" if not dtype_from_name(step.values[0]).is_float:
            dtype = dtype_from_name(step.values[0])
            if dtype.is_bool:
                result = np.asarray((low[0] > 0) | (high[0] < 0))
                is_open = ~result
            else:
                result = np.trunc(values[0].value)
                is_open = (np.trunc(low[0]) != result) | (np.trunc(high[0]) != result)
                limits = np.iinfo(dtype.name)
                is_open |= (result < limits.min) | (result > limits.max)
                is_open |= np.abs(result) > _WHOLE
            result = result.astype(numpy_dtype(dtype))
        case _:
            return None
    if np.any(is_open):
        raise UndefinedError(f"{step.op}: the error of an operand leaves the result undecided")
    return result


def _check_useful(value: BoundedValue) -> None:
    """Raise `UndefinedError` for a result out of range, or with a large error."""
    if not value.dtype.is_float:
        raise UndefinedError("an integer that rounds")
    error = SLACK * value.error
    size = np.abs(value.value)
    if not np.all(size + error <= LARGEST[value.dtype.name]):
        raise UndefinedError("a float that is too large")
    if np.any((size > 0) & (size - error < smallest_normal(value.dtype))):
        raise UndefinedError("a subnormal float, which libraries may flush to zero")
    if np.any(error > _LEAST_DIGITS * np.max(size, initial=0.0)):
        raise UndefinedError("a float with too large an error")


def evaluate_pure(program: TensorProgram) -> PureEnvironment:
    """Return the environment after all steps. Raises the `UndefinedError` of `run`."""
    environment = PureEnvironment()
    for step in program.steps:
        try:
            environment.run(step)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise UndefinedError(f"{step.op}: {type(error).__name__}: {error}") from error
    return environment
