"""Instances of rules: every rule that can stand in a kernel AST gets kernels on which it fires."""

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
from tinyref.uops.payload import ConstArg, SlotArg
from tinyref.verify import verify
from tinyref_fuzz.generate.instantiation import instantiable_rules, instantiate_rule
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.kernels.notation import kernel_of, load

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


def instance(name: str, seed: int) -> UOp | None:
    """A kernel that stores an instance of the rule."""
    loads: list[UOp] = []

    def leaf(dtype: DType) -> UOp:
        loads.append(load(len(loads) + 1, dtype, (16,)))
        return loads[-1]

    rule = next(rule for rule in ALL_RULES.rules if rule.name == name)
    value = instantiate_rule(rule, Tape(seed=seed), TYPES, leaf)
    if value is None:
        return None
    ast = kernel_of(value, 16)
    used = sorted({n.arg.slot: n for n in ast.toposort() if isinstance(n.arg, SlotArg)}.items())
    return substitute(
        ast, {node: node.replace(arg=SlotArg(at)) for at, (_, node) in enumerate(used)}
    )


def test_rules_that_cannot_be_instantiated_are_those_on_what_lowering_makes():
    assert {rule.name for rule in ALL_RULES.rules} - {
        r.name for r in instantiable_rules(TYPES)
    } == BELOW


@pytest.mark.parametrize(
    "name", [r.name for r in instantiable_rules(TYPES) if r.name not in FOLDED_BEFORE]
)
def test_a_rule_fires_on_its_instance(name):
    capabilities = Device["PYTHON"].capabilities
    for seed in range(SEEDS):
        ast = instance(name, seed)
        if ast is None:
            continue
        verify(Dialect.AST, ast)
        with counting_rules() as fired:
            compile_kernel(ast, capabilities, opts=())
        if fired[name]:
            return
    pytest.fail(f"{name} fired on none of {SEEDS} instances")


def test_the_same_tape_gives_the_same_instance():
    first = [instance("where-either", seed) for seed in range(5)]
    assert first == [instance("where-either", seed) for seed in range(5)]
    assert len(set(first)) > 1


def test_without_a_type_that_fits_there_is_no_instance():
    rule = next(rule for rule in ALL_RULES.rules if rule.name == "div-nested")
    assert (
        instantiate_rule(rule, Tape(seed=1), (dtypes.float32,), lambda dtype: build.const(dtype, 1))
        is None
    )


@pytest.mark.parametrize("name", ["ne-div", "lt-div", "div-nested", "mod-of-mod", "div-mod-sum"])
def test_divisors_on_the_other_side_of_a_condition_are_made(name):
    """A rule of positive divisors has instances with a negative one, where it must not fire."""
    divisors = {
        node.src[1].arg.value
        for seed in range(SEEDS)
        if (ast := instance(name, seed)) is not None
        for node in ast.toposort()
        if node.op in (Ops.IDIV, Ops.MOD) and isinstance(node.src[1].arg, ConstArg)
    }
    assert any(divisor < 0 for divisor in divisors)
    assert any(divisor > 0 for divisor in divisors)
