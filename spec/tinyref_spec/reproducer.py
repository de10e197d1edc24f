"""Self-contained scripts that show one failure again: under 40 lines, inputs as literal bits."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tinyref.dtype import DType, from_numpy_dtype
from tinyref.formats.json_format import program_to_text, to_json
from tinyref.runtimes.reproducer import Launch, Wanted
from tinyref.uops.program import Program
from tinyref_spec.bits import Array, to_bits
from tinyref_spec.error_rules import Rule, SameBits, Ulp
from tinyref_spec.oracles import Expected

MAX_LINES = 40
# Elements that a script looks at.
MAX_PLACES = 16
_LONGEST_TEXT = 14
# All gradients of a question, and the index of one.
_GRADIENT = re.compile(r"(?P<all>.*, gradient=g\))\[(?P<index>\d+)\]")


def array_literal(values: Array) -> str:
    """A Python expression that gives the same bits again; needs np, base64 and zlib."""
    bits = to_bits(values).ravel()
    name = from_numpy_dtype(values.dtype).name
    if bits.size and (bits == bits[0]).all():
        inner = f"np.full({bits.size}, {int(bits[0]):#x}, np.{bits.dtype})"
    elif bits.size <= 16:
        inner = f"np.array([{', '.join(f'{int(item):#x}' for item in bits)}], np.{bits.dtype})"
    else:
        packed = base64.b85encode(zlib.compress(bits.tobytes(), 9)).decode()
        inner = f"np.frombuffer(zlib.decompress(base64.b85decode({packed!r})), np.{bits.dtype})"
    return f"{inner}.view(numpy_dtype(dtypes.{name}))"


def _program_lines(program: Program) -> list[str]:
    text = program_to_text(program)
    if len(text.splitlines()) <= _LONGEST_TEXT and '"""' not in text and "\\" not in text:
        return [
            "from tinyref.formats.json_format import program_from_text",
            f'program = program_from_text("""{text}""")',
        ]
    saved = json.dumps(to_json(program), separators=(",", ":")).encode()
    packed = base64.b85encode(zlib.compress(saved, 9)).decode()
    return [
        "from tinyref.formats.json_format import from_json",
        f"program = from_json(json.loads(zlib.decompress(base64.b85decode({packed!r}))))",
    ]


def wanted_elements(slot: int, expected: Expected, rule: Rule, places: Array) -> Wanted:
    """What a few of the elements at `places` must be, as far as one element can say it."""
    few = [int(place) for place in places.reshape(-1)[:MAX_PLACES]]
    values = expected.values.reshape(-1)[few]
    others = [other.reshape(-1)[few] for other in expected.alternatives]
    is_exact = isinstance(rule, SameBits) or (isinstance(rule, Ulp) and rule.signed_zero)
    if not is_exact and from_numpy_dtype(values.dtype).is_float:
        others.append(np.where(values == 0, -values, values))
    if isinstance(rule, SameBits):
        return Wanted(slot, few, to_bits(values))
    if isinstance(rule, Ulp):
        return Wanted(slot, few, values, others, rule.limit)
    if expected.wide is None or expected.tolerance is None:
        return Wanted(slot, few, values, others)
    exact = expected.wide.reshape(-1)[few]
    bounds = list(
        zip(
            exact,
            np.broadcast_to(expected.tolerance, expected.wide.shape).reshape(-1)[few],
            strict=True,
        )
    )
    return Wanted(slot, few, values, others, 0, [(float(x), float(y)) for x, y in bounds])


def _wanted_text(item: Wanted) -> str:
    others = ", ".join(array_literal(values) for values in item.others)
    bounds = [tuple(map(_float_text, pair)) for pair in item.bounds]
    shown = ", ".join(f"({exact}, {most})" for exact, most in bounds)
    return (
        f"Wanted({item.slot}, {list(item.places)}, {array_literal(item.values)}, [{others}], "
        f"{item.ulps}, [{shown}])"
    )


def _float_text(value: float) -> str:
    return repr(value) if np.isfinite(value) else f'float("{value}")'


def _head(case_id: str, device: str) -> list[str]:
    return [
        f"# Reproduces {case_id} on {device}.",
        "# Exit code 1 while it is wrong and 0 when it is right: git bisect run python THIS_FILE",
        "# With --in-this-process it has no child, for a debugger.",
        "import base64, json, zlib",
        "import numpy as np",
    ]


def _inputs_text(inputs: Sequence[Array | None]) -> str:
    return f"[{', '.join('None' if x is None else array_literal(x) for x in inputs)}]"


def kernel_script(case_id: str, launch: Launch, items: Sequence[Wanted]) -> str:
    """A script that makes a launch again, and names the first node that is not as it should be."""
    before = [f"    ({_inputs_text(inputs)}, {dict(names)!r})," for inputs, names in launch.before]
    lines = [
        *_head(case_id, launch.device),
        "from tinyref.dtype import dtypes, numpy_dtype",
        "from tinyref.runtimes.reproducer import Launch, Wanted, check, run",
        *_program_lines(launch.program),
        f"inputs = {_inputs_text(launch.inputs)}",
        *(
            ["before = [  # launches in the same buffers", *before, "]"]
            if before
            else ["before = []"]
        ),
        f"launch = Launch({launch.device!r}, program, inputs, {dict(launch.bindings)!r}, "
        f"{sorted(launch.unaligned)}, before)",
        f"wanted = [{', '.join(map(_wanted_text, items))}]",
        "run(lambda: check(launch, wanted))",
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Wording:
    """How a script says in the words of a library that it makes a tensor and reads one.

    tensor: over `array` (an expression), `place` (a device) and `wants_gradient`. read: over
    `actual` (the name of a tensor). dtype: over `name` (the name of a type).
    """

    imports: tuple[str, ...]
    tensor: str
    read: str
    dtype: str = "dtypes.{name}"


TINYREF = Wording(
    ("from tinyref import Tensor",),
    "Tensor({array}, device={place!r}, requires_grad={wants_gradient})",
    "{actual}.numpy()",
)


@dataclass(frozen=True)
class Question:
    """The question that a row asks a subject.

    values: the inputs by name. dtype: the type that expressions call `dtype`. targets: the inputs
    whose gradients may be asked for.
    """

    case_id: str
    dtype: DType
    values: Mapping[str, Array]
    targets: Collection[str] = ()


def tensor_script(
    question: Question, device: str, expression: str, item: Wanted, wording: Wording = TINYREF
) -> str:
    """Return a script that evaluates an expression of the inputs and says what is wrong."""
    lines = [
        *_head(question.case_id, device),
        *wording.imports,
        "from tinyref.dtype import dtypes, numpy_dtype",
        "from tinyref.runtimes.reproducer import Wanted, check_value, run",
    ]
    if "nn." in expression and wording is TINYREF:
        lines += ["from tinyref import nn", "from tinyref_spec.model.given import *"]
    if "device" in expression:
        lines.append(f"device = {device!r}")
    if "dtype" in expression:
        lines.append(f"dtype = {wording.dtype.format(name=question.dtype.name)}")
    lines += ["def value():"]
    for name, values in question.values.items():
        shaped = f"({array_literal(values)}).reshape({values.shape})"
        wants = name in question.targets
        made = wording.tensor.format(array=shaped, place=device, wants_gradient=wants)
        lines.append(f"    {name} = {made}")
    read = wording.read.format(actual="value()")
    lines += [
        *_lines_of_value(expression),
        f"wanted = {_wanted_text(item)}",
        f"print({expression!r}, flush=True)",
        f"run(lambda: check_value(lambda: {read}, wanted))",
    ]
    return "\n".join(lines) + "\n"


def _lines_of_value(expression: str) -> list[str]:
    """Return the end of a function that returns the value of an expression.

    As in the rows, the inputs may be freed before the value is read, and all gradients of a
    question are realised together.
    """
    gradient = _GRADIENT.fullmatch(expression)
    if gradient is None:
        return [f"    return {expression}"]
    return [
        f"    gradients = {gradient['all']}",
        "    gradients[0].realize(*gradients[1:])",
        f"    return gradients[{gradient['index']}]",
    ]
