"""What a library must do for a row of the level `tensor`, and how it says that it does not."""

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


def integer_answer(values: Array, theirs: DType | None, owed: DType, note: str) -> Answer:
    """Return the answer in the integer type of the row, if the library documents another one.

    Elements that the narrower type does not hold stay as they are: they are wrong.
    """
    fits = theirs is not None and theirs.is_int and theirs.itemsize >= owed.itemsize
    if not (fits and owed.is_int):
        return Answer(values, theirs)
    narrowed = values.astype(numpy_dtype(owed))
    return Answer(narrowed if (narrowed == values).all() else values, owed, note)


@contextlib.contextmanager
def not_offered(library: str, *refusals: type[Exception]) -> Iterator[None]:
    """Raise `NotOfferedError` where a library says by its error that it does not have something.

    refusals: errors that say so, in addition to NotImplementedError.
    """
    kinds: tuple[type[Exception], ...] = (NotImplementedError, *refusals)
    try:
        yield
    except NotOfferedError:
        raise
    except kinds as error:
        raise NotOfferedError(f"{library}: {describe_error(error).splitlines()[0]}") from error


class Subject(Protocol):
    """A library that answers what the rows ask.

    Every method raises `NotOfferedError` where the library has no such function, and lets out the
    library's own errors where it has one that fails. Answers have `shape`, `dtype` and `numpy()`.
    rounds_each_part: whether it may round to 16 bits where Tensors compute on in float32. place:
    the device as the library calls it. wording: how scripts of failures call the library.
    """

    rounds_each_part: bool
    place: str

    @property
    def wording(self) -> Wording: ...

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
