"""What a program without side effects gives: exact elements, or a value with a derived bound.

A result is exact where the exact oracle of programs has it. Where a float rounds, the result is
that of the spec's bounded values: every operation passes the errors of its operands on and adds its
own roundings. So no tolerance is fixed, and none depends on the library.
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
from tinyref_fuzz.programs.arrays import Array, Store
from tinyref_fuzz.programs.library.functions import APPLY, BOUNDED
from tinyref_fuzz.programs.oracle import Environment
from tinyref_fuzz.programs.reverse import GradientRecord
from tinyref_fuzz.programs.steps import ProgramStep, TensorProgram
from tinyref_spec import bounded
from tinyref_spec.bounded import SLACK, expected_of
from tinyref_spec.bounded import Value as BoundedValue
from tinyref_spec.oracles import Expected, round_to

DIV = "div"
# Operations that move or choose elements, and never round one.
_MOVING = frozenset({*MOVEMENTS, "cat", "stack", "pad", "contiguous", "clone", "where", "max"})
# Float results stay below these, and are known to a sixteenth of the largest one: the rest of a
# program would say little.
_LARGEST = {"float16": 2.0**14, "float32": 2.0**60, "float64": 2.0**60}
_LEAST_DIGITS = 1 / 16
# Integers that float64 holds exactly.
_WHOLE = 2.0**53


class PureEnvironment(Environment):
    """What the numbers of a program stand for: elements, and a bounded value where one rounded.

    expected: what the reads gave, with shape and type in `read_arrays`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bounds: dict[int, BoundedValue] = {}
        self.expected: list[Expected] = []
        self.read_arrays: list[Array] = []

    def run(self, step: ProgramStep) -> None:
        """One step. Raises `UndefinedError` for one with a side effect, or that is left open."""
        with np.errstate(all="ignore"):
            if step.op == "read":
                self._read(step.args[0])
            elif step.op in ("data", "full", "arange"):
                self._store(step.target, _source(step))
            elif step.op in (*COMPUTE, *MOVEMENTS, APPLY, DIV):
                self._evaluate(step)
            else:
                raise UndefinedError(f"{step.op}: it has side effects, or no meaning here")

    def _read(self, number: int) -> None:
        array = self.arrays[number]
        self.read_arrays.append(array)
        if number in self.bounds:
            self.expected.append(expected_of(self.bounds[number], dtype_from_name(array.dtype)))
        else:
            self.expected.append(Expected(array.elements.reshape(-1)))

    def _store(self, number: int, elements: Elements) -> None:
        """An array of its own, of elements that need not be exact in any order."""
        name = elements.dtype.name
        store = Store(np.array(elements).reshape(-1))
        places = np.arange(elements.size).reshape(elements.shape)
        record = GradientRecord(elements.shape, name)
        store.number = number
        store.base = Array(store, places, name, 0, elements.shape, record)
        store.computed_by(record)
        self.arrays[number] = store.base

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
        decided = _decided(step, values)
        if decided is not None:
            self._store(step.target, decided)
            return
        if step.op == "where":
            made = bounded.choose(operands[0], *values[1:])
        elif step.op in BOUNDED:
            made = BOUNDED[step.op](values, step.values)
        else:
            raise UndefinedError(f"{step.op}: has no bound")
        _check_useful(made)
        self._store(step.target, round_to(made.value, made.dtype).astype(numpy_dtype(made.dtype)))
        if np.any(made.error):
            self.bounds[step.target] = made

    def _value(self, number: int) -> BoundedValue:
        if number in self.bounds:
            return self.bounds[number]
        array = self.arrays[number]
        elements = array.elements
        if elements.dtype.kind in "iu" and np.any(np.abs(elements.astype(np.float64)) > _WHOLE):
            raise UndefinedError("integers that float64 does not hold")
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
    """The elements where nothing rounds. Raises `InexactError` where something may."""
    if step.op in MOVEMENTS:
        return np.asarray(MOVEMENTS[step.op][1](operands, step.values))
    if step.op in _MOVING:
        return compute(step.op, operands, step.values)
    is_rounding = _may_round(step)
    if is_rounding:
        for each in operands:
            check_exact(each)
    made = compute(step.op, operands, step.values)
    if is_rounding:
        check_exact(made)
    return made


def _may_round(step: ProgramStep) -> bool:
    """Return False for comparisons, and for casts to integers: they look at exact elements."""
    is_cast = step.op == "cast" and not dtype_from_name(step.values[0]).is_float
    return not is_cast and step.op not in ("lt", "lt_number", "ne", "not")


def _decided(step: ProgramStep, values: Sequence[BoundedValue]) -> Elements | None:
    """What is no float of floats with errors, where every value within them gives the same.

    None for a step that gives floats. Raises `UndefinedError` where it is open.
    """
    low = [value.value - SLACK * value.error for value in values]
    high = [value.value + SLACK * value.error for value in values]
    match step.op:
        case "lt" | "lt_number":
            ends = (low[1], high[1]) if step.op == "lt" else (step.values[0], step.values[0])
            made = np.asarray(high[0] < ends[0])
            is_open = ~made & ~np.asarray(low[0] >= ends[1])
        case "ne":
            made = np.asarray((high[0] < low[1]) | (high[1] < low[0]))
            is_open = ~made
        case "not":
            made = np.asarray((low[0] > 0) | (high[0] < 0))
            is_open, made = ~made, ~made
        case "cast" if not dtype_from_name(step.values[0]).is_float:
            dtype = dtype_from_name(step.values[0])
            if dtype.is_bool:
                made = np.asarray((low[0] > 0) | (high[0] < 0))
                is_open = ~made
            else:
                made = np.trunc(values[0].value)
                is_open = (np.trunc(low[0]) != made) | (np.trunc(high[0]) != made)
                limits = np.iinfo(dtype.name)
                is_open |= (made < limits.min) | (made > limits.max) | (np.abs(made) > _WHOLE)
            made = made.astype(numpy_dtype(dtype))
        case _:
            return None
    if np.any(is_open):
        raise UndefinedError(f"{step.op}: the error of an operand leaves the result open")
    return made


def _check_useful(value: BoundedValue) -> None:
    """Raise `UndefinedError` for a result that is too large, or of which little is known."""
    if not value.dtype.is_float:
        raise UndefinedError("an integer that rounds")
    error = SLACK * value.error
    size = np.abs(value.value)
    if not np.all(size + error <= _LARGEST[value.dtype.name]):
        raise UndefinedError("a float that is too large")
    if np.any(error > _LEAST_DIGITS * np.max(size, initial=0.0)):
        raise UndefinedError("a float of which too little is known")


def evaluate_pure(program: TensorProgram) -> PureEnvironment:
    """The environment after all steps. Raises `UndefinedError` where a step does not fit."""
    environment = PureEnvironment()
    for step in program.steps:
        try:
            environment.run(step)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise UndefinedError(f"{step.op}: {type(error).__name__}: {error}") from error
    return environment
