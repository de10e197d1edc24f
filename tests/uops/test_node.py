"""Test the node: interning, order, substitution, facts."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings
import weakref

import pytest

from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.node import UOp, node_fact, rebuild, sources_first, substitute, toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg


def chain(length: int) -> UOp:
    node = build.variable("n", 0, 9)
    for number in range(length):
        node = build.add(node, number)
    return node


def test_equal_nodes_are_the_same_object():
    assert chain(50) is chain(50)
    assert build.const(dtypes.int32, 1) is not build.const(dtypes.int64, 1)


@pytest.mark.parametrize(("left", "right"), [(0.0, -0.0), (1.0, float("nan"))])
def test_constants_differ_by_their_bits(left, right):
    assert build.const(dtypes.float32, left) is not build.const(dtypes.float32, right)


def test_a_nan_constant_equals_itself_and_bool_is_not_one():
    nan = float("nan")
    assert build.const(dtypes.float32, nan) is build.const(dtypes.float32, nan)
    assert build.const(dtypes.bool, 1).arg != build.const(dtypes.int32, 1).arg


@pytest.mark.long
def test_unused_nodes_are_freed():
    node = build.variable("only_here", 0, 12345)
    watch = weakref.ref(node)
    assert build.variable("only_here", 0, 12345) is node
    del node
    gc.collect()
    assert watch() is None


@pytest.mark.long
def test_toposort_puts_sources_first_without_recursion():
    order = toposort([chain(20_000)])
    position = {node: number for number, node in enumerate(order)}
    assert len(order) == len(position)
    assert all(position[source] < position[node] for node in order for source in node.src)


def test_substitute_replaces_everywhere_and_shares_the_rest():
    x, y = build.variable("x", 0, 3), build.variable("y", 0, 3)
    product = build.mul(y, 5)
    result = substitute(build.add(build.mul(x, 2), product), {x: y})
    assert result is build.add(build.mul(y, 2), product)


def test_rebuild_gives_each_node_once_with_its_new_sources():
    n, m = build.variable("n", 0, 9), build.variable("m", 0, 9)
    total = build.add(build.mul(n, n), build.mul(n, 3))
    asked = []

    def change(node, src):
        asked.append(node)
        return m if node is n else None

    assert rebuild(total, change) is build.add(build.mul(m, m), build.mul(m, 3))
    assert asked == total.toposort()
    assert rebuild(total, lambda node, src: None) is total
    # The sources of a replacement are not searched.
    assert rebuild(n, lambda node, src: build.add(n, 1)) is build.add(n, 1)


def test_rebuild_looks_at_nothing_below_what_is_done():
    n, m = build.variable("n", 0, 9), build.variable("m", 0, 9)
    inner = build.mul(n, 3)
    total = build.add(inner, m)
    asked = []

    def change(node, src):
        asked.append(node)
        return

    done = {inner: inner}
    assert rebuild(total, change, done) is total
    assert asked == [m, total]
    assert done == {inner: inner, m: m, total: total}
    assert rebuild(total, change, done) is total
    assert asked == [m, total]


@pytest.mark.long
def test_rebuild_needs_no_recursion():
    node = chain(20_000)
    n = build.variable("n", 0, 9)
    result = substitute(node, {n: build.variable("other", 0, 9)})
    assert len(result.toposort()) == len(node.toposort())
    assert n not in result.toposort()


def test_a_view_over_other_memory_has_its_type():
    memory, other = (build.define_global(0, dtype, 4) for dtype in (dtypes.int32, dtypes.float32))
    view = UOp(Ops.VIEW, memory.dtype, (memory,))
    assert view.with_sources((other,)).dtype is other.dtype
    assert view.with_sources((memory,)) is view
    total = build.cast(build.variable("n", 0, 9), dtypes.int32)
    wide = build.cast(build.variable("n", 0, 9), dtypes.int64)
    assert build.add(total, total).with_sources((wide, wide)).dtype is dtypes.int32


def test_toposort_of_other_nodes_than_uops_asks_each_once_users_first():
    needs = {"sum": ["left", "right"], "left": ["x"], "right": ["x", "y"], "x": [], "y": []}
    asked = []

    def sources(name):
        asked.append(name)
        return needs[name]

    assert toposort(["sum", "left"], sources) == ["x", "left", "y", "right", "sum"]
    assert asked == ["sum", "left", "x", "right", "y"]


def test_sources_first_is_in_the_order_of_toposort_and_stops_at_what_is_known():
    n, m = build.variable("n", 0, 9), build.variable("m", 0, 9)
    left, right = build.mul(n, n), build.add(m, n)
    total = build.add(left, right)
    assert sources_first(total) == [n, left, m, right, total]
    assert toposort((total,)) == [n, left, m, right, total]
    assert sources_first(total, known={left: left}) == [left, m, n, right, total]
    right.facts["seen"] = True
    assert sources_first(total, fact="seen") == [n, left, right, total]
    assert sources_first(right, fact="seen") == [right]


@pytest.mark.long
def test_node_fact_reaches_the_bottom_of_deep_graphs_once():
    calls = []

    @node_fact
    def depth(node: UOp) -> int:
        calls.append(node)
        return 1 + max((depth(source) for source in node.src), default=0)

    root = chain(20_000)
    assert depth(root) == 20_001
    assert depth(root) == 20_001
    assert len(calls) == len(set(calls))


@pytest.mark.long
def test_threads_that_are_switched_at_every_step_agree_on_one_object():
    # To look a node up and to add it are two steps, so both threads could add their own.
    rounds, count = 60, 40
    built: list[list[UOp]] = [[], [], [], []]
    gate = threading.Barrier(len(built))

    def work(mine: list[UOp]) -> None:
        for round_number in range(rounds):
            gate.wait()
            mine.extend(
                build.variable("switched", -1, round_number * count + i) for i in range(count)
            )

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(mine,)) for mine in built]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    for same in zip(*built, strict=True):
        assert all(node is same[0] for node in same)


class SlowPayload(ConstArg):
    """A payload whose hash takes as long as a test needs, once it `is_slow`."""

    def __init__(self) -> None:
        super().__init__(7)
        self.is_slow = False
        self.asked, self.done = threading.Event(), threading.Event()

    def __hash__(self) -> int:
        if self.is_slow:
            self.asked.set()
            self.done.wait()
        return 7


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_child_forked_while_a_thread_removes_a_node_can_build_its_own():
    payload = SlowPayload()
    nodes = [UOp(Ops.CONST, dtypes.int32, (), payload)]

    def remove() -> None:
        payload.is_slow = True
        nodes.clear()

    remover = threading.Thread(target=remove)
    with warnings.catch_warnings():
        # Python 3.12 warns of forks while threads run; this test is about their effects.
        warnings.simplefilter("ignore", DeprecationWarning)
        remover.start()
        assert payload.asked.wait(10)
        child = os.fork()
    if child == 0:
        signal.alarm(10)
        build.variable("built in a child", 0, 1)
        os._exit(0)
    payload.done.set()
    remover.join()
    assert os.waitpid(child, 0) == (child, 0)


def test_an_index_constant_does_not_wrap():
    assert build.const(dtypes.index, 2**63 - 1).arg.value == 2**63 - 1
    assert build.const(dtypes.int64, 2**63).arg.value == -(2**63)
    with pytest.raises(UserError, match="index: 9223372036854775808 is beyond the 64 bits"):
        build.const(dtypes.index, 2**63)
    with pytest.raises(UserError, match="beyond the 64 bits"):
        build.const(dtypes.index, -(2**63) - 1)


def test_nodes_have_no_truth_value_and_do_not_pickle():
    node = build.variable("x", 0, 3)
    with pytest.raises(TypeError, match="no truth value"):
        bool(node)
    loaded = UOp(Ops.CAST, dtypes.float32, (node,))
    with pytest.raises(TypeError, match="do not pickle"):
        pickle.dumps(loaded)
    assert copy.deepcopy([loaded])[0] is copy.copy(loaded) is loaded


def test_builders_check_types():
    x = build.variable("x", 0, 3)
    with pytest.raises(UserError, match="ADD: index meets int32: cast one first"):
        build.add(x, build.const(dtypes.int32, 1))
    with pytest.raises(UserError, match="BITCAST: index and int32 differ in size"):
        build.bitcast(x, dtypes.int32)
    with pytest.raises(UserError, match="variable x: minimum 4 is above maximum 3"):
        build.variable("x", 4, 3)
    with pytest.raises(UserError, match="is not a pointer"):
        build.load(x)
    with pytest.raises(UserError, match="at least one"):
        build.where(build.less(x, 1), 1, 2)


def test_builders_put_constants_second():
    x = build.variable("x", 0, 3)
    assert build.add(1, x) is build.add(x, 1)
    assert build.sub(1, x).src[0].op is Ops.CONST
    assert build.less(x, 1).dtype is dtypes.bool
    assert build.cast(x, dtypes.index) is x


def test_sizes_need_the_algebra():
    # The IR alone does not compute with sizes, and its error names the package that does.
    program = "from tinyref.uops.build import const, dtypes\nconst(dtypes.index, 1) + 1\n"
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    assert "arithmetic of sizes needs tinyref.algebra" in ran.stderr
