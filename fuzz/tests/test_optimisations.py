"""Random legal lists of optimisations: whatever the plan, the bits of the result are the same."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tinyref.codegen.compile import compile_kernel
from tinyref.config import Context
from tinyref.device import Device
from tinyref.interpret import run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.opt import Opt, opts_text, parse_opts
from tinyref.optimise.plan import Plan
from tinyref_fuzz.generate.optimisations import (
    THREADS,
    random_opts,
)
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.judge import measured_outputs
from tinyref_spec.kernels.corpus import corpus_kernels
from tinyref_spec.kernels.family import CorpusKernel

KERNELS = corpus_kernels()
LONGEST = 6

PYTHON = Device["PYTHON"].capabilities
CAPABILITIES = {
    "PYTHON": PYTHON,
    "cramped": replace(
        PYTHON,
        grid_limit=(7, 5, 40),
        group_limit=(8, 4, 2),
        group_size_limit=16,
        shared_bytes=256,
        vector_lanes=(1, 2, 4),
    ),
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
