"""Planted expressions: every rule that can stand in a kernel AST gets kernels on which it fires."""

from __future__ import annotations

import pytest

from tinyref.algebra.rewrite import counting_rules
from tinyref.algebra.simplify import ALL_RULES
from tinyref.codegen.compile import compile_kernel
from tinyref.device import Device
from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import Dialect, Ops
from tinyref.uops.payload import SlotArg, ViewArg
from tinyref.verify import verify
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.generate.planting import plantable, planted
from tinyref_fuzz.generate.tape import Tape

TYPES = tuple(dtype for dtype in dtypes.all if dtype not in dtypes.fp8s)
SEEDS = 100
# Rules on what only lowering makes: addresses, gates, lanes, sums of `index`.
BELOW = {
    *("div-symbolic", "mod-symbolic", "int-distribute", "int-mulacc", "mask-index"),
    *("shift-left-index", "shift-right-index", "gep-all", "gep-const", "gep-vectorize"),
    *("load-gate-false", "load-gate-true", "store-gate-true"),
}
# The range of their result is one constant, and the rule that folds those comes first by name.
FOLDED_BEFORE = {"mod-one", "int-mul-zero"}


def view(slot: int, dtype: DType) -> UOp:
    memory = build.define_global(slot, dtype, 16)
    return UOp(Ops.VIEW, memory.dtype, (memory,), ViewArg(ShapeTracker.from_shape((16,))))


def kernel_of(name: str, seed: int) -> UOp | None:
    """A kernel that stores an instance of the rule."""
    loads: list[UOp] = []

    def leaf(dtype: DType) -> UOp:
        loads.append(build.load(view(len(loads) + 1, dtype)))
        return loads[-1]

    rule = next(rule for rule in ALL_RULES.rules if rule.name == name)
    value = planted(rule, Tape(seed=seed), TYPES, leaf)
    if value is None:
        return None
    ast = build.sink(build.store(view(0, value.dtype), value))
    used = sorted({n.arg.slot: n for n in ast.toposort() if isinstance(n.arg, SlotArg)}.items())
    return substitute(
        ast, {node: node.replace(arg=SlotArg(at)) for at, (_, node) in enumerate(used)}
    )


def test_rules_that_cannot_be_planted_are_those_on_what_lowering_makes():
    assert {rule.name for rule in ALL_RULES.rules} - {r.name for r in plantable(TYPES)} == BELOW


@pytest.mark.parametrize("name", [r.name for r in plantable(TYPES) if r.name not in FOLDED_BEFORE])
def test_a_planted_rule_fires(name):
    capabilities = Device["PYTHON"].capabilities
    for seed in range(SEEDS):
        ast = kernel_of(name, seed)
        if ast is None:
            continue
        verify(Dialect.AST, ast)
        with counting_rules() as fired:
            compile_kernel(ast, capabilities, opts=())
        if fired[name]:
            return
    pytest.fail(f"{name} fired on none of {SEEDS} instances")


def test_the_same_tape_plants_the_same():
    first = [kernel_of("where-either", seed) for seed in range(5)]
    assert first == [kernel_of("where-either", seed) for seed in range(5)]
    assert len(set(first)) > 1


def test_without_a_type_that_fits_nothing_is_planted():
    rule = next(rule for rule in ALL_RULES.rules if rule.name == "div-nested")
    assert (
        planted(rule, Tape(seed=1), (dtypes.float32,), lambda dtype: build.const(dtype, 1)) is None
    )
