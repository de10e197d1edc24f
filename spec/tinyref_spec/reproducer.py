"""The writer of reproducers: self-contained scripts that show one failure again.

Each has the same parts in at most 40 lines: a comment on what it shows, flags, imports, inputs as
literal bits, the computation, and the expected values. `run` of tinyref.runtimes.reproducer gives
the exit code. Functions write scripts of launches of programs and ASTs, of expressions of
libraries, of programs of tensors, and of cases of the suite.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from tinyref import reproduce
from tinyref.dtype import DType, from_numpy_dtype
from tinyref.formats.text import program_to_text, to_text
from tinyref.optimise.opt import Opt, opts_text
from tinyref.runtimes.reproducer import Wanted
from tinyref.uops.node import UOp
from tinyref.uops.program import Program
from tinyref_spec.bits import Array, to_bits
from tinyref_spec.device_under_test import MadeLaunch
from tinyref_spec.error_rules import Rule, SameBits, Ulp
from tinyref_spec.literal_text import array_literal, is_unknown_to_numpy, packed
from tinyref_spec.oracles import Expected
from tinyref_spec.subjects.name import is_subject
from tinyref_spec.tool_scripts.launch import bounds_of

MAX_LINES = 40
MAX_LIBRARY_LINES = 15
# Number of elements that a script checks.
MAX_ELEMENTS = 16
_LONGEST_TEXT = 14
_LONGEST_COMMENT = 320
# All gradients of a question, and the index of one.
_GRADIENT = re.compile(r"(?P<all>.*, gradient=g\))\[(?P<index>\d+)\]")
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_RUN = "from tinyref.runtimes.reproducer import"
_ARRAYS = (
    "import base64, zlib",
    "import numpy as np",
    "from tinyref.dtype import dtypes, numpy_dtype",
)
_COMPILER = [
    "from tinyref.codegen.compile import compile_kernel",
    "from tinyref.device import Device",
    "from tinyref.formats.text import from_text",
    "from tinyref.optimise.opt import parse_opts",
]


def script(
    about: str,
    imports: Sequence[str],
    lines: Sequence[str],
    problem: str,
    settings: Mapping[str, str] = _NOTHING,
) -> str:
    """Return a script that exits with 1 while something is wrong.

    about: what it reproduces. problem: an expression over what `lines` define, which is empty if
    nothing is wrong. settings: the environment variables that it sets first.
    """
    # `repr` keeps line breaks in names of devices and files from ending the comment.
    subject = reproduce.without_local_folders(about)
    comment = repr(" ".join(subject.split()))[1:-1][:_LONGEST_COMMENT]
    text = "\n".join(
        [
            f"# Reproduces {comment}.",
            "# Exit code 1 while it is wrong, 0 when it is right: git bisect run python THIS_FILE",
            "# With --in-this-process it has no child, for a debugger.",
            *imports,
            *lines,
            f"run(lambda: {problem})",
        ]
    )
    return reproduce.script(f"{text}\n", settings)


# Values as text


def _text_literal(text: str) -> str:
    if len(text.splitlines()) <= _LONGEST_TEXT and '"""' not in text and "\\" not in text:
        return f'"""{text}"""'
    return f"{packed(text.encode())}.decode()"


def _arrays_literal(arrays: Sequence[Array | None]) -> str:
    return f"[{', '.join('None' if x is None else array_literal(x) for x in arrays)}]"


def _wanted_literal(items: Sequence[Wanted]) -> str:
    return f"[{', '.join(map(_item_literal, items))}]"


def _item_literal(item: Wanted) -> str:
    count = len(item.indices)
    is_first = list(item.indices) == list(range(count))
    indices = f"range({count})" if is_first else repr(list(item.indices))
    parts = [str(item.slot), indices, array_literal(item.values)]
    if item.others:
        parts.append(f"others={_arrays_literal(item.others)}")
    if item.ulps:
        parts.append(f"ulps={item.ulps}")
    if item.bounds is not None:
        parts.append(f"bounds=({', '.join(map(array_literal, item.bounds))})")
    if item.shape is not None:
        parts.append(f"shape={item.shape}")
    return f"Wanted({', '.join(parts)})"


def wanted_elements(slot: int, expected: Expected, rule: Rule, indices: Array) -> Wanted:
    """Return what the first few of these elements must be, as far as one element can say it."""
    few = [int(index) for index in indices.reshape(-1)[:MAX_ELEMENTS]]
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
    most = np.broadcast_to(expected.tolerance, expected.wide.shape)
    exact, most = (array.reshape(-1)[few].astype(np.float64) for array in (expected.wide, most))
    with np.errstate(all="ignore"):
        return Wanted(slot, few, values, others, bounds=(exact - most, exact + most))


# Kernels


@dataclass(frozen=True)
class ScriptKernel:
    """A kernel AST that the script compiles for `device`, whichever device runs it.

    opts: the optimisations; None for those of heuristics.
    """

    ast: UOp
    opts: tuple[Opt, ...] | None
    device: str


def kernel_script(
    about: str,
    device: str,
    program: Program | ScriptKernel,
    inputs: Sequence[Array | None],
    items: Sequence[Wanted],
    *,
    bindings: Mapping[str, int] = _NOTHING,
    unaligned: Collection[int] = (),
    before: Sequence[MadeLaunch] = (),
    settings: Mapping[str, str] = _NOTHING,
) -> str:
    """Return a script that launches a kernel and names the first node that is wrong.

    The arguments are those of a `ReproducedLaunch`.
    """
    if isinstance(program, ScriptKernel):
        needed, made = _COMPILER, _compiled(program)
    else:
        needed = ["from tinyref.formats.text import program_from_text"]
        made = [f"program_from_text({_text_literal(program_to_text(program))})"]
    earlier = [f"({_arrays_literal(arrays)}, {dict(names)!r})" for arrays, names in before]
    lines = [
        f"inputs = {_arrays_literal(inputs)}",
        f"before = [{', '.join(earlier)}]  # launches in the same buffers",
        f"wanted = {_wanted_literal(items)}",
        "def launch():",
        *[f"    {line}" for line in made[:-1]],
        f"    program = {made[-1]}",
        f"    return ReproducedLaunch({device!r}, program, inputs, {dict(bindings)!r}, "
        f"{sorted(unaligned)}, before)",
    ]
    imports = [*_ARRAYS, *needed, f"{_RUN} ReproducedLaunch, Wanted, check, run"]
    return script(f"{about} on {device}", imports, lines, "check(launch(), wanted)", settings)


def _compiled(kernel: ScriptKernel) -> list[str]:
    opts = "None" if kernel.opts is None else f"parse_opts({opts_text(kernel.opts)!r})"
    return [
        f"kernel = from_text({_text_literal(to_text(kernel.ast))})",
        f"opts = {opts}",
        f"compile_kernel(kernel, Device[{kernel.device!r}].capabilities, opts=opts)",
    ]


# Tensors


@dataclass(frozen=True)
class Wording:
    """Templates by which a script makes and reads the tensors of a library."""

    imports: tuple[str, ...]
    tensor: str
    """Makes a tensor from `array` (an expression), `name` (of its type), `place` (a device) and
    `wants_gradient`."""
    read: str
    """Gives a numpy array from `actual` (an expression of a tensor)."""
    dtype: str = "dtypes.{name}"
    layers: tuple[str, ...] = ()
    """Imports for expressions with layers."""
    marks_inputs: bool = False
    """Inputs request gradients even if only the value is used; this keeps them alive longer."""
    widen: str = "{actual}"
    """Casts `actual`, a tensor of a type that numpy lacks, to float32."""
    translate: Callable[[str, Question], str] = lambda expression, _: expression
    """Gives the calls of the library for an expression of the rows: statements, and an expression
    on the last line. Empty if it cannot."""
    bool_name: str = "bool"
    package: str = ""
    """The packages that pip installs; empty for scripts that need tinyref."""
    otherwise: Wording | None = None
    """The wording of scripts with calls that `translate` cannot write."""


TINYREF = Wording(
    ("from tinyref import Tensor",),
    "Tensor({array}, device={place!r}, requires_grad={wants_gradient})",
    "{actual}.numpy()",
    layers=("from tinyref import nn", "from tinyref_spec.model.given import *"),
)


@dataclass(frozen=True)
class Question:
    """The question that a row asks a subject.

    values: the inputs by name; the weights of a gradient are `g`. dtype: the type that expressions
    call `dtype`. targets: the inputs whose gradients may be asked for. is_elementwise: each element
    of the result depends on the same elements of the inputs alone, and a script needs only a few.
    """

    case_id: str
    dtype: DType
    values: Mapping[str, Array]
    targets: Collection[str] = ()
    is_elementwise: bool = False


def tensor_script(
    question: Question, place: str, expression: str, item: Wanted, wording: Wording
) -> str:
    """Return a script that evaluates an expression of the inputs and reports what is wrong.

    place: the device as the library calls it. The script of another library needs no tinyref.
    """
    if wording.package:
        text = _library_script(question, place, expression, item, wording)
        if text or wording.otherwise is None:
            return text
        wording = wording.otherwise
    lines = []
    if "device" in expression:
        lines.append(f"device = {place!r}")
    if "dtype" in expression:
        lines.append(f"dtype = {wording.dtype.format(name=question.dtype.name)}")
    lines += [f"wanted = {_wanted_literal([item])}", "def value():"]
    for name, values in question.values.items():
        shaped = f"({array_literal(values)}).reshape({values.shape})"
        wants = name in question.targets and "g" in question.values
        made = wording.tensor.format(array=shaped, place=place, wants_gradient=wants)
        lines.append(f"    {name} = {made}")
    lines += _lines_of_value(expression)
    layers = wording.layers if "nn." in expression else ()
    imports = (*wording.imports, *_ARRAYS, f"{_RUN} Wanted, check_values, run", *layers)
    read = wording.read.format(actual="value()")
    about = f"{question.case_id} on {place}"
    return script(about, imports, lines, f"check_values(lambda: [{read}], wanted)")


def _library_script(
    question: Question, place: str, expression: str, item: Wanted, wording: Wording
) -> str:
    """Return a script of at most `MAX_LIBRARY_LINES` that needs only the library and numpy.

    Return an empty text if the library's calls cannot be written.
    """
    text = wording.translate(expression, question)
    if not text:
        return ""
    *statements, call = text.splitlines()
    inputs = _library_inputs(question, place, call, wording)
    values = [_widened(array) for array in (item.values, *item.others)]
    if is_unknown_to_numpy(item.values):
        call = wording.widen.format(actual=call)
    good = ["(got == value)", "(got != got) & (value != value)"]
    others = [other for other in values[1:] if not (other == values[0]).all()]
    good += [f"(got == {array_literal(other)})" for other in others]
    checks = [f"value = {array_literal(values[0])}"]
    low, high = bounds_of(item)
    if low is not None and high is not None:
        checks.append(f"low, high = {', '.join(map(array_literal, map(_widened, (low, high))))}")
        good.append("(low <= got) & (got <= high)")
    right = " | ".join(good)
    if values[0].dtype.kind == "f" and not item.others and (values[0] == 0).any():
        right = f"({right}) & ((value != 0) | (np.signbit(got) == np.signbit(value)))"
    body = [
        *statements,
        f"got = np.ravel({wording.read.format(actual=call)})[{list(item.indices)}]",
        *checks,
        f"good = {right}",
        "print('expected', value, 'got', got)",
        "raise SystemExit(0 if good.all() else 1)",
    ]
    about = f"{question.case_id} on {place}: exit code 1 while it is wrong, 0 when it is right."
    zlib = ["import base64, zlib"] if "zlib." in "".join([*inputs, *body]) else []
    imports = ("import numpy as np", *wording.imports)
    head = [f"# {about}", *zlib, *guarded_imports(imports, wording.package)]
    if len(head + inputs + body) > MAX_LIBRARY_LINES:
        inputs = ["; ".join(inputs)]
    return "\n".join([*head, *inputs, *body, ""])


def guarded_imports(imports: Sequence[str], package: str) -> list[str]:
    """Return the imports of a script that exits with 2 if a package or a device is missing."""
    return [
        "try:",
        f"    {'; '.join(imports)}",
        "except Exception as error:",
        f"    raise SystemExit(print(error, '- to install: pip install numpy {package}') or 2)",
    ]


def _library_inputs(question: Question, place: str, call: str, wording: Wording) -> list[str]:
    """Return assignments for the inputs of `call`, and for `device` and `dtype` if it uses them."""
    lines = []
    for name, values in question.values.items():
        wants = name in question.targets and ("g" in question.values or wording.marks_inputs)
        type_name = from_numpy_dtype(values.dtype).name
        made = wording.tensor.format(
            array=f"{array_literal(_widened(values))}.reshape({values.shape})",
            name=wording.bool_name if values.dtype == np.bool_ else type_name,
            place=place,
            wants_gradient=wants,
        )
        lines.append(f"{name} = {made}")
    if re.search(r"\bdevice\b", call):
        lines.append(f"device = {place!r}")
    if re.search(r"\bdtype\b(?!=)", call):
        lines.append(f"dtype = {wording.dtype.format(name=question.dtype.name)}")
    return lines


def _widened(values: Array) -> Array:
    """Return float32 for a type that numpy lacks."""
    return values.astype(np.float32) if is_unknown_to_numpy(values) else values


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


def wanted_read(number: int, values: Array) -> Wanted:
    """Return that a read gives these values, in their type and shape; zeros may have any sign."""
    flat = values.reshape(-1)
    indices = range(flat.size)
    return Wanted(number, indices, flat, bounds=(flat, flat), shape=values.shape)


def program_script(about: str, device: str, text: str, reads: Sequence[Array]) -> str:
    """Return a script that runs a program of tensors: `text` calls `check` for each read."""
    lines = [
        f"wanted = {_wanted_literal([wanted_read(*item) for item in enumerate(reads)])}",
        "def reads():",
        "    found = []",
        "    check = lambda tensor: found.append(np.array(tensor.numpy()))",
        *textwrap.indent(text, "    ").splitlines(),
        "    return found",
    ]
    tensors = "from tinyref import Tensor, TinyJit, Variable"
    imports = (tensors, *_ARRAYS, f"{_RUN} Wanted, check_values, run")
    return script(f"{about} on {device}", imports, lines, "check_values(reads, wanted)")


# Cases of the suite


def case_script(
    case_id: str, device: str, profile: str, second: str = "", before: Sequence[str] = ()
) -> str:
    """Return a script that runs a case without one of its own: it died or raised too early.

    before: the cases that run first. second: the second device, the next of its kind if empty.
    """
    opening, opened = _opened(device, second)
    first = _RUN_BEFORE.format(before=list(before), opened=opened).splitlines() if before else []
    lines = [
        "def problem():",
        *first,
        f"    measured = catalogue.find({case_id!r}).run({opened})  # of the profile {profile}",
        '    return "" if measured.passed else f"wrong: {measured.message}"',
    ]
    imports = ("from tinyref_spec import catalogue", opening, f"{_RUN} run")
    return script(f"{case_id} on {device}", imports, lines, "problem()")


_RUN_BEFORE = """\
    for name in {before}:  # it depends on what ran before
        try:
            catalogue.find(name).run({opened})
        except Exception as error:
            print(f"{{name}}: {{error}}")
"""


def open_script(device: str) -> str:
    """Return a script that opens a device and prints what it declares."""
    opening, opened = _opened(device)
    lines = ["def problem():", f"    print({opened}.capabilities)", '    return ""']
    return script(f"the opening of {device}", (opening, f"{_RUN} run"), lines, "problem()")


def _opened(device: str, second: str = "") -> tuple[str, str]:
    """Return the import that opening a device needs, and the expression that opens it."""
    if is_subject(device):
        opening = "from tinyref_spec.subjects.catalogue import open_device"
        return opening, f"open_device({device!r})"
    more = f", second={second!r}" if second else ""
    opening = "from tinyref_spec.device_under_test import DeviceUnderTest"
    return opening, f"DeviceUnderTest({device!r}{more})"
