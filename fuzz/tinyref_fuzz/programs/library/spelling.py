"""Print a program as a function of a library: one table for each family of libraries.

Casts and the types of sums are explicit, so that promotion rules do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tinyref.errors import UserError
from tinyref_fuzz.programs.arithmetic import COMPUTE, MOVEMENTS
from tinyref_fuzz.programs.library.functions import APPLY, FORMS
from tinyref_fuzz.programs.library.oracle import PureEnvironment
from tinyref_fuzz.programs.script import key_text, name_of
from tinyref_fuzz.programs.steps import ProgramStep, TensorProgram, Value
from tinyref_spec.bits import Array
from tinyref_spec.case import NotOfferedError
from tinyref_spec.subjects.array_api import SAME
from tinyref_spec.subjects.name import DEFAULT_DEVICE, SubjectName

# Number of programs to compile as one function, as each compile has a high start-up cost.
_TOGETHER = 10
_INPUT = re.compile(r"\bx\b")
_METHOD = re.compile(r"x\.(\w+)\(\)")

# {a} to {c}: the operands. {v[0]!r}: the first value. {dtype}: the type of the result.
_OPERATORS: Mapping[str, str] = {
    "neg": "-{a}",
    "square": "{a} * {a}",
    "add_number": "{a} + {v[0]!r}",
    "mul_number": "{a} * {v[0]!r}",
    "mod_number": "{a} % {v[0]!r}",
    "lt_number": "{a} < {v[0]!r}",
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "mul": "{a} * {b}",
    "div": "{a} / {b}",
    "lt": "{a} < {b}",
    "ne": "{a} != {b}",
    "and": "{a} & {b}",
    "xor": "{a} ^ {b}",
    "shrink": "{a}[{bounds}]",
    "index": "{a}[{key}]",
}
_TORCH: Mapping[str, str] = {
    **_OPERATORS,
    "relu": "torch.relu({a})",
    "not": "torch.logical_not({a})",
    "cast": "{a}.to({dtype})",
    "max_number": "{a}.clamp(min={v[0]!r})",
    "idiv_number": "torch.div({a}, {v[0]!r}, rounding_mode='trunc')",
    "maximum": "torch.maximum({a}, {b})",
    "minimum": "torch.minimum({a}, {b})",
    "where": "torch.where({a}, {b}, {c})",
    "sum": "{a}.sum({v[0]!r}, keepdim={v[1]!r}, dtype={dtype})",
    "max": "{a}.amax({v[0]!r}, keepdim={v[1]!r})",
    "prod": "{a}.prod({v[0][0]!r}, keepdim={v[1]!r}, dtype={dtype})",
    "cumsum": "{a}.cumsum({v[0]!r}, dtype={dtype})",
    "matmul": "{a} @ {b}",
    "cat": "torch.cat(({a}, {b}), {v[0]!r})",
    "stack": "torch.stack(({a}, {b}), {v[0]!r})",
    "pad": "F.pad({a}, {pairs})",
    "contiguous": "{a}.contiguous()",
    "clone": "{a}.clone()",
    "reshape": "{a}.reshape({v[0]!r})",
    "permute": "{a}.permute({v[0]!r})",
    "expand": "{a}.expand({v[0]!r})",
    "flip": "{a}.flip({v[0]!r})",
    "full": "torch.full({v[1]!r}, {v[2]!r}, dtype={dtype})",
    "arange": "torch.arange({v[0]!r}, {end}, dtype={dtype})",
}
_ARRAY_API: Mapping[str, str] = {
    **_OPERATORS,
    "relu": "xp.maximum({a}, xp.zeros_like({a}))",
    "not": "xp.logical_not({a})",
    "cast": "xp.astype({a}, {dtype})",
    "max_number": "xp.maximum({a}, xp.full_like({a}, {v[0]!r}))",
    "maximum": "xp.maximum({a}, {b})",
    "minimum": "xp.minimum({a}, {b})",
    "where": "xp.where({a}, {b}, {c})",
    "sum": "xp.sum({a}, axis={v[0]!r}, keepdims={v[1]!r}, dtype={dtype})",
    "max": "xp.max({a}, axis={v[0]!r}, keepdims={v[1]!r})",
    "prod": "xp.prod({a}, axis={v[0]!r}, keepdims={v[1]!r}, dtype={dtype})",
    "cumsum": "xp.cumulative_sum({a}, axis={v[0]!r}, dtype={dtype})",
    "matmul": "{a} @ {b}",
    "cat": "xp.concat([{a}, {b}], axis={v[0]!r})",
    "stack": "xp.stack([{a}, {b}], axis={v[0]!r})",
    "clone": "xp.asarray({a}, copy=True)",
    "reshape": "xp.reshape({a}, {v[0]!r})",
    "permute": "xp.permute_dims({a}, {v[0]!r})",
    "expand": "xp.broadcast_to({a}, {v[0]!r})",
    # The standard does not define indexing with fewer indices than axes.
    "index": "{a}[{key}, ...]",
    "flip": "xp.flip({a}, axis={v[0]!r})",
    "full": "xp.full({v[1]!r}, {v[2]!r}, dtype={dtype})",
    "arange": "xp.arange({v[0]!r}, {end}, dtype={dtype})",
}
# A sum of MLX has the type of its operand; the generator widens narrow integers.
_MLX: Mapping[str, str] = {
    **_ARRAY_API,
    "sum": "xp.sum({a}, axis={v[0]!r}, keepdims={v[1]!r})",
    "prod": "xp.prod({a}, axis={v[0]!r}, keepdims={v[1]!r})",
    "cumsum": "xp.cumsum({a}, axis={v[0]!r})",
    "pad": "xp.pad({a}, {v[0]!r})",
    "contiguous": "xp.contiguous({a})",
    "clone": "xp.array({a})",
}
# Calls of the functions that build an ONNX graph: each is one operator of opset 21.
_ONNX: Mapping[str, str] = {
    "neg": "xp.negative({a})",
    "square": "xp.multiply({a}, {a})",
    "add_number": "xp.add({a}, {v[0]!r})",
    "mul_number": "xp.multiply({a}, {v[0]!r})",
    "mod_number": "xp.remainder({a}, {v[0]!r})",
    "lt_number": "xp.less({a}, {v[0]!r})",
    "max_number": "xp.maximum({a}, {v[0]!r})",
    "relu": "xp.relu({a})",
    "not": "xp.equal({a}, 0)",
    "cast": "xp.astype({a}, {dtype})",
    "add": "xp.add({a}, {b})",
    "sub": "xp.subtract({a}, {b})",
    "mul": "xp.multiply({a}, {b})",
    "div": "xp.divide({a}, {b})",
    "lt": "xp.less({a}, {b})",
    "ne": "xp.logical_not(xp.equal({a}, {b}))",
    "and": "xp.bitwise_and({a}, {b})",
    "xor": "xp.bitwise_xor({a}, {b})",
    "sum": "xp.sum({a}, axis={v[0]!r}, keepdims={v[1]!r})",
    "prod": "xp.prod({a}, axis={v[0]!r}, keepdims={v[1]!r})",
    "cumsum": "xp.cumulative_sum({a}, axis={v[0]!r})",
    "matmul": "xp.matmul({a}, {b})",
    "pad": "xp.pad({a}, {v[0]!r})",
    "full": "xp.constant(np.full({v[1]!r}, {v[2]!r}, {dtype}))",
    "arange": "xp.constant(np.arange({v[0]!r}, {end}, dtype={dtype}))",
    **{
        op: _ARRAY_API[op]
        for op in (
            "maximum",
            "minimum",
            "where",
            "max",
            "cat",
            "stack",
            "shrink",
            "index",
            "reshape",
            "permute",
            "expand",
            "flip",
        )
    },
}
# tinygrad's tensors have the methods of ours.
_TINYGRAD: Mapping[str, str] = {
    **{
        op: text
        for op, (text, _) in {**COMPUTE, **MOVEMENTS}.items()
        if op not in ("to", "sum_of_all", "bitcast", "detach", "idiv_number")
    },
    "div": "{a} / {b}",
    "sum": "{a}.sum({v[0]!r}, keepdim={v[1]!r}, dtype={dtype})",
    "prod": "{a}.prod({v[0]!r}, keepdim={v[1]!r}, dtype={dtype})",
    "full": "Tensor.full({v[1]!r}, {v[2]!r}, dtype={dtype})",
    "arange": "Tensor.arange({v[0]!r}, {end}, dtype={dtype})",
}


def _array_forms() -> dict[str, str]:
    """Return the forms that are one function of the standard."""
    methods = {name: _METHOD.fullmatch(form.expression) for name, form in FORMS.items()}
    return {
        name: f"xp.{SAME[method[1]]}(x)"
        for name, method in methods.items()
        if method and method[1] in SAME
    }


_ARRAY_FORMS: Mapping[str, str] = _array_forms()
# MLX and ONNX document elu and celu as exp(x) - 1, which has no digits near 0.
_MLX_FORMS: Mapping[str, str] = {
    **_ARRAY_FORMS,
    "sigmoid:0": "xp.sigmoid(x)",
    "relu:0": "nn.relu(x)",
    "erf:0": "xp.erf(x)",
    "rsqrt:0": "xp.rsqrt(x)",
    "gelu:0": "nn.gelu_approx(x)",
    "gelu:1": "nn.gelu(x)",
    "silu:0": "nn.silu(x)",
    "mish:0": "nn.mish(x)",
    "softplus:0": "nn.softplus(x)",
    "logsigmoid:0": "nn.log_sigmoid(x)",
    "softsign:0": "nn.softsign(x)",
    "hardswish:0": "nn.hardswish(x)",
    "hardtanh:0": "nn.hard_tanh(x)",
    "hardtanh:1": "nn.hard_tanh(x, -2, 3)",
    "relu6:0": "nn.relu6(x)",
    "leaky_relu:0": "nn.leaky_relu(x)",
    "leaky_relu:1": "nn.leaky_relu(x, 0.3)",
    "clamp:0": "xp.clip(x, -1, 2)",
    "clamp:1": "xp.clip(x, 0.5, None)",
    "clamp:2": "xp.clip(x, None, 0.5)",
    "softmax:0": "xp.softmax(x, -1)",
    "log_softmax:0": "nn.log_softmax(x, -1)",
}
# Attributes are float32: other numbers would be rounded for float64.
_ONNX_FORMS: Mapping[str, str] = {
    **{
        f"{name}:0": f"xp.{name}(x)"
        for name in (
            *("reciprocal", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh"),
            *("asinh", "acosh", "atanh", "tanh", "exp", "log", "sigmoid", "relu", "abs", "erf"),
            *("gelu", "mish", "softplus", "softsign", "round", "floor", "ceil"),
            *("sign", "softmax", "log_softmax"),
        )
    },
    "gelu:1": "xp.gelu(x, approximate='none')",
    "clamp:0": "xp.clip(x, -1, 2)",
    "clamp:1": "xp.clip(x, 0.5)",
    "clamp:2": "xp.clip(x, None, 0.5)",
}


@dataclass(frozen=True)
class Spelling:
    """Templates for a program in one library."""

    imports: tuple[str, ...]
    """Lines that import the library."""
    operations: Mapping[str, str] = field(repr=False)
    """A template for each operation that the library has."""
    # Templates of a type, of a tensor from a numpy `array` of type `dtype`, and of a numpy array
    # from a tensor `actual`.
    dtype: str
    tensor: str
    read: str
    forms: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Expressions of `x` for forms of the spec."""
    eager: str = "{f}"
    """A template of the function `f` that runs op by op."""
    compiled: str = ""
    """A template of the compiled function; empty for a library without a compiler."""
    before: str = ""
    """A statement before each compile."""
    steps_back: bool = True
    """True if slices may have negative steps."""
    sums_wrap: bool = True
    """True if sums and products of integers over an axis wrap."""
    together: int = 1
    """The number of programs that are compiled as one function."""
    helpers: tuple[str, ...] = ()
    """Imports of our own modules, which a script cannot use."""

    def can_say(self, step: ProgramStep) -> bool:
        """Return True if the library offers what the step does."""
        if step.op in ("data", "read"):
            return True
        if step.op == APPLY:
            return bool(self.form(step.values[0]))
        if step.op == "index" and not self.steps_back and _has_negative_step(step):
            return False
        return step.op in self.operations

    def statement(self, step: ProgramStep, dtype: str) -> str:
        """Return the statement for a step whose result has this type.

        Raises `UserError` for a step that the library does not offer.
        """
        if not self.can_say(step):
            raise UserError(f"step: the library does not offer {step.op!r}")
        return f"{name_of(step.target)} = {self._expression(step, dtype)}"

    def _expression(self, step: ProgramStep, dtype: str) -> str:
        names = [name_of(number) for number in step.args]
        if step.op == APPLY:
            # The operand may occur several times in the expression.
            return _INPUT.sub(names[0], self.form(step.values[0]))
        words = {
            **dict(zip("abc", names, strict=False)),
            **_words(step),
            "dtype": self.type_name(dtype),
        }
        return self.operations[step.op].format(**words, v=step.values)

    def type_name(self, dtype: str) -> str:
        """Return the library's expression for the type of this name."""
        is_mask = dtype == "bool" and self.operations is _MLX
        return self.dtype.format(name="bool_" if is_mask else dtype)

    def tensor_of(self, array: str, dtype: str) -> str:
        """Return the expression of a tensor with the elements of a numpy array."""
        return self.tensor.format(array=array, dtype=self.type_name(dtype))

    def form(self, name: str) -> str:
        """Return the expression of `x` for a form of the spec; empty if the library has none."""
        form = FORMS.get(name)
        if form is None:
            return ""
        if self.operations is _TORCH:
            return form.torch_expression
        if self.operations is _TINYGRAD:
            return form.expression
        return self.forms.get(name, "")


def _has_negative_step(step: ProgramStep) -> bool:
    slices = [item for item in step.values[0] if isinstance(item, tuple)]
    return any(by is not None and by < 0 for _, _, by in slices)


def _words(step: ProgramStep) -> dict[str, Value]:
    """Return the values of a template beyond operands and values."""
    match step.op:
        case "index":
            return {"key": key_text(step.values[0])}
        case "shrink":
            return {"bounds": ", ".join(f"{low}:{high}" for low, high in step.values[0])}
        case "pad":
            # PyTorch lists the last axis first.
            flat = [number for pair in reversed(step.values[0]) for number in pair]
            return {"pairs": repr(tuple(flat))}
        case "arange":
            return {"end": step.values[0] + step.values[1]}
    return {}


@dataclass(frozen=True)
class PureFunction:
    """A function `f` as text."""

    inputs: Mapping[str, Array]
    """The arguments by name."""
    statements: tuple[str, ...]
    """The lines of the body."""
    results: tuple[str, ...]
    """The names of the results."""

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

    Raises `UserError` for a step that the library does not offer, or that lacks a value. Raises
    `NotOfferedError` for a sum that overflows, if the library does not define that.
    """
    inputs: dict[str, Array] = {}
    statements = []
    results = []
    for number, step in enumerate(program.steps):
        try:
            if step.op == "read":
                results.append(name_of(step.args[0]))
            elif step.op == "data":
                # The elements of a tensor without axes are a numpy scalar.
                inputs[name_of(step.target)] = np.asarray(environment.arrays[step.target].elements)
            else:
                if not spelling.sums_wrap:
                    _check_range(step, environment)
                dtype = environment.arrays[step.target].dtype
                statements.append(spelling.statement(step, dtype))
        except (LookupError, TypeError, ValueError) as error:
            raise UserError(f"step {number}: {step.op!r}: {error}") from None
    return PureFunction(inputs, tuple(statements), tuple(results))


def _check_range(step: ProgramStep, environment: PureEnvironment) -> None:
    """Raise `NotOfferedError` if a sum or a product of integers may leave the type."""
    if step.op not in ("sum", "prod", "cumsum", "matmul"):
        return
    elements = [np.abs(environment.arrays[number].elements.astype(object)) for number in step.args]
    dtype = environment.arrays[step.target].elements.dtype
    if dtype.kind not in "iu" or not elements[0].size:
        return
    match step.op:
        case "matmul":
            largest = np.max(elements[0] @ elements[1], initial=0)
        case "prod":
            largest = np.max(np.prod(np.maximum(elements[0], 1), axis=step.values[0]))
        case _:
            largest = np.max(np.sum(elements[0], axis=step.values[0]))
    if largest > np.iinfo(dtype).max:
        raise NotOfferedError(f"{step.op}: the library does not define an overflow")


# --- libraries ---------------------------------------------------------------------------------

_TORCH_SPELLING = Spelling(
    ("import numpy as np, torch, torch.nn.functional as F",),
    _TORCH,
    "torch.{name}",
    "torch.tensor({array})",
    "{actual}.cpu().numpy()",
    steps_back=False,
)
_ARRAY_SPELLING = Spelling(
    (), _ARRAY_API, "xp.{name}", "xp.asarray({array})", "np.asarray({actual})", forms=_ARRAY_FORMS
)
_TINYGRAD_SPELLING = Spelling(
    ("import numpy as np", "from tinygrad import Tensor", "from tinygrad.helpers import DEV"),
    _TINYGRAD,
    "'{name}'",
    "Tensor({array})",
    "{actual}.numpy()",
)
# Without an explicit type, MLX narrows an array of 64 bits.
_MLX_SPELLING = Spelling(
    ("import numpy as np, mlx.core as xp, mlx.nn as nn",),
    _MLX,
    "xp.{name}",
    "xp.array({array}, {dtype})",
    "np.asarray({actual})",
    forms=_MLX_FORMS,
    eager="xp.disable_compile() or {f}",
)
_ONNX_SPELLING = Spelling(
    ("import numpy as np, onnx.parser, onnxruntime",),
    _ONNX,
    "'{name}'",
    "{array}",
    "{actual}",
    compiled="graphs.optimised({f})",
    forms=_ONNX_FORMS,
    eager="graphs.unoptimised({f})",
    # ONNX does not define an overflow, and ONNX Runtime saturates.
    sums_wrap=False,
    helpers=("from tinyref_fuzz.programs.library import graphs", "xp = graphs.FUNCTIONS"),
)
_MODULE = "array-api:"
# Libraries with their own name, and the module that has their functions.
_MODULES: Mapping[str, str] = {"numpy": "numpy", "jax": "jax.numpy", "jax-jit": "jax.numpy"}
_OTHERS = ("torch", "torch-compile", "tinygrad", "mlx", "mlx-compile", "onnxruntime")
# For libraries that compile: the compiled form of a function, and a statement before each compile.
_COMPILED: Mapping[str, tuple[str, str]] = {
    "torch-compile": (
        "torch.compile({f}, fullgraph=True, dynamic=False)",
        "torch.compiler.reset()",
    ),
    "jax-jit": ("jax.jit({f})", ""),
    "mlx-compile": ("xp.compile({f})", "xp.enable_compile()"),
}


def spelling_of(name: SubjectName) -> Spelling:
    """Return the spelling of a library. Raises `UserError` for one that has no table."""
    spelling = _spelling_of(name)
    spelling = replace(spelling, imports=(*name.imports, *spelling.imports))
    if name.library not in _COMPILED:
        return spelling
    compiled, before = _COMPILED[name.library]
    return replace(spelling, compiled=compiled, before=before, together=_TOGETHER)


def _spelling_of(name: SubjectName) -> Spelling:
    """Return the spelling of a library that runs op by op."""
    library, device = name.library, name.device
    if library.startswith("torch"):
        default = (
            () if device == "cpu" else (f"torch.set_default_device({device!r}); torch.zeros(1)",)
        )
        return replace(_TORCH_SPELLING, imports=(*_TORCH_SPELLING.imports, *default))
    if library == "tinygrad":
        chosen = f"DEV.value = {device.upper()!r}"
        return replace(_TINYGRAD_SPELLING, imports=(*_TINYGRAD_SPELLING.imports, chosen))
    if library.startswith("mlx"):
        # Functions of mlx.nn are compiled unless the process disables that.
        eager = () if library == "mlx-compile" else ("xp.disable_compile()",)
        imports = (*_MLX_SPELLING.imports, f"xp.set_default_device(xp.{device})", *eager)
        return replace(_MLX_SPELLING, imports=imports)
    if library == "onnxruntime":
        return _ONNX_SPELLING
    if library not in _MODULES and not library.startswith(_MODULE):
        raise UserError(
            f"subject: {library} cannot be fuzzed yet: accepted are {', '.join(_OTHERS)}, "
            f"{', '.join(_MODULES)} and {_MODULE}MODULE"
        )
    if device not in ("cpu", DEFAULT_DEVICE):
        raise UserError(f"on: {library} is fuzzed only on its default device, not on {device}")
    module = _MODULES.get(library, library.removeprefix(_MODULE))
    # The compiled form uses the name of the package.
    package = "jax, " if library == "jax-jit" else ""
    return replace(_ARRAY_SPELLING, imports=(f"import numpy as np, {package}{module} as xp",))
