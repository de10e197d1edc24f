"""Random legal lists of optimisations: whatever the plan, the bits of the result are the same."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tinyref.codegen.compile import compile_kernel
from tinyref.config import Context
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.interpret import run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise import tile
from tinyref.optimise.opt import Opt, OptOp, opts_text, parse_opts
from tinyref.optimise.plan import Plan
from tinyref.runtimes.kernel import compile_program
from tinyref.uops import build
from tinyref_fuzz.generate.candidates import is_small
from tinyref_fuzz.generate.optimisations import (
    THREADS,
    apply_recipe,
    draw_lists,
    fitting_recipes,
    on_fixed_machine,
    random_opts,
    with_small_limits,
)
from tinyref_fuzz.generate.policies import POLICIES
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.judge import buffers_with, measured_outputs
from tinyref_spec.kernels.corpus import corpus_kernels
from tinyref_spec.kernels.family import CorpusKernel
from tinyref_spec.kernels.notation import kernel_of, load

KERNELS = corpus_kernels()
# Lists for each kernel: together more than 2,000 on the interpreter, and as many on the CPU.
LISTS = 16
LONGEST = 6

PYTHON = Device["PYTHON"].capabilities
CAPABILITIES = {
    "PYTHON": PYTHON,
    "cramped": with_small_limits(PYTHON),
    "no groups": replace(PYTHON, has_grid=False, has_groups=False, shared_bytes=0),
    "CPU": Device["CPU"].capabilities,
}


def opt_lists(name: str, where: str, count: int) -> list[tuple[Opt, ...]]:
    """Legal lists for a kernel: those of these seeds that are not empty."""
    first = list(KERNELS).index(name) * 1000
    drawn = (
        random_opts(
            KERNELS[name].ast, CAPABILITIES[where], Tape(seed=first + number), 1 + number % LONGEST
        )
        for number in range(count)
    )
    return [found.opts for found in drawn if found.opts]


def outputs(
    kernel: CorpusKernel, where: str, opts: tuple[Opt, ...], contents: tuple[np.ndarray, ...]
) -> dict[int, np.ndarray]:
    """What the kernel writes with `opts`: on the CPU, else on the interpreter."""
    if where == "CPU":
        # Lists are drawn for so many threads, whatever this machine has.
        with Context(THREADS=THREADS):
            return measured_outputs("CPU", kernel.ast, contents, kernel.bindings, opts)
    program = compile_kernel(kernel.ast, CAPABILITIES[where], opts=opts)
    arrays = [content.copy() for content in contents]
    run_program(program, arrays, kernel.bindings)
    return dict(enumerate(arrays))


def check(name: str, where: str, lists: list[tuple[Opt, ...]]) -> None:
    kernel = KERNELS[name]
    contents = kernel.buffers()
    expected = evaluate(kernel.ast, dict(enumerate(contents)), kernel.bindings)
    for opts in lists:
        actual = outputs(kernel, where, opts, contents)
        for slot, values in expected.items():
            shown = f"{name} with {opts_text(opts)} on {where}"
            np.testing.assert_array_equal(actual[slot], values, shown)


# --- the law ------------------------------------------------------------------------------------


@pytest.mark.sampled(9)
@pytest.mark.parametrize("where", CAPABILITIES)
@pytest.mark.parametrize("name", KERNELS)
def test_a_legal_list_keeps_every_bit(name, where):
    check(name, where, opt_lists(name, where, 1))


@pytest.mark.slow
@pytest.mark.parametrize("where", CAPABILITIES)
@pytest.mark.parametrize("name", KERNELS)
def test_legal_lists_keep_every_bit(name, where):
    count = LISTS if where in ("PYTHON", "CPU") else LISTS // 8
    check(name, where, opt_lists(name, where, count))


@pytest.mark.slow
@pytest.mark.parametrize("where", ["PYTHON", "CPU"])
def test_the_lists_are_more_than_two_thousand_and_use_every_optimisation(where):
    lists = [(name, opts) for name in KERNELS for opts in opt_lists(name, where, LISTS)]
    assert len(lists) >= 2000
    assert len(set(lists)) > 1500
    used = {opt.op for _, opts in lists for opt in opts}
    everywhere = {OptOp.UPCAST, OptOp.UNROLL, OptOp.SWAP, OptOp.PADTO}
    grouped = {OptOp.TC, OptOp.LOCAL, OptOp.GROUP, OptOp.GROUPTOP, OptOp.NOLOCALS}
    on_host = {OptOp.PACK, OptOp.THREAD}
    assert used >= everywhere | (grouped if where == "PYTHON" else on_host)


# --- recipes ------------------------------------------------------------------------------------


def plan_of(name: str, where: str = "PYTHON") -> Plan:
    return Plan.of(KERNELS[name].ast, on_fixed_machine(CAPABILITIES[where]))


def test_recipes_begin_with_what_the_kernel_takes():
    recipes, weights = fitting_recipes(plan_of("matmul-float16-float32"))
    assert (OptOp.TC, OptOp.LOCAL) in recipes
    assert len(recipes) == len(weights)
    assert not any(OptOp.TC in ops for ops in fitting_recipes(plan_of("sum-rows"))[0])
    assert (OptOp.PADTO, OptOp.PACK) in fitting_recipes(plan_of("matmul-int32", "CPU"))[0]


@pytest.mark.parametrize(
    ("name", "where", "ops"),
    [
        ("matmul-float16-float32", "PYTHON", (OptOp.TC, OptOp.UPCAST)),
        ("sum-rows", "PYTHON", (OptOp.GROUP, OptOp.UNROLL)),
        ("matmul-int32", "CPU", (OptOp.PADTO, OptOp.PACK)),
    ],
)
def test_most_recipes_come_out_whole(name, where, ops):
    plan = plan_of(name, where)
    found = [apply_recipe(plan, Tape(seed=seed), ops) for seed in range(20)]
    assert all(map(is_small, found))
    assert sum(tuple(opt.op for opt in each.opts) == ops for each in found) >= 10


def test_an_optimisation_that_fails_is_the_end_of_its_list(monkeypatch):
    """The compiler neither applies nor refuses it: the judge is to see that, and names it."""

    def fails(*given: object) -> None:
        raise AttributeError("no such axis")

    monkeypatch.setattr(tile, "_targets", fails)
    policy = POLICIES["matmul"]
    lists = draw_lists(KERNELS["matmul-float16-float32"].ast, PYTHON, Tape(seed=1), policy)
    assert lists[-1][-1].op is OptOp.TC
    # A kernel without such a product has the lists that it has.
    assert len(draw_lists(KERNELS["sum-rows"].ast, PYTHON, Tape(seed=1), policy)) > 2


def test_a_tape_replays_a_list():
    tape = Tape(seed=5)
    ast = KERNELS["matmul-int32"].ast
    found = random_opts(ast, PYTHON, tape, LONGEST)
    assert random_opts(ast, PYTHON, Tape(choices=tape.choices), LONGEST).opts == found.opts


# --- lists that were once legal or wrong --------------------------------------------------------

REGRESSIONS = [
    # More iterations on the inner part of a cut went over some positions twice.
    ("sum-bfloat16", "PYTHON", "GROUPTOP(1, 4) PADTO(2, 13)"),
    ("dot-product", "PYTHON", "GROUPTOP(0, 64) PADTO(1, 5) PADTO(1, 13)"),
    # One work-item wrote what the others of its group were still to read.
    ("in-place-add-row-sum", "PYTHON", "GROUPTOP(2, 5) UPCAST(1, 2)"),
    # The copy was gated by where the kernel stood, not by where the copy did.
    ("matmul-float16-float32", "CPU", "PADTO(2, 32) UNROLL(2, 32) PACK(1, 1)"),
    # The copy was gated by an axis that it repeats along, by the last lane for all.
    ("matmul-int64-thin", "CPU", "PADTO(0, 7) UPCAST(0, 3) PACK(0, 1)"),
    ("matmul-int8-int32", "CPU", "PADTO(0, 7) SWAP(1, 0) PACK(1, 2) UPCAST(1, 3)"),
]


@pytest.mark.parametrize(("name", "where", "text"), REGRESSIONS)
def test_lists_that_were_wrong_are_refused_or_right(name, where, text):
    plan: Plan | None = Plan.of(KERNELS[name].ast, CAPABILITIES[where])
    for opt in parse_opts(text):
        plan = plan.legal(opt) if plan is not None else None
    if plan is not None:
        check(name, where, [plan.opts])


# --- machines -------------------------------------------------------------------------------------


def test_lists_do_not_depend_on_the_number_of_cores():
    cpu = CAPABILITIES["CPU"]
    for number, kernel in enumerate(itertools.islice(KERNELS.values(), 0, None, 6)):
        lists = {
            random_opts(kernel.ast, replace(cpu, threads=threads), Tape(seed=number), 4).opts
            for threads in (1, 2, 64)
        }
        assert len(lists) == 1


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_programs_for_four_threads_run_on_any_number(threads):
    kernel = KERNELS["multiply-add-int32"]
    contents = kernel.buffers()
    opts = parse_opts("THREAD(0, 4)")
    program = compile_kernel(kernel.ast, on_fixed_machine(CAPABILITIES["CPU"]), opts=opts)
    expected = evaluate(kernel.ast, dict(enumerate(contents)))[0]
    with Context(THREADS=threads):
        measured = buffers_with("CPU", contents)
        compile_program("CPU", program)(measured, wait=True)
    found = np.frombuffer(measured[0].copy_out(), contents[0].dtype)
    np.testing.assert_array_equal(found, expected)


def test_only_devices_with_threads_get_four():
    assert on_fixed_machine(CAPABILITIES["CPU"]).threads == THREADS
    assert on_fixed_machine(PYTHON) is PYTHON
    core = Device["tinyref_fuzz.judge.devices:Core"].capabilities
    assert on_fixed_machine(core).threads == 1


def test_plans_of_few_operations_have_many_copies_and_those_of_many_have_few():
    def added(dtype, terms):
        value = load(1, dtype, (64,))
        for _ in range(terms):
            value = build.add(build.mul(value, value), value)
        return kernel_of(value, 64)

    def is_small_with(ast, amount):
        plan = Plan.of(ast, Device["CPU"].capabilities)
        return is_small(plan.apply(Opt(OptOp.UPCAST, 0, amount)))

    # 16 copies of a load, a store and 2 operations for each term; of float16 each is many.
    assert is_small_with(added(dtypes.float32, 1), 16)
    assert not is_small_with(added(dtypes.float32, 12), 16)
    assert not is_small_with(added(dtypes.float16, 1), 16)
    assert is_small_with(added(dtypes.float16, 12), 4)
