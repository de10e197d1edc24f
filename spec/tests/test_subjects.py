"""Libraries that the tensor rows judge: right ones pass, and each fault is seen on its rows."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from tinyref.dtype import dtypes
from tinyref.errors import DeviceError, UserError
from tinyref_spec.case import Case, NotOfferedError, Profile
from tinyref_spec.catalogue import find, matches
from tinyref_spec.subjects.catalogue import NOT_ASKED, SubjectDevice, differences, open_device, rows
from tinyref_spec.subjects.name import SubjectName, parse_subject

EXAMPLES = Path(__file__).parents[2] / "examples"
WRAPPED = "array_module_of_a_test"
# All rows of these are few, and have a case for each fault below.
ASKED = (
    "tensor.special.literal",
    "tensor.argmax",
    "tensor.max",
    "tensor.sqrt",
    "tensor.exp",
    "tensor.sum",
    "tensor.cumsum",
    "tensor.flip",
    "tensor.round",
)


def _ties_to_the_last(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the index of the last of several largest elements."""
    if axis is None:
        return x.size - 1 - np.argmax(np.flip(x))
    return x.shape[axis] - 1 - np.argmax(np.flip(x, axis), axis=axis, keepdims=keepdims)


def _half_away(x: Any) -> Any:
    return np.trunc(x + np.copysign(0.5, x)).astype(x.dtype)


# A function of the module that is wrong, and all cases that fail by it.
FAULTS: dict[str, tuple[str, Callable[..., Any], set[str]]] = {
    "maximum drops NaN": ("maximum", np.fmax, {"tensor.special.literal.maximum_nan"}),
    "argmax takes the last of equal ones": (
        "argmax",
        _ties_to_the_last,
        {
            "tensor.special.literal.argmax_ties",
            *(f"tensor.argmax.float32.forward:{number}" for number in range(3)),
            "tensor.argmax.float16.forward:0",
            *(f"tensor.argmax.{name}.forward:0" for name in ("float64", "int32", "int64", "uint8")),
        },
    ),
    "round takes ties away from zero": (
        "round",
        _half_away,
        {
            "tensor.special.literal.round_ties",
            *(f"tensor.round.float{bits}.forward:0" for bits in (16, 32, 64)),
        },
    ),
    "exp computes in 16 bits": (
        "exp",
        lambda x: np.exp(x.astype(np.float16)).astype(x.dtype),
        {"tensor.exp.float32.forward:0", "tensor.exp.float64.forward:0"},
    ),
}


def _module(name: str, function: Callable[..., Any] | None) -> ModuleType:
    """numpy under another name, with one function replaced."""
    module = ModuleType(WRAPPED)
    module.__dict__.update({key: getattr(np, key) for key in dir(np) if not key.startswith("__")})
    module.__dict__["__array_namespace_info__"] = np.__array_namespace_info__
    if function is not None:
        setattr(module, name, function)
    return module


@pytest.fixture
def wrap(monkeypatch: pytest.MonkeyPatch) -> Callable[..., SubjectDevice]:
    def opened(name: str = "", function: Callable[..., Any] | None = None) -> SubjectDevice:
        monkeypatch.setitem(sys.modules, WRAPPED, _module(name, function))
        return open_device(f"array-api:{WRAPPED} on default")

    return opened


def asked_cases() -> Iterator[Case]:
    for row in rows(Profile.QUICK):
        if any(matches(row.id, query) for query in ASKED):
            yield from row.cases(Profile.QUICK)


def _fails(case: Case, device: SubjectDevice) -> bool:
    """Return True if a case fails or raises; refused and undeclared cases do not count."""
    if case.needs.unmet(device.capabilities) is not None:
        return False
    try:
        return not case.run(device).passed  # type: ignore[arg-type]
    except NotOfferedError:
        return False
    except (ValueError, TypeError, IndexError, RuntimeError):
        return True


def failing(device: SubjectDevice) -> set[str]:
    """Return the failing cases of `ASKED`."""
    return {case.id for case in asked_cases() if _fails(case, device)}


def test_a_module_without_a_fault_passes(wrap: Callable[..., SubjectDevice]) -> None:
    device = wrap()
    assert failing(device) == set()
    assert find("tensor.sum.float32.forward:0").run(device).compared == 1  # type: ignore[arg-type]


@pytest.mark.long
def test_the_strict_module_of_the_standard_passes() -> None:
    """Pass a module that refuses what the standard does not define: rows need nothing else."""
    pytest.importorskip("array_api_strict")
    assert failing(open_device("array-api:array_api_strict on default")) == set()


@pytest.mark.long
def test_arrays_lie_on_the_device_that_is_named() -> None:
    """Accept the names that the library prints; the types belong to the device."""
    pytest.importorskip("array_api_strict")
    narrow = open_device("array-api:array_api_strict on array_api_strict.Device('no_float64')")
    array = narrow.subject.tensor(np.ones(2, np.float32)).array
    assert str(array.device) == "array_api_strict.Device('no_float64')"
    assert dtypes.float64 not in narrow.capabilities.dtypes
    assert run("tensor.sum.float32.forward:0", narrow).passed
    assert run("tensor.arange.int32.forward:0", narrow).passed


TOGETHER = [
    "tensor.exp.float32.forward:0",
    "tensor.exp.float32.backward:0",
    "tensor.add.float32.backward:1",
    "tensor.topk.float32.forward:0",
    # No array tells these two apart.
    "tensor.full.float32.forward:0",
    "tensor.eye.float32.forward:0",
]


@pytest.mark.parametrize(
    ("most", "error", "calls"),
    [(9, 0.0, [5]), (4, 0.0, [5, 4, 1]), (9, 1.0, [5])],
    ids=["together", "in halves", "with a wrong value"],
)
def test_cases_are_compiled_together(
    most: int, error: float, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refuse functions of more than `most` arrays; `error` is added to the values."""
    arrays_of_calls = []

    def compile(function: Any, backend: str = "inductor", **options: object) -> Any:
        def compiled(*arrays: Any) -> Any:
            if backend == "inductor":
                arrays_of_calls.append(len(arrays))
                if len(arrays) > most:
                    raise RuntimeError("too many arrays")
            values = function(*arrays)
            return [value + error for value in values] if isinstance(values, list) else values

        return compiled

    monkeypatch.setattr(torch, "compile", compile)
    device = open_device("torch-compile on cpu")
    arrays_of_calls.clear()
    cases = [find(name) for name in TOGETHER]
    assert device.prepare(cases) == 6
    measured = [case.run(device).passed for case in cases]  # type: ignore[arg-type]
    # A constant that is added does not change a gradient.
    assert measured == [not error, True, True, not error, not error, not error]
    # No case compiled its own function; the two of add have two arrays.
    assert arrays_of_calls == calls


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen_on_its_rows(fault: str, wrap: Callable[..., SubjectDevice]) -> None:
    name, function, caught = FAULTS[fault]
    assert failing(wrap(name, function)) == caught


def run(case_id: str, device: SubjectDevice) -> Any:
    return find(case_id).run(device)  # type: ignore[arg-type]


def test_one_wrong_value_of_thousands_is_seen(wrap: Callable[..., SubjectDevice]) -> None:
    def wrong(x: Any) -> Any:
        return np.where(x == 1, np.exp(x) * x.dtype.type(1.0625), np.exp(x))

    case = "tensor.exp.float16.dense:0"
    right = run(case, wrap())
    assert (right.passed, right.max_ulp, right.compared) == (True, 1.0, 44385)
    assert right.worst_input == "0x1.73cp-6"
    measured = run(case, wrap("exp", wrong))
    assert not measured.passed
    # 2.719 times 1.0625 is 87 values further on.
    assert (measured.max_ulp, measured.worst_input) == (87.0, "0x1p+0")
    assert measured.message.endswith("1 of 44385 wrong")
    assert [values.values for values in measured.details.inputs] == [["1"]]
    assert "np.array([1.0], np.float16)" in measured.details.script


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_one_wrong_plain_value_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device, right = open_device("torch on cpu"), torch.Tensor.relu
    assert run(f"tensor.relu.{name}.forward:0", device).passed
    monkeypatch.setattr(torch.Tensor, "relu", lambda x: torch.where(x == -0.5, x, right(x)))
    message = run(f"tensor.relu.{name}.forward:0", device).message
    assert "got -0.5 " in message
    assert message.endswith("; 1 of 45 wrong")


@pytest.mark.long
def test_a_fault_of_torch_is_seen_forward_and_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    device = open_device("torch on cpu")
    cases = ("tensor.gelu.float32.forward:0", "tensor.gelu.float32.backward:0")
    assert [run(name, device).passed for name in cases] == [True, True]
    right = torch.nn.functional.gelu
    # The exact function instead of the one by tanh: they differ in the fourth digit.
    monkeypatch.setattr(torch.nn.functional, "gelu", lambda x, approximate: right(x))
    assert [run(name, device).passed for name in cases] == [False, False]
    measured = run(cases[1], device)
    assert measured.message.startswith("torch.autograd.grad(F.gelu(x, approximate='tanh'), [x], g)")
    script = measured.details.script
    assert "import torch" in script
    assert len(script.splitlines()) < 40


def test_other_integer_types_are_said_and_their_values_compared(
    monkeypatch: pytest.MonkeyPatch, wrap: Callable[..., SubjectDevice]
) -> None:
    case = "tensor.sum.int32.forward:0"
    answer = run(case, wrap())
    assert answer.passed
    assert "default integer type of the standard" in answer.observed
    many = wrap("sum", lambda x, **named: np.sum(x, **named) + 2**32)
    # It would be right if it were cut to 32 bits. The value is wrong, and not its type.
    assert re.search(r"expected -?\d+ .*, got 42949\d+ ", run(case, many).message)
    powers = wrap("cumulative_prod", lambda x, **named: np.cumulative_prod(x, **named) + 2**40)
    message = run("tensor.cumprod.int32.forward:0", powers).message
    assert re.search(r"expected -?\d+ .*, got 1099511\d+ ", message)
    narrow = wrap("sum", lambda x, **named: np.sum(x, **named).astype(np.int16))
    assert run(case, narrow).message.endswith("dtype int16, expected int32")


def test_what_torch_leaves_open_is_not_asked() -> None:
    device = open_device("torch on cpu")
    with pytest.raises(NotOfferedError, match="which of equal elements"):
        run("tensor.topk.int32.forward:1", device)
    assert run("tensor.topk.float32.forward:1", device).passed


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("tensor.softmax.float32.forward:0", "the array API has no softmax"),
        ("tensor.add.float32.backward:0", "the array API has no gradients"),
        ("tensor.getitem.float32.forward:6", "indexes by integers, slices, None and ..."),
    ],
)
def test_what_the_standard_lacks_is_not_offered(
    case: str, reason: str, wrap: Callable[..., SubjectDevice]
) -> None:
    with pytest.raises(NotOfferedError, match=reason.replace(".", "[.]")):
        run(case, wrap())


def test_a_module_need_not_describe_itself(
    monkeypatch: pytest.MonkeyPatch, wrap: Callable[..., SubjectDevice]
) -> None:
    """Accept a library without inspection, and with the older name of bool."""
    right = open_device("numpy on cpu").capabilities.dtypes
    wrap()
    for name in ("bool", "__array_namespace_info__", "float64"):
        monkeypatch.delattr(sys.modules[WRAPPED], name)
    device = open_device(f"array-api:{WRAPPED} on default")
    assert device.capabilities.dtypes == right - {dtypes.float64}
    for name in ("tensor.logical_not.float32.forward:0", "tensor.getitem.float32.forward:12"):
        assert not _fails(find(name), device)
    assert run("tensor.isnan.float32.forward:0", device).passed


def test_what_a_module_says_that_it_does_not_have_is_not_asked(
    wrap: Callable[..., SubjectDevice],
) -> None:
    def lacks(*arguments: object, **named: object) -> object:
        raise NotImplementedError("no kernel for it yet\nand more words")

    with pytest.raises(NotOfferedError, match=f"{WRAPPED}: .*no kernel for it yet$"):
        run("tensor.sin.float32.forward:0", wrap("sin", lacks))
    # The standard has no such type, and so asks for no function of it.
    refuses = wrap("sin", lambda x: np.sin(x) if x.dtype != np.float16 else np.sin(None))
    assert run("tensor.sin.float32.forward:0", refuses).passed
    with pytest.raises(NotOfferedError, match="loop of ufunc"):
        run("tensor.sin.float16.forward:0", refuses)


@pytest.mark.long
def test_rows_that_are_about_tinyref_say_so() -> None:
    device = open_device("numpy on cpu")
    named = set()
    for row in rows(Profile.QUICK):
        for case in row.cases(Profile.QUICK):
            for name in {row.id, case.id} & NOT_ASKED.keys():
                named.add(name)
                with pytest.raises(NotOfferedError, match=NOT_ASKED[name]):
                    case.run(device)  # type: ignore[arg-type]
    assert named == NOT_ASKED.keys()


def test_names_read_back_as_they_were() -> None:
    names = {
        "torch on cpu": SubjectName("torch"),
        "torch on privateuseone:1 with mine,other": SubjectName(
            "torch", "privateuseone:1", ("mine", "other")
        ),
        "array-api:jax.numpy on default": SubjectName("array-api:jax.numpy", "default"),
    }
    assert {text: parse_subject(text) for text in names} == names
    assert [str(name) for name in names.values()] == list(names)
    assert names["torch on privateuseone:1 with mine,other"].options == [
        "--subject",
        "torch",
        "--on",
        "privateuseone:1",
        "--import",
        "mine",
        "--import",
        "other",
    ]


@pytest.mark.parametrize("library", ["tensorflow", "array-api:", "array-api:a b", ""])
def test_another_library_is_refused(library: str) -> None:
    with pytest.raises(UserError, match="accepted are torch, torch-compile, numpy"):
        SubjectName(library)


@pytest.mark.parametrize(
    "name",
    ["array-api:no_such_module on default", "torch on cpu with no_such_module", "torch on nosuch"],
)
def test_a_library_that_does_not_open_says_so(name: str) -> None:
    with pytest.raises(DeviceError, match="does not open"):
        open_device(name)


def test_differences_are_those_of_the_library() -> None:
    names = {
        "torch on cpu": ["torch", "torch-on-cpu"],
        "torch-compile on mine": ["torch"],
        "numpy on cpu": ["numpy"],
        "array-api:numpy on default": ["numpy"],
        "array-api:array_api_strict on default": [],
    }
    stems = {name: [path.stem for path in differences(name)] for name in names}
    assert stems == names


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["numpy on cpu", pytest.param("torch on cpu", marks=pytest.mark.slow)]
)
def test_what_a_library_fails_is_what_its_file_names(name: str) -> None:
    """Run all quick cases: each failure has an entry, and each entry a failure."""
    device = open_device(name)
    entries = [
        entry for path in differences(name) for entry in tomllib.loads(path.read_text())["expected"]
    ]
    queries = [part.strip() for entry in entries for part in entry["query"].split(",")]
    cases = [case for row in rows(Profile.QUICK) for case in row.cases(Profile.QUICK)]
    known = {case.id for case in cases for query in queries if matches(case.id, query)}
    failed = {case.id for case in cases if _fails(case, device)}
    assert failed == known
    assert len(known) == (7 if name.startswith("numpy") else 0)


# Subjects of other packages


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module of the example in the documentation."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delitem(sys.modules, "own_subject", raising=False)
    return importlib.import_module("own_subject")


def test_the_example_of_a_subject_is_judged(example: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len((EXAMPLES / "own_subject.py").read_text().splitlines()) <= 60
    device = open_device("own_subject:MySubject on default")
    assert device.capabilities.dtypes == {dtypes.float32}
    assert device.versions() == {"my_library": "1.0"}
    right = ("tensor.relu.float32.forward:0", "tensor.add.float32.forward:0")
    assert [run(name, device).passed for name in right] == [True, True]
    missing = {
        "tensor.mul.float32.forward:0": "x [*] y: unsupported operand",
        "tensor.exp.float32.forward:0": "x.exp.*no attribute 'exp'",
        "tensor.relu.float32.backward:0": "gradients",
    }
    for name, reason in missing.items():
        with pytest.raises(NotOfferedError, match=reason):
            run(name, device)
    monkeypatch.setattr(example.MyArray, "relu", lambda x: example.MyArray(np.abs(x.values)))
    assert not run("tensor.relu.float32.forward:0", device).passed


def test_a_case_needs_the_types_of_its_row(example: Any) -> None:
    """Our own kernels of a function need more types, such as int32 for the positions of sums."""
    device = open_device("own_subject:MySubject on default")
    asked = {
        case.id
        for row in rows(Profile.QUICK)
        for case in row.cases(Profile.QUICK)
        if case.needs.unmet(device.capabilities) is None
    }
    assert "tensor.relu.float32.forward:0" in asked
    assert "tensor.relu.float16.forward:0" not in asked
    with pytest.raises(NotOfferedError, match="has no type int32"):
        run("tensor.gather.float32.forward:0", device)
    with pytest.raises(NotOfferedError, match="'Tensor' is not defined"):
        run("tensor.special.literal.exp_overflow", device)


def test_an_error_inside_of_a_library_is_no_skip(
    example: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = open_device("own_subject:MySubject on default")
    monkeypatch.setattr(example.MyArray, "relu", lambda x: x.values.no_such_attribute)
    with pytest.raises(AttributeError, match="no_such_attribute"):
        run("tensor.relu.float32.forward:0", device)
    # The second function stands in a file without a name, as code that a library generates.
    for relu in (lambda x: len(3), eval("lambda x: len(3)")):
        monkeypatch.setattr(example.MyArray, "relu", relu)
        with pytest.raises(TypeError, match="has no len"):
            run("tensor.relu.float32.forward:0", device)


# Subjects of libraries that are extras

# For each family the module that must be there, and where a function of it stands.
FAMILIES: dict[str, tuple[str, str]] = {
    "jax": ("jax", "jax.numpy"),
    "mlx": ("mlx.core", "mlx.core"),
    "tinygrad": ("tinygrad", "tinygrad:Tensor"),
    "onnxruntime": ("onnxruntime", "tinyref_spec.subjects.onnx_graph:STANDARD"),
}
OPTIONAL = ("jax", "jax-jit", "mlx", "mlx-compile", "tinygrad", "onnxruntime")
FORWARD, BACKWARD = "tensor.sinh.float32.forward:0", "tensor.sinh.float32.backward:0"


def open_or_skip(name: str) -> tuple[SubjectDevice, Any]:
    """Open a library, and return it with the object or dictionary that has its functions."""
    module, path = FAMILIES[name.partition("-")[0]]
    pytest.importorskip(module, reason=f"{name} is an extra, and is not installed")
    path, _, attribute = path.partition(":")
    owner: Any = importlib.import_module(path)
    functions = getattr(owner, attribute) if attribute else owner
    if name != "tinygrad":
        return open_device(f"{name} on cpu"), functions
    try:
        return open_device("tinygrad on default"), functions
    except DeviceError as error:
        # Without clang, LLVM and OpenCL it has no device; one that it does not know is our fault.
        if "No module named" in str(error):
            raise
        pytest.skip(f"tinygrad has no device that works here: {error}")


@pytest.mark.long
@pytest.mark.parametrize("name", OPTIONAL)
def test_a_wrong_function_of_a_library_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device, owner = open_or_skip(name)
    has_gradients = name != "onnxruntime"
    cases = [FORWARD, BACKWARD] if has_gradients else [FORWARD]
    assert [run(case, device).passed for case in cases] == [True] * len(cases)
    if isinstance(owner, dict):
        # The namespace of the library is made when it opens.
        monkeypatch.setitem(owner, "sinh", owner["cosh"])
        device = open_device(device.name)
    else:
        monkeypatch.setattr(owner, "sinh", owner.cosh)
    assert [run(case, device).passed for case in cases] == [False] * len(cases)
    if not has_gradients:
        with pytest.raises(NotOfferedError, match="ONNX has no gradients"):
            run(BACKWARD, device)


@pytest.mark.long
@pytest.mark.parametrize("name", ["jax", "mlx", "tinygrad"])
def test_types_that_numpy_has_not_are_judged(name: str) -> None:
    device, _ = open_or_skip(name)
    assert {dtypes.float16, dtypes.bfloat16, dtypes.float32} <= device.capabilities.dtypes
    assert run("tensor.add.bfloat16.forward:0", device).passed
    if name == "jax":
        assert set(dtypes.fp8s) <= device.capabilities.dtypes


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "reason"), [("jax-jit", "jax.jit does not trace it"), ("mlx-compile", "mx.compile")]
)
def test_what_a_compiler_does_not_trace_is_not_offered(name: str, reason: str) -> None:
    """Skip a function that needs values while the library traces."""
    device, _ = open_or_skip(name)
    with pytest.raises(NotOfferedError, match=reason):
        run("tensor.item.float32.forward:0", device)
