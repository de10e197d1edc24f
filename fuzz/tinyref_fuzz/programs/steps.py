"""Tensor programs as lists of steps, and as JSON.

Tensors, sizes and functions are numbers; a step names those that it makes or changes. Numbers need
not be consecutive, so that a step can be dropped without renaming the rest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tinyref.errors import UserError
from tinyref_spec.kernel_case.members import read_list, read_number, read_object, read_word

# Limits far above any useful program; a larger one is a mistake or an attack.
MAX_STEPS = 4096
MAX_NESTED = 2
MAX_ITEMS = 1 << 16
# The only operation that contains steps.
FUNCTION = "function"
# Operations that change elements of a tensor.
WRITES = frozenset({"assign", "assign_number", "iadd", "setitem", "setitem_number", "set_part"})

Value = Any  # a number, a text, None, or a tuple of these


@dataclass(frozen=True)
class ProgramStep:
    """One operation, by its name in the tables."""

    op: str
    args: tuple[int, ...] = ()
    """The numbers that it reads or writes; for a function, its parameters."""
    targets: tuple[int, ...] = ()
    """The numbers that it makes."""
    values: tuple[Value, ...] = ()
    """Numbers, texts and tuples of them; for a function, the numbers that it returns."""
    body: tuple[ProgramStep, ...] = ()
    """The steps of a function."""

    @property
    def target(self) -> int:
        """Return the only result of the step."""
        return self.targets[0]

    def all_steps(self) -> Iterator[ProgramStep]:
        """Yield this step and the steps in it."""
        yield self
        for step in self.body:
            yield from step.all_steps()


@dataclass(frozen=True)
class TensorProgram:
    """A tensor program."""

    steps: tuple[ProgramStep, ...]
    choices: tuple[int, ...] = ()
    """The tape that it was drawn from; empty for another origin."""

    def all_steps(self) -> Iterator[ProgramStep]:
        """Yield all steps, including those in functions."""
        for step in self.steps:
            yield from step.all_steps()

    @property
    def size(self) -> int:
        """Return the number of steps, including those in functions."""
        return sum(1 for _ in self.all_steps())

    def with_steps(self, steps: Sequence[ProgramStep]) -> TensorProgram:
        """Return the program with other steps, and without a tape."""
        return replace(self, steps=tuple(steps), choices=())

    @property
    def content_hash(self) -> str:
        """Return a hash of its steps: twelve hexadecimal digits."""
        text = json.dumps([asdict(step) for step in self.steps], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def program_to_json(program: TensorProgram) -> dict[str, Any]:
    """Return the program as a dict for `json.dumps`."""
    return asdict(program)


def program_from_json(data: object) -> TensorProgram:
    """Return the program that `program_to_json` wrote. Raises `UserError` for other data."""
    top = read_object(data, "program", ("choices", "steps"))
    choices = read_list(top["choices"], MAX_ITEMS, "choices")
    return TensorProgram(
        _read_steps(top["steps"], "steps", 0),
        tuple(read_number(item, f"choices[{at}]") for at, item in enumerate(choices)),
    )


def _read_steps(value: object, where: str, depth: int) -> tuple[ProgramStep, ...]:
    items = read_list(value, MAX_STEPS, where)
    if items and depth >= MAX_NESTED:
        raise UserError(f"{where}: expected no steps below {MAX_NESTED} levels")
    return tuple(_read_step(item, f"{where}[{at}]", depth) for at, item in enumerate(items))


def _read_step(value: object, where: str, depth: int) -> ProgramStep:
    top = read_object(value, where, ("op", "args", "targets", "values", "body"))
    op = read_word(top["op"], f"{where}.op")
    values = read_list(top["values"], MAX_ITEMS, where)
    if op == FUNCTION:
        # Only numbers, like `targets`: they become names in the script.
        if len(values) != 1:
            raise UserError(f"{where}.values: expected one list of the function's results")
        read_values: tuple[Value, ...] = (_read_numbers(values[0], f"{where}.values[0]"),)
    else:
        read_values = tuple(_read_value(item, where, 0) for item in values)
    body = _read_steps(top["body"], f"{where}.body", depth + 1)
    if body and op != FUNCTION:
        raise UserError(f"{where}.body: expected no steps in {op!r}, only in {FUNCTION!r}")
    args = _read_numbers(top["args"], f"{where}.args")
    return ProgramStep(
        op, args, _read_numbers(top["targets"], f"{where}.targets"), read_values, body
    )


def _read_numbers(value: object, where: str) -> tuple[int, ...]:
    return tuple(read_number(item, where) for item in read_list(value, MAX_ITEMS, where))


def _read_value(value: object, where: str, depth: int) -> Value:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list) and depth < 4:
        return tuple(_read_value(item, where, depth + 1) for item in value)
    raise UserError(f"{where}.values: expected numbers, texts and lists of them, got {value!r}")


def numbers_read(step: ProgramStep) -> set[int]:
    """Return the numbers that the step reads from outside of itself."""
    if not step.body:
        return set(step.args)
    made = {*step.args, *(target for inner in step.body for target in inner.targets)}
    needed = {number for inner in step.body for number in numbers_read(inner)}
    return {number for number in (*needed, *step.values[0]) if number not in made}
