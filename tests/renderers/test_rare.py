"""Test that costly last operands of selects become branches, in a legal order."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
import pytest

from tinyref import Tensor
from tinyref.dtype import dtypes
from tinyref.renderers import rare
from tinyref.renderers.llvm import LlvmFunction, LlvmRenderer
from tinyref.renderers.rare import Branch, with_branches
from tinyref.uops import build
from tinyref.uops.node import UOp, toposort
from tinyref.uops.payload import AxisKind
from tinyref.uops.program import Parameter, Program

INT, FLOAT = dtypes.int32, dtypes.float32
X = build.load(build.index(build.define_global(1, FLOAT, 8), build.const(INT, 0)))
IS_NEAR = build.less(X, 1.0)


def costly(start: UOp, count: int = 24) -> UOp:
    """Return a chain of `count` nodes."""
    for number in range(count):
        start = build.add(start, float(number + 1))
    return start


def store(value: UOp, slot: int = 0) -> UOp:
    return build.store(build.index(build.define_global(slot, FLOAT, 8), build.const(INT, 0)), value)


def branches(*roots: UOp) -> list[Branch]:
    nodes = toposort(roots)
    items = with_branches(nodes)
    assert_legal(items, nodes)
    return [item for item in items if isinstance(item, Branch)]


def assert_legal(items: Iterable[UOp | Branch], nodes: Iterable[UOp]) -> None:
    """Assert that every node occurs once, after its sources."""
    missing, done = set(nodes), set[UOp]()
    for item in items:
        for node in (*item.nodes, *item.selects) if isinstance(item, Branch) else (item,):
            assert node in missing, node.op
            missing.remove(node)
            assert missing.isdisjoint(node.src), node.op
            done.add(node)
    assert not missing


def test_a_costly_last_operand_is_a_branch_with_what_only_it_needs() -> None:
    shared = build.mul(X, 3.0)
    select = build.where(IS_NEAR, shared, costly(shared))
    (branch,) = branches(store(select))
    assert branch.selects == (select,)
    assert branch.condition is IS_NEAR
    assert len(branch.nodes) == 24
    assert shared not in branch.nodes


def test_what_is_cheap_comes_first_or_has_another_use_is_computed() -> None:
    assert not branches(store(build.where(IS_NEAR, X, costly(X, 23))))
    assert not branches(store(build.where(IS_NEAR, costly(X), X)))
    rarely = costly(X)
    assert not branches(store(build.where(IS_NEAR, X, rarely)), store(rarely, 2))
    # The other use may be the select itself.
    assert not branches(store(build.where(build.less(rarely, 1.0), X, rarely)))


def test_selects_of_one_condition_share_a_branch_and_what_needs_them_comes_after() -> None:
    middle = costly(X, 12)
    first = build.where(IS_NEAR, X, costly(middle, 6))
    second = build.where(IS_NEAR, build.mul(X, 2.0), costly(build.mul(middle, 2.0), 6))
    roots = [store(build.mul(first, 5.0)), store(second, 2)]
    # A store that needs the first select before the second one cannot be moved behind it.
    assert not branches(*roots)
    (branch,) = branches(store(build.add(build.mul(first, 5.0), second)))
    assert branch.selects == (first, second)
    assert len(branch.nodes) == 25


def test_selects_that_need_each_other_have_no_branch() -> None:
    first = build.where(IS_NEAR, X, costly(X))
    assert not branches(store(build.where(IS_NEAR, build.mul(first, 2.0), costly(X, 25))))
    assert not branches(store(build.where(IS_NEAR, X, build.mul(costly(first), X))))


def test_an_outer_branch_has_all_of_an_inner_one() -> None:
    inner = build.where(build.less(X, 0.5), X, costly(build.mul(X, X)))
    outer = build.where(IS_NEAR, X, build.mul(inner, 2.0))
    (branch,) = branches(store(outer))
    assert branch.selects == (outer,)
    assert inner in branch.nodes


def test_a_branch_takes_no_select_out_of_another_one() -> None:
    # Only `between` needs `first`, which shares a branch with `second`.
    first = build.where(IS_NEAR, X, costly(build.mul(X, 3.0)))
    between = build.where(build.less(X, 0.5), X, costly(first))
    second = build.where(IS_NEAR, build.mul(X, 2.0), costly(build.mul(X, 4.0)))
    shared, single = branches(store(build.add(between, second)))
    assert (shared.selects, len(shared.nodes)) == ((first, second), 50)
    assert (single.selects, len(single.nodes)) == ((between,), 24)


def random_sum(draw: random.Random) -> UOp:
    """Return a sum of values that depend on each other, by selects of few conditions."""
    conditions = [build.less(X, float(limit)) for limit in range(3)]
    values = [X]
    for number in range(draw.randrange(4, 24)):
        first, second = draw.choice(values), build.mul(draw.choice(values), float(number))
        is_select = draw.random() < 0.5
        values.append(
            build.where(draw.choice(conditions), first, build.mul(second, 2.0))
            if is_select
            else build.add(first, second)
        )
    return build.add(build.add(values[-1], values[-2]), build.add(values[-3], values[-4]))


def test_branches_of_any_selects_are_in_a_legal_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rare, "LEAST_NODES", 1)
    counts = [len(branches(store(random_sum(random.Random(seed))))) for seed in range(300)]
    assert sum(counts) > 300


def test_nothing_moves_into_a_loop_or_past_an_accumulator() -> None:
    i = build.counter(8, 0, AxisKind.LOOP, INT)
    value = costly(X)
    address = build.index(build.define_global(0, FLOAT, 8), i)
    inside = build.store(address, build.where(build.less(i, 4), X, value))
    nodes = toposort([value])
    nodes += [node for node in toposort([inside]) if node not in nodes]
    assert with_branches([*nodes, build.close(i)]) == [*nodes, build.close(i)]
    total = build.accumulator("total", build.const(FLOAT, 0.0), i)
    assert not branches(store(build.where(IS_NEAR, X, build.add(total, 1.0))))
    (branch,) = branches(store(build.where(IS_NEAR, X, costly(build.add(total, 1.0)))))
    assert len(branch.nodes) == 24


def test_the_branch_is_taken_by_one_lane_of_sixteen() -> None:
    lanes = build.load(
        build.index(build.define_global(1, FLOAT, 16), build.const(INT, 0)), lanes=16
    )
    value = build.where(build.less(lanes, 1.0), lanes, costly(lanes))
    memory = build.index(build.define_global(0, FLOAT, 16), build.const(INT, 0))
    parameters = (Parameter(0, FLOAT, 16, True, False), Parameter(1, FLOAT, 16, False, True))
    text = LlvmRenderer().render(
        Program("k", tuple(toposort([build.store(memory, value)])), parameters)
    )
    assert text.count("icmp eq i16") == 1
    assert text.count("phi <16 x float>") == 1
    assert text.count("branch_weights") == 1


SINES = {
    "near": np.linspace(-1500, 1500, 64),
    "far": np.linspace(2000, 1e30, 80),
    "one lane": np.where(np.arange(96) == 37, 1e20, np.arange(96) / 8),
    "none finite": np.where(np.arange(112) % 2, np.inf, np.nan),
}


@pytest.mark.parametrize("kind", SINES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sines_have_the_same_bits_with_and_without_branches(
    kind: str, dtype: type[np.floating], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each kind has its own length, because an existing kernel would not be rendered again.
    x = SINES[kind].astype(dtype)
    branched = []
    print_branch = LlvmFunction.print_branch

    def noted(self: LlvmFunction, branch: Branch) -> None:
        branched.append(branch)
        print_branch(self, branch)

    monkeypatch.setattr(LlvmFunction, "print_branch", noted)
    with_branch = Tensor(x, device="CPU").sin().numpy()
    assert len(branched) == 1
    monkeypatch.setattr(rare, "LEAST_NODES", 10**6)
    without = Tensor(np.concatenate([x, x]), device="CPU").sin().numpy()[: x.size]
    assert len(branched) == 1
    bits = f"u{x.itemsize}"
    assert np.array_equal(with_branch.view(bits), without.view(bits))
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(with_branch, np.sin(x.astype(np.float64)), rtol=3e-7)
