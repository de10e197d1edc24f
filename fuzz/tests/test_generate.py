"""Generated kernels are valid, defined on their data, replayable, and cover every feature."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tinyref.algebra.shapes import kernel_shape, positions_of
from tinyref.device import Device
from tinyref.dtype import PtrDType, dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.opt import OptOp
from tinyref.optimise.plan import Plan
from tinyref.uops.build import slot_of
from tinyref.uops.ops import ALU, Dialect, Ops
from tinyref.uops.payload import ReduceArg, SlotArg, ViewArg
from tinyref.verify import verify
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.generate.generate import FORMS, generate
from tinyref_fuzz.generate.optimisations import on_fixed_machine
from tinyref_fuzz.generate.policies import DTYPES, POLICIES, Policy, policy_named
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.generate.values import exact_bound
from tinyref_spec.kernel_case import KernelCase, Mode

PYTHON = Device["PYTHON"].capabilities
CPU = Device["CPU"].capabilities
# Without lists of optimisations, which would take as long again.
PARTS = {name: replace(policy, lists=(0, 0), equivalent=0) for name, policy in POLICIES.items()}
EVERY_FORM = Policy("every form", lists=(0, 0), equivalent=0)
KERNELS = 400


def kernels(count: int, policy: Policy, first: int = 0) -> Iterator[KernelCase]:
    return (generate(Tape(seed=first + n), PYTHON, policy) for n in range(count))


@pytest.fixture(scope="module")
def mixed() -> tuple[KernelCase, ...]:
    """Return kernels of every policy, by the shares of the default mix."""
    cases = []
    mixes = POLICIES["all"].mixes
    for name in sorted(mixes):
        share = round(KERNELS * mixes[name] / sum(mixes.values()))
        cases += kernels(share, PARTS[name])
    return tuple(cases)


def same(first: KernelCase, second: KernelCase) -> bool:
    return (
        first.ast is second.ast
        and [b.tobytes() for b in first.buffers] == [b.tobytes() for b in second.buffers]
        and (first.opts, first.bindings, first.mode) == (second.opts, second.bindings, second.mode)
    )


# --- validity -------------------------------------------------------------------------------------


@pytest.mark.long
def test_every_kernel_is_valid_and_has_what_it_needs(mixed):
    for case in mixed:
        verify(Dialect.AST, case.ast)
        slots = {
            node.arg.slot: node.dtype
            for node in case.ast.toposort()
            if isinstance(node.arg, SlotArg)
        }
        assert sorted(slots) == list(range(len(case.buffers)))
        for slot, buffer in enumerate(case.buffers):
            assert isinstance(slots[slot], PtrDType)
            assert buffer.dtype == numpy_dtype(slots[slot].base)
            assert buffer.size == slots[slot].size
        evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)


@pytest.mark.long
def test_exact_kernels_give_integers_within_the_bound(mixed):
    for case in mixed:
        if case.mode is not Mode.EXACT:
            continue
        results = evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)
        for store in case.ast.src:
            dtype = store.src[1].dtype
            if not dtype.is_float:
                continue
            values = results[slot_of(store)].astype(np.float64)
            assert np.array_equal(values, np.trunc(values)), dtype
            assert np.all(np.abs(values) <= exact_bound(dtype)), dtype


# --- replay ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POLICIES)
def test_a_tape_replays_the_same_case(name):
    for case in kernels(4, POLICIES[name]):
        assert same(generate(Tape(choices=case.choices), PYTHON, POLICIES[name]), case)


@pytest.mark.long
def test_a_cut_or_edited_tape_still_gives_a_valid_case():
    random = np.random.default_rng(1)
    for case in kernels(8, POLICIES["all"]):
        for length in range(0, len(case.choices), 31):
            verify(Dialect.AST, generate(Tape(choices=case.choices[:length]), PYTHON).ast)
        edited = list(case.choices)
        for _ in range(4):
            at = int(random.integers(len(edited)))
            edited[at] = int(random.integers(1000))
            verify(Dialect.AST, generate(Tape(choices=edited), PYTHON).ast)
        del edited[int(random.integers(len(edited)))]
        verify(Dialect.AST, generate(Tape(choices=edited), PYTHON).ast)


def test_the_empty_tape_gives_the_simplest_case():
    case = generate(Tape(choices=()), PYTHON)
    assert len(case.ast.toposort()) <= 8
    assert case.mode is Mode.EXACT


# --- types ----------------------------------------------------------------------------------------


@pytest.mark.long
def test_only_types_of_the_device_are_generated():
    only = frozenset({dtypes.int32, dtypes.float32, dtypes.bool})
    narrow = replace(PYTHON, dtypes=only)
    for seed in range(40):
        case = generate(Tape(seed=seed), narrow, PARTS["all"])
        for node in case.ast.toposort():
            base = node.dtype.base if isinstance(node.dtype, PtrDType) else node.dtype
            assert base in only or base in (dtypes.void, dtypes.index, dtypes.uint32), node


# --- features -------------------------------------------------------------------------------------


def features(case: KernelCase) -> Iterator[object]:
    """Yield the mode, ops and types, and properties of the views, reduces and outputs."""
    yield case.mode
    nodes = case.ast.toposort()
    for node in nodes:
        yield node.op
        yield node.dtype
        if isinstance(node.arg, ViewArg):
            yield from tracker_features(node.arg.tracker)
            yield from ("gather",) if positions_of(node) else ()
        if isinstance(node.arg, ReduceArg):
            yield f"reduce {node.arg.op.name}"
            yield from ("empty reduce",) if 0 in kernel_shape(node.src[0]) else ()
            yield from ("sum of products",) if node.src[0].op is Ops.MUL else ()
            if any(inside.op is Ops.REDUCE for inside in node.src[0].toposort()):
                yield "nested reduce"
    written = {slot_of(store) for store in case.ast.src}
    yield f"{len(case.ast.src)} outputs"
    if any(node.op is Ops.LOAD and slot_of(node) in written for node in nodes):
        yield "in place"
    if any(store.src[0].arg.tracker.is_masked for store in case.ast.src):
        yield "masked store"
    if case.bindings:
        yield "symbolic"


def tracker_features(tracker: ShapeTracker) -> Iterator[str]:
    yield from (f"size {size}" for size in tracker.shape if isinstance(size, int))
    if len(tracker.views) > 1:
        yield "several views"
    if tracker.is_masked:
        yield "mask"
    if any(isinstance(stride, int) and stride < 0 for stride in tracker.views[-1].strides):
        yield "negative stride"


RARE = {Ops.THREEFRY, Ops.POW, Ops.EXP2, Ops.LOG2, Ops.SIN}
# Expected number of kernels, among 800, with a feature. The 400 of `mixed` need a quarter of it.
EXPECTED_COUNTS = {
    **dict.fromkeys((op for op in Ops if op in ALU - RARE), 8),
    **dict.fromkeys((op for op in Ops if op in RARE | {Ops.IOTA, Ops.VALID}), 4),
    **dict.fromkeys(DTYPES, 8),
    **dict.fromkeys(Mode, 60),
    **dict.fromkeys(("mask", "several views", "negative stride", "2 outputs"), 50),
    **dict.fromkeys(("masked store", "3 outputs", "in place", "symbolic"), 20),
    **dict.fromkeys(("reduce ADD", "reduce MAX", "reduce MUL", "nested reduce"), 25),
    **dict.fromkeys(("gather", "sum of products"), 12),
    **dict.fromkeys(("size 0", "size 1", "size 13", "size 64", "empty reduce"), 3),
}


@pytest.fixture(scope="module")
def seen(mixed) -> Counter[object]:
    counts: Counter[object] = Counter()
    for case in mixed:
        counts.update(set(features(case)))
    return counts


@pytest.mark.long
@pytest.mark.parametrize("feature", EXPECTED_COUNTS, ids=str)
def test_a_feature_is_reached(seen, feature):
    assert seen[feature] >= max(1, EXPECTED_COUNTS[feature] // 4)


@pytest.mark.parametrize("form", [form for form in FORMS if form != "real"])
def test_every_form_gives_kernels(form):
    policy = replace(EVERY_FORM, forms={other: float(other == form) for other in FORMS})
    asts = {case.ast for case in kernels(20, policy)}
    assert len(asts) > 10


# --- policies -------------------------------------------------------------------------------------


@pytest.mark.long
def test_policies_draw_what_their_names_say():
    def share(name: str, holds) -> float:
        return float(np.mean([bool(holds(case)) for case in kernels(16, PARTS[name])]))

    def has(*expected: object):
        return lambda case: bool({*expected} & set(features(case)))

    assert share("small", lambda case: max(b.size for b in case.buffers) <= 400) > 0.8
    assert share("integers", has(dtypes.int64, dtypes.uint64, dtypes.uint32)) > 0.6
    assert share("floats", has(Mode.FLOAT, Mode.EDGE)) == 1
    assert share("reduces", has(Ops.REDUCE)) > 0.75
    assert share("matmul", has("sum of products")) > 0.6
    assert share("views", has("several views", "mask", "gather")) > 0.5


def test_an_unknown_policy_is_refused():
    with pytest.raises(UserError, match="policy: 'odd' does not exist: accepted are all, small"):
        policy_named("odd")


# --- optimisations --------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("device", ["PYTHON", "CPU"])
def test_lists_are_legal_and_several(device):
    capabilities = Device[device].capabilities
    used: Counter[OptOp] = Counter()
    lists = []
    most = max(policy.lists[1] for policy in POLICIES.values())
    for seed in range(100):
        case = generate(Tape(seed=seed), capabilities)
        plan = Plan.of(case.ast, on_fixed_machine(capabilities))
        for opts in case.opts:
            plan.apply_all(opts)
            used.update({opt.op for opt in opts})
        assert len(set(case.opts)) == len(case.opts) <= most
        lists.append(len(case.opts))
    assert np.mean(lists) > 2.5
    everywhere = {OptOp.UPCAST, OptOp.UNROLL, OptOp.SWAP, OptOp.PADTO}
    grouped = {OptOp.TC, OptOp.LOCAL, OptOp.GROUP, OptOp.GROUPTOP, OptOp.NOLOCALS}
    looping = {OptOp.PACK, OptOp.THREAD, OptOp.SCATTER}
    expected = everywhere | (grouped if device == "PYTHON" else looping)
    assert {op: count for op, count in used.items() if count >= 2}.keys() >= expected


# --- the tape -------------------------------------------------------------------------------------


def draws(tape: Tape) -> list[object]:
    return [tape.below(10), tape.between(-2, 2), tape.pick("abc"), tape.chance(50), tape.below(1)]


def test_a_seed_gives_the_same_choices_on_any_machine():
    assert draws(Tape(seed=7)) == [5, -1, "b", True, 0]
    assert draws(Tape(seed=8)) != draws(Tape(seed=7))


def test_a_cut_or_edited_tape_still_builds():
    assert draws(Tape(choices=[])) == [0, -2, "a", False, 0]
    assert draws(Tape(choices=[13, 7, 4, 99, 5])) == [3, 0, "b", True, 0]


def test_bad_tapes_are_refused():
    with pytest.raises(UserError, match="a seed or a list"):
        Tape()
    with pytest.raises(UserError, match="a seed or a list"):
        Tape(seed=1, choices=[1])
    with pytest.raises(UserError, match="below 0"):
        Tape(seed=1).below(0)
