"""Draw programs without side effects, by the generator of programs with other steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.programs.draft import DraftScope
from tinyref_fuzz.programs.generator import STEPS, Generator, Makers
from tinyref_fuzz.programs.library.functions import APPLY, FORMS, op_name
from tinyref_fuzz.programs.library.oracle import DIV, PureEnvironment
from tinyref_fuzz.programs.library.spelling import Spelling
from tinyref_fuzz.programs.steps import ProgramStep, TensorProgram, Value
from tinyref_spec.catalogue import matches

REALS = ("float32", "float64", "float16")
DTYPES = (*REALS, "int32", "int64", "bool", "uint8", "int8", "int16")
_WEIGHTS = (10, 4, 2, 6, 2, 2, 1, 1, 1)
# Some fit into one vector register, others need several.
_SHAPES = (
    (4,), (2, 3), (17,), (3, 4), (33,), (2, 18), (3, 16), (1, 9), (), (3, 1), (2, 2, 8), (40,),
    (0, 2), (5, 7),
)  # fmt: skip
# Narrow integers are cast to this type before they are summed.
_WIDE = "int32"
_NARROW = ("bool", "uint8", "int8", "int16")
# Bits of the random floats: a float16 significand has 11 bits, a float32 one has 24.
_DIGITS = {"float16": 9, "float32": 21, "float64": 30}
_SCALES = (4.0, 0.875, 2.0**-5, 2.0**-12)

_PURE: Makers = {
    "source": 3, "view": 6, "unary": 6, "apply": 8, "binary": 9, "divide": 2, "where": 2,
    "reduce": 5, "combine": 4, "memory": 1,
}  # fmt: skip


def generate_pure(
    tape: Tape, spelling: Spelling, dtypes: Sequence[str], known: Sequence[str] = ()
) -> TensorProgram:
    """Return the program of a tape, in the operations and types of a library.

    `known` are queries such as `tensor.erf.float32` that name functions with known faults. A
    program avoids them.
    """
    steps = PureGenerator(tape, spelling, dtypes, known).program(STEPS)
    return TensorProgram(tuple(steps), tuple(tape.choices))


class PureGenerator(Generator):
    """Source of steps that a library offers and its oracle can evaluate."""

    def __init__(
        self, tape: Tape, spelling: Spelling, dtypes: Sequence[str], known: Sequence[str]
    ) -> None:
        super().__init__(tape, devices=1)
        self.scope = DraftScope(PureEnvironment)
        self.spelling = spelling
        self.weights = [
            weight if name in dtypes else 0 for name, weight in zip(DTYPES, _WEIGHTS, strict=True)
        ]
        self.dtypes = frozenset(dtypes)
        self.forms = [name for name in FORMS if spelling.form(name)]
        self.known = known

    def program(self, least_and_most: tuple[int, int]) -> list[ProgramStep]:
        """Return the steps of the program."""
        self._data()
        for _ in range(self.tape.between(*least_and_most)):
            self._grow(_PURE)
        self._read_all()
        return self.scope.steps

    def _try(self, step: ProgramStep) -> bool:
        has_type = step.op != "cast" or step.values[0] in self.dtypes
        may_draw = has_type and self.spelling.can_say(step) and not self._has_known_fault(step)
        return may_draw and super()._try(step)

    def _has_known_fault(self, step: ProgramStep) -> bool:
        if not step.args:
            return False
        case = f"tensor.{op_name(step)}.{self.arrays[step.args[0]].dtype}.forward:fuzz"
        return any(matches(case, query) for query in self.known)

    # Sources

    def _dtype(self) -> str:
        return self.tape.pick(DTYPES, self.weights)

    def _data(self) -> int | None:
        return self._data_of(self._dtype(), self.tape.pick(_SHAPES), 0)

    def _elements(self, dtype: str, count: int) -> list[Value]:
        if dtype not in REALS:
            return super()._elements(dtype, count)
        if self.tape.chance(35):
            return super()._elements("float32", count)
        # Some libraries flush subnormal floats to zero; in float16 the last scale gives such.
        scales = _SCALES[:-1] if dtype == "float16" else _SCALES
        scale, digits = self.tape.pick(scales), _DIGITS[dtype]
        ends = 1 << digits
        low = 0 if self.tape.chance(30) else -ends
        return [self.tape.between(low, ends) * scale / ends for _ in range(count)]

    # Floats that round

    def _apply(self) -> int | None:
        number = self._pick(lambda array: array.dtype in REALS)
        if number is None:
            return None
        return self._make(APPLY, (number,), self.tape.pick(self.forms))

    def _binary(self) -> int | None:
        """Draw data first in half of the cases: few tensors have the same shape and type."""
        number = self._pick()
        if number is not None and self.tape.chance(50):
            array = self.arrays[number]
            self._data_of(array.dtype, array.shape, 0)
        return super()._binary()

    def _divide(self) -> int | None:
        first = self._pick(lambda array: array.dtype in REALS)
        if first is None:
            return None
        dtype, sizes = self.arrays[first].dtype, self.arrays[first].sizes
        second = self._pick(lambda other: (other.dtype, other.sizes) == (dtype, sizes))
        return None if second is None else self._make(DIV, (first, second))

    # Sums with an explicit type

    def _make(self, op: str, args: Sequence[int], *values: Any) -> int | None:
        is_sum = op in ("sum", "prod", "cumsum")
        if is_sum and self.arrays[args[0]].dtype in _NARROW:
            wide = super()._make("cast", args, _WIDE)
            if wide is None:
                return None
            args = (wide,)
        if op == "prod":
            # Some libraries cannot multiply over several axes.
            values = (values[0][-1:], values[1])
        return super()._make(op, args, *values)
