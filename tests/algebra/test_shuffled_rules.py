"""No rule depends on order: with rules tried in other orders, kernels compute the same.

`TINYREF_SHUFFLE_RULES=seed` runs any part of the suite with other orders; `nox -s shuffled` runs
the quick tests so.
"""

import random

import numpy as np
import pytest
from kernel_cases import DEVICES, ramp

from tinyref.algebra import simplify as simplifying
from tinyref.algebra.rewrite import RuleSet, counting_rules, rewrite
from tinyref.codegen.compile import compile_kernel
from tinyref.config import Context
from tinyref.dtype import dtypes
from tinyref.interpret import run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.views import shape_tracker
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.policies import POLICIES
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.kernels.named import matmul, reduced_view
from tinyref_spec.kernels.notation import shaped

f32, i32, index = dtypes.float32, dtypes.int32, dtypes.index
SEEDS = (1, 2, 3)


def shuffled(seed):
    with Context(SHUFFLE_RULES=seed):
        return RuleSet(simplifying.ALL_RULES.rules, f"shuffled {seed}")


@pytest.fixture(params=SEEDS)
def order(request, monkeypatch):
    """Simplification with the rules in another order; what was kept of the usual one is dropped."""
    found = shuffled(request.param)
    monkeypatch.setattr(simplifying, "ALL_RULES", found)
    caches = [value for value in vars(shape_tracker).values() if hasattr(value, "cache_clear")]
    assert caches
    for cache in caches:
        cache.cache_clear()
    yield found
    for cache in caches:
        cache.cache_clear()


def padded_window():
    """Sums of windows of 3 over a padded, flipped row: masks, several views and a reduce."""
    row = shaped(20).pad(((1, 3),)).flip((0,)).reshape((4, 6)).permute((1, 0))
    return reduced_view(Ops.ADD, i32, row, 1)


KERNELS = {
    "window": (padded_window(), [np.zeros(6, np.int32), ramp(20, i32)]),
    "matrix product": (matmul(6, 7, 5, f32), [np.zeros(42, np.float32), ramp(30), ramp(35)]),
}


def results(ast, buffers, capabilities, bindings=None):
    program = compile_kernel(ast, capabilities)
    copies = [buffer.copy() for buffer in buffers]
    run_program(program, copies, bindings or {})
    return copies[0]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_compute_the_same_in_any_order(order, name, device):
    ast, buffers = KERNELS[name]
    wanted = evaluate(ast, dict(enumerate(buffers)))[0]
    with counting_rules() as fired:
        np.testing.assert_array_equal(results(ast, buffers, DEVICES[device]), wanted)
    assert fired


@pytest.mark.long
def test_random_kernels_compute_the_same_in_any_order(order):
    for seed in range(25):
        case = generate(Tape(seed), DEVICES["loops"], POLICIES["small"])
        wanted = evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)[0]
        found = results(case.ast, case.buffers, DEVICES["loops"], case.bindings)
        assert found.tobytes() == wanted.tobytes(), f"seed {seed}"


def expressions(count):
    """Index arithmetic as split axes write it: quotients and remainders of sums of counters."""
    draw = random.Random(4)
    leaves = [build.variable(name, 0, high) for name, high in (("a", 3), ("b", 7), ("c", 99))]
    for _ in range(count):
        node: UOp = draw.choice(leaves)
        for _ in range(draw.randint(2, 6)):
            factor = build.const(index, draw.choice((2, 3, 4, 6, 8, 12, 24)))
            kind = draw.choice((Ops.IDIV, Ops.MOD, Ops.MUL, Ops.ADD, Ops.MAX))
            other = draw.choice((factor, draw.choice(leaves))) if kind is Ops.ADD else factor
            node = build.binary(kind, node, other)
        yield build.less(node, draw.randint(1, 60)) if draw.random() < 0.3 else node


@pytest.mark.long
def test_most_nodes_are_identical_in_any_order():
    """Values are equal in any order; nodes are nearly always, which says that rules agree."""
    orders = [shuffled(seed) for seed in SEEDS]
    found = [
        rewrite(node, rules) is rewrite(node, simplifying.ALL_RULES)
        for node in expressions(300)
        for rules in orders
    ]
    assert sum(found) / len(found) > 0.95


def test_a_seed_is_another_order():
    """Or nothing was shuffled: the orders of a root with many rules differ between seeds."""
    node = build.idiv(build.variable("n", 0, 9), 2)
    usual = [each.name for each in simplifying.ALL_RULES.candidates(node)]
    others = [[each.name for each in shuffled(seed).candidates(node)] for seed in SEEDS]
    assert all(sorted(other) == sorted(usual) for other in others)
    assert len({tuple(names) for names in [usual, *others]}) == 1 + len(SEEDS)
