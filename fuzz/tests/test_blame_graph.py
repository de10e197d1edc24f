"""Two independent ways to the value of a graph: counters as axes, and a naive order.

On the healthy compiler both give what the evaluator gives, whatever the optimisations; injected
accesses and races are found.
"""

from __future__ import annotations

import numpy as np
import pytest

from tinyref.algebra.rewrite import listening
from tinyref.codegen.compile import compile_kernel
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError, UserError
from tinyref.interpret.evaluate import evaluate
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect, Ops
from tinyref.uops.payload import AxisKind
from tinyref.verify import verify
from tinyref_fuzz.blame.firings import first_wrong, first_wrong_fact, record_firings
from tinyref_fuzz.blame.graph import evaluate_graph
from tinyref_fuzz.blame.order import naive_program, run_graph
from tinyref_fuzz.blame.samples import Samples
from tinyref_fuzz.generate.optimisations import on_fixed_machine, random_opts, with_small_limits
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.kernel_case import Symptom
from tinyref_spec.kernels.corpus import corpus_kernels

KERNELS = corpus_kernels()
PYTHON = Device["PYTHON"].capabilities
CAPABILITIES = {
    "PYTHON": PYTHON,
    "CPU": on_fixed_machine(Device["CPU"].capabilities),
    "cramped": with_small_limits(PYTHON),
    "core": Device["tinyref_fuzz.judge.devices:Core"].capabilities,
}
# A device runs the kernels of types that it has or emulates; matrices take long where it emulates.
CASES = [
    (name, where)
    for where, capabilities in CAPABILITIES.items()
    for name, kernel in KERNELS.items()
    if all(
        capabilities.supports(node.dtype.base)
        for node in kernel.ast.toposort()
        if node.op is Ops.DEFINE_GLOBAL
    )
    and not (where == "core" and name.startswith(("matmul", "batched", "convolution")))
]
GRAPHS = ("lower", "simplify", "expand")
LINEAR = ("accumulate", "decompose", "narrow")


def compiled(name: str, where: str) -> dict[str, UOp]:
    """The graph after each stage, with optimisations that the name draws."""
    kernel, capabilities = KERNELS[name], CAPABILITIES[where]
    number = list(KERNELS).index(name)
    opts = random_opts(kernel.ast, capabilities, Tape(seed=number), number % 5).opts
    found: dict[str, UOp] = {}
    with listening(stages=lambda stage, before, after: found.__setitem__(stage, after)):
        compile_kernel(kernel.ast, capabilities, opts=opts)
    return found


def is_same(written, expected, buffers) -> bool:
    return all(
        np.array_equal(written.get(slot, buffers[slot]), values, equal_nan=values.dtype.kind == "f")
        for slot, values in expected.items()
    )


@pytest.mark.sampled(29)
@pytest.mark.parametrize(("name", "where"), CASES)
def test_graphs_of_the_healthy_compiler_give_what_the_evaluator_gives(name, where):
    kernel = KERNELS[name]
    buffers = dict(enumerate(kernel.buffers()))
    expected = evaluate(kernel.ast, buffers, kernel.bindings)
    given = compiled(name, where)
    for stage in GRAPHS:
        found = evaluate_graph(given[stage], buffers, kernel.bindings)
        assert found.faults == [], stage
        assert is_same(found.written, expected, buffers), stage
    for stage in LINEAR:
        assert is_same(run_graph(given[stage], buffers, kernel.bindings), expected, buffers), stage
    verify(Dialect.PROGRAM, naive_program(given["narrow"]).uops)


@pytest.mark.sampled(49)
@pytest.mark.parametrize(("name", "where"), CASES)
def test_no_rule_range_or_form_of_the_healthy_compiler_is_wrong(name, where):
    kernel = KERNELS[name]
    buffers = dict(enumerate(kernel.buffers()))
    given = {}
    firings = record_firings(lambda: given.update(compiled(name, where)))
    assert first_wrong(firings, buffers, kernel.bindings) is None
    roots = [given[stage] for stage in (*GRAPHS, *LINEAR)]
    assert first_wrong_fact(roots, Samples(buffers, kernel.bindings)) is None


# --- injected faults ------------------------------------------------------------------------------

ITEM = build.special("item", 0, 4)
OUT = build.define_global(0, dtypes.int32, 4)
IN = build.define_global(1, dtypes.int32, 4)
BUFFERS = {0: np.zeros(4, np.int32), 1: np.array([1, 2, 4, 8], np.int32)}
MEMORY = build.define_local("temp0", dtypes.int32, 4)


def symptoms(*stores: UOp) -> list[Symptom]:
    return [fault.symptom for fault in evaluate_graph(build.sink(*stores), BUFFERS).faults]


def opposite(memory: UOp) -> UOp:
    """What the item at the other end has left in `memory`."""
    return build.load(build.index(memory, build.sub(build.const(dtypes.index, 3), ITEM)))


def test_items_exchange_through_local_memory():
    left = build.store(build.index(MEMORY, ITEM), build.load(build.index(IN, ITEM)))
    shared = build.after(MEMORY, build.barrier(left))
    store = build.store(build.index(OUT, ITEM), opposite(shared))
    found = evaluate_graph(build.sink(store), BUFFERS)
    assert found.faults == []
    assert found.written[0].tolist() == [8, 4, 2, 1]


def test_a_read_without_a_barrier_is_a_race():
    left = build.store(build.index(MEMORY, ITEM), build.load(build.index(IN, ITEM)))
    assert symptoms(build.store(build.index(OUT, ITEM), opposite(build.after(MEMORY, left)))) == [
        Symptom.RACE
    ]


@pytest.mark.parametrize(("is_guarded", "expected"), [(True, []), (False, [Symptom.RACE])])
def test_memory_that_is_used_again_in_a_loop_needs_a_barrier_before(is_guarded, expected):
    iteration = build.counter(3, 0, AxisKind.REDUCE)
    part = build.add(build.load(build.index(IN, ITEM)), build.cast(iteration, dtypes.int32))
    place = build.after(MEMORY, build.barrier(part)) if is_guarded else MEMORY
    left = build.store(build.index(place, ITEM), part)
    element = opposite(build.after(MEMORY, build.barrier(left)))
    total = build.reduce_over(Ops.ADD, element, iteration)
    store = build.store(build.index(OUT, ITEM), total)
    assert symptoms(store) == expected
    assert evaluate_graph(build.sink(store), BUFFERS).written[0].tolist() == [27, 15, 9, 6]


def test_two_items_that_write_one_element_are_a_race():
    first = build.const(dtypes.index, 0)
    value = build.load(build.index(IN, ITEM))
    assert symptoms(build.store(build.index(OUT, first), value)) == [Symptom.RACE]
    assert symptoms(build.store(build.index(OUT, first), value, build.equal(ITEM, 2))) == []


def test_reads_outside_and_of_what_nobody_wrote_are_found():
    beyond = build.load(build.index(IN, build.add(ITEM, 1)))
    assert symptoms(build.store(build.index(OUT, ITEM), beyond)) == [Symptom.ACCESS]
    gated = build.load(build.index(IN, build.add(ITEM, 1)), build.less(ITEM, 3), 7)
    assert symptoms(build.store(build.index(OUT, ITEM), gated)) == []
    left = build.store(build.index(MEMORY, ITEM), build.const(dtypes.int32, 1), build.less(ITEM, 2))
    shared = build.after(MEMORY, build.barrier(left))
    store = build.store(build.index(OUT, ITEM), opposite(shared))
    assert symptoms(store) == [Symptom.ACCESS]


def test_accumulators_and_kernels_that_are_too_large_are_refused():
    start = build.const(dtypes.int32, 0)
    accumulator = build.accumulator("acc0", start)
    with pytest.raises(UserError, match="DEFINE_ACC has no value"):
        evaluate_graph(build.sink(build.store(build.index(OUT, ITEM), accumulator)), BUFFERS)
    wide = [build.counter(4096, number, AxisKind.REDUCE) for number in range(2)]
    total = build.reduce_over(Ops.ADD, build.add(*wide), *wide)
    value = build.cast(total, dtypes.int32)
    with pytest.raises(UserError, match="graph: a value of 16777216 elements"):
        evaluate_graph(build.sink(build.store(build.index(OUT, ITEM), value)), BUFFERS)


def test_the_naive_order_keeps_races_that_are_in_the_graph():
    left = build.store(build.index(MEMORY, ITEM), build.load(build.index(IN, ITEM)))
    raced = build.sink(build.store(build.index(OUT, ITEM), opposite(build.after(MEMORY, left))))
    with pytest.raises(DeviceError, match="race"):
        run_graph(raced, BUFFERS, {})
    ordered = build.store(
        build.index(OUT, ITEM), opposite(build.after(MEMORY, build.barrier(left)))
    )
    assert run_graph(build.sink(ordered), BUFFERS, {})[0].tolist() == [8, 4, 2, 1]
