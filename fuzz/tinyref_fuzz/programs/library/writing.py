"""Prints a program as one function of a library, from its inputs to its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tinyref.errors import UserError
from tinyref_fuzz.programs.library.oracle import PureEnvironment
from tinyref_fuzz.programs.library.spelling import Spelling
from tinyref_fuzz.programs.script import name_of
from tinyref_fuzz.programs.steps import TensorProgram
from tinyref_spec.bits import Array


@dataclass(frozen=True)
class PureFunction:
    """A function `f` as text. inputs: its arguments by name. statements: the lines of its body."""

    inputs: Mapping[str, Array]
    statements: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def head(self) -> str:
        return f"def f({', '.join(self.inputs)}):"

    @property
    def result(self) -> str:
        return f"return ({', '.join(self.results)},)"

    @property
    def text(self) -> str:
        return "\n    ".join([self.head, *self.statements, self.result])


def function_of(
    program: TensorProgram, environment: PureEnvironment, spelling: Spelling
) -> PureFunction:
    """Return the function of a program that `environment` evaluated.

    Raises `UserError` for a step that the library has no word for, or that lacks a value.
    """
    inputs: dict[str, Array] = {}
    statements = []
    results = []
    for number, step in enumerate(program.steps):
        try:
            if step.op == "read":
                results.append(name_of(step.args[0]))
            elif step.op == "data":
                # The elements of a tensor without axes are a scalar of numpy.
                inputs[name_of(step.target)] = np.asarray(environment.arrays[step.target].elements)
            else:
                dtype = environment.arrays[step.target].dtype
                statements.append(spelling.statement(step, dtype))
        except (LookupError, TypeError, ValueError) as error:
            raise UserError(f"step {number}: {step.op!r}: {error}") from None
    return PureFunction(inputs, tuple(statements), tuple(results))
