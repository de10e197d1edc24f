"""The protocol between rows of the level `tensor` and a library."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from tinyref.dtype import DType, numpy_dtype
from tinyref.errors import describe_error
from tinyref_spec.bits import Array
from tinyref_spec.case import NotOfferedError
from tinyref_spec.reproducer import Wording
from tinyref_spec.tensor.forms import Form

Arrays = Mapping[str, Array]


@runtime_checkable
class SupportsNumpy(Protocol):
    """A tensor whose elements can be read."""

    def numpy(self) -> Array:
        """Return the elements in host memory."""
        ...


@dataclass(frozen=True)
class Answer:
    """The elements that a library returned, and their type as the library states it."""

    values: Array
    dtype: DType | None
    note: str = ""
    """An accepted difference from tinyref that the library documents."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    def numpy(self) -> Array:
        return self.values


def integer_answer(values: Array, theirs: DType | None, required: DType, note: str) -> Answer:
    """Return the answer in the integer type of the row, if the library documents another one.

    Elements that the narrower type does not hold are wrong, and stay unchanged.
    """
    fits = theirs is not None and theirs.is_int and theirs.itemsize >= required.itemsize
    if not (fits and required.is_int):
        return Answer(values, theirs)
    narrowed = values.astype(numpy_dtype(required))
    return Answer(narrowed if (narrowed == values).all() else values, required, note)


@contextlib.contextmanager
def not_offered(library: str, *refusals: type[Exception]) -> Iterator[None]:
    """Turn errors by which a library refuses a function into `NotOfferedError`.

    refusals: such errors, in addition to NotImplementedError.
    """
    kinds: tuple[type[Exception], ...] = (NotImplementedError, *refusals)
    try:
        yield
    except NotOfferedError:
        raise
    except kinds as error:
        raise NotOfferedError(f"{library}: {describe_error(error).splitlines()[0]}") from error


class Subject(Protocol):
    """A library that answers the rows.

    Every method raises `NotOfferedError` if the library has no such function. If a function fails,
    the library's own error passes through. Answers have `shape`, `dtype` and `numpy()`.
    """

    rounds_each_part: bool
    """True if it may round to 16 bits where Tensors continue in float32."""
    device_name: str
    """The library's own name of the device."""

    @property
    def wording(self) -> Wording: ...

    def expression(self, form: Form) -> str:
        """Return the form in the words of the library, over the names of the inputs."""
        ...

    def value(self, form: Form, dtype: DType, values: Arrays) -> Any:
        """Return the answer to a form."""
        ...

    def gradient_expressions(self, form: Form, targets: Sequence[str]) -> list[str]:
        """Return the gradients of the form with respect to the targets, weighed by `g`."""
        ...

    def gradients(
        self, form: Form, dtype: DType, values: Arrays, weights: Array, targets: Sequence[str]
    ) -> list[Any]:
        """Return the answer for each target."""
        ...

    def literal(self, expression: str, values: Arrays) -> object:
        """Return the Python value of an expression of tinyref."""
        ...
