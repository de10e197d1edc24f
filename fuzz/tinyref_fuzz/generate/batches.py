"""Batches: kernels of many expressions over a few points, for a judge that compiles none of them.

What is drawn is what kernels of many outputs have (`several.py`), and expressions behind conditions
of the same numbers. Data are of a small stock, so that an expression costs little beside its rules.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from random import Random
from types import MappingProxyType

import numpy as np

from tinyref.capabilities import Capabilities
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.generate.arithmetic import MAKERS, convert, makers
from tinyref_fuzz.generate.data import Content
from tinyref_fuzz.generate.equivalent import with_laws
from tinyref_fuzz.generate.expressions import Expressions
from tinyref_fuzz.generate.free import SPANS, counter, expression_leaves, is_specified
from tinyref_fuzz.generate.generate import draw_kernel
from tinyref_fuzz.generate.kernel import Kernel
from tinyref_fuzz.generate.policies import Policy
from tinyref_fuzz.generate.several import KINDS, SHAPES_OF_CHAINS, chain_of, operation
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.generate.values import Number, Shape, Value, full_range, value_in_range
from tinyref_spec.kernel_case import Array, Case, Mode
from tinyref_spec.kernels.notation import kernel_of, load
from tinyref_spec.proofs.expressions import drawn_over

# Expressions of a batch: enough to share their leaves, few enough to be named by one.
EXPRESSIONS = 12
SHAPES = ((30,), (24,), (8, 4), (3, 4, 3))
# Kernels that reduce, how often, and over how many positions.
REDUCING = ("choose", "gather", "reduce", "siblings", "nested", "running"), (6, 2, 1, 1, 1, 1)
MAX_POSITIONS = 256
# Kernels whose plans are asked what they accept, and how often.
PLANNED = (
    ("matmul", "softmax", "reduce", "siblings", "nested", "tree", "gather"),
    (8, 5, 4, 2, 3, 1, 1),
)
# Of terms that are 0 in padding for some operands only, and of constants that are not finite.
OPS_OF_PLANNED = dict.fromkeys((Ops.SHL, Ops.SHR, Ops.IDIV, Ops.MOD, Ops.FDIV, Ops.MUL), 3.0)
MODES_OF_PLANNED = MappingProxyType({Mode.EXACT: 2, Mode.EDGE: 1})
# So many of 100 batches of views have a size that is a variable.
SYMBOLIC_VIEWS = 30
# Beside the weights of `several.KINDS`.
GUARDED, DIVIDED = 30, 8
# What a device lacks is drawn so many times as often as other things; floats mostly of EDGE data.
LACKED = 4.0
MODES_OF_LACK = MappingProxyType({Mode.EXACT: 1, Mode.FLOAT: 1, Mode.EDGE: 4})
# Loads of one type in a batch, and how many contents of a buffer there are in stock.
LOADS = 3
STOCK = 48


@dataclass
class _Points(Kernel):
    """A kernel whose buffers lie behind all of its outputs, with contents of the stock."""

    def buffer(self, dtype: DType, size: int, span: tuple[Number, Number]) -> UOp:
        """A new input."""
        slot = EXPRESSIONS + len(self.inputs)
        self.inputs[slot] = Content(dtype, size, *span, self.tape.below(STOCK))
        return build.define_global(slot, dtype, size)

    def load(self, shape: Shape, dtype: DType, moves: int | None = None) -> Value:
        """One of a few loads of a type, each of its own buffer as it lies."""
        there = [value for value in self.loads if value.dtype is dtype and value.shape == shape]
        if len(there) >= LOADS or (there and self.tape.below(2)):
            return self.tape.pick(there)
        return self.load_through(ShapeTracker.from_shape(shape), dtype)


class Subject(Enum):
    """What the outputs of a batch are."""

    ALGEBRA = "instances of rules, their neighbours, and expressions that no rule asked for"
    VIEWS = "buffers, each seen through a chain of movements"
    OPERATIONS = "single operations and casts, most of them of what a device lacks"
    LAWS = "values, and beside them laws of rules, of which nothing is left"


def draw_batch(
    tape: Tape, capabilities: Capabilities, policy: Policy, subject: Subject = Subject.ALGEBRA
) -> Case:
    """A case of `EXPRESSIONS` outputs of one shape, without optimisations, all of one tape.

    Of laws it is one output, and an equivalent kernel with as many laws.
    capabilities: of the device that has the types, and of operations lacks what they are of.
    """
    if subject is Subject.LAWS:
        return _laws(tape, capabilities)
    if subject is Subject.OPERATIONS:
        policy = _of_lack(policy, capabilities)
    kernel = _Points.draw(tape, policy, capabilities)
    draw = Expressions(kernel)
    is_of_views = subject is Subject.VIEWS
    kernel.is_symbolic |= is_of_views and tape.chance(SYMBOLIC_VIEWS)
    axes = kernel.add_axes(tape.pick(SHAPES_OF_CHAINS if is_of_views else SHAPES), outer=True)
    kernel.make_symbolic()
    shape = kernel.shape(axes)
    earlier: list[Value] = []
    kinds, weights = zip(*_kinds(subject, capabilities), strict=True)
    values = []
    for _ in range(EXPRESSIONS):
        found = tape.pick(kinds, weights)(draw, shape, earlier) or operation(draw, shape)
        values.append(found if found.dtype in kernel.dtypes else operation(draw, shape))
    return _case(kernel, values, shape)


def draw_form(tape: Tape, capabilities: Capabilities, policy: Policy) -> Case:
    """A small kernel of a form that reduces or gathers, half of them over a choice of one place."""
    small = replace(policy, most=MAX_POSITIONS, outputs=0, in_place=0)
    return draw_kernel(tape, capabilities, small, tape.pick(*REDUCING))


def draw_planned(tape: Tape, capabilities: Capabilities, policy: Policy) -> Case:
    """A kernel that is only planned: most are sums, of products above all."""
    chosen = replace(policy, outputs=0, modes=MODES_OF_PLANNED).scale(ops=OPS_OF_PLANNED)
    return draw_kernel(tape, capabilities, chosen, tape.pick(*PLANNED))


def _laws(tape: Tape, capabilities: Capabilities) -> Case:
    """A kernel of as many values of two types as laws have leaves, and the same with laws."""
    supported = capabilities.dtypes | capabilities.emulated
    types = [dtype for dtype in dtypes.ints if capabilities.supports(dtype)]
    home, other = tape.pick(types), tape.pick(types)
    kinds = (*(home,) * 5, *(other,) * 3, *(dtypes.bool,) * 4)
    loads = [load(slot, dtype, SHAPES[0]) for slot, dtype in enumerate(kinds, 1)]
    numbers = [build.cast(each, home) for each in loads if not each.dtype.is_bool]
    total = functools.reduce(functools.partial(build.binary, Ops.XOR), numbers)
    holds = functools.reduce(build.either, loads[len(numbers) :])
    ast = kernel_of(build.where(holds, total, numbers[0]), *SHAPES[0])
    size = math.prod(SHAPES[0])
    read = (Content(dtype, size, *full_range(dtype), tape.below(STOCK)) for dtype in kinds)
    buffers = (np.zeros(size, numpy_dtype(home)), *(_contents(each, Mode.EXACT) for each in read))
    return Case(ast, buffers, equivalent=with_laws(ast, tape, EXPRESSIONS, supported))


def _kinds(subject: Subject, capabilities: Capabilities) -> tuple[tuple[Kind, int], ...]:
    """What outputs are, and how often; of operations as many are those that a device lacks."""
    kinds = list(_KINDS[subject])
    if subject is not Subject.OPERATIONS:
        return tuple(kinds)
    missing = [op for op in MAKERS if op.name not in capabilities.ops]
    if missing:
        kinds.append((functools.partial(_missing, missing), 1))
    emulated = capabilities.emulated - capabilities.dtypes
    if emulated:
        kinds.append((functools.partial(_into_lacked, emulated), 1))
    return tuple(kinds)


def _into_lacked(
    emulated: frozenset[DType], draw: Expressions, shape: Shape, earlier: list[Value]
) -> Value | None:
    """A number as one of the types that a device lacks, or from one: each pair has its own way."""
    kernel, tape = draw.kernel, draw.tape
    pairs = [
        (source, target)
        for source in kernel.dtypes
        for target in kernel.dtypes
        if source is not target and not emulated.isdisjoint((source, target))
    ]
    ties = [(source, target) for source, target in pairs if _has_ties(source, target)]
    if ties and tape.below(3) == 2:
        source, target = tape.pick(ties)
        return convert(draw, _beside_a_tie(draw, shape, source, target), target)
    if not pairs:
        return None
    source, target = tape.pick(pairs)
    return convert(draw, kernel.load(shape, source), target)


def _has_ties(source: DType, target: DType) -> bool:
    """Whether some integers beyond those of float32 are halfway between two floats of a type."""
    if not source.is_int or not target.is_float:
        return False
    is_wide = target.exponent_bits >= dtypes.float32.exponent_bits
    return is_wide and source.bits >= 32 and source.bits > target.mantissa_bits + 3


def _beside_a_tie(draw: Expressions, shape: Shape, dtype: DType, target: DType) -> Value:
    """Integers about the middle between two floats: two roundings give another one than one does.

    All are of one sign, as a compiler may see.
    """
    tape, digits = draw.tape, target.mantissa_bits + 1
    top = tape.between(max(digits, dtypes.float32.mantissa_bits + 1), dtype.bits - 2)
    low = (1 << top) + (1 << top - digits) - 1
    node = build.add(build.both(draw.kernel.load(shape, dtype).node, 3), low)
    if dtype.is_unsigned or tape.below(2):
        return Value(node, shape, low, low + 3, low + 3)
    return Value(build.mul(node, -1), shape, -low - 3, -low, low + 3)


def _missing(
    missing: Sequence[Ops], draw: Expressions, shape: Shape, earlier: list[Value]
) -> Value | None:
    """One of the operations that a device lacks, of any type that has it."""
    op, mode = draw.tape.pick(missing), draw.kernel.mode
    types = [dtype for dtype in draw.kernel.dtypes if op in makers(dtype, mode)]
    return MAKERS[op](draw, draw.kernel.load(shape, draw.tape.pick(types))) if types else None


def _of_lack(policy: Policy, capabilities: Capabilities) -> Policy:
    """The policy with more of the types and ops that a device lacks, and all kinds of data."""
    lacked = capabilities.emulated - capabilities.dtypes
    missing = [op for op in ALU if op.name not in capabilities.ops]
    return replace(policy, modes=MODES_OF_LACK).scale(
        dtypes=dict.fromkeys(lacked, LACKED), ops=dict.fromkeys(missing, LACKED)
    )


def _case(kernel: Kernel, values: list[Value], shape: Shape) -> Case:
    """The kernel that stores each value along all axes, and its buffers."""
    tracker = ShapeTracker.from_shape(shape)
    size = max(1, tracker.real_size())
    stores = []
    for slot, value in enumerate(values):
        memory = build.define_global(slot, value.dtype, size)
        stores.append(build.store(build.view(memory, tracker), value.node))
    written = [np.zeros(size, numpy_dtype(value.dtype)) for value in values]
    read = [_contents(content, kernel.mode) for content in kernel.inputs.values()]
    bindings = MappingProxyType(kernel.bindings)
    return Case(build.sink(*stores), (*written, *read), bindings=bindings, mode=kernel.mode)


@functools.lru_cache(maxsize=4096)
def _contents(content: Content, mode: Mode) -> Array:
    return content.array(mode)


def _guarded(draw: Expressions, shape: Shape, earlier: list[Value]) -> Value | None:
    """A number where a condition on the same leaves holds: a rule may use that it does."""
    leaves = expression_leaves(draw, shape)
    if leaves is None:
        return None
    is_fixed = all(isinstance(size, int) for size in shape)
    if is_fixed and leaves[0].dtype is dtypes.int32 and draw.tape.below(2):
        # Of positions, which never wrap.
        leaves = [_index(draw, shape) for _ in leaves]
        if draw.tape.below(2):
            leaves.append(build.mul(leaves[0], leaves[-1]))
    nodes = [drawn_over(leaves, Random(draw.tape.below(1 << 16))) for _ in range(4)]
    flags = [node for node in nodes if node.dtype.is_bool]
    numbers = [node for node in nodes if not node.dtype.is_bool]
    if not flags:
        return None
    if numbers:
        node = build.where(flags[0], numbers[0], numbers[-1] if len(numbers) > 1 else 0)
    else:
        node = build.both(flags[0], flags[-1])
    if not is_specified(node, draw.kernel.dtypes):
        return None
    node = build.cast(node, dtypes.int32) if node.dtype is dtypes.index else node
    return value_in_range(draw.kernel.mode, node, shape, *full_range(node.dtype))


def _divided(draw: Expressions, shape: Shape, earlier: list[Value]) -> Value | None:
    """A quotient or remainder of two numbers in narrow ranges: of each the ends decide."""
    kernel, tape = draw.kernel, draw.tape
    signed = [dtype for dtype in kernel.dtypes if dtype in dtypes.ints and not dtype.is_unsigned]
    if not signed:
        return None
    dtype = tape.pick(signed)
    x, y = (build.both(kernel.load(shape, dtype).node, tape.pick((3, 7, 1))) for _ in range(2))
    x = build.add(x, tape.between(-12, 12))
    divisor = build.add(y, tape.between(1, 9))
    if tape.below(3) == 2:
        divisor = build.unary(Ops.NEG, divisor)
    node = build.binary(tape.pick((Ops.MOD, Ops.IDIV)), x, divisor)
    return value_in_range(kernel.mode, node, shape, *full_range(dtype))


def _index(draw: Expressions, shape: Shape) -> UOp:
    """The number of a position, or one that is the same for all of them."""
    kernel, tape = draw.kernel, draw.tape
    if tape.below(4):
        return build.cast(counter(draw, shape), dtypes.index)
    low, high = tape.pick(SPANS)
    name = f"v{len(kernel.bindings)}"
    kernel.bindings[name] = tape.pick((low, high, (low + high) // 2))
    return build.variable(name, low, high)


Kind = Callable[[Expressions, Shape, list[Value]], Value | None]
_KINDS: Mapping[Subject, tuple[tuple[Kind, int], ...]] = MappingProxyType(
    {
        Subject.ALGEBRA: (*KINDS, (_guarded, GUARDED), (_divided, DIVIDED)),
        Subject.VIEWS: ((lambda draw, shape, _: chain_of(draw, shape), 1),),
        Subject.OPERATIONS: ((lambda draw, shape, _: operation(draw, shape), 1),),
    }
)
