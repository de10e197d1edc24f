"""Kernels that try many values: integer expressions, and chains of views."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tinyref.dtype import dtypes
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg, ViewArg
from tinyref_fuzz.generate.expressions import Expressions
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.kernel import Kernel
from tinyref_fuzz.generate.policies import FORMS, POLICIES
from tinyref_fuzz.generate.several import integer_expression
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.judge import judge_of

SEEDS = 150
# --- integer expressions -------------------------------------------------------------------------


def expression(seed: int) -> UOp | None:
    capabilities = judge_of("PYTHON").capabilities
    kernel = Kernel.draw(Tape(seed=seed), POLICIES["integers"], capabilities)
    axes = kernel.add_axes((8, 6), outer=True)
    found = integer_expression(Expressions(kernel), kernel.shape(axes), ())
    return found.node if found is not None else None


def test_expressions_are_of_counters_and_of_values_and_all_is_specified() -> None:
    found = [node for node in map(expression, range(SEEDS)) if node is not None]
    assert len(found) > SEEDS * 3 // 4
    ops: Counter[Ops] = Counter()
    for node in found:
        nodes = node.toposort()
        ops.update({each.op for each in nodes})
        assert node.dtype in (*dtypes.ints, dtypes.bool)
        for each in nodes:
            if each.op in (Ops.IDIV, Ops.MOD):
                assert isinstance(each.src[1].arg, ConstArg)
                assert each.src[1].arg.value not in (0, -1)
    assert min(ops[op] for op in (Ops.LOAD, Ops.IOTA, Ops.MOD, Ops.CMPLT, Ops.MUL)) > SEEDS // 12


# --- chains of views -----------------------------------------------------------------------------


def test_chains_are_of_many_outputs_and_of_several_views() -> None:
    only = {form: float(form == "chains") for form in FORMS}
    policy = replace(POLICIES["views"], forms=only)
    capabilities = judge_of("PYTHON").capabilities
    cases = [generate(Tape(seed=seed), capabilities, policy) for seed in range(8)]
    assert all(10 <= len(case.ast.src) <= 18 for case in cases)
    trackers = [
        node.arg.tracker
        for case in cases
        for node in case.ast.toposort()
        if isinstance(node.arg, ViewArg)
    ]
    several = [len(tracker.views) for tracker in trackers]
    assert sum(count > 1 for count in several) > 20
    assert max(several) >= 3
    assert any(tracker.is_masked for tracker in trackers)
