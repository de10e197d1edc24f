"""Base class for the subject of a library: evaluates the expressions of the tables over its arrays.

The protocol for packages outside of tinyref: docs/subjects.md has an example.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tinyref.dtype import DType, dtypes, from_numpy_dtype, numpy_dtype
from tinyref_spec.bits import Array
from tinyref_spec.case import NotOfferedError
from tinyref_spec.reproducer import Wording
from tinyref_spec.subjects.name import SubjectName
from tinyref_spec.subjects.protocol import Answer, Arrays, integer_answer, not_offered
from tinyref_spec.tensor.forms import Form
from tinyref_spec.tensor.indexing import MANY_VALUES
from tinyref_spec.tensor.places import NEGATIVE, READS_ZERO
from tinyref_spec.tensor.random import OTHER

# Reasons why a form does not run on PyTorch, which hold for every library.
CHOICES = frozenset({NEGATIVE, READS_ZERO, MANY_VALUES, OTHER})
Function = Callable[..., Any]
# The file name of expressions in tracebacks; libraries have code of their own in "<string>".
_EXPRESSION = "<expression of a row>"
# Methods of lazy, sparse or wrapped arrays that return a numpy array.
TO_HOST = ("todense", "compute", "unwrap_numpy")


class ExpressionSubject:
    """A library whose arrays have the methods of a Tensor, directly or in a wrapper.

    A subclass must define `array`. It may define `wrap` and `unwrap`, for arrays that have other
    methods than a Tensor. It may define `to_numpy`, `names` (for functions that make tensors),
    `run` (for a compiled form) and `pull_back` (for gradients).

    Examples:
        >>> import numpy as np
        >>> from tinyref_spec.subjects import open_subject
        >>> subject = open_subject("numpy on cpu")
        >>> subject.elements(subject.tensor(np.arange(3)) + 1)
        array([1, 2, 3])
    """

    rounds_each_part = True
    # Types in which the library may refuse any function by any error.
    optional_types: frozenset[DType] = frozenset()
    # Errors by which the library says that it does not have a function.
    refusals: tuple[type[Exception], ...] = ()
    # True if forms that only tinyref defines run too, such as the element outside of an axis.
    asks_choices = False
    # The reason of skipped rows if `pull_back` is not defined.
    no_gradients = "has no gradients"

    def __init__(self, name: SubjectName) -> None:
        for package in name.packages:
            importlib.import_module(package)
        self.name = name
        self.device_name = name.device

    # For the library to define

    def array(self, values: Array) -> Any:
        """Return an array of the library with these elements, on the device."""
        raise NotImplementedError

    def to_numpy(self, array: Any) -> Array:
        """Return the elements of an array of the library in host memory."""
        return to_numpy(array)

    def wrap(self, array: Any) -> Any:
        """Return an object that has the methods of a Tensor for an array of the library."""
        return array

    def unwrap(self, tensor: Any) -> Any:
        """Return the array of the library for an object that `wrap` returned."""
        return tensor

    @property
    def names(self) -> Mapping[str, Any]:
        """Return names that an expression may use besides its inputs, such as `Tensor`."""
        return {}

    def type_of(self, dtype: DType) -> Any:
        """Return the library's type for `dtype` of an expression."""
        return dtype

    def run(self, function: Function, arrays: Sequence[Any]) -> Any:
        """Return the value of a function of arrays: a compiled form compiles it."""
        return function(*arrays)

    def pull_back(self, function: Function, arrays: Sequence[Any], weights: Any) -> list[Any]:
        """Return the gradient of sum(function(*arrays) * weights) for each array."""
        raise NotOfferedError(f"{self.library}: {self.no_gradients}")

    def versions(self) -> dict[str, str]:
        """Return the versions of packages that decide the results, by name."""
        return {self.library: package_version(self.library)}

    # The protocol `Subject`, for the rows

    @property
    def library(self) -> str:
        """Return the name of the library in messages."""
        return self.name.library.partition(":")[0]

    @functools.cached_property
    def dtypes(self) -> frozenset[DType]:
        """Return the types whose elements an array of the library keeps."""
        return frozenset(filter(self._keeps, dtypes.all))

    @property
    def wording(self) -> Wording:
        imports = (
            "from tinyref_spec.subjects import open_subject",
            f"subject = open_subject({str(self.name)!r})",
            "globals().update(subject.names)",
        )
        return Wording(imports, "subject.tensor({array})", "subject.elements({actual})")

    def tensor(self, values: Array) -> Any:
        """Return an object of an expression with these elements."""
        return self.wrap(self.array(values))

    def elements(self, tensor: Any) -> Array:
        """Return the elements of a value of an expression in host memory."""
        return self.to_numpy(self.unwrap(tensor))

    def expression(self, form: Form) -> str:
        return form.expression

    def inputs(self, form: Form, dtype: DType, values: Arrays) -> dict[str, Any]:
        """Return the arrays of the library for the inputs of a form, by name."""
        self.require_types(values)
        return {name: self.array(array) for name, array in values.items()}

    def require_types(self, values: Arrays) -> None:
        """Raise `NotOfferedError` if the library lacks the type of an array."""
        types = {from_numpy_dtype(array.dtype) for array in values.values()}
        if missing := sorted(item.name for item in types - self.dtypes):
            raise NotOfferedError(f"{self.library}: has no type {', '.join(missing)}")

    def note(self, form: Form, result: Any) -> str:
        """Return why the result may have another integer type; empty if it may not."""
        return getattr(result, "note", "")

    def value(self, form: Form, dtype: DType, values: Arrays) -> Answer:
        expression = self._asked(form)
        note = ""

        def function(*arrays: Any) -> Any:
            nonlocal note
            names = dict(zip(values, arrays, strict=True))
            tensor = self._evaluate(expression, names, dtype)
            note = self.note(form, tensor)
            return self.unwrap(tensor)

        with not_offered(self.library, *self._refusals(dtype)):
            arrays = self.inputs(form, dtype, values)
            result = self.run(function, [*arrays.values()])
            # Only now may a lazy array be computed.
            elements = self.to_numpy(result)
        theirs = from_numpy_dtype(elements.dtype)
        if note:
            return integer_answer(elements, theirs, form.output(dtype), note)
        return Answer(elements, theirs)

    def gradient_expressions(self, form: Form, targets: Sequence[str]) -> list[str]:
        self._check_has_gradients()
        asked = ", ".join(targets)
        return [
            f"subject.gradients_of(lambda {asked}: {form.expression}, [{asked}], g)[{index}]"
            for index in range(len(targets))
        ]

    def gradients_of(self, function: Function, tensors: Iterable[Any], weights: Any) -> list[Any]:
        """Return the gradients of a function of tensors, for scripts."""
        arrays = [self.unwrap(tensor) for tensor in tensors]

        def plain(*parts: Any) -> Any:
            return self.unwrap(function(*map(self.wrap, parts)))

        return [self.wrap(part) for part in self.pull_back(plain, arrays, self.unwrap(weights))]

    def gradients(
        self, form: Form, dtype: DType, values: Arrays, weights: Array, targets: Sequence[str]
    ) -> list[Answer]:
        self._check_has_gradients()
        expression = self._asked(form)

        def function(*parts: Any) -> Any:
            names = {**arrays, **dict(zip(targets, parts, strict=True))}
            return self.unwrap(self._evaluate(expression, names, dtype))

        with not_offered(self.library, *self._refusals(dtype)):
            arrays = self.inputs(form, dtype, values)
            parts = self.pull_back(
                function, [arrays[name] for name in targets], self.array(weights)
            )
            gradients = [self.to_numpy(part) for part in parts]
        return [Answer(part, from_numpy_dtype(part.dtype)) for part in gradients]

    def literal(self, expression: str, values: Arrays) -> object:
        with not_offered(self.library, *self.refusals):
            arrays = {name: self.array(array) for name, array in values.items()}
            return self._evaluate(expression, arrays, dtypes.float32)

    def _check_has_gradients(self) -> None:
        if type(self).pull_back is ExpressionSubject.pull_back:
            raise NotOfferedError(f"{self.library}: {self.no_gradients}")

    def _asked(self, form: Form) -> str:
        """Return the expression. Raises `NotOfferedError` for a choice of tinyref."""
        expression = self.expression(form)
        if form.no_torch in CHOICES and not self.asks_choices:
            raise NotOfferedError(f"left open for other libraries: {form.no_torch}")
        return expression

    def _refusals(self, dtype: DType) -> tuple[type[Exception], ...]:
        return (Exception,) if dtype in self.optional_types else self.refusals

    def _value_of(self, expression: str, arrays: Mapping[str, Any], dtype: DType) -> Any:
        inputs = {name: self.wrap(array) for name, array in arrays.items()}
        known = {"dtypes": dtypes, "np": np, **self.names}
        names = {**known, **inputs, "dtype": self.type_of(dtype), "device": self.device_name}
        # The expressions are those of the tables, never text from outside.
        with np.errstate(all="ignore"):
            return eval(compile(expression, _EXPRESSION, "eval"), names)

    def _evaluate(self, expression: str, arrays: Mapping[str, Any], dtype: DType) -> Any:
        """Return the value of an expression. Raises `NotOfferedError` for a missing method."""
        try:
            return self._value_of(expression, arrays, dtype)
        except (AttributeError, NameError, TypeError) as error:
            # Python refuses a name, a method, an operator or arguments; a function that was called
            # and fails inside is no such refusal.
            if _innermost_file(error) != _EXPRESSION:
                raise
            raise NotOfferedError(f"{self.library}: {expression}: {error}") from error

    def _keeps(self, dtype: DType) -> bool:
        """Return True if an array of the type has that type, and its elements."""
        ones = np.ones(2, numpy_dtype(dtype))
        with warnings.catch_warnings():
            # Some warn that they take a narrower type.
            warnings.simplefilter("ignore")
            try:
                array = self.to_numpy(self.array(ones))
            except Exception:  # a library may refuse a type by any error
                return False
        return array.dtype == ones.dtype and bool((array == ones).all())


class CompiledForm(ExpressionSubject):
    """A library whose compiler gets the function of a case, or of its gradients, as a whole.

    It comes before the class of the library that evaluates op by op.
    """

    compiler = ""
    # Errors by which the compiler says that it does not trace something, and words of them.
    untraced: tuple[type[Exception], ...] = ()
    untraced_words = ""

    def compile(self, function: Function) -> Function:
        """Return the compiled function."""
        raise NotImplementedError

    def run(self, function: Function, arrays: Sequence[Any]) -> Any:
        try:
            return self.compile(function)(*arrays)
        except self.untraced as error:
            if self.untraced_words not in str(error):
                raise
            first = str(error).splitlines()[0]
            raise NotOfferedError(f"{self.compiler} does not trace it: {first}") from error

    def pull_back(self, function: Function, arrays: Sequence[Any], weights: Any) -> list[Any]:
        by_op = super().pull_back

        def pull(*parts: Any) -> list[Any]:
            return by_op(function, parts[:-1], parts[-1])

        return list(self.run(pull, [*arrays, weights]))


def _innermost_file(error: BaseException) -> str:
    """Return the name of the file whose code raised an error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else trace.tb_frame.f_code.co_filename


def to_numpy(array: Any) -> Array:
    """Return the elements in host memory: by DLPack, else `__array__`, else by a method."""
    if isinstance(array, np.ndarray | np.generic | bool | int | float):
        return np.asarray(array)
    for name in TO_HOST:
        if hasattr(array, name):
            return np.asarray(getattr(array, name)())
    try:
        return np.from_dlpack(array, device="cpu", copy=True)
    except (AttributeError, TypeError, BufferError, RuntimeError, ValueError):
        if not (hasattr(array, "__array__") or hasattr(array, "numpy")):
            raise
    if hasattr(array, "__array__"):
        return np.array(array)
    return np.array(array.numpy())


def without_bfloat16(values: Array) -> Array:
    """Return the elements in a type that every library reads from numpy."""
    if values.dtype == np.dtype(ml_dtypes.bfloat16):
        return values.astype(np.float32)
    return values


def package_version(module: str) -> str:
    """Return the version of the package of a module, "unknown" if it has none."""
    package = module.partition(".")[0]
    own = getattr(sys.modules.get(package), "__version__", None)
    if own is not None:
        return str(own)
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
