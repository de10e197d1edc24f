"""Programs for libraries: the oracle's results, and how a faulty library is reported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tinyref.cli.entry import run as command
from tinyref.cli.fuzz.subject import known_faults
from tinyref_fuzz.campaign.campaign import CampaignRequest, run
from tinyref_fuzz.campaign.libraries import LibraryPrograms
from tinyref_fuzz.campaign.task import PROGRAMS, Setup
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.programs.arithmetic import UndefinedError
from tinyref_fuzz.programs.library.examine import examine_library, script_of_library
from tinyref_fuzz.programs.library.functions import op_name
from tinyref_fuzz.programs.library.generator import DTYPES, generate_pure
from tinyref_fuzz.programs.library.judge import Difference, LibraryJudge, joined
from tinyref_fuzz.programs.library.oracle import evaluate_pure
from tinyref_fuzz.programs.library.script import library_script
from tinyref_fuzz.programs.library.spelling import function_of, spelling_of
from tinyref_fuzz.programs.steps import ProgramStep, TensorProgram
from tinyref_spec.case import NotOfferedError
from tinyref_spec.kernel_case import Pair, Symptom
from tinyref_spec.subjects.name import SubjectName

WRAPPED = "array_module_of_a_fuzzing_test"
DEVICE = f"array-api:{WRAPPED} on default"
SIDE_EFFECTS = {"assign", "setitem", "realize", "backward", "call", "drop", "randint", "seed"}


def _data(number: int, dtype: str, *elements: float) -> ProgramStep:
    return ProgramStep("data", (), (number,), (dtype, (len(elements),), elements, 0, False))


def _program(*steps: ProgramStep, read: int) -> TensorProgram:
    return TensorProgram((*steps, ProgramStep("read", (read,))))


@pytest.fixture
def wrap(monkeypatch: pytest.MonkeyPatch) -> Callable[..., LibraryJudge]:
    """Return a function that judges numpy with some of its functions replaced."""

    def opened(**functions: Any) -> LibraryJudge:
        module = ModuleType(WRAPPED)
        module.__dict__.update({k: getattr(np, k) for k in dir(np) if not k.startswith("__")})
        module.__dict__["__array_namespace_info__"] = np.__array_namespace_info__
        module.__dict__.update(functions)
        monkeypatch.setitem(sys.modules, WRAPPED, module)
        return LibraryJudge(DEVICE)

    return opened


def _first_failing(judge: LibraryJudge, most: int = 400) -> TensorProgram:
    for seed in range(most):
        program = generate_pure(Tape(seed=seed), judge.library.spelling, judge.library.dtypes)
        if not judge.verdict(program).agrees:
            return program
    raise AssertionError(f"no program of {most} fails")


# --- the oracle -----------------------------------------------------------------------------------


def test_exact_results_have_no_bound_and_rounded_ones_have_one() -> None:
    exact = _program(
        _data(1, "float32", 0.5, 3.0), ProgramStep("add_number", (1,), (2,), (2,)), read=2
    )
    (expected,) = evaluate_pure(exact).expected
    assert expected.tolerance is None
    assert expected.values.tolist() == [2.5, 5.0]
    rounding = _program(
        _data(1, "float32", 0.1, 3.0), ProgramStep("apply", (1,), (2,), ("exp:0",)), read=2
    )
    (expected,) = evaluate_pure(rounding).expected
    assert np.allclose(expected.wide, [1.1051709180756477, 20.085536923187668], rtol=1e-15)
    assert expected.tolerance is not None
    # A few units of the last place of float32, and no fixed tolerance.
    assert np.all(expected.tolerance < 1e-5 * expected.wide)
    assert np.all(expected.tolerance > 2.0**-24 * expected.wide)


def test_an_undecided_result_is_no_program() -> None:
    root = ProgramStep("apply", (1,), (2,), ("sqrt:0",))
    data = _data(1, "float32", 4.0)
    below = _program(data, root, ProgramStep("lt_number", (2,), (3,), (3,)), read=3)
    assert evaluate_pure(below).expected[0].values.tolist() == [True]
    for step in (
        ProgramStep("lt_number", (2,), (3,), (2,)),
        ProgramStep("cast", (2,), (3,), ("int32",)),
        ProgramStep("assign_number", (1,), (), (2,)),
    ):
        with pytest.raises(UndefinedError):
            evaluate_pure(_program(data, root, step, read=3))


@pytest.mark.parametrize(
    ("dtype", "factors"),
    [
        # The result is subnormal.
        ("float32", (2.0**-70, 2.0**-60)),
        ("float16", (2.0**-10, 2.0**-5)),
        # The result is normal, but neither 2 ** -130 nor the float16 2 ** 16 is.
        ("float32", (2.0**-70, 2.0**-60, 2.0**20)),
        ("float16", (2.0**8, 2.0**8, 2.0**-9)),
    ],
)
def test_a_product_that_may_underflow_or_overflow_is_no_program(
    dtype: str, factors: tuple[float, ...]
) -> None:
    """Check all orders: libraries may also flush subnormal floats to zero."""
    step = ProgramStep("prod", (1,), (2,), ((0,), False))
    with pytest.raises(UndefinedError):
        evaluate_pure(_program(_data(1, dtype, *factors), step, read=2))


@pytest.mark.parametrize("shape", [(), (0,), (2, 0)])
def test_a_softmax_needs_an_axis_with_elements(shape: tuple[int, ...]) -> None:
    data = ProgramStep(
        "data", (), (1,), ("float32", shape, (0.0,) if shape == () else (), 0, False)
    )
    with pytest.raises(UndefinedError):
        evaluate_pure(_program(data, ProgramStep("apply", (1,), (2,), ("softmax:0",)), read=2))


def test_a_kink_within_the_error_widens_the_bound() -> None:
    """Check a kink: the bound must hold for values on both sides of it."""
    data = [_data(1, "float32", 1.0), _data(2, "float32", 1.0)]
    steps = (
        ProgramStep("apply", (1,), (3,), ("exp:0",)),
        ProgramStep("apply", (2,), (4,), ("exp:0",)),
        ProgramStep("div", (3, 4), (5,)),
        ProgramStep("add_number", (5,), (6,), (-1,)),
        # The operand is 0 with an error, where steps of ceil are 1 apart.
        ProgramStep("apply", (6,), (7,), ("ceil:0",)),
    )
    with pytest.raises(UndefinedError):
        evaluate_pure(_program(*data, *steps, read=7))


def test_an_activation_has_a_rounding_where_its_reference_has_none() -> None:
    """Check a hard sigmoid above 1, which may also be the difference of 1.14 and 0.14."""
    step = ProgramStep("apply", (1,), (2,), ("hardsigmoid:1",))
    (expected,) = evaluate_pure(_program(_data(1, "float64", 3.7), step, read=2)).expected
    assert expected.tolerance is not None
    assert 2.0**-53 <= expected.tolerance[0] < 2.0**-49


# --- the generator --------------------------------------------------------------------------------


def test_programs_have_no_side_effects_and_many_operations() -> None:
    spelling = spelling_of(SubjectName("torch"))
    programs = [generate_pure(Tape(seed=seed), spelling, DTYPES) for seed in range(60)]
    ops = {step.op for program in programs for step in program.steps}
    assert not ops & SIDE_EFFECTS
    assert len(ops) > 25
    assert programs[3] == generate_pure(Tape(seed=3), spelling, DTYPES)
    expected = [result for program in programs for result in evaluate_pure(program).expected]
    inexact = sum(result.tolerance is not None for result in expected)
    assert 0.05 < inexact / len(expected) < 0.8


def test_no_input_is_subnormal() -> None:
    spelling = spelling_of(SubjectName("torch"))
    for seed in range(60):
        program = generate_pure(Tape(seed=seed), spelling, ("float16", "int32"))
        for step in program.steps:
            if step.op == "data" and step.values[0] == "float16":
                assert all(value == 0 or abs(value) >= 2.0**-14 for value in step.values[2])


def test_types_and_words_that_a_library_lacks_are_not_drawn() -> None:
    spelling = spelling_of(SubjectName("torch"))
    for seed in range(40):
        program = generate_pure(Tape(seed=seed), spelling, ("float32", "int32"))
        types = {array.dtype for array in evaluate_pure(program).arrays.values()}
        assert types <= {"float32", "int32", "bool"}
        slices = [step.values[0] for step in program.steps if step.op == "index"]
        # torch has no slices with negative steps.
        assert all((item[2] or 1) > 0 for key in slices for item in key if isinstance(item, tuple))


@pytest.mark.parametrize(
    ("library", "cast", "total", "root"),
    [
        (
            "torch",
            "t2 = t1.to(torch.float64)",
            "t3 = t2.sum((0,), keepdim=False, dtype=torch.float64)",
            "t4 = t3.sqrt()",
        ),
        (
            "jax-jit",
            "t2 = xp.astype(t1, xp.float64)",
            "t3 = xp.sum(t2, axis=(0,), keepdims=False, dtype=xp.float64)",
            "t4 = xp.sqrt(t3)",
        ),
        (
            "mlx",
            "t2 = xp.astype(t1, xp.float64)",
            "t3 = xp.sum(t2, axis=(0,), keepdims=False)",
            "t4 = xp.sqrt(t3)",
        ),
        (
            "onnxruntime",
            "t2 = xp.astype(t1, 'float64')",
            "t3 = xp.sum(t2, axis=(0,), keepdims=False)",
            "t4 = xp.sqrt(t3)",
        ),
        (
            "tinygrad",
            "t2 = t1.cast('float64')",
            "t3 = t2.sum((0,), keepdim=False, dtype='float64')",
            "t4 = t3.sqrt()",
        ),
    ],
)
def test_a_program_in_the_words_of_a_library(
    library: str, cast: str, total: str, root: str
) -> None:
    program = _program(
        _data(1, "float32", 4.0, 1.0),
        ProgramStep("cast", (1,), (2,), ("float64",)),
        ProgramStep("sum", (2,), (3,), ((0,), False)),
        ProgramStep("apply", (3,), (4,), ("sqrt:0",)),
        read=4,
    )
    function = function_of(program, evaluate_pure(program), spelling_of(SubjectName(library)))
    assert function.text.splitlines() == [
        "def f(t1):",
        *(f"    {line}" for line in (cast, total, root, "return (t4,)")),
    ]


def test_an_index_of_the_array_api_names_all_axes() -> None:
    """Check that all axes are named: the standard does not define fewer indices."""
    data = ProgramStep("data", (), (1,), ("int32", (2, 1), (3, 4), 0, False))
    program = _program(data, ProgramStep("index", (1,), (2,), ((1,),)), read=2)
    environment = evaluate_pure(program)
    for library, text in (("numpy", "t2 = t1[1, ...]"), ("torch", "t2 = t1[1]")):
        spelling = spelling_of(SubjectName(library))
        assert function_of(program, environment, spelling).statements == (text,)


def test_an_input_without_axes_is_an_array() -> None:
    data = ProgramStep("data", (), (1,), ("float32", (), (2.5,), 0, False))
    program = _program(data, read=1)
    function = function_of(program, evaluate_pure(program), spelling_of(SubjectName("torch")))
    assert type(function.inputs["t1"]) is np.ndarray


# --- faults ---------------------------------------------------------------------------------------


def test_a_library_without_a_fault_agrees(wrap: Callable[..., LibraryJudge]) -> None:
    judge = wrap()
    for seed in range(60):
        program = generate_pure(Tape(seed=seed), judge.library.spelling, judge.library.dtypes)
        assert judge.verdict(program).agrees, program


def _wrong_floor(x: Any) -> Any:
    return np.trunc(x)


def _wrong_exp(x: Any) -> Any:
    return np.exp(x) * x.dtype.type(1 + 2.0**-8)


@pytest.mark.parametrize(
    ("name", "function"), [("floor", _wrong_floor), ("exp", _wrong_exp)], ids=["exact", "bounded"]
)
def test_a_wrong_function_is_found_reduced_and_named(
    name: str, function: Callable[..., Any], wrap: Callable[..., LibraryJudge]
) -> None:
    judge = wrap(**{name: function})
    program = _first_failing(judge)
    verdict = judge.verdict(program)
    assert (verdict.pair, verdict.symptom) == (Pair.PLAIN, Symptom.VALUE)
    finding = examine_library(judge, program, verdict, 5.0)
    assert [step.op for step in finding.program.steps] == ["data", "apply", "read"]
    assert finding.blame.stage == "op"
    assert finding.blame.cause.startswith(f"{name} float")
    assert finding.bucket == f"op/{finding.blame.cause}"
    # One wrong element is enough.
    assert len(finding.program.steps[0].values[2]) == 1


@pytest.mark.long
def test_a_wrong_function_of_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    right = torch.Tensor.erf
    judge = LibraryJudge("torch on cpu")
    monkeypatch.setattr(torch.Tensor, "erf", lambda x: right(x) * (1 + 2.0**-7))
    program = _first_failing(judge, 2000)
    finding = examine_library(judge, program, judge.verdict(program), 5.0)
    assert [step.op for step in finding.program.steps] == ["data", "apply", "read"]
    assert finding.blame.cause.startswith("erf float")
    script = script_of_library(judge, finding.program, finding.verdict)
    assert len(script.splitlines()) <= 15
    assert ".erf()" in script


def test_a_compiler_that_is_wrong_is_told_from_an_op(wrap: Callable[..., LibraryJudge]) -> None:
    """Check a compiler that is wrong for functions that call floor, which is right alone."""
    judge = wrap()
    spelling = judge.library.spelling
    judge.library.spelling = replace(spelling, compiled="compiled({f})")

    def compiled(f: Any) -> Any:
        if "floor" not in f.__code__.co_names:
            return f
        return lambda *args: tuple(result + result.dtype.type(1) for result in f(*args))

    judge.library.names["compiled"] = compiled
    program = _first_failing(judge)
    verdict = judge.verdict(program)
    assert verdict.pair is Pair.DEVICE
    finding = examine_library(judge, program, verdict, 5.0)
    assert finding.blame.stage == "compiler"
    assert "floor" in finding.blame.cause.split()


def test_a_function_with_a_known_fault_is_not_drawn() -> None:
    spelling = spelling_of(SubjectName("numpy"))

    def functions(*known: str) -> set[str]:
        programs = [generate_pure(Tape(seed=seed), spelling, DTYPES, known) for seed in range(120)]
        return {
            f"{op_name(step)}.{evaluate_pure(program).arrays[step.args[0]].dtype}"
            for program in programs
            for step in program.steps
            if step.op == "apply"
        }

    assert {"floor.float32", "floor.float64", "exp.float32"} <= functions()
    remaining = functions("tensor.floor.float32", "tensor.exp")
    assert "floor.float64" in remaining
    assert not {"floor.float32", "exp.float32", "exp.float64"} & remaining


def test_known_faults_are_read_from_a_file(
    tmp_path: Path, wrap: Callable[..., LibraryJudge]
) -> None:
    wrap()
    entry = '[[expected]]\nquery = """\n  tensor.floor"""\nphase = "accuracy"\n'
    reason = 'reason = "it is trunc"\nlink = "https://example.org/1"\n'
    file = tmp_path / "known.toml"
    file.write_text(f'schema = 1\ndevice = "{DEVICE}"\n{entry}{reason}')
    assert known_faults(file, DEVICE) == "tensor.floor"
    several = LibraryPrograms(Setup(DEVICE, 1, known="\n tensor.floor.float32,\n  tensor.erf "))
    assert several.known == ["tensor.floor.float32", "tensor.erf"]
    file.write_text(file.read_text() + "expires = 2020-01-01\n")
    assert known_faults(file, DEVICE) == ""


def test_a_crash_and_an_error_of_an_op(wrap: Callable[..., LibraryJudge]) -> None:
    def broken(x: Any) -> Any:
        raise RuntimeError("no kernel 7 for this")

    judge = wrap(exp=broken)
    verdict = judge.verdict(_first_failing(judge))
    assert (verdict.symptom, verdict.detail) == (
        Symptom.ERROR,
        "error: RuntimeError: no kernel 7 for this",
    )

    program = _first_failing(judge)
    # MLX uses the second message for products of integers.
    for refusal in (
        NotImplementedError("not here"),
        ValueError("Only inexact types are supported"),
    ):

        def lacks(x: Any, refusal: Exception = refusal) -> Any:
            raise refusal

        assert wrap(exp=lacks).verdict(program).judged == 0


# --- scripts --------------------------------------------------------------------------------------


def test_the_script_needs_the_library_alone(
    tmp_path: Path, wrap: Callable[..., LibraryJudge]
) -> None:
    judge = wrap(floor=_wrong_floor)
    program = _first_failing(judge)
    finding = examine_library(judge, program, judge.verdict(program), 5.0)
    script = script_of_library(judge, finding.program, finding.verdict)
    assert len(script.splitlines()) <= 15
    assert "tinyref" not in script.replace("array_module_of_a_fuzzing_test", "")
    difference = Difference("it raises", is_error=True)
    environment = evaluate_pure(finding.program)
    raises = library_script(judge.library, "", finding.program, difference, environment)
    module = "from numpy import *\nimport numpy\n__version__ = numpy.__version__\n"
    # An error may also come when a result is read.
    lazy = "class floor:\n    def __init__(self, x): pass\n    def __array__(*x, **_): 1 / 0\n"
    missing = f"no driver - to install: pip install numpy {WRAPPED}"
    for source, text, code, words in (
        (script, f"{module}floor = trunc\n", 1, "expected ["),
        (script, module, 0, "expected ["),
        (script, "raise OSError('no driver')", 2, missing),
        (raises, f"{module}{lazy}", 1, ""),
        (raises, module, 0, "["),
    ):
        (tmp_path / f"{WRAPPED}.py").write_text(text)
        (tmp_path / "script.py").write_text(source)
        done = subprocess.run(
            [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
        assert done.stdout.startswith(words)


def test_the_script_of_a_graph_needs_onnx_alone() -> None:
    """Check the script of a graph, which contains ONNX as text, with right and wrong results."""
    pytest.importorskip("onnxruntime")
    judge = LibraryJudge("onnxruntime on cpu")
    program = _program(
        _data(1, "float16", 2.5, -1.5),
        ProgramStep("pad", (1,), (2,), (((1, 0),),)),
        ProgramStep("apply", (2,), (3,), ("floor:0",)),
        ProgramStep("reshape", (3,), (4,), ((3, 1),)),
        read=4,
    )
    environment = evaluate_pure(program)
    assert judge.verdict(program).agrees
    for correct, code in ((2.0, 0), (3.0, 1)):
        environment.expected[0].values[1] = correct
        difference = Difference("a test", 0, (1,))
        script = library_script(judge.library, "a test", program, difference, environment)
        assert len(script.splitlines()) <= 15
        assert "tinyref" not in script
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr


def test_a_sum_that_a_library_saturates_is_no_program() -> None:
    """Check the sum of absolute values: ONNX does not define an overflow, in any order."""
    spelling = spelling_of(SubjectName("onnxruntime"))
    for elements, op, fits in (
        ((2**31 - 1, 0, 0), "sum", True),
        ((2**31 - 1, 1, -1), "sum", False),
        ((2**15, 2**15, 1), "prod", True),
        ((2**16, 2**16, 0), "prod", False),
    ):
        step = ProgramStep(op, (1,), (2,), ((0,), False))
        program = _program(_data(1, "int32", *elements), step, read=2)
        environment = evaluate_pure(program)
        function_of(program, environment, spelling_of(SubjectName("torch")))
        if fits:
            function_of(program, environment, spelling)
            continue
        with pytest.raises(NotOfferedError):
            function_of(program, environment, spelling)


def test_what_onnx_has_no_kernel_for_is_no_finding() -> None:
    pytest.importorskip("onnxruntime")
    judge = LibraryJudge("onnxruntime on cpu")
    steps = (_data(1, "float64", 2.5), ProgramStep("apply", (1,), (2,), ("tan:0",)))
    assert judge.verdict(_program(*steps, read=2)).judged == 0


def test_a_package_registers_the_device_before_its_use() -> None:
    lines = spelling_of(SubjectName("torch", "mine", ("torch_mine",))).imports
    assert lines[0] == "import torch_mine"
    assert lines[-1].startswith("torch.set_default_device('mine')")


# --- campaigns ------------------------------------------------------------------------------------


def test_programs_as_one_function_share_nothing() -> None:
    one = _program(_data(1, "int32", 1, 2), ProgramStep("neg", (1,), (2,)), read=2)
    both = evaluate_pure(joined([one, one, one]))
    assert [result.values.tolist() for result in both.expected] == [[-1, -2]] * 3


def test_a_batch_names_the_program_that_is_wrong(
    monkeypatch: pytest.MonkeyPatch, wrap: Callable[..., LibraryJudge]
) -> None:
    wrap(sum=lambda x, **named: np.sum(x, **named) + 1)
    programs = LibraryPrograms(Setup(DEVICE, seed=5, subject=PROGRAMS))
    alone = [programs.judge_case(number).verdict for number in range(40)]
    assert any(alone)
    programs.together = 10
    monkeypatch.setattr(
        programs, "_compiled_verdict", lambda program, _=1: programs.judge.verdict(program)
    )
    batched = [programs.judge_case(number).verdict for number in range(40)]
    is_right = [verdict is None for verdict in batched]
    assert is_right == [verdict is None for verdict in alone]


@pytest.mark.long
@pytest.mark.usefixtures("workers_import_test_devices")
@pytest.mark.parametrize(
    ("name", "symptom"),
    [
        ("cosh", Symptom.CRASH),
        # Each half of the batch runs until its time limit.
        pytest.param("sinh", Symptom.HANG, marks=pytest.mark.slow),
    ],
)
def test_a_batch_that_ends_its_process_costs_one_program(name: str, symptom: Symptom) -> None:
    """Check a module that aborts in cosh and sum, and does not return from sinh."""
    others = {"cosh", "sinh", "sum"} - {name}
    known = ", ".join(f"tensor.{other}" for other in others)
    setup = Setup(
        "array-api:crashing_library on default", 1, timeout=20.0, subject=PROGRAMS, known=known
    )
    programs = LibraryPrograms(setup)
    programs.together = 10
    first, (number,) = next(
        (first, dying)
        for first in range(0, 400, 10)
        if len(dying := _applying(programs, name, range(first, first + 10))) == 1
    )
    results = [programs.judge_case(first + offset) for offset in range(10)]
    verdicts = {result.number: result.verdict for result in results if result.verdict is not None}
    assert list(verdicts) == [number]
    assert verdicts[number].symptom is symptom
    assert programs.failing_program(number, verdicts[number]) == programs.program_at(number)
    # Each half is compiled once: 10, 5, 5, and so on, down to single programs of one branch.
    assert programs.compiles <= 2 * 5 - 1


def _applying(programs: LibraryPrograms, name: str, numbers: range) -> list[int]:
    """Return the numbers of the programs that apply a function."""
    return [
        number
        for number in numbers
        if any(op_name(step) == name for step in programs.program_at(number).steps)
    ]


@pytest.mark.long
def test_a_campaign_on_a_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fuzz", "--subject", "numpy", "--programs", "40", "--seed", "3", "--jobs", "1"]
    assert command([*words, "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("numpy on cpu: 40 programs judged, all agree")
    again = ["fuzz", "--subject", "numpy", "--out", str(tmp_path), "--resume", "--programs"]
    assert command([*again, "50"]) == 0
    assert "50 programs judged" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.usefixtures("workers_import_test_devices")
def test_a_crash_costs_one_program_and_has_a_script(tmp_path: Path) -> None:
    name = "array-api:crashing_library on default"
    summary = run(
        CampaignRequest(
            name, tmp_path, seed=1, kernels=8, jobs=1, subject=PROGRAMS, examine_seconds=4.0
        )
    )
    assert summary.cases == 8
    bucket = summary.buckets[0]
    assert "CRASH" in bucket.key
    assert "sum" in bucket.examination.blame.cause.split()
    script = Path(bucket.file).with_suffix(".py").read_text()
    assert "xp.sum(" in script
    assert len(script.splitlines()) <= 15


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--subject", "numpy", "--device", "CPU"], "leave out --device"),
        (["--subject", "numpy", "--policy", "small"], "leave out --device"),
        (["--on", "cuda"], "they go with --subject"),
        (["--subject", "nosuch"], "accepted are torch"),
    ],
)
def test_what_does_not_go_together_is_refused(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["fuzz", *options]) == 2
    assert words in " ".join(capsys.readouterr().err.split())
