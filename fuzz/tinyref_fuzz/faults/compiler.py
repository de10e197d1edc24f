"""Faults of the optimiser, of the passes that lower a kernel to a program, and of renderers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from tinyref.algebra.op_table import Range
from tinyref.dtype import ConstType, dtypes
from tinyref.optimise.opt import Opt, OptOp
from tinyref.optimise.plan import Plan
from tinyref.uops import build
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, ConstArg, GepArg, LocalArg, RangeArg, SpecialArg
from tinyref_fuzz.faults.fault import fault
from tinyref_fuzz.faults.seams import COMPILE, after, application, edited, function, text_of

_IDENTITY_OF_PADDING = function("tinyref.codegen.lower:reduce_identity")
_UPCAST, _THREAD = application(OptOp.UPCAST), application(OptOp.THREAD)
_INDEX_AND_VALID = function("tinyref.views.shape_tracker:ShapeTracker.index_and_valid")
_REDUCE_IDENTITY = function("tinyref.codegen.accumulate:reduce_identity")
_LINEARISE = function(f"{COMPILE}:linearise")
_GROUPED = after("lower", frozenset({OptOp.GROUP, OptOp.GROUPTOP}))
_PADDED = after("lower", frozenset({OptOp.PADTO, OptOp.TC}))
_SCATTERED = after("lower", frozenset({OptOp.SCATTER}))
_TILED = after("lower", frozenset({OptOp.TC}))
_LLVM = text_of("tinyref.renderers.llvm:LlvmRenderer")
# A fault that only shows with optimisations may be blamed on them.
_PLANNED = ("optimise", "lower")
_LOWERED = ("lower", "optimise")
_EXPANDED = ("expand", "optimise")

Program = tuple[UOp, ...]
# Returns the plan, or the reason of a refusal.
TryOpt = Callable[[Plan, Opt], object]


def _is_item(node: UOp) -> bool:
    return isinstance(node.arg, SpecialArg) and node.arg.scope == "item"


def _without_gate(store: UOp) -> UOp | None:
    return store.replace(src=store.src[:2]) if len(store.src) > 2 else None


# --- optimisations --------------------------------------------------------------------------------


@fault("padding with another identity", _IDENTITY_OF_PADDING, *_LOWERED)
def padto_max(right: Callable[..., ConstType]) -> Callable[..., ConstType]:
    """Pad a maximum with zeros, which are larger than negative elements."""
    return lambda op, dtype: right(Ops.ADD if op is Ops.MAX else op, dtype)


def _dropping_remainder(right: TryOpt, plan: Plan, opt: Opt) -> object:
    """Cut the remainder of a division off the axis, instead of refusing the amount."""
    result = right(plan, opt)
    extent = plan.axes[opt.axis].extent if opt.axis < len(plan.axes) else 0
    if isinstance(result, Plan) or not isinstance(extent, int) or not 2 <= opt.arg < extent:
        return result
    axes = list(plan.axes)
    axes[opt.axis] = replace(axes[opt.axis], extent=extent - extent % opt.arg)
    cut = right(plan.with_axes(axes), opt)
    return cut if isinstance(cut, Plan) else result


@fault("divisibility of the wrong shape", _UPCAST, *_PLANNED, causes=["UPCAST"])
def divisibility_of_wrong_shape(right: TryOpt, plan: Plan, opt: Opt) -> object:
    """Accept an amount that does not divide the rest of an axis."""
    return _dropping_remainder(right, plan, opt)


@fault("remainder dropped", _THREAD, *_PLANNED, causes=["THREAD"], device="CPU")
def thread_drops_remainder(right: TryOpt, plan: Plan, opt: Opt) -> object:
    """Omit the remainder that the number of threads does not divide."""
    return _dropping_remainder(right, plan, opt)


@fault("wrong strides of a cut", _UPCAST, *_PLANNED, causes=["UPCAST"])
def second_cut_forgets_stride(right: TryOpt, plan: Plan, opt: Opt) -> object:
    """Step along an axis that was split twice as if it were split once."""
    result = right(plan, opt)
    if not isinstance(result, Plan) or plan.axes[opt.axis].stride == 1:
        return result
    axes = list(result.axes)
    axes[opt.axis] = replace(axes[opt.axis], stride=opt.arg)
    return result.with_axes(axes)


# --- lowering -------------------------------------------------------------------------------------


@fault("outputs of a scatter not filled", _SCATTERED, *_LOWERED, causes=["SCATTER"], device="CPU")
def scatter_adds_to_old_contents(node: UOp) -> UOp | None:
    """Add the terms of a scatter to what its outputs held before."""
    is_filled = node.op is Ops.AFTER and node.src[0].op is Ops.DEFINE_GLOBAL
    return node.src[0] if is_filled else None


@fault("store gated on one group axis", _GROUPED, *_LOWERED, causes=["GROUP"])
def store_gated_on_one_group_axis(node: UOp) -> UOp | None:
    """Keep one of the conditions that let a single work-item of a group store."""
    if node.op is not Ops.STORE or len(node.src) < 3 or node.src[2].op is not Ops.AND:
        return None
    first, second = node.src[2].src
    is_twice = all(any(map(_is_item, operand.toposort())) for operand in (first, second))
    return node.replace(src=(*node.src[:2], second)) if is_twice else None


@fault("stale group indices", _GROUPED, *_LOWERED, causes=["GROUP"])
def stale_group_index(node: UOp) -> UOp | None:
    """Read the work-item's own part after a grouped reduce, instead of all parts."""
    if node.op is not Ops.LOAD or node.src[0].src[0].op is not Ops.AFTER:
        return None
    memory, index = node.src[0].src
    items = {node.src[0]: node for node in memory.toposort() if _is_item(node)}
    ranges = [node for node in index.toposort() if node.op is Ops.RANGE and node.src[0] in items]
    stale = {node: items[node.src[0]] for node in ranges}
    return build.load(build.index(memory, substitute(index, stale)))


@fault("two reduces sharing local memory", _GROUPED, *_LOWERED, causes=["GROUP"])
def reduces_share_local_memory(node: UOp) -> UOp | None:
    """Give two reduces the same array of shared memory."""
    return node.replace(arg=LocalArg("temp0")) if node.op is Ops.DEFINE_LOCAL else None


@fault("missing barrier", _GROUPED, *_LOWERED, causes=["GROUP"])
def no_barrier_after_grouped_reduce(node: UOp) -> UOp | None:
    """Wait for the stores before a barrier, but not for the barrier."""
    if node.op is not Ops.AFTER or node.src[1].op is not Ops.BARRIER:
        return None
    stores = [source for source in node.src[1].src if source.op is Ops.STORE]
    return build.after(node.src[0], *stores) if stores else None


@fault("missing leading barrier in a loop", _GROUPED, *_LOWERED, causes=["GROUP"])
def no_leading_barrier_in_loop(node: UOp) -> UOp | None:
    """Write to shared memory before all have read the values of the last iteration."""
    if node.op is not Ops.AFTER or node.src[1].op is not Ops.BARRIER:
        return None
    is_leading = all(source.op is not Ops.STORE for source in node.src[1].src)
    return node.src[0] if is_leading else None


@fault("store gated wrongly", _PADDED, *_LOWERED, causes=["PADTO", "TC"])
def padded_store_ungated(node: UOp) -> UOp | None:
    """Store at positions that padding added."""
    return _without_gate(node) if node.op is Ops.STORE else None


@fault("permuted matrix operands", _TILED, *_LOWERED, causes=["TC"])
def tile_operands_swapped(node: UOp) -> UOp | None:
    """Exchange the operands of a matrix instruction."""
    if node.op is not Ops.WMMA or node.src[0].dtype is not node.src[1].dtype:
        return None
    return node.replace(src=(node.src[1], node.src[0], node.src[2]))


@fault("mask off by one", _INDEX_AND_VALID, "lower")
def mask_end_included(right: Callable[..., tuple[UOp, UOp]]) -> Callable[..., tuple[UOp, UOp]]:
    """Read the first element of the padding too."""

    def later_end(node: UOp) -> UOp | None:
        is_end = node.op is Ops.CMPLT and isinstance(node.src[1].arg, ConstArg)
        return build.less(node.src[0], build.add(node.src[1], 1)) if is_end else None

    def index_and_valid(*args: object) -> tuple[UOp, UOp]:
        index, valid = right(*args)
        return index, edited(valid, later_end)

    return index_and_valid


@fault("halved odd grid dims", after("lower"), "lower")
def odd_grid_halved(node: UOp) -> UOp | None:
    """Launch a grid of odd size with one group less."""
    if not isinstance(node.arg, SpecialArg) or node.arg.scope != "group":
        return None
    extent = node.src[0].arg
    if not isinstance(extent, ConstArg) or extent.value < 2 or not extent.value % 2:
        return None
    return node.replace(src=(build.const(dtypes.index, extent.value - 1),))


@fault("symbolic extent off by one", after("lower"), "lower")
def symbolic_extent_short(node: UOp) -> UOp | None:
    """Stop a loop or a launch of symbolic length one iteration early."""
    is_extent = node.op in (Ops.RANGE, Ops.SPECIAL)
    is_symbolic = is_extent and not isinstance(node.src[0].arg, ConstArg)
    return node.replace(src=(build.add(node.src[0], -1),)) if is_symbolic else None


@fault("ungated folded index", after("lower"), "lower")
def folded_index_ungated(node: UOp) -> UOp | None:
    """Use an index that was loaded, whether or not it is valid."""
    is_gated = node.op is Ops.LOAD and len(node.src) == 3
    is_loaded = is_gated and any(below.op is Ops.LOAD for below in node.src[2].toposort())
    return build.load(node.src[0]) if is_loaded else None


@fault("merged ranges across scopes", after("lower"), "lower", "linearise")
def merged_reduces_of_other_depth(node: UOp) -> UOp | None:
    """Run reduces of equal size in one loop, even if one needs the other."""
    if not isinstance(node.arg, RangeArg) or node.arg.kind is not AxisKind.REDUCE:
        return None
    return node.replace(arg=replace(node.arg, number=0))


# --- expansion ------------------------------------------------------------------------------------


@fault("GEP order ignored", after("expand"), *_EXPANDED)
def shuffle_order_ignored(node: UOp) -> UOp | None:
    """Ignore the order of a shuffle of lanes."""
    if not isinstance(node.arg, GepArg):
        return None
    return node.replace(arg=GepArg(tuple(sorted(node.arg.lanes))))


@fault("UPCAST lanes in the wrong order", after("expand"), *_EXPANDED)
def upcast_lanes_in_wrong_order(node: UOp) -> UOp | None:
    """Store the lanes of an upcast axis backwards."""
    is_data = node.op is Ops.VECTORIZE and node.dtype.scalar is not dtypes.index
    return node.replace(src=node.src[::-1]) if is_data else None


@fault("MAX collapsed as ADD", after("expand"), *_EXPANDED)
def max_of_lanes_as_sum(node: UOp) -> UOp | None:
    """Add what should be reduced in another way over unrolled lanes."""
    is_of_lanes = node.op is Ops.MAX and all(source.op is Ops.GEP for source in node.src)
    return build.add(*node.src) if is_of_lanes and not node.dtype.is_bool else None


@fault("gate dropped from a packed store", after("expand"), *_EXPANDED)
def packed_store_ungated(node: UOp) -> UOp | None:
    """Drop the gate of stores that are combined to a vector."""
    is_packed = node.op is Ops.STORE and node.src[1].dtype.lanes > 1
    return _without_gate(node) if is_packed else None


# --- accumulation, index types, order -------------------------------------------------------------


@fault("wrong reduce identity", _REDUCE_IDENTITY, "accumulate")
def identity_of_max_is_zero(right: Callable[..., object]) -> Callable[..., object]:
    """Begin a maximum at 0."""
    return lambda op, dtype: 0 if op is Ops.MAX else right(op, dtype)


@fault("index type", function("tinyref.codegen.narrow:bounds"), "narrow")
def index_always_int32(right: Callable[[UOp], Range]) -> Callable[[UOp], Range]:
    """Compute addresses in int32 even if they exceed it."""
    least, most = int(dtypes.int32.minimum), int(dtypes.int32.maximum)
    return lambda node: (max(right(node)[0], least), min(right(node)[1], most))


@fault("loop end before its last child", _LINEARISE, "linearise")
def loop_ends_before_its_last_child(right: Callable[[UOp], Program]) -> Callable[[UOp], Program]:
    """Close a loop before the last operation in it."""

    def linearise(root: UOp) -> Program:
        program = list(right(root))
        for index in range(1, len(program)):
            last, end = program[index - 1 : index + 1]
            if end.op is Ops.END and last.op not in (Ops.RANGE, Ops.END):
                program[index - 1 : index + 1] = [end, last]
        return tuple(program)

    return linearise


@fault("accumulator not reset", _LINEARISE, "linearise", "optimise")
def accumulator_not_reset(right: Callable[[UOp], Program]) -> Callable[[UOp], Program]:
    """Set every accumulator before the first loop, and not in each iteration."""

    def linearise(root: UOp) -> Program:
        program = right(root)
        first = next((index for index, node in enumerate(program) if node.op is Ops.RANGE), 0)
        moved = [node for node in program[first:] if node.op is Ops.DEFINE_ACC]
        moved = [node for node in moved if node.src[0].op is Ops.CONST]
        rest = (node for node in program[first:] if node not in moved)
        return (*program[:first], *moved, *rest)

    return linearise


# --- renderers ------------------------------------------------------------------------------------


@fault("signed taken for unsigned", _LLVM, "device", device="CPU")
def llvm_shift_is_logical(text: str) -> str:
    """Shift negative numbers to the right as if they were unsigned."""
    return text.replace("ashr", "lshr")


@fault("inverted IF", _LLVM, "device", device="CPU")
def llvm_inverted_if(text: str) -> str:
    """Run a gated store where its gate is closed."""
    return re.sub(r"(label %\w+\.do), (label %\w+\.end)", r"\2, \1", text)


@fault("missing parentheses", text_of("tinyref.renderers.c:CRenderer"), "device", device="CLANG")
def c_missing_parentheses(text: str) -> str:
    """Forget that a shift binds more tightly than a mask in C."""
    return re.sub(r"(<<|>>) \((\w+ & \d+)\)", r"\1 \2", text)
