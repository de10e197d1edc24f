"""Generated kernels: valid, defined on their data, replayable, and of every feature there is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tinyref.algebra.kernel_shape import kernel_shape, positions_of
from tinyref.device import Device
from tinyref.dtype import PtrDType, dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.opt import OptOp
from tinyref.optimise.plan import Plan
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Dialect, Ops
from tinyref.uops.payload import ReduceArg, SlotArg, ViewArg
from tinyref.verify import verify
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.generate.data import KIND_SHARE, Content
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.optimisations import on_fixed_machine
from tinyref_fuzz.generate.policies import DTYPES, FORMS, POLICIES, Policy, policy_named
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.generate.values import exact_bound
from tinyref_spec.kernel_case import Case, Mode

PYTHON = Device["PYTHON"].capabilities
CPU = Device["CPU"].capabilities
# Kernels alone: lists of optimisations take as long again.
PARTS = {name: replace(policy, lists=(0, 0), equivalent=0) for name, policy in POLICIES.items()}
EVERY_FORM = Policy("every form", lists=(0, 0), equivalent=0)
KERNELS = 400


def kernels(count: int, policy: Policy, first: int = 0) -> Iterator[Case]:
    return (generate(Tape(seed=first + n), PYTHON, policy) for n in range(count))


@pytest.fixture(scope="module")
def mixed() -> tuple[Case, ...]:
    """Kernels of every policy, by the shares of the default mix."""
    found = []
    mixes = POLICIES["all"].mixes
    for name in sorted(mixes):
        share = round(KERNELS * mixes[name] / sum(mixes.values()))
        found += kernels(share, PARTS[name])
    return tuple(found)


def same(first: Case, second: Case) -> bool:
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


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_twenty_thousand_tapes_give_valid_kernels(name):
    for case in kernels(20_000 // len(POLICIES), PARTS[name], 10_000):
        verify(Dialect.AST, case.ast)


@pytest.mark.long
def test_exact_kernels_give_integers_within_the_bound(mixed):
    for case in mixed:
        if case.mode is not Mode.EXACT:
            continue
        found = evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)
        for store in case.ast.src:
            dtype = store.src[1].dtype
            if not dtype.is_float:
                continue
            values = found[slot_of(store)].astype(np.float64)
            assert np.array_equal(values, np.trunc(values)), dtype
            assert np.all(np.abs(values) <= exact_bound(dtype)), dtype


@pytest.mark.long
def test_no_partial_result_of_an_exact_kernel_rounds(mixed):
    """Every float node evaluated in float64 too: one that rounds somewhere shows there."""
    rounded = 0
    for case in mixed:
        if case.mode is Mode.EXACT:
            rounded += widened_difference(case)
    assert rounded == 0


def widened_difference(case: Case) -> int:
    """How many outputs change where no float has fewer digits than float64."""
    floats = {*dtypes.floats, *dtypes.fp8s}
    if any(node.op is Ops.BITCAST for node in case.ast.toposort()):
        return 0
    changed: dict[UOp, UOp] = {}
    for node in case.ast.toposort():
        src = tuple(changed[source] for source in node.src)
        dtype = node.dtype
        if isinstance(dtype, PtrDType) and dtype.base in floats:
            dtype = type(dtype)(dtypes.float64, dtype.size, dtype.space)
        elif dtype in floats:
            dtype = dtypes.float64
        changed[node] = UOp(node.op, dtype, src, node.arg)
    wide = [
        buffer.astype(np.float64) if buffer.dtype.kind in "fV" else buffer
        for buffer in case.buffers
    ]
    expected = evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)
    actual = evaluate(changed[case.ast], dict(enumerate(wide)), case.bindings)
    return sum(
        not np.array_equal(expected[slot].astype(actual[slot].dtype), actual[slot])
        for slot in expected
    )


@pytest.mark.long
def test_moderate_kernels_stay_moderate():
    floats = replace(PARTS["floats"], modes={Mode.EXACT: 0.0, Mode.EDGE: 0.0})
    for case in kernels(60, floats):
        found = evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)
        for values in found.values():
            assert np.all(np.isfinite(values.astype(np.float64)))


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


@pytest.mark.long
def test_cases_do_not_depend_on_the_number_of_cores():
    for seed in range(15):
        one, many = (
            generate(Tape(seed=seed), replace(CPU, threads=threads)) for threads in (1, 64)
        )
        assert same(one, many)


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


@pytest.mark.parametrize(
    ("dtype", "bound"),
    [("float16", 2048), ("bfloat16", 256), ("int8", 127), ("uint8", 255), ("bool", 1)],
)
def test_exact_bounds(dtype, bound):
    found = next(known for known in DTYPES if known.name == dtype)
    assert exact_bound(found) == bound
    if found.is_float:
        # One more integer would not fit: the bound is as large as it may be.
        assert np.float64(bound + 1) != np.float64(bound + 1).astype(numpy_dtype(found))


# --- data -----------------------------------------------------------------------------------------


def test_contents_lie_in_their_range_and_are_not_all_equal():
    for mode, dtype, low, high in (
        (Mode.EXACT, dtypes.int8, -3, 3),
        (Mode.EXACT, dtypes.bfloat16, -7, -1),
        (Mode.EXACT, dtypes.int64, -(2**63), -1),
        (Mode.EXACT, dtypes.uint64, 0, 20),
        (Mode.FLOAT, dtypes.float16, 0.25, 4.0),
        (Mode.FLOAT, dtypes.float32, -4.0, 4.0),
        (Mode.FLOAT, dtypes.fp8e5m2, -4.0, -0.25),
    ):
        values = Content(dtype, 500, low, high, 3).array(mode).astype(np.float64)
        assert values.min() >= low
        assert values.max() <= high
        assert len(np.unique(values)) >= 5
        if low < 0 < high:
            assert 100 < np.sum(values < 0) < 400


@pytest.mark.parametrize("dtype", dtypes.floats, ids=lambda dtype: dtype.name)
def test_edge_floats_are_small_multiples_of_a_half_and_any_bits_too(dtype):
    drawn = Content(dtype, 4000, -np.inf, np.inf, 2).array(Mode.EDGE)
    values = drawn[np.isfinite(drawn)].astype(np.float64)
    near = values[abs(values) <= 9]
    halves = near[near * 2 == np.round(near * 2)]
    assert len(halves) > 400
    assert set(np.unique(np.abs(halves))) >= {0.0, 0.5, 2.0, 2.5, 3.0, 5.0, 8.5}
    # Beyond what is moderate, of either sign.
    wide = values[(abs(values) > 64) | (abs(values) < 2.0**-6)]
    assert (wide > 0).sum() > 200
    assert (wide < 0).sum() > 200
    assert len(np.unique(np.frexp(wide)[1])) > min(2 ** (dtype.exponent_bits - 2), 500)


@pytest.mark.parametrize(
    ("dtype", "low", "high", "mode", "turn", "values"),
    [
        (dtypes.int8, -128, 127, Mode.EXACT, 0, [127, 1, -128, 126]),
        (dtypes.int8, -128, 127, Mode.EXACT, 2, [127, 127, 127, 127]),
        (dtypes.float16, -3, 3, Mode.EXACT, 2, [-0.0, -0.0, -0.0, -0.0]),
        (dtypes.float16, -3, 3, Mode.EXACT, 1, [3, -3, 3, -3]),
        (dtypes.fp8e5m2, 1, 3, Mode.EXACT, 0, [2, 2, 2, 2]),
        (dtypes.float32, -np.inf, np.inf, Mode.EDGE, 0, [-0.0, -0.0, -0.0, -0.0]),
        (dtypes.float32, -np.inf, np.inf, Mode.EDGE, 2, [2**17, -(2**17), 1, -(2**17)]),
    ],
)
def test_one_of_some_buffers_has_data_of_one_kind(dtype, low, high, mode, turn, values):
    seed = turn * KIND_SHARE + KIND_SHARE - 1
    found = Content(dtype, 4, low, high, seed).array(mode).astype(np.float64)
    assert found.tolist() == values
    if not any(values):
        assert np.signbit(found).tolist() == np.signbit(values).tolist()
    assert found.min() >= low
    assert found.max() <= high


@pytest.mark.long
def test_the_generator_draws_every_kind():
    """Without the share of such buffers there is none that is all equal, and none of -0.0."""
    equal = zeros = alternating = 0
    for seed in range(150):
        for buffer in generate(Tape(seed=seed), PYTHON).buffers:
            wide = buffer.astype(np.float64)
            if wide.size > 8 and not np.isnan(wide).any():
                equal += bool((wide == wide[0]).all() and wide[0])
                zeros += bool((wide == 0).all() and np.signbit(wide).all())
                alternating += bool((wide[:-2] == wide[2:]).all() and wide[0] == -wide[1] != 0)
    assert min(equal, zeros, alternating) > 0, (equal, zeros, alternating)


# --- features -------------------------------------------------------------------------------------


def _is_moved(tracker: ShapeTracker) -> bool:
    return tracker is not ShapeTracker.from_shape(tracker.shape)


def features(case: Case) -> Iterator[object]:
    nodes = case.ast.toposort()
    yield case.mode
    for node in nodes:
        yield node.op
        yield node.dtype
        if isinstance(node.arg, ViewArg):
            yield from tracker_features(node.arg.tracker)
            yield from ("gather",) if positions_of(node) else ()
    yield from reduce_features(nodes)
    stores = [node for node in nodes if node.op is Ops.STORE]
    written = {slot_of(store) for store in stores}
    yield f"{len(stores)} outputs"
    if len({kernel_shape(store.src[0]) for store in stores}) > 1:
        yield "outputs of several sizes"
    if any(node.op is Ops.LOAD and slot_of(node) in written for node in nodes):
        yield "in place"
    if any(_is_moved(store.src[0].arg.tracker) for store in stores):
        yield "moved store"
    if any(store.src[0].arg.tracker.is_masked for store in stores):
        yield "masked store"
    if case.bindings:
        yield "symbolic"


def tracker_features(tracker: ShapeTracker) -> Iterator[str]:
    last = tracker.views[-1]
    yield from (f"size {size}" for size in tracker.shape if isinstance(size, int))
    strides = [stride for stride in last.strides if isinstance(stride, int)]
    sizes = [size for size in tracker.shape if isinstance(size, int)]
    if len(tracker.views) > 1:
        yield "several views"
    if tracker.is_masked:
        yield "mask"
    if any(isinstance(view.offset, int) and view.offset > 0 for view in tracker.views):
        yield "offset"
    if any(stride < 0 for stride in strides):
        yield "negative stride"
    if len(sizes) == len(last.strides) and any(
        stride == 0 and size > 1 for stride, size in zip(last.strides, sizes, strict=True)
    ):
        yield "repeated axis"
    falling = [abs(stride) for stride in strides if stride]
    if falling != sorted(falling, reverse=True):
        yield "transpose"
    if sizes and strides and strides[-1] == 1 and sizes[-1] % 4 == 0 and sizes[-1]:
        yield "vector"


def reduce_features(nodes: list[UOp]) -> Iterator[str]:
    reduces = [node for node in nodes if isinstance(node.arg, ReduceArg)]
    yield f"{len(reduces)} reduces"
    for node in reduces:
        yield f"reduce {node.arg.op.name}"
        shape = kernel_shape(node.src[0])
        sizes = [shape[axis] for axis in node.arg.axes]
        if len(sizes) > 1:
            yield "several axes reduced"
        if any(isinstance(size, int) and size >= 64 for size in sizes):
            yield "long reduce"
        if 0 in sizes:
            yield "empty reduce"
        inside = [other for other in node.src[0].toposort() if other.op is Ops.REDUCE]
        if inside:
            yield "nested reduce"
        if any(set(other.arg.axes) & set(node.arg.axes) for other in inside):
            yield "axis reduced twice"
        if node.src[0].op is Ops.MUL:
            yield "sum of products"
    if any(a.arg == b.arg for n, a in enumerate(reduces) for b in reduces[:n]):
        yield "sibling reduces"


RARE = {Ops.THREEFRY, Ops.POW, Ops.EXP2, Ops.LOG2, Ops.SIN}
# About how many kernels of 800 have it; of the 400 of `mixed` a quarter of that must.
WANTED = {
    **dict.fromkeys((op for op in Ops if op in ALU - RARE), 8),
    **dict.fromkeys((op for op in Ops if op in RARE | {Ops.IOTA, Ops.VALID}), 4),
    **dict.fromkeys(DTYPES, 8),
    **dict.fromkeys(Mode, 60),
    **dict.fromkeys(("mask", "offset", "repeated axis", "several views", "transpose"), 60),
    **dict.fromkeys(("negative stride", "vector", "moved store", "2 outputs"), 50),
    **dict.fromkeys(("masked store", "3 outputs", "in place", "symbolic"), 20),
    **dict.fromkeys(("1 reduces", "2 reduces", "reduce MUL", "several axes reduced"), 25),
    **dict.fromkeys(("reduce ADD", "reduce MAX", "nested reduce", "long reduce"), 40),
    **dict.fromkeys(("sibling reduces", "axis reduced twice"), 12),
    **dict.fromkeys(("outputs of several sizes", "gather", "sum of products"), 12),
    **dict.fromkeys(("size 0", "empty reduce", "3 reduces"), 3),
    **dict.fromkeys((f"size {size}" for size in (1, 2, 3, 4, 5, 7, 8, 13, 16, 64)), 5),
}


@pytest.fixture(scope="module")
def seen(mixed) -> Counter[object]:
    found: Counter[object] = Counter()
    for case in mixed:
        found.update(set(features(case)))
    return found


@pytest.mark.long
@pytest.mark.parametrize("feature", WANTED, ids=str)
def test_a_feature_is_reached(seen, feature):
    assert seen[feature] >= max(1, WANTED[feature] // 4)


@pytest.mark.long
def test_a_feature_that_does_not_exist_is_not_seen(seen):
    assert seen["size 97"] == seen[Ops.BARRIER] == 0


@pytest.mark.parametrize("form", [form for form in FORMS if form != "real"])
def test_every_form_gives_kernels(form):
    policy = replace(EVERY_FORM, forms={other: float(other == form) for other in FORMS})
    asts = {case.ast for case in kernels(20, policy)}
    assert len(asts) > 10


def test_some_kernels_choose_by_a_count():
    def chooses(node: UOp) -> bool:
        return node.op is Ops.REDUCE and {Ops.IOTA, Ops.CMPNE, Ops.WHERE} <= {
            other.op for other in node.src[0].toposort()
        }

    policy = replace(EVERY_FORM, forms={form: float(form == "choose") for form in FORMS})
    found = [any(map(chooses, case.ast.toposort())) for case in kernels(40, policy)]
    assert sum(found) >= 20


# --- policies -------------------------------------------------------------------------------------


@pytest.mark.long
def test_policies_do_what_they_are_called():
    def share(name: str, holds) -> float:
        return float(np.mean([bool(holds(case)) for case in kernels(16, PARTS[name])]))

    def has(*wanted: object):
        return lambda case: bool({*wanted} & set(features(case)))

    assert share("small", lambda case: max(b.size for b in case.buffers) <= 400) > 0.8
    assert share("integers", has(dtypes.int64, dtypes.uint64, dtypes.uint32)) > 0.6
    assert share("floats", has(Mode.FLOAT, Mode.EDGE)) == 1
    assert share("reduces", has(Ops.REDUCE)) > 0.75
    assert share("matmul", has("sum of products")) > 0.6
    assert share("views", has("several views", "mask", "gather")) > 0.5


def test_an_unknown_policy_is_refused():
    with pytest.raises(UserError, match="policy: 'odd' is none: accepted are all, small"):
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
    wanted = everywhere | (grouped if device == "PYTHON" else {OptOp.PACK, OptOp.THREAD})
    assert {op: count for op, count in used.items() if count >= 2}.keys() >= wanted
