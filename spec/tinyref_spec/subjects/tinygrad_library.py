"""tinygrad: its tensors have the methods that the expressions call."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import tinygrad
from tinygrad.helpers import DEV

from tinyref.dtype import DType, from_numpy_dtype
from tinyref.errors import describe_error
from tinyref_spec.bits import Array
from tinyref_spec.case import NotOfferedError
from tinyref_spec.reproducer import Wording
from tinyref_spec.subjects.expressions import ExpressionSubject, Function, package_version
from tinyref_spec.subjects.name import DEFAULT_DEVICE, SubjectName
from tinyref_spec.tensor.forms import Form

# Words of errors about arguments that its functions do not take.
_LACKS = re.compile(
    "is not supported|only supports|unexpected keyword|positional argument|can't create Tensor from"
)

_WITH_POSITIONS = re.compile(r"x\.cumm(ax|in)\([^()]*\)")


class TinygradSubject(ExpressionSubject):
    """tinygrad on one of its devices, such as `cpu` or `cuda:1`, or `cpu:llvm` by its renderer."""

    def __init__(self, name: SubjectName) -> None:
        super().__init__(name)
        if name.device == DEFAULT_DEVICE:
            self.device_name = tinygrad.Device.DEFAULT
        else:
            target = name.device.upper()
            device, _, rest = target.partition(":")
            has_renderer = bool(rest) and not rest.isdecimal()
            self.device_name = device if has_renderer else target
            # Also for the tensors that an expression makes of numbers.
            self.target = DEV.value = target if has_renderer else device
        self.to_numpy(self.array(np.zeros(1, np.float32)))

    @property
    def names(self) -> Mapping[str, Any]:
        return {"Tensor": tinygrad.Tensor, "dtypes": tinygrad.dtypes}

    @property
    def wording(self) -> Wording:
        imports = [*self.name.imports, "from tinygrad import Tensor, dtypes"]
        if self.name.device != DEFAULT_DEVICE:
            imports.append(f"from tinygrad.helpers import DEV; DEV.value = {self.target!r}")
        return Wording(
            tuple(imports),
            "Tensor({array}, dtype=dtypes.{name}, device={place!r})",
            "({actual}).numpy()",
            widen="({actual}).float()",
            package=self.name.install("tinygrad"),
        )

    def versions(self) -> dict[str, str]:
        return {"tinygrad": package_version("tinygrad")}

    def type_of(self, dtype: DType) -> Any:
        return getattr(tinygrad.dtypes, dtype.name)

    def array(self, values: Array) -> Any:
        ours = from_numpy_dtype(values.dtype)
        if ours.name not in _SMALL:
            return tinygrad.Tensor(np.array(values), device=self.device_name)
        wide = tinygrad.Tensor(values.astype(np.float32), device=self.device_name)
        return wide.cast(self.type_of(ours))

    def to_numpy(self, array: Any) -> Array:
        ours = next(
            (name for name in _SMALL if array.dtype == getattr(tinygrad.dtypes, name, None)), ""
        )
        if not ours:
            return np.array(array.numpy())
        return np.asarray(array.float().numpy().astype(_SMALL[ours]))

    def expression(self, form: Form) -> str:
        """Return the expression; `cummax` and `cummin` give positions also, which it leaves out."""
        values = "[0]" if _WITH_POSITIONS.fullmatch(form.expression) else ""
        return form.expression + values

    def _evaluate(self, expression: str, arrays: Mapping[str, Any], dtype: DType) -> Any:
        try:
            return super()._evaluate(expression, arrays, dtype)
        except (AssertionError, IndexError, RuntimeError, TypeError) as error:
            if not _LACKS.search(str(error)):
                raise
            raise NotOfferedError(f"tinygrad: {describe_error(error).splitlines()[0]}") from error

    def gradient_expressions(self, form: Form, targets: Sequence[str]) -> list[str]:
        gradients = f"({self.expression(form)}).gradient({', '.join(targets)}, gradient=g)"
        return [f"{gradients}[{index}]" for index in range(len(targets))]

    def pull_back(self, function: Function, arrays: Sequence[Any], weights: Any) -> list[Any]:
        result = function(*arrays)
        return list(result.gradient(*arrays, gradient=weights.cast(result.dtype)))


# Types that numpy has not.
_SMALL: Mapping[str, Any] = {
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "fp8e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "fp8e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
