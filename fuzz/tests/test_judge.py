"""The judge reports one injected fault for each pair and symptom, and none on healthy devices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from judged import CORPUS, ELEMENTWISE, GROUPED, case_of, pair_and_symptom

from tinyref.algebra.rewrite import listeners
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.errors import VerifyError
from tinyref.optimise.opt import parse_opts
from tinyref.runtimes.python import TextBackend
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.optimisations import random_opts
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge import runs
from tinyref_fuzz.judge import trial as judging
from tinyref_fuzz.judge.judge import Judge, judge
from tinyref_fuzz.judge.lacks import declared_lack
from tinyref_spec.kernel_case import Equivalent, KernelCase, Pair, Symptom
from tinyref_spec.kernels.notation import kernel_of, load, shaped

# --- no fault -------------------------------------------------------------------------------------


@pytest.mark.sampled(24)
@pytest.mark.parametrize("device", ["PYTHON", "CPU"])
@pytest.mark.parametrize("name", CORPUS)
def test_healthy_devices_agree_on_the_corpus(name, device):
    judged = Judge(device)
    case = case_of(name)
    lists = [
        random_opts(case.ast, judged.capabilities, Tape(seed=number), 1 + number).opts
        for number in range(3)
    ]
    verdict = judged.verdict(replace(case, opts=tuple(filter(None, lists))), thorough=True)
    assert verdict.agrees, verdict
    assert verdict.judged == len(list(filter(None, lists))) or not any(lists)


@pytest.mark.long
@pytest.mark.sampled(60)
@pytest.mark.parametrize("device", ["PYTHON", "CPU"])
@pytest.mark.parametrize("first", range(0, 300, 10))
def test_healthy_devices_agree_on_generated_cases(first, device):
    judged = Judge(device)
    for seed in range(first, first + 10):
        verdict = judged.verdict(generate(Tape(seed=seed), judged.capabilities))
        assert verdict.agrees, (seed, verdict)


def test_without_lists_the_heuristics_are_judged():
    verdict = judge(case_of("matmul-int32"), "PYTHON", thorough=False)
    assert verdict.agrees
    assert verdict.judged == 1
    assert Judge("PYTHON").trials(case_of("matmul-int32"))[0]


def test_every_list_counts_and_a_refused_one_does_not():
    case = case_of("sum-rows", "UPCAST(0, 2)", "UPCAST(0, 31)", "GROUP(1, 4)")
    assert judge(case, "PYTHON").judged == 2
    assert judge(case, "CPU").judged == 1


def test_a_device_may_refuse_what_it_lacks():
    class Small(TextBackend):
        @property
        def capabilities(self):
            own = super().capabilities
            lacking = CORPUS["sum-float16"].ast.src[0].src[1].dtype
            return replace(own, dtypes=own.dtypes - {lacking}, matrix_tiles=())

    globals()["Small"] = Small
    verdict = judge(case_of("sum-float16"), f"{__name__}:Small")
    assert verdict.agrees
    assert verdict.judged == 0


# --- the compiler is wrong ------------------------------------------------------------------------


def add_one(ast: UOp) -> UOp:
    view, value = ast.src[0].src
    return build.sink(build.store(view, build.add(value, build.const(value.dtype, 1))))


def shifted(program):
    """Return the program with every STORE one element further."""
    done = {}
    for node in program.uops:
        src = tuple(done.get(source, source) for source in node.src)
        if node.op is Ops.STORE and node.src[0].op is Ops.INDEX:
            buffer, position = src[0].src
            further = build.add(position, build.const(position.dtype, 1))
            src = (src[0].replace(src=(buffer, further)), *src[1:])
        done[node] = node.replace(src=src)
    order = []
    for node in (done[node] for node in program.uops):
        order += [source for source in node.toposort() if source not in order]
    return replace(program, uops=tuple(order))


def without_barriers(program):
    return replace(program, uops=tuple(n for n in program.uops if n.op is not Ops.BARRIER))


def compile_with(monkeypatch, change, when=lambda opts: True):
    """Let the compiler build another program if `when` accepts the options."""
    healthy = runs.compile_kernel

    def wrong(ast, capabilities, opts=None):
        if not when(opts):
            return healthy(ast, capabilities, opts=opts)
        if isinstance(change, Exception):
            for listener in listeners().stages:
                listener("normal", ast, ast)
            raise change
        if change is add_one:
            return healthy(add_one(ast), capabilities, opts=opts)
        return change(healthy(ast, capabilities, opts=opts))

    monkeypatch.setattr(runs, "compile_kernel", wrong)


each_device = pytest.mark.parametrize("device", ["PYTHON", "CPU"])


@each_device
def test_a_wrong_value_of_the_plain_program(device, monkeypatch):
    compile_with(monkeypatch, add_one)
    assert pair_and_symptom(ELEMENTWISE, device, False) == (Pair.PLAIN, Symptom.VALUE)


@each_device
def test_a_wrong_value_of_an_optimised_program_names_its_list(device, monkeypatch):
    compile_with(monkeypatch, add_one, when=lambda opts: opts == parse_opts("UPCAST(0, 3)"))
    case = case_of("multiply-add-int32", "UPCAST(0, 2)", "UPCAST(0, 3)", "UPCAST(0, 0)")
    verdict = judge(case, device, False)
    assert (verdict.pair, verdict.symptom) == (Pair.OPTIMISED, Symptom.VALUE)
    assert verdict.judged == sum(opts in case.opts[: verdict.trial] for opts in case.opts)


@each_device
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("x"), "compiler, normal reached: KeyError: 'x'"),
        (
            VerifyError("ast.store.2", "here", "this", "that"),
            "compiler, normal reached: VerifyError: ast.store.2: expected this, got that, at here",
        ),
    ],
)
def test_an_error_of_the_compiler(device, monkeypatch, error, words):
    compile_with(monkeypatch, error)
    verdict = judge(ELEMENTWISE, device)
    assert (verdict.pair, verdict.symptom, verdict.detail) == (Pair.PLAIN, Symptom.ERROR, words)
    compile_with(monkeypatch, error, when=bool)
    verdict = judge(ELEMENTWISE, device)
    # The compiler of the first call is still wrong.
    assert verdict.pair is Pair.PLAIN


def test_an_error_with_a_list_of_optimisations(monkeypatch):
    compile_with(monkeypatch, IndexError("no such axis"), when=bool)
    assert pair_and_symptom(ELEMENTWISE, "PYTHON") == (Pair.OPTIMISED, Symptom.ERROR)


@each_device
def test_an_access_out_of_bounds(device, monkeypatch):
    compile_with(monkeypatch, shifted)
    assert pair_and_symptom(ELEMENTWISE, device, False) == (Pair.PLAIN, Symptom.ACCESS)
    monkeypatch.undo()
    compile_with(monkeypatch, shifted, when=bool)
    assert pair_and_symptom(case_of("sum-rows", "UNROLL(1, 2)"), device, False)[0] is Pair.OPTIMISED


def test_a_missing_barrier_is_a_race(monkeypatch):
    compile_with(monkeypatch, without_barriers)
    assert pair_and_symptom(GROUPED, "PYTHON", False) == (Pair.OPTIMISED, Symptom.RACE)


def test_an_order_that_loses_a_barrier_is_a_race(monkeypatch):
    healthy = runs.linearise
    monkeypatch.setattr(
        runs,
        "linearise",
        lambda root, seed: tuple(n for n in healthy(root, seed) if n.op is not Ops.BARRIER),
    )
    assert pair_and_symptom(GROUPED, "PYTHON", False) == (None, None)
    assert pair_and_symptom(GROUPED, "PYTHON", True) == (Pair.OPTIMISED, Symptom.RACE)


# The change that matters to a run (poison, work-items, nodes), and the expected report.
ORDERS = (
    (lambda poison, backward, other: poison, Symptom.ACCESS, "with other poison around"),
    (lambda poison, backward, other: backward, Symptom.RACE, "in reverse order"),
    (lambda poison, backward, other: other, Symptom.VALUE, "in another order of the nodes"),
    (lambda poison, backward, other: backward and other, Symptom.VALUE, "of nodes and work-items"),
)


@pytest.mark.parametrize(("matters", "symptom", "words"), ORDERS, ids=[row[2] for row in ORDERS])
def test_what_a_run_must_not_depend_on_is_named(matters, symptom, words, monkeypatch):
    healthy = judging.interpret
    first = []

    def dependent(program, memory, bindings, backward=False):
        first.append(program)
        results = healthy(program, memory, bindings, backward)
        if matters(memory.pattern != judging.PATTERNS[0], backward, program != first[0]):
            results[0][3] += 1
        return results

    monkeypatch.setattr(judging, "interpret", dependent)
    # If the interpreter is the device, the first run is of the program's text.
    verdict = judge(case_of("multiply-add-int32", "UPCAST(0, 2)"), "CPU", True)
    assert (verdict.pair, verdict.symptom) == (Pair.PLAIN, symptom)
    assert words in verdict.detail


# --- kernels that compute the same ----------------------------------------------------------------


def test_a_wrong_equivalent_kernel_names_the_step():
    case = case_of("multiply-add-int32")
    wrong = add_one(case.ast)
    trail = (("right", case.ast), ("injected", wrong), ("after", wrong))
    verdict = judge(replace(case, equivalent=Equivalent(case.ast, trail)), "PYTHON")
    assert (verdict.pair, verdict.symptom) == (Pair.EQUIVALENT, Symptom.VALUE)
    assert verdict.detail.startswith("evaluator, wrong after injected in right injected after: ")


def test_a_device_that_gets_the_equivalent_kernel_wrong(monkeypatch):
    case = case_of("multiply-add-int32", "UPCAST(0, 2)")
    case = replace(case, equivalent=Equivalent(case.ast, (("step", case.ast),)))
    compile_with(monkeypatch, add_one, when=lambda opts: opts is None)
    verdict = judge(case, "PYTHON")
    assert (verdict.pair, verdict.symptom) == (Pair.EQUIVALENT, Symptom.VALUE)
    assert verdict.detail.startswith("device, wrong after step in step: ")


# --- order and share ------------------------------------------------------------------------------


def test_data_that_meet_nothing_unspecified_may_do_so_when_reversed():
    """Check that shifts by counts that the kernel does not read do not matter."""
    counts = load(2, dtypes.int32, shaped(6).shrink(((0, 2),)), 6)
    shifted = build.binary(Ops.SHL, load(1, dtypes.int32, (2,)), counts)
    data = [[0, 0], [5, 7], [2, 3, 1, 1, -3, -2]]
    buffers = tuple(np.array(elements, np.int32) for elements in data)
    case = KernelCase(kernel_of(shifted, 2), buffers)
    assert pair_and_symptom(case, "CPU") == (None, None)


# --- what a device declares not to have -----------------------------------------------------------


PYTHON = Device["PYTHON"].capabilities
CPU = Device["CPU"].capabilities


@pytest.mark.parametrize(
    ("name", "capabilities", "lack"),
    [
        ("sum-float16", PYTHON, ""),
        ("sum-float16", replace(PYTHON, dtypes=PYTHON.dtypes - {dtypes.float16}), "float16"),
        ("sum-float16", CPU, ""),
        ("multiply-add-int32", replace(PYTHON, buffer_limit=2), "3 buffers"),
        ("sum-rows", replace(PYTHON, grid_limit=(1, 1, 1)), "a grid of 12"),
    ],
)
def test_what_may_be_refused(name, capabilities, lack):
    assert declared_lack(CORPUS[name].ast, capabilities) == lack


@pytest.mark.parametrize(
    ("view", "is_long"),
    [
        (View((30,), (74074074,), -74074074, ((1, 28),)), True),
        (View((29,), (70000000,), 0), False),
        (View((1 << 16, 1 << 16), (0, 0), 0), True),
        (View((3,), (-1,), 2**31 - 3), False),
        (View((2**31 - 1,), (-1,), 2**31 - 2), False),
        (View((4,), (1,), 2**31 - 3), True),
    ],
    ids=["hidden steps", "steps", "positions", "an offset", "a flip", "a larger offset"],
)
def test_positions_and_steps_beyond_32_bits_may_be_refused(view, is_long):
    """Check that hidden steps count: 29 * 74074074 is more than 2**31 - 1."""
    ast = kernel_of(build.iota(ShapeTracker((view,))), *view.shape)
    expected = "positions beyond 32 bits" if is_long else ""
    assert declared_lack(ast, replace(PYTHON, dtypes=PYTHON.dtypes - {dtypes.int64})) == expected
    assert declared_lack(ast, PYTHON) == ""
