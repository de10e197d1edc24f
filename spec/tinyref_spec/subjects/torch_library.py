"""PyTorch: the twins of the forms, eager or compiled, on any device that it knows."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import torch

from tinyref.dtype import DType, dtype_from_name, dtypes
from tinyref.errors import describe_error
from tinyref_spec.bits import Array
from tinyref_spec.case import NotOfferedError
from tinyref_spec.reproducer import Wording
from tinyref_spec.subjects.expressions import ExpressionSubject, Function
from tinyref_spec.subjects.name import SubjectName
from tinyref_spec.subjects.protocol import Answer, Arrays
from tinyref_spec.tensor.forms import Form

TORCH_DTYPES: dict[DType, torch.dtype] = {
    dtypes.bool: torch.bool,
    dtypes.int8: torch.int8,
    dtypes.int16: torch.int16,
    dtypes.int32: torch.int32,
    dtypes.int64: torch.int64,
    dtypes.uint8: torch.uint8,
    dtypes.uint16: torch.uint16,
    dtypes.uint32: torch.uint32,
    dtypes.uint64: torch.uint64,
    dtypes.float16: torch.float16,
    dtypes.bfloat16: torch.bfloat16,
    dtypes.float32: torch.float32,
    dtypes.float64: torch.float64,
}
OUR_DTYPES = {theirs: ours for ours, theirs in TORCH_DTYPES.items()}
# The indices of the largest: integers of the tables have equal ones among them, floats have none.
_TOPK = re.compile(r"x\.topk\(.*\)\[1\]")
# `Tensor` of the literals.
_MAKER = re.compile(r"(?<![.\w])Tensor\.")


def to_torch(array: Array, device: str = "cpu", requires_grad: bool = False) -> torch.Tensor:
    """Return a new tensor with the elements of an array; only floats may require a gradient."""
    if array.dtype == np.dtype(ml_dtypes.bfloat16):
        tensor = torch.tensor(array.astype(np.float32), device=device).to(torch.bfloat16)
    else:
        tensor = torch.tensor(array.copy(), device=device)
    return tensor.requires_grad_(requires_grad and tensor.is_floating_point())


def from_torch(tensor: Any) -> Array:
    """Return the elements in host memory, with the numpy type of the same name."""
    host = torch.as_tensor(tensor).detach().cpu()
    if host.dtype is torch.bfloat16:
        return np.asarray(host.float().numpy().astype(ml_dtypes.bfloat16))
    return np.asarray(host.numpy())


def torch_value(expression: str, names: Mapping[str, Any]) -> Any:
    """Evaluate an expression of the tables in torch."""
    # The expressions come from the tables, never from outside.
    return eval(expression, {**_KNOWN, **names})


_KNOWN = {"torch": torch, "F": torch.nn.functional, "np": np}


class TorchSubject(ExpressionSubject):
    """Eager PyTorch on one of its devices."""

    def __init__(self, name: SubjectName) -> None:
        super().__init__(name)
        # Also for the tensors that an expression makes of numbers.
        torch.set_default_device(self.device_name)
        torch.zeros(1).cpu()

    @property
    def wording(self) -> Wording:
        imports = (*self.name.imports, "import torch, torch.nn.functional as F")
        default = f"torch.set_default_device({self.device_name!r}); torch.zeros(1)"
        return Wording(
            imports if self.device_name == "cpu" else (*imports, default),
            "torch.tensor({array}, dtype=torch.{name}, device={place!r}, "
            "requires_grad={wants_gradient})",
            "torch.as_tensor({actual}).detach().cpu().numpy()",
            "torch.{name}",
            marks_inputs=True,
            widen="({actual}).float()",
            translate=lambda expression, _: _MAKER.sub(
                "torch.", expression.replace("Tensor(", "Tensor.tensor(")
            ),
            package=self.name.install("torch"),
        )

    def array(self, values: Array) -> torch.Tensor:
        return to_torch(values, self.device_name)

    def to_numpy(self, array: Any) -> Array:
        return from_torch(array)

    def type_of(self, dtype: DType) -> torch.dtype:
        return TORCH_DTYPES[dtype]

    @property
    def names(self) -> Mapping[str, Any]:
        return {**_KNOWN, "Tensor": _TensorMaker()}

    def versions(self) -> dict[str, str]:
        return {"torch": str(torch.__version__)}

    def expression(self, form: Form) -> str:
        if not form.torch_expression:
            raise NotOfferedError(f"torch: no such computation: {form.no_torch}")
        return form.torch_expression

    def note(self, form: Form, result: Any) -> str:
        return form.torch_dtype

    def value(self, form: Form, dtype: DType, values: Arrays) -> Answer:
        if dtype.is_int and _TOPK.fullmatch(form.torch_expression):
            raise NotOfferedError("torch: which of equal elements topk takes is left open")
        return super().value(form, dtype, values)

    def inputs(self, form: Form, dtype: DType, values: Arrays) -> dict[str, Any]:
        arrays = super().inputs(form, dtype, values)
        for item in form.inputs:
            # Some expressions are themselves about gradients.
            if item.is_differentiable and form.has_gradient and dtype.is_float:
                arrays[item.name].requires_grad_()
        return arrays

    def gradient_expressions(self, form: Form, targets: Sequence[str]) -> list[str]:
        asked = ", ".join(targets)
        return [
            f"torch.autograd.grad({self.expression(form)}, [{asked}], g)[{index}]"
            for index in range(len(targets))
        ]

    def pull_back(self, function: Function, arrays: Sequence[Any], weights: Any) -> list[Any]:
        """Return zero where torch says that an array has no part in the result."""
        result = function(*arrays)
        parts = torch.autograd.grad(
            result, arrays, weights.to(result.dtype), retain_graph=True, allow_unused=True
        )
        return [
            torch.zeros_like(array) if part is None else part
            for array, part in zip(arrays, parts, strict=True)
        ]

    def _evaluate(self, expression: str, arrays: Mapping[str, Any], dtype: DType) -> Any:
        """Return the value; an error of torch is none of Python, so it is a failure."""
        try:
            return self._value_of(expression, arrays, dtype)
        except RuntimeError as error:
            if "not implemented for" in str(error):
                raise NotImplementedError(str(error)) from error
            raise

    def _keeps(self, dtype: DType) -> bool:
        """Return True if the device computes in the type and copies it back."""
        try:
            one = torch.ones(2, dtype=TORCH_DTYPES[dtype], device=self.device_name)
            return bool((one * one).cpu().bool().all())
        except (KeyError, RuntimeError, TypeError):
            return False


@dataclass(frozen=True)
class _Question:
    """A function of a case, with its text, the type that the text names, and its inputs."""

    function: Function
    text: str
    dtype: DType
    inputs: tuple[torch.Tensor, ...]

    @property
    def key(self) -> Hashable:
        """Return what tells it from others: functions without inputs have only their text."""
        return (self.text, self.dtype, *map(id, self.inputs))


def _is_traced(question: _Question) -> bool:
    """Return True if the tracer follows the function: one that it refuses costs a batch."""
    torch.compiler.reset()
    try:
        torch.compile(question.function, backend="eager", fullgraph=True)(*question.inputs)
    except Exception:  # the tracer, or the function, may raise anything
        return False
    return True


class _CollectedError(Exception):
    """Ends a case whose question was collected."""


class CompiledTorchSubject(TorchSubject):
    """The same through torch.compile: many cases as one function, else each as a whole."""

    # Rows whose cases are compiled together: more take long to compile, and longer if one fails.
    batch_rows = 16

    def __init__(self, name: SubjectName) -> None:
        super().__init__(name)
        self._lambdas: dict[str, str] = {}
        self._is_collecting = False
        self._questions: list[_Question] = []
        # By the form, its type and its values: the inputs that were collected, in their order.
        self._inputs: dict[Hashable, list[dict[str, Any]]] = defaultdict(list)
        # By the key of a question: the value that was computed together with others.
        self._values: dict[Hashable, Any] = {}
        from torch._functorch import config as autograd_config
        from torch._inductor import config

        # A run has a worker for each core, which compiles in its own process.
        config.compile_threads = 1
        # Each gradient is asked for with the graph kept, as eager torch is asked.
        autograd_config.donated_buffer = False
        # The first compile of a process loads the compiler, which is no matter of a case.
        torch.compile(lambda x: x + 1)(torch.zeros(2))

    def expression(self, form: Form) -> str:
        """Return an expression that compiles a function of the inputs and calls it."""
        inputs = ", ".join(item.name for item in form.inputs)
        # The tracer follows functions, and no text.
        function = f"lambda {inputs}: {super().expression(form)}"
        expression = f"torch.compile({function}, fullgraph=True, dynamic=False)({inputs})"
        self._lambdas[expression] = function
        return expression

    def prepare(self, runs: Iterable[Callable[[], object]]) -> int:
        """Compile and run the functions of cases together; return how many they are.

        If a function of several does not compile, its halves are compiled. A case that is then
        alone compiles its own function when it runs.
        """
        self._inputs.clear()
        self._values.clear()
        self._questions = []
        self._is_collecting = True
        for run in runs:
            # Each case fails again in its own turn.
            with contextlib.suppress(Exception):
                run()
        self._is_collecting = False
        self._run_together(list(filter(_is_traced, self._questions)))
        return len(self._values)

    def _run_together(self, questions: Sequence[_Question]) -> None:
        if len(questions) < 2:
            return
        torch.compiler.reset()
        ends = list(itertools.accumulate(len(item.inputs) for item in questions))
        functions = [item.function for item in questions]
        slices = list(zip(functions, [0, *ends], ends, strict=False))

        def together(*arrays: Any) -> list[Any]:
            return [function(*arrays[first:last]) for function, first, last in slices]

        inputs = [array for item in questions for array in item.inputs]
        try:
            values = torch.compile(together, fullgraph=True, dynamic=False)(*inputs)
        except Exception:  # the compiler may raise anything
            middle = len(questions) // 2
            self._run_together(questions[:middle])
            self._run_together(questions[middle:])
            return
        for item, value in zip(questions, values, strict=True):
            self._values[item.key] = value

    def inputs(self, form: Form, dtype: DType, values: Arrays) -> dict[str, Any]:
        key = (form, dtype, *(array.tobytes() for array in values.values()))
        if not self._is_collecting and self._inputs[key]:
            return self._inputs[key].pop(0)
        arrays = super().inputs(form, dtype, values)
        if self._is_collecting:
            self._inputs[key].append(arrays)
        return arrays

    def _evaluate(self, expression: str, arrays: Mapping[str, Any], dtype: DType) -> Any:
        text = self._lambdas.get(expression, "")
        if text:
            inputs = tuple(arrays.values())
            question = _Question(self._value_of(text, {}, dtype), text, dtype, inputs)
            if self._is_collecting:
                self._questions.append(question)
                raise _CollectedError
            if question.key in self._values:
                return self._values.pop(question.key)
        torch.compiler.reset()
        try:
            return super()._evaluate(expression, arrays, dtype)
        except torch._dynamo.exc.Unsupported as error:
            words = describe_error(error).splitlines()[0]
            raise NotOfferedError(f"torch.compile does not capture it: {words}") from error


class _TensorMaker:
    """`Tensor` of the literals, as far as torch makes tensors in the same words."""

    def __call__(self, data: object, dtype: str = "", device: str = "cpu") -> torch.Tensor:
        named = TORCH_DTYPES[dtype_from_name(dtype)] if dtype else None
        return torch.tensor(data, dtype=named, device=device)

    def zeros(self, *shape: int, device: str) -> torch.Tensor:
        return torch.zeros(shape, device=device)

    def full(self, shape: tuple[int, ...], value: float, device: str) -> torch.Tensor:
        return torch.full(shape, value, device=device)
