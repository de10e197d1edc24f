"""Write a finding as a script of the library and numpy only, for the library's maintainers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tinyref_fuzz.programs.library.judge import Difference, FuzzedLibrary, limits_of
from tinyref_fuzz.programs.library.oracle import PureEnvironment
from tinyref_fuzz.programs.library.spelling import PureFunction, function_of
from tinyref_fuzz.programs.steps import TensorProgram
from tinyref_spec.bits import Array
from tinyref_spec.reproducer import guarded_imports

_WIDTH = 100
# Number of wrong elements that a script compares.
_MAX_ELEMENTS = 4


def library_script(
    library: FuzzedLibrary,
    about: str,
    program: TensorProgram,
    difference: Difference | None,
    environment: PureEnvironment,
) -> str:
    """Return a script that exits with 1 while the read of `difference` is wrong, and else with 0.

    It exits with 2 if the library, the device or a package is missing.

    Args:
        about: A description of the fault, for the first line.
        difference: None if the library crashes, hangs or raises. Then the script only runs the
            function and reads its results.
        environment: The environment after evaluating the program.
    """
    spelling = library.spelling
    function = function_of(program, environment, spelling)
    lines = [f"# {about}".replace("\n", " ")]
    lines += guarded_imports(spelling.imports, library.package)
    if library.builds_graphs:
        lines += _graph_lines(library, function)
    else:
        body = [*function.statements, function.result]
        lines += [function.head, *(f"    {line}" for line in _packed(body, _WIDTH - 4))]
        lines += _inputs(function.inputs, spelling.tensor_of)
        called = spelling.compiled.format(f="f") if library.compiles else "f"
        lines.append(f"results = {called}({', '.join(function.inputs)})")
    if difference is None or difference.is_error:
        read = spelling.read.format(actual="result")
        return "\n".join([*lines, f"print([{read} for result in results])", ""])
    expected = environment.expected[difference.read]
    array = environment.read_arrays[difference.read]
    wrong = list(difference.elements[:_MAX_ELEMENTS])
    low, high = (_list(limit.reshape(-1)[wrong]) for limit in limits_of(expected))
    actual = spelling.read.format(actual=f"results[{difference.read}]")
    lines += [
        f"actual = {actual}; got = actual.reshape(-1)[{wrong}].tolist()",
        f"low, high = {low}, {high}",
        'print("expected", low, "to", high, "got", got, actual.dtype, actual.shape)',
        f'is_right = (actual.dtype, actual.shape) == ("{array.dtype}", {array.shape})',
        "raise SystemExit(not (is_right and all(a <= x <= b for a, x, b in zip(low, got, high))))",
    ]
    return "\n".join([*lines, ""])


def _inputs(arrays: Mapping[str, Array], tensor: Callable[[str, str], str]) -> list[str]:
    """Return the lines that define the inputs; many inputs share lines."""
    lines = [
        f"{name} = {tensor(_literal(values), values.dtype.name)}" for name, values in arrays.items()
    ]
    return lines if len(lines) <= 3 else _packed(lines, 10 * _WIDTH)


def _graph_lines(library: FuzzedLibrary, function: PureFunction) -> list[str]:
    """Return the lines that run the graph of a function."""
    graphs = library.names["graphs"]
    model, arrays = graphs.graph_of(library.function(function.text), function.inputs.values())
    session = "onnxruntime.InferenceSession(model.SerializeToString(), providers="
    return [
        f"model = onnx.parser.parse_model({graphs.model_text(model)!r})",
        *_inputs(arrays, lambda array, dtype: array),
        f"session = {session}[{graphs.PROVIDER!r}])",
        f"results = session.run(None, dict({', '.join(f'{name}={name}' for name in arrays)}))",
    ]


def _packed(statements: Iterable[str], width: int) -> list[str]:
    """Join statements with semicolons into few lines."""
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
    """Return a list of numbers as text; Python prints floats so that they parse back exactly."""
    numbers = values.tolist()
    if len(numbers) > _MAX_ELEMENTS and len(set(numbers)) == 1:
        return f"[{numbers[0]!r}] * {len(numbers)}"
    return repr(numbers)
