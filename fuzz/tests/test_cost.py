"""Lost simplifications: laws of which nothing is left, and kernels that became no larger."""

from __future__ import annotations

import numpy as np
import pytest

from tinyref.device import Device
from tinyref.dtype import DType, dtypes
from tinyref.interpret.evaluate import evaluate
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_fuzz.generate.equivalent import TRANSFORMATIONS, equivalents, transform, with_laws
from tinyref_fuzz.generate.equivalent.laws import law_named, law_transformations, rule_of
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.policies import POLICIES
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge import cost
from tinyref_fuzz.judge.cost import NORMALISED, growth, simplified
from tinyref_fuzz.judge.judge import judge
from tinyref_spec.kernel_case import Case, Equivalent
from tinyref_spec.kernels.notation import kernel_of, load

PYTHON = Device["PYTHON"].capabilities
RULES = sorted(law_transformations())
SIZE = 6
SEEDS = 12


def kernel() -> Case:
    """Many values of one shape, so that every law has as many as it needs."""
    numbers = [load(slot, dtypes.int32, (SIZE,)) for slot in range(1, 8)]
    flags = [load(slot, dtypes.bool, (SIZE,)) for slot in range(8, 12)]
    total, holds = numbers[0], flags[0]
    for each in numbers[1:]:
        total = build.binary(Ops.XOR, total, each)
    for each in flags[1:]:
        holds = build.either(holds, each)
    draws = np.random.default_rng(3)
    contents = [np.zeros(SIZE, np.int32)]
    contents += [draws.integers(-(2**31), 2**31, SIZE).astype(np.int32) for _ in numbers]
    contents += [draws.integers(0, 2, SIZE).astype(bool) for _ in flags]
    return Case(kernel_of(build.where(holds, total, numbers[0]), SIZE), tuple(contents))


KERNEL = kernel()
TYPES = frozenset(dtypes.all)


def with_law(name: str, seed: int = 0, types: frozenset[DType] = TYPES) -> Equivalent | None:
    new = transform(KERNEL.ast, name, Tape(seed=seed), types)
    return None if new is None else Equivalent(KERNEL.ast, ((name, new),))


def value(ast: UOp) -> np.ndarray:
    return evaluate(ast, dict(enumerate(KERNEL.buffers)))[0]


# --- nothing is left of a law -------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_nothing_is_left_of_a_law_but_its_value(rule):
    found = 0
    several = law_transformations()[rule]
    for each in several[:: max(1, len(several) // 3)]:
        for seed in range(SEEDS):
            made = with_law(each.name, seed)
            if made is None:
                continue
            found += 1
            assert made.ast is not KERNEL.ast
            assert simplified(made.ast, PYTHON) is simplified(KERNEL.ast, PYTHON), (each, seed)
            np.testing.assert_array_equal(value(made.ast), value(KERNEL.ast))
    assert found, "no instance"


def test_most_rules_on_values_have_a_law():
    assert len(RULES) > 70
    assert {"int-add-zero", "bool-absorb-and", "lt-factor-sum", "where-bool"} <= set(RULES)
    assert "shift-left-index" in RULES
    # Of symbolic indices, of vectors, of memory, and whose sides are two expressions.
    assert not {"div-symbolic", "gep-all", "load-gate-true", "int-mulacc"} & set(RULES)


def test_a_law_is_named_by_its_rule():
    assert rule_of("law int-add-zero.0") == "int-add-zero"
    assert rule_of("commute") == ""
    assert law_named("law int-add-zero.0").name == "law int-add-zero.0"
    assert law_named("commute") is None
    assert law_named("law int-add-zero.99") is None


def test_laws_keep_to_the_types_of_the_device():
    only = frozenset({dtypes.int32, dtypes.bool})
    names = [each.name for rule in RULES[::9] for each in law_transformations()[rule][:3]]
    made = [with_law(name, types=only) for name in names]
    used = {node.dtype for each in made if each for node in each.ast.toposort()}
    assert {dtype for dtype in used if dtype in TYPES} <= only
    assert sum(each is not None for each in made) > len(names) // 3


@pytest.mark.long
@pytest.mark.sampled(10)
@pytest.mark.parametrize("first", range(0, 300, 10))
def test_kernels_of_a_healthy_compiler_grow_by_nothing(first):
    for seed in range(first, first + 10):
        case = generate(Tape(seed=seed), PYTHON, POLICIES["even"])
        laws = with_laws(case.ast, Tape(seed=seed), 6, PYTHON.dtypes)
        assert growth(laws, PYTHON) is None, seed
        if case.mode.name == "EXACT":
            other = equivalents(case.ast, Tape(seed=seed), 3, PYTHON.dtypes)
            assert growth(other, PYTHON) is None, (seed, other.labels)


def test_generated_kernels_have_laws():
    cases = [generate(Tape(seed=seed), PYTHON) for seed in range(60)]
    laws = [each.equivalent for each in cases if each.equivalent is not None]
    assert 3 <= sum(bool(rule_of(each.labels[0])) for each in laws) <= 20


# --- what counts --------------------------------------------------------------------------------


def test_transformations_that_keep_the_size_are_known():
    assert set(TRANSFORMATIONS) > NORMALISED


def larger(ast: UOp) -> UOp:
    """The kernel with a quotient on top, which nothing takes away."""
    view, stored = ast.src[0].src
    return build.sink(build.store(view, build.idiv(stored, 7)))


def test_the_step_after_which_a_kernel_is_larger_is_named():
    once = larger(KERNEL.ast)
    found = growth(Equivalent(KERNEL.ast, (("commute", KERNEL.ast), ("not-twice", once))), PYTHON)
    assert found is not None
    assert str(found) == "larger after not-twice: 44 operations instead of 36"


def test_steps_that_may_make_a_kernel_larger_end_the_comparison():
    once = larger(KERNEL.ast)
    assert growth(Equivalent(KERNEL.ast, (("distribute", once), ("commute", once))), PYTHON) is None
    assert growth(Equivalent(KERNEL.ast, ()), PYTHON) is None


def test_a_law_over_what_is_a_constant_is_not_asked(monkeypatch):
    """Of a choice between false and a number another rule makes an AND, before the law's rule."""
    nothing = ShapeTracker((View((4,), (1,), 0, ((0, 0),)),))
    p, q, r = (load(slot, dtypes.bool, (4,)) for slot in (1, 2, 3))
    hidden = load(4, dtypes.bool, nothing)
    left = build.where(p, build.where(p, hidden, q), r)
    law = build.binary(Ops.XOR, left, build.where(p, hidden, r))
    value = build.binary(Ops.XOR, build.binary(Ops.AND, q, hidden), p)
    changed = kernel_of(build.binary(Ops.XOR, value, law), 4)
    equivalent = Equivalent(kernel_of(value, 4), (("law where-again-left.0", changed),))
    assert growth(equivalent, PYTHON) is None
    monkeypatch.setattr(cost, "_has_constant", lambda *_: False)
    assert growth(equivalent, PYTHON) is not None


def test_the_judge_says_what_a_kernel_costs():
    case = Case(KERNEL.ast, KERNEL.buffers, equivalent=with_law("law int-mul-one.0"))
    assert judge(case, "PYTHON").agrees
