"""Lists of optimisations that were once wrong, and what random lists must not depend on."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from judged import CORPUS, case_of, pair_and_symptom

from tinyref.device import Device
from tinyref.optimise.opt import OptOp
from tinyref.optimise.plan import Plan
from tinyref_fuzz.generate.candidates import amount
from tinyref_fuzz.generate.optimisations import random_opts
from tinyref_fuzz.generate.tape import Tape

REGRESSIONS = [
    # More iterations on the inner part of a split repeated some positions.
    ("sum-bfloat16", "PYTHON", "GROUPTOP(1, 4) PADTO(2, 13)"),
    ("dot-product", "PYTHON", "GROUPTOP(0, 64) PADTO(1, 5) PADTO(1, 13)"),
    # One work-item wrote elements that others of its group had not read yet.
    ("in-place-add-row-sum", "PYTHON", "GROUPTOP(2, 5) UPCAST(1, 2)"),
    # The copy was gated by the kernel's position instead of its own.
    ("matmul-float16-float32", "CPU", "PADTO(2, 32) UNROLL(2, 32) PACK(1, 1)"),
    # The copy was gated, by the last lane for all, along an axis that it repeats.
    ("matmul-int64-thin", "CPU", "PADTO(0, 7) UPCAST(0, 3) PACK(0, 1)"),
    ("matmul-int8-int32", "CPU", "PADTO(0, 7) SWAP(1, 0) PACK(1, 2) UPCAST(1, 3)"),
]


@pytest.mark.parametrize(("name", "device", "text"), REGRESSIONS)
def test_lists_that_were_wrong_are_refused_or_right(name, device, text):
    assert pair_and_symptom(case_of(name, text), device) == (None, None)


def test_groups_reach_the_limit_that_a_device_declares():
    kernel = CORPUS["in-place-add-row-sum"].ast
    capabilities = Device["PYTHON"].capabilities
    axis = replace(Plan.of(kernel, capabilities).axes[0], extent=1024)
    for limit in (64, 256, 1024):
        device = replace(capabilities, group_size_limit=limit)
        sizes = {amount(OptOp.LOCAL, axis, Tape(seed=seed), device) for seed in range(200)}
        assert max(sizes) == limit


def test_lists_do_not_depend_on_the_number_of_cores():
    cpu = Device["CPU"].capabilities
    for number, kernel in enumerate(itertools.islice(CORPUS.values(), 0, None, 6)):
        lists = {
            random_opts(kernel.ast, replace(cpu, threads=threads), Tape(seed=number), 4).opts
            for threads in (1, 2, 64)
        }
        assert len(lists) == 1
