"""int8, uint8, int16 and uint16 as values of 32 bits, on devices that compute in no smaller ones.

A value is kept as the int32 or uint32 that equals it. What may leave the range of the small type
is wrapped: its high bits are those of a number of the small type again. Memory is not touched:
`word_storage` has made words of it before.
"""

from __future__ import annotations

from collections.abc import Callable

from tinyref.codegen.decompose.formats import shift_left, shift_right
from tinyref.codegen.decompose.small_floats import narrow, widen
from tinyref.dtype import DType, as_const, dtypes
from tinyref.errors import UserError
from tinyref.uops.build import bitcast, both, cast, const, less, where
from tinyref.uops.node import UOp, rebuild
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg

SMALL_INTEGERS = (dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16)
# What gives numbers of the small type of numbers of the small type.
_STAYS = frozenset({Ops.AND, Ops.OR, Ops.XOR, Ops.SHR, Ops.MOD, Ops.MAX, Ops.WHERE})
_MOVES = frozenset({Ops.VECTORIZE, Ops.GEP, Ops.DEFINE_ACC, Ops.UPDATE_ACC, Ops.AFTER, Ops.WHERE})


def emulate_small_integers(root: UOp, emulated: frozenset[DType]) -> UOp:
    """`root` with the values of the types in `emulated` as int32 or uint32.

    Raises `UserError` for an op that has no arm here, memory among them.
    """

    def transform(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        if not any(touched.dtype.scalar in emulated for touched in (node, *node.src)):
            return None
        arm = _ARMS.get(node.op)
        if arm is None:
            raise UserError(f"{node.op.name} of {node.dtype.name}: this type is only emulated here")
        return arm(node, src, emulated)

    return rebuild(root, transform)


def wide_type(dtype: DType) -> DType:
    """What holds a small integer: 32 bits, signed as it is."""
    wide = dtypes.uint32 if dtype.scalar.is_unsigned else dtypes.int32
    return wide.vec(dtype.lanes)


def wrap(value: UOp, small: DType) -> UOp:
    """The low bits of `value`, of 32, as a number of the type `small`."""
    if small.is_unsigned:
        return both(value, (1 << small.bits) - 1)
    dropped = 32 - small.bits
    return shift_right(shift_left(value, dropped), dropped)


Arm = Callable[[UOp, tuple[UOp, ...], frozenset[DType]], UOp]


def _constant(node: UOp, src: tuple[UOp, ...], emulated: frozenset[DType]) -> UOp:
    if not isinstance(node.arg, ConstArg):
        raise UserError(f"CONST of {node.dtype.name}: has no value")
    return const(wide_type(node.dtype), as_const(node.arg.value, node.dtype.scalar))


def _moves(node: UOp, src: tuple[UOp, ...], emulated: frozenset[DType]) -> UOp:
    """Nodes that choose, copy or hold values; or wait for some."""
    dtype = wide_type(node.dtype) if node.dtype.scalar in emulated else node.dtype
    return UOp(node.op, dtype, src, node.arg)


def _waits(node: UOp, src: tuple[UOp, ...], emulated: frozenset[DType]) -> UOp:
    return node.replace(src=src)


def _arithmetic(node: UOp, src: tuple[UOp, ...], emulated: frozenset[DType]) -> UOp:
    if node.dtype.scalar not in emulated:
        # A comparison, or a shift whose count alone is small.
        return UOp(node.op, node.dtype, src, node.arg)
    value = UOp(node.op, wide_type(node.dtype), src, node.arg)
    return value if node.op in _STAYS else wrap(value, node.dtype.scalar)


def _cast(node: UOp, src: tuple[UOp, ...], emulated: frozenset[DType]) -> UOp:
    have, want = node.src[0].dtype.scalar, node.dtype.scalar
    value = src[0]
    if want not in emulated:
        return cast(value, want)
    wide = cast(value, wide_type(want).scalar)
    if have.is_float:
        return _clamped(wide, want)
    if have.is_bool or _holds(want, have):
        return wide
    return wrap(wide, want)


def _holds(want: DType, have: DType) -> bool:
    """Whether every number of the integer type `have` is one of `want`."""
    return bool(want.minimum <= have.minimum and have.maximum <= want.maximum)


def _clamped(value: UOp, small: DType) -> UOp:
    """What is out of range as the nearest number: so floats become integers."""
    highest = int(small.maximum)
    value = where(less(value, highest), value, highest)
    if small.is_unsigned:
        return value
    lowest = int(small.minimum)
    return where(less(value, lowest), const(value.dtype, lowest), value)


def _bitcast(node: UOp, src: tuple[UOp, ...], emulated: frozenset[DType]) -> UOp:
    """A small float that the device has goes by way of its value, which is exact."""
    have, want = node.src[0].dtype.scalar, node.dtype.scalar
    if want.is_float:
        return cast(widen(cast(src[0], dtypes.uint32), want), want)
    if have.is_float:
        unsigned = narrow(cast(src[0], dtypes.float32), have)
        return wrap(cast(_moved(unsigned, emulated), wide_type(want).scalar), want)
    if have in emulated and want in emulated:
        return wrap(bitcast(src[0], wide_type(want).scalar), want)
    return cast(src[0], want) if want not in emulated else wrap(cast(src[0], wide_type(want)), want)


def _moved(value: UOp, emulated: frozenset[DType]) -> UOp:
    """What another decomposition made of small integers."""
    return emulate_small_integers(value, emulated)


_ARMS: dict[Ops, Arm] = {
    **dict.fromkeys(ALU, _arithmetic),
    Ops.CONST: _constant,
    **dict.fromkeys(_MOVES, _moves),
    **dict.fromkeys((Ops.BARRIER, Ops.SINK), _waits),
    Ops.CAST: _cast,
    Ops.BITCAST: _bitcast,
}
