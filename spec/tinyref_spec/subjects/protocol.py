"""What a library must do for a row of the level `tensor`, and how it says that it does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from tinyref.dtype import DType
from tinyref.runtimes.reproducer import Wanted
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement
from tinyref_spec.reproducer import Question
from tinyref_spec.tensor.forms import Form, Refused

Arrays = Mapping[str, Array]


@runtime_checkable
class SupportsNumpy(Protocol):
    """A tensor whose elements can be read."""

    def numpy(self) -> Array:
        """The elements in host memory."""
        ...


@dataclass(frozen=True)
class Answer:
    """What a library gave: its elements, and the type that it says they have.

    note: what it does otherwise than tinyref, by its own documentation, and was allowed to.
    """

    values: Array
    dtype: DType | None
    note: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    def numpy(self) -> Array:
        return self.values


class Subject(Protocol):
    """A library that answers what the rows ask.

    Every method raises `NotOfferedError` where the library has no such function, and lets out the
    library's own errors where it has one that fails. Answers have `shape`, `dtype` and `numpy()`.
    rounds_each_part: whether it may round to 16 bits where Tensors compute on in float32.
    """

    rounds_each_part: bool

    def expression(self, form: Form) -> str:
        """The form as the library is asked for it, over the names of the inputs."""
        ...

    def value(self, form: Form, dtype: DType, values: Arrays) -> Any:
        """The answer to a form."""
        ...

    def gradient_expressions(self, form: Form, targets: Sequence[str]) -> list[str]:
        """The gradients of the form with respect to the targets, weighed by `g`."""
        ...

    def gradients(
        self, form: Form, dtype: DType, values: Arrays, weights: Array, targets: Sequence[str]
    ) -> list[Any]:
        """The answer for each target."""
        ...

    def literal(self, expression: str, values: Arrays) -> object:
        """The Python value of an expression of tinyref."""
        ...

    def refusal(self, call: Refused, values: Arrays) -> Measurement:
        """Whether a call that cannot be meant is refused."""
        ...

    def script(self, question: Question, expression: str, item: Wanted) -> str:
        """A self-contained script that shows a failure again."""
        ...
