"""Prints a program as a function of a library: one table for each family of libraries.

Casts and the types of sums are written out, so that promotion rules do not matter.
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
from tinyref_spec.subjects.array_api import SAME
from tinyref_spec.subjects.name import DEFAULT_PLACE, SubjectName

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
    "flip": "xp.flip({a}, axis={v[0]!r})",
    "full": "xp.full({v[1]!r}, {v[2]!r}, dtype={dtype})",
    "arange": "xp.arange({v[0]!r}, {end}, dtype={dtype})",
}
# Its tensors have the methods of ours.
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


@dataclass(frozen=True)
class Spelling:
    """Templates for a program in one library.

    imports: lines. operations: a template for each operation that the library has. dtype, tensor,
    read: templates of a type, of a tensor made from `array`, and of a numpy array made from
    `actual`. compiled: a template of the compiled form of the function `f`, empty for a library
    that runs at once. before: a statement before each compile. steps_back: whether slices may have
    negative steps.
    """

    imports: tuple[str, ...]
    operations: Mapping[str, str] = field(repr=False)
    dtype: str
    tensor: str
    read: str
    compiled: str = ""
    before: str = ""
    steps_back: bool = True

    def can_say(self, step: ProgramStep) -> bool:
        """Return True if the library has a word for what the step does."""
        if step.op in ("data", "read"):
            return True
        if step.op == APPLY:
            return bool(self.form(step.values[0]))
        if step.op == "index" and not self.steps_back and _has_negative_step(step):
            return False
        return step.op in self.operations

    def statement(self, step: ProgramStep, dtype: str) -> str:
        """Return the statement for a step whose result has this type.

        Raises `UserError` for a step that the library has no word for.
        """
        if not self.can_say(step):
            raise UserError(f"step: {step.op!r} has no word in this library")
        return f"{name_of(step.target)} = {self._expression(step, dtype)}"

    def _expression(self, step: ProgramStep, dtype: str) -> str:
        names = [name_of(number) for number in step.args]
        if step.op == APPLY:
            # A function: the operand may stand there several times.
            return _INPUT.sub(names[0], self.form(step.values[0]))
        words = {
            **dict(zip("abc", names, strict=False)),
            **_words(step),
            "dtype": self.dtype.format(name=dtype),
        }
        return self.operations[step.op].format(**words, v=step.values)

    def form(self, name: str) -> str:
        """Return the expression of `x` for a form of the spec; empty if the library has none."""
        form = FORMS.get(name)
        if form is None:
            return ""
        if self.operations is _TORCH:
            return form.torch_expression
        if self.operations is _TINYGRAD:
            return form.expression
        method = _METHOD.fullmatch(form.expression)
        same = SAME.get(method[1]) if method else None
        return f"xp.{same}(x)" if same else ""


def _has_negative_step(step: ProgramStep) -> bool:
    slices = [item for item in step.values[0] if isinstance(item, tuple)]
    return any(by is not None and by < 0 for _, _, by in slices)


def _words(step: ProgramStep) -> dict[str, Value]:
    """Return the words of a template in addition to the operands and values."""
    match step.op:
        case "index":
            return {"key": key_text(step.values[0])}
        case "shrink":
            return {"bounds": ", ".join(f"{low}:{high}" for low, high in step.values[0])}
        case "pad":
            # The last axis comes first.
            flat = [number for pair in reversed(step.values[0]) for number in pair]
            return {"pairs": repr(tuple(flat))}
        case "arange":
            return {"end": step.values[0] + step.values[1]}
    return {}


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
    (), _ARRAY_API, "xp.{name}", "xp.asarray({array})", "np.asarray({actual})"
)
_TINYGRAD_SPELLING = Spelling(
    ("import numpy as np", "from tinygrad import Tensor", "from tinygrad.helpers import DEV"),
    _TINYGRAD,
    "'{name}'",
    "Tensor({array})",
    "{actual}.numpy()",
)
_MODULE = "array-api:"
# Libraries with a name of their own, and the module that has their functions.
_MODULES: Mapping[str, str] = {"numpy": "numpy", "jax": "jax.numpy", "jax-jit": "jax.numpy"}
# The compiled form of a function, of libraries that compile, and a statement before each compile.
_COMPILED: Mapping[str, tuple[str, str]] = {
    "torch-compile": (
        "torch.compile({f}, fullgraph=True, dynamic=False)",
        "torch.compiler.reset()",
    ),
    "jax-jit": ("jax.jit({f})", ""),
}


def spelling_of(name: SubjectName) -> Spelling:
    """Return the words of a library. Raises `UserError` for one that has no table."""
    library = name.library
    packages = tuple(f"import {package}" for package in name.packages)
    compiled, before = _COMPILED.get(library, ("", ""))
    if library.startswith("torch"):
        place = () if name.place == "cpu" else (f"torch.set_default_device({name.place!r})",)
        imports = (*_TORCH_SPELLING.imports, *packages, *place)
        return replace(_TORCH_SPELLING, imports=imports, compiled=compiled, before=before)
    if library == "tinygrad":
        imports = (*_TINYGRAD_SPELLING.imports, f"DEV.value = {name.place.upper()!r}", *packages)
        return replace(_TINYGRAD_SPELLING, imports=imports)
    if library not in _MODULES and not library.startswith(_MODULE):
        raise UserError(
            f"subject: {library} cannot be fuzzed yet: accepted are torch, torch-compile, "
            f"tinygrad, {', '.join(_MODULES)} and {_MODULE}MODULE"
        )
    if name.place not in ("cpu", DEFAULT_PLACE):
        raise UserError(f"on: {library} is fuzzed only where it works by itself, not {name.place}")
    module = _MODULES.get(library, library.removeprefix(_MODULE))
    # The compiled form names the package itself.
    package = f"{module.partition('.')[0]}, " if compiled else ""
    imports = (f"import numpy as np, {package}{module} as xp", *packages)
    return replace(_ARRAY_SPELLING, imports=imports, compiled=compiled, before=before)
