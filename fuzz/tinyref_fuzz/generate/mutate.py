"""Mutate kernels of the corpus and of models: change one thing or a few.

Every mutation keeps the rules of the dialect; a kernel that breaks one is dropped.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from tinyref.algebra.shapes import kernel_shape, positions_of
from tinyref.capabilities import Capabilities
from tinyref.dtype import PtrDType, dtypes, pointer
from tinyref.errors import UserError, VerifyError
from tinyref.uops import build
from tinyref.uops.node import UOp, rebuild
from tinyref.uops.ops import ALU, Dialect, Ops
from tinyref.uops.payload import ConstArg, ReduceArg, SlotArg, ViewArg
from tinyref.verify import verify
from tinyref.views.shape_tracker import ShapeTracker, tracker_of
from tinyref_fuzz.generate.corpus.collection import load_harvested
from tinyref_fuzz.generate.data import Content
from tinyref_fuzz.generate.equivalent.moving import along, cut_axis
from tinyref_fuzz.generate.equivalent.transformation import rewrite_one
from tinyref_fuzz.generate.iterations import is_moderate
from tinyref_fuzz.generate.policies import Policy
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.generate.values import full_range, is_one, positions
from tinyref_spec.kernel_case import Array, KernelCase, Mode
from tinyref_spec.kernels.corpus import corpus_kernels
from tinyref_spec.kernels.family import CorpusKernel

# Returns another kernel, or None if it fits nowhere.
Mutation = Callable[[UOp, Tape, Capabilities], UOp | None]

TRIES = 8
MAX_MUTATIONS = 3
MAX_ELEMENTS = 1 << 14
MAX_POSITIONS = 1 << 14
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 13, 16, 32)
# Ops that may replace each other without a change of type.
ALIKE = (
    (Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX),
    (Ops.AND, Ops.OR, Ops.XOR),
    (Ops.CMPLT, Ops.CMPNE),
    (Ops.IDIV, Ops.MOD),
    (Ops.SHL, Ops.SHR),
)
REDUCING = (Ops.ADD, Ops.MAX, Ops.MUL)
# The smallest and largest float of the data, where floats are moderate.
FLOATS = (-16.0, 16.0)


def mutate_kernel(ast: UOp, tape: Tape, capabilities: Capabilities) -> UOp:
    """Return the kernel with the first drawn mutation that fits; `ast` if none does."""
    for _ in range(TRIES):
        changed = tape.pick(MUTATIONS)(ast, tape, capabilities)
        if changed is not None and changed is not ast and is_valid(changed, capabilities):
            return changed
    return ast


def real_kernel(tape: Tape, capabilities: Capabilities, policy: Policy) -> KernelCase:
    """Return a kernel of the corpus, or of a model, with up to three mutations.

    It has no lists of optimisations. A kernel without floats is exact; floats may round.
    """
    kernel = tape.pick(policy.kernels or real_kernels(capabilities))
    is_edge = tape.pick((Mode.FLOAT, Mode.EDGE), (4, 1)) is Mode.EDGE
    ast = kernel.ast
    for _ in range(tape.below(MAX_MUTATIONS + 1)):
        ast = mutate_kernel(ast, tape, capabilities)
    return case_of(ast, kernel.bindings, tape.below(1 << 32), is_edge)


def case_of(ast: UOp, bindings: Mapping[str, int], seed: int, is_edge: bool = False) -> KernelCase:
    """Return the kernel `ast` with data drawn from `seed`: exact if it has no floats."""
    has_floats = any(node.dtype.is_float for node in ast.toposort())
    mode = Mode.EDGE if is_edge else Mode.FLOAT if has_floats else Mode.EXACT
    return KernelCase(ast, _contents(ast, mode, seed), bindings=bindings, mode=mode)


@functools.lru_cache(maxsize=16)
def real_kernels(capabilities: Capabilities) -> tuple[CorpusKernel, ...]:
    """Return the small kernels of the corpus and of models that the device runs."""
    return fitting((*corpus_kernels().values(), *load_harvested()), capabilities)


def fitting(
    kernels: Sequence[CorpusKernel], capabilities: Capabilities
) -> tuple[CorpusKernel, ...]:
    """Return the kernels that a device with these capabilities runs and that can be judged."""
    return tuple(kernel for kernel in kernels if is_valid(kernel.ast, capabilities))


def is_valid(ast: UOp, capabilities: Capabilities) -> bool:
    """Return True if `ast` is valid, uses the device's types, and is small enough to judge."""
    try:
        verify(Dialect.AST, ast)
    except (VerifyError, UserError):
        return False
    nodes = ast.toposort()
    for node in nodes:
        dtype = node.dtype.base if isinstance(node.dtype, PtrDType) else node.dtype
        if dtype not in (dtypes.void, dtypes.index) and not capabilities.supports(dtype):
            return False
        if isinstance(node.dtype, PtrDType) and node.dtype.size > MAX_ELEMENTS:
            return False
        if isinstance(node.arg, ViewArg) and positions(kernel_shape(node)) > MAX_POSITIONS:
            return False
    if not is_moderate(ast):
        return False
    return len({node.arg for node in nodes if isinstance(node.arg, SlotArg)}) <= (
        capabilities.buffer_limit
    )


def _contents(ast: UOp, mode: Mode, seed: int) -> tuple[Array, ...]:
    memories: dict[int, PtrDType] = {}
    for node in ast.toposort():
        if isinstance(node.arg, SlotArg) and isinstance(node.dtype, PtrDType):
            memories[node.arg.slot] = node.dtype
    buffers = []
    for slot in sorted(memories):
        dtype = memories[slot].base
        span = FLOATS if dtype.is_float else full_range(dtype)
        content = Content(dtype, memories[slot].size, *span, seed + slot)
        buffers.append(content.array(mode))
    return tuple(buffers)


# --- nodes ----------------------------------------------------------------------------------------


def _values(ast: UOp) -> list[UOp]:
    """Return the nodes that have elements: operations, loads and reduces."""
    kinds = ALU | {Ops.LOAD, Ops.REDUCE}
    return [node for node in ast.toposort() if node.op in kinds and node.dtype is not dtypes.index]


def change_op(ast: UOp, tape: Tape, capabilities: Capabilities) -> UOp | None:
    """Replace an op by another of its kind, or change what a reduce computes."""

    def change(node: UOp) -> UOp | None:
        if isinstance(node.arg, ReduceArg):
            return node.replace(arg=ReduceArg(tape.pick(REDUCING), node.arg.axes))
        ops = next((ops for ops in ALIKE if node.op in ops), None)
        return UOp(tape.pick(ops), node.dtype, node.src) if ops else None

    return rewrite_one(ast, _values(ast), tape, change)


# --- sizes ----------------------------------------------------------------------------------------


def change_extent(ast: UOp, tape: Tape, capabilities: Capabilities) -> UOp | None:
    """Change the size of an axis in every view that has it; buffers grow where needed."""
    views = [node for node in ast.toposort() if isinstance(node.arg, ViewArg)]
    sizes = [
        (axis, size)
        for node in views
        for axis, size in enumerate(tracker_of(node).shape)
        if isinstance(size, int) and size > 1 and not positions_of(node)
    ]
    if not sizes or any(positions_of(node) for node in views):
        return None
    axis, old = tape.pick(sorted(set(sizes)))
    new = tape.pick([size for size in EXTENTS if size != old])
    changed = {
        node: _resize(tracker_of(node), axis, new)
        for node in views
        if not is_one(tracker_of(node).shape[axis])
    }
    reach: dict[UOp, int] = {}
    for node in views:
        if node.src:
            size = changed.get(node, tracker_of(node)).real_size()
            reach[node.src[0]] = max(reach.get(node.src[0], 1), size)

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        if node in reach and isinstance(node.dtype, PtrDType):
            return node.replace(dtype=pointer(node.dtype.base, reach[node]))
        if node in changed:
            return node.with_sources(src).replace(arg=ViewArg(changed[node]))
        return None

    return rebuild(ast, change)


def _resize(tracker: ShapeTracker, axis: int, new: int) -> ShapeTracker:
    shape = tracker.shape
    if tracker is ShapeTracker.from_shape(shape):
        return ShapeTracker.from_shape((*shape[:axis], new, *shape[axis + 1 :]))
    size = shape[axis]
    assert isinstance(size, int), "the axis has a known size in every view"
    if new < size:
        return cut_axis(tracker, axis, 0, new)
    return tracker.pad(along(len(shape), axis, 0, new - size))


# --- types ----------------------------------------------------------------------------------------


def change_dtype(ast: UOp, tape: Tape, capabilities: Capabilities) -> UOp | None:
    """Replace one type by another of the same kind, everywhere."""
    present = {node.dtype for node in _values(ast)}
    kinds = (dtypes.ints, dtypes.floats)
    sites = [(old, kind) for kind in kinds for old in kind if old in present]
    if not sites:
        return None
    old, kind = tape.pick(sites)
    targets = [dtype for dtype in kind if dtype is not old and capabilities.supports(dtype)]
    if not targets:
        return None
    new = tape.pick(targets)

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        dtype = node.dtype
        if isinstance(node.arg, ConstArg) and dtype is old:
            return build.const(new, node.arg.value)
        if node.op is Ops.IOTA and old is dtypes.int32:
            return build.cast(node.replace(src=src), new)
        if isinstance(dtype, PtrDType) and dtype.base is old:
            return UOp(node.op, pointer(new, dtype.size), src, node.arg)
        if node.op is Ops.CAST and (new if dtype is old else dtype) is src[0].dtype:
            return src[0]
        return UOp(node.op, new if dtype is old else dtype, src, node.arg)

    return rebuild(ast, change)


MUTATIONS: tuple[Mutation, ...] = (change_extent, change_op, change_dtype)
