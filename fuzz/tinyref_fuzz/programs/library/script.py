"""Writes a finding as a script of the library and numpy alone, for the library's maintainers."""

from __future__ import annotations

from collections.abc import Iterable

from tinyref_fuzz.programs.library.judge import Difference, Library, limits_of
from tinyref_fuzz.programs.library.oracle import evaluate_pure
from tinyref_fuzz.programs.library.spelling import function_of
from tinyref_fuzz.programs.steps import TensorProgram
from tinyref_spec.bits import Array

MAX_LINES = 15
_WIDTH = 100
# Wrong elements that a script compares.
_MAX_ELEMENTS = 4


def library_script(
    library: Library, about: str, program: TensorProgram, difference: Difference | None
) -> str:
    """Return a script that exits with 1 while the read of `difference` is wrong.

    about: what is wrong, for the first line. Without a difference the script only runs the
    function, in which the library crashes, hangs or raises.
    """
    environment = evaluate_pure(program)
    spelling = library.spelling
    function = function_of(program, environment, spelling)
    lines = [f"# {about}".replace("\n", " "), *spelling.imports]
    body = [*function.statements, function.result]
    lines += [function.head, *(f"    {line}" for line in _packed(body, _WIDTH - 4))]
    inputs = [
        f"{name} = {spelling.tensor.format(array=_literal(values))}"
        for name, values in function.inputs.items()
    ]
    lines += inputs if len(inputs) <= 3 else _packed(inputs, 10 * _WIDTH)
    called = spelling.compiled.format(f="f") if library.compiles else "f"
    lines.append(f"results = {called}({', '.join(function.inputs)})")
    if difference is None or difference.is_error:
        return "\n".join([*lines, ""])
    expected = environment.expected[difference.read]
    array = environment.read_arrays[difference.read]
    wrong = list(difference.elements[:_MAX_ELEMENTS])
    low, high = (_list(limit.reshape(-1)[wrong]) for limit in limits_of(expected))
    actual = spelling.read.format(actual=f"results[{difference.read}]")
    lines += [
        f"actual = {actual}",
        f"low, high = {low}, {high}",
        f"got = actual.reshape(-1)[{wrong}].tolist()",
        'print("expected", low, "to", high, "got", got, actual.dtype, actual.shape)',
        f'is_right = (actual.dtype, actual.shape) == ("{array.dtype}", {array.shape})',
        "raise SystemExit(not (is_right and all(a <= x <= b for a, x, b in zip(low, got, high))))",
    ]
    return "\n".join([*lines, ""])


def _packed(statements: Iterable[str], width: int) -> list[str]:
    """Return statements in few lines, separated by semicolons."""
    lines: list[str] = []
    for statement in statements:
        if lines and len(lines[-1]) + len(statement) + 2 <= width:
            lines[-1] += f"; {statement}"
        else:
            lines.append(statement)
    return lines


def _literal(values: Array) -> str:
    shape = "" if values.ndim == 1 else f".reshape({values.shape})"
    return f'np.array({_list(values.reshape(-1))}, "{values.dtype.name}"){shape}'


def _list(values: Array) -> str:
    """Return a list of numbers as text; Python prints floats so that they read back exactly."""
    numbers = values.tolist()
    if len(numbers) > _MAX_ELEMENTS and len(set(numbers)) == 1:
        return f"[{numbers[0]!r}] * {len(numbers)}"
    return repr(numbers)
