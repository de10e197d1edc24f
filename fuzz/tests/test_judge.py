"""The judge: one injected fault for each pair and symptom, and nothing said of what is right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from judged import CORPUS, ELEMENTWISE, GROUPED, case_of, found

from tinyref.algebra.rewrite import listeners
from tinyref.dtype import dtypes
from tinyref.errors import UserError, VerifyError
from tinyref.optimise.opt import parse_opts
from tinyref.runtimes.python import TextBackend
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.program import Program
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.optimisations import random_opts
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge import runs
from tinyref_fuzz.judge import trial as judging
from tinyref_fuzz.judge.judge import Judge, judge
from tinyref_spec.kernel_case import Case, Equivalent, Pair, Symptom
from tinyref_spec.kernels.notation import kernel_of, load, shaped, store

# --- nothing is said of what is right -------------------------------------------------------------


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


def test_lists_that_come_to_one_program_are_run_once_and_each_counts(monkeypatch):
    launched = []

    def count(kernel, memory, bindings):
        launched.append(kernel.program)
        return runs.launch(kernel, memory, bindings)

    monkeypatch.setattr(judging, "launch", count)
    lists = ("UPCAST(0, 2)", "UPCAST(0, 2)", "UPCAST(0, 3)")
    verdict = Judge("CPU").verdict(case_of("sum-rows", *lists), thorough=False)
    assert verdict.agrees
    assert verdict.judged == 3
    assert len(launched) == len(set(launched)) == 3


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


def test_a_kernel_with_more_buffers_than_the_device_takes_is_no_fault():
    class Narrow(TextBackend):
        @property
        def capabilities(self):
            return replace(super().capabilities, buffer_limit=2)

    globals()["Narrow"] = Narrow
    verdict = judge(case_of("matmul-int32"), f"{__name__}:Narrow")
    assert verdict.agrees
    assert verdict.judged == 0


# --- the compiler is wrong ------------------------------------------------------------------------


def add_one(ast: UOp) -> UOp:
    view, value = ast.src[0].src
    return build.sink(build.store(view, build.add(value, build.const(value.dtype, 1))))


def shifted(program):
    """The program with every STORE one element further."""
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
        order += [each for each in node.toposort() if each not in order]
    return replace(program, uops=tuple(order))


def without_barriers(program):
    return replace(program, uops=tuple(n for n in program.uops if n.op is not Ops.BARRIER))


def compile_with(monkeypatch, change, when=lambda opts: True):
    """Lets the compiler make another program where `when` says so."""
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
    assert found(ELEMENTWISE, device, False) == (Pair.PLAIN, Symptom.VALUE)


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
        (AssertionError("first\nsecond"), "compiler, normal reached: AssertionError: first"),
        (RecursionError("deep"), "compiler, normal reached: RecursionError: deep"),
        (
            VerifyError("ast.store.2", "here", "this", "that"),
            "compiler, normal reached: VerifyError: ast.store.2: expected this, got that, at here",
        ),
        (UserError("kernel: no"), "compiler, normal reached: UserError: kernel: no"),
    ],
)
def test_an_error_of_the_compiler(device, monkeypatch, error, words):
    compile_with(monkeypatch, error)
    verdict = judge(ELEMENTWISE, device)
    assert (verdict.pair, verdict.symptom, verdict.detail) == (Pair.PLAIN, Symptom.ERROR, words)
    compile_with(monkeypatch, error, when=bool)
    verdict = judge(ELEMENTWISE, device)
    # The compiler of before is wrong still.
    assert verdict.pair is Pair.PLAIN


def test_an_error_with_a_list_of_optimisations(monkeypatch):
    compile_with(monkeypatch, IndexError("no such axis"), when=bool)
    assert found(ELEMENTWISE, "PYTHON") == (Pair.OPTIMISED, Symptom.ERROR)


@each_device
def test_an_access_out_of_bounds(device, monkeypatch):
    compile_with(monkeypatch, shifted)
    assert found(ELEMENTWISE, device, False) == (Pair.PLAIN, Symptom.ACCESS)
    monkeypatch.undo()
    compile_with(monkeypatch, shifted, when=bool)
    assert found(case_of("sum-rows", "UNROLL(1, 2)"), device, False)[0] is Pair.OPTIMISED


def test_a_missing_barrier_is_a_race(monkeypatch):
    compile_with(monkeypatch, without_barriers)
    assert found(GROUPED, "PYTHON", False) == (Pair.OPTIMISED, Symptom.RACE)


def test_an_order_that_loses_a_barrier_is_a_race(monkeypatch):
    healthy = runs.linearise
    monkeypatch.setattr(
        runs,
        "linearise",
        lambda root, seed: tuple(n for n in healthy(root, seed) if n.op is not Ops.BARRIER),
    )
    assert found(GROUPED, "PYTHON", False) == (None, None)
    assert found(GROUPED, "PYTHON", True) == (Pair.OPTIMISED, Symptom.RACE)


# What matters to a run (its poison, its work-items, its nodes), and what is reported of it.
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
    # On the interpreter as a device the first run is of the text of the program.
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


def test_the_number_that_decides_the_share_is_that_of_the_case():
    numbers = {judging.case_number(replace(ELEMENTWISE, choices=(at,))) for at in range(100)}
    assert len(numbers) == 100
    assert 10 < sum(number % judging.THOROUGH_SHARE == 0 for number in numbers) < 25
    # The same on any machine.
    assert judging.case_number(Case(build.sink(), ())) == 2841329647


@pytest.mark.long
def test_of_the_programs_of_a_case_a_share_is_judged_thoroughly(monkeypatch):
    """Twelve lists, and the program without: two of every twelve are shuffled."""
    lists = tuple(parse_opts(f"UPCAST(0, {amount})") for amount in (2, 4) for _ in range(6))
    shuffled: list[int] = []

    def shuffle(self: runs.Compiled, seed: int) -> Program:
        shuffled.append(seed)
        return self.program

    monkeypatch.setattr(runs.Compiled, "shuffle", shuffle)
    counts = set()
    for choice in range(20):
        shuffled.clear()
        case = replace(ELEMENTWISE, opts=lists, choices=(choice,))
        assert judge(case, "PYTHON").judged == 12
        counts.add(len(shuffled))
    assert counts == {2, 3}
    shuffled.clear()
    assert judge(case, "PYTHON", thorough=True).agrees
    assert len(shuffled) == 13
    shuffled.clear()
    assert judge(case, "PYTHON", thorough=False).agrees
    assert not shuffled


def test_data_that_meet_nothing_unspecified_may_do_so_when_reversed():
    """Counts of shifts, of which the kernel sees the first two, and not the negative ones."""
    counts = load(2, dtypes.int32, shaped(6).shrink(((0, 2),)), 6)
    shifted = build.binary(Ops.SHL, load(1, dtypes.int32, (2,)), counts)
    data = [[0, 0], [5, 7], [2, 3, 1, 1, -3, -2]]
    buffers = tuple(np.array(each, np.int32) for each in data)
    case = Case(kernel_of(shifted, 2), buffers)
    assert found(case, "CPU") == (None, None)


# --- shares ---------------------------------------------------------------------------------------


def kernel_of_many(number: int) -> Case:
    """Six outputs x + i, of `number` choices that are not used but for the number of the case."""
    x = load(6, dtypes.int32, (16,))
    ast = build.sink(*(store(slot, build.add(x, slot), (16,)) for slot in range(6)))
    buffers = (*(np.zeros(16, np.int32) for _ in range(6)), np.arange(16, dtype=np.int32))
    return Case(ast, buffers, choices=(number,))


def test_a_kernel_of_many_outputs_is_optimised_in_a_share_of_the_cases() -> None:
    cases = [kernel_of_many(number) for number in range(64)]
    seldom = [case for case in cases if judging.case_number(case) % judging.SELDOM_SHARE == 0]
    assert 0 < len(seldom) < 16
    for case in cases[:8]:
        verdict = judge(case, "PYTHON")
        assert verdict.agrees
        assert verdict.judged == (judging.case_number(case) % judging.SELDOM_SHARE == 0)
    # Where somebody asks for one case, all of it is judged.
    assert judge(seldom[0], "PYTHON").judged == 1
    assert judge(cases[0], "PYTHON", thorough=False).judged == 1


@pytest.mark.parametrize("device", ["PYTHON", "CPU"])
def test_a_kernel_of_many_outputs_is_judged_by_one_program(device, monkeypatch) -> None:
    (opts,) = Judge(device).trials(kernel_of_many(0)) or (parse_opts("UPCAST(0, 4)"),)
    case = replace(kernel_of_many(1), opts=(opts,))
    assert judging.case_number(case) % judging.SELDOM_SHARE
    # A wrong plain program alone is not seen: none is made.
    compile_with(monkeypatch, add_one, when=lambda made: not made)
    assert judge(case, device).judged == 1
    assert judge(case, device, thorough=False).pair is Pair.PLAIN
    monkeypatch.undo()
    # All are made, in their order, where the optimised one is wrong.
    compile_with(monkeypatch, add_one, when=bool)
    verdict = judge(case, device)
    assert (verdict.pair, verdict.trial, verdict.judged) == (Pair.OPTIMISED, 0, 0)
    monkeypatch.undo()
    compile_with(monkeypatch, add_one)
    verdict = judge(case, device)
    assert (verdict.pair, verdict.trial) == (Pair.PLAIN, -1)


def test_a_kernel_of_many_outputs_whose_list_is_refused_has_its_plain_program(monkeypatch) -> None:
    case = replace(kernel_of_many(1), opts=(parse_opts("UPCAST(7, 4)"),))
    assert judge(case, "PYTHON").judged == 0
    compile_with(monkeypatch, add_one, when=lambda made: not made)
    assert judge(case, "PYTHON").pair is Pair.PLAIN
