"""Test a library that tinyref does not know with the rows of Tensor functions.

The library here is `MyArray`, an array of float32 with three functions. From this folder:

    tinyref conform --subject own_subject:MySubject --query 'tensor.relu.*,tensor.add.*'

tinyref calls `MySubject` with the name of the run: `name.device` is the text of `--on`. A row has
an expression, such as `x.relu()` or `x + y`, and its inputs. A method that is missing is a Skip.
"""

from __future__ import annotations

import numpy as np

from tinyref_spec.case import NotOfferedError
from tinyref_spec.subjects.expressions import ExpressionSubject


class MyArray:
    """The library: elements of float32 in host memory."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.values

    def __add__(self, other: MyArray) -> MyArray:
        return MyArray(self.values + other.values)

    def relu(self) -> MyArray:
        return MyArray(np.maximum(self.values, 0))

    def sum(self, axis: object = None, keepdim: bool = False) -> MyArray:
        return MyArray(np.asarray(self.values.sum(axis, keepdims=keepdim)))


class MySubject(ExpressionSubject):
    """Maker of arrays of the library, which tinyref reads by DLPack or `__array__`."""

    def array(self, values: np.ndarray) -> MyArray:
        if values.dtype != np.float32:
            raise NotOfferedError(f"my_library: has no type {values.dtype}")
        return MyArray(values.copy())

    def pull_back(self, function, arrays, weights):  # type: ignore[no-untyped-def]
        raise NotOfferedError("my_library: here a library with gradients would compute them")

    def versions(self) -> dict[str, str]:
        return {"my_library": "1.0"}
