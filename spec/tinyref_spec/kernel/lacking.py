"""Kernels of single ops for devices that lack them: what the compiler makes of other ops.

No value shows that a decomposition takes more operations than it need. So each has kernels here
that are compiled for the least of devices and for devices that lack one thing; see `costs.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from tinyref.capabilities import CORE_DTYPES, CORE_OPS, Capabilities
from tinyref.codegen.decompose import SMALL_FLOATS, WIDE_INTEGERS
from tinyref.device import Device
from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import UNARY, Ops
from tinyref.uops.words import STORABLE_IN_WORDS
from tinyref_spec.device_under_test import REFERENCE
from tinyref_spec.kernels.notation import kernel_of, load

_SMALL_INTEGERS = (dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16)
# What stands beside every op: as many elements, each by itself.
_ELEMENTS = 2


@dataclass(frozen=True)
class Lacking:
    """A kernel of one op for `capabilities` that lack it. name: lacking.DEVICE.OP.TYPE."""

    name: str
    kernel: Callable[[], UOp]
    capabilities: Capabilities


@functools.cache
def _core() -> Capabilities:
    return Capabilities(
        dtypes=CORE_DTYPES | set(_SMALL_INTEGERS),
        ops=CORE_OPS,
        emulated=frozenset((*SMALL_FLOATS, *WIDE_INTEGERS)),
        division_traps=True,
    )


@functools.cache
def _words() -> Capabilities:
    has_all = Device[REFERENCE].capabilities
    return replace(
        has_all,
        dtypes=has_all.dtypes.difference(SMALL_FLOATS, _SMALL_INTEGERS),
        emulated=frozenset((*SMALL_FLOATS, *_SMALL_INTEGERS)),
        stored_in_words=frozenset(STORABLE_IN_WORDS),
        matrix_tiles=(),
    )


@functools.cache
def _slow_division() -> Capabilities:
    has_all = Device[REFERENCE].capabilities
    return replace(has_all, slow_division=True, division_traps=True)


# On a device of the least that there is.
_CORE: dict[Ops, tuple[DType, ...]] = {
    **dict.fromkeys((Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.SQRT, Ops.TRUNC), (dtypes.float32,)),
    **dict.fromkeys((Ops.NEG, Ops.RECIP), (dtypes.float32, dtypes.float16)),
    Ops.POW: (dtypes.float32,),
    Ops.FDIV: (dtypes.float32,),
    Ops.ADD: (dtypes.float16, dtypes.bfloat16, *WIDE_INTEGERS),
    Ops.MAX: (dtypes.float32, dtypes.int32, *WIDE_INTEGERS),
    **dict.fromkeys((Ops.MUL, Ops.CMPLT, Ops.SHL, Ops.SHR), tuple(WIDE_INTEGERS)),
    **dict.fromkeys((Ops.IDIV, Ops.MOD), (dtypes.int32, *WIDE_INTEGERS)),
    Ops.THREEFRY: (dtypes.uint64,),
}
_CORE_CASTS = (
    (dtypes.int64, dtypes.float32),
    (dtypes.float32, dtypes.int64),
    (dtypes.uint64, dtypes.float32),
    (dtypes.int32, dtypes.int64),
    (dtypes.int64, dtypes.int32),
    (dtypes.int32, dtypes.bfloat16),
    (dtypes.uint32, dtypes.float16),
    (dtypes.float32, dtypes.float16),
    (dtypes.float16, dtypes.fp8e4m3),
)
_WORDS_CASTS = (
    (dtypes.bool, dtypes.int8),
    (dtypes.int8, dtypes.int16),
    (dtypes.int32, dtypes.uint8),
    (dtypes.float32, dtypes.int16),
    (dtypes.uint16, dtypes.float32),
)
# By constants, where division is slow.
_DIVISORS = (3, 7, 8, 10, 641, -5)


def _of_core() -> Iterator[Lacking]:
    for op, several in _CORE.items():
        for dtype in several:
            yield _of_op("core", _core(), op, dtype)
    yield from _casts("core", _core(), _CORE_CASTS)


def _of_words() -> Iterator[Lacking]:
    for op in (Ops.ADD, Ops.MAX, Ops.SHR):
        for dtype in _SMALL_INTEGERS:
            yield _of_op("words", _words(), op, dtype)
    yield from _casts("words", _words(), _WORDS_CASTS)


def _of_slow_division() -> Iterator[Lacking]:
    for op in (Ops.IDIV, Ops.MOD):
        for dtype in (dtypes.int32, dtypes.uint32, dtypes.int64):
            yield _of_op("slow_division", _slow_division(), op, dtype)
            for divisor in _DIVISORS:
                if divisor > 0 or not dtype.is_unsigned:
                    yield _by_constant(op, dtype, divisor)


_KERNELS: Mapping[str, Callable[[], Iterator[Lacking]]] = MappingProxyType(
    {"core": _of_core, "words": _of_words, "slow_division": _of_slow_division}
)
# A device of the least that there is, one whose memory is words, one that divides slowly.
DEVICES = tuple(_KERNELS)


def lacking(device: str) -> list[Lacking]:
    """The kernels for one of `DEVICES`."""
    return list(_KERNELS[device]())


def _casts(
    lacked: str, capabilities: Capabilities, pairs: Iterable[tuple[DType, DType]]
) -> Iterator[Lacking]:
    for source, target in pairs:
        name = f"lacking.{lacked}.cast.{source.name}.{target.name}"
        yield Lacking(name, functools.partial(_cast_kernel, source, target), capabilities)


def _of_op(lacked: str, capabilities: Capabilities, op: Ops, dtype: DType) -> Lacking:
    name = f"lacking.{lacked}.{op.name.lower()}.{dtype.name}"
    return Lacking(name, functools.partial(_kernel, op, dtype), capabilities)


def _by_constant(op: Ops, dtype: DType, divisor: int) -> Lacking:
    place = f"lacking.slow_division.{op.name.lower()}.{dtype.name}"
    name = f"{place}.by_{divisor}".replace("-", "minus_")
    return Lacking(name, functools.partial(_kernel, op, dtype, divisor), _slow_division())


def _kernel(op: Ops, dtype: DType, second: int | None = None) -> UOp:
    """The op of what is loaded, with a constant for its second operand where there is one."""
    count = 1 if op in UNARY or second is not None else 2
    sources = [load(slot, dtype, (_ELEMENTS,)) for slot in range(1, count + 1)]
    if second is not None:
        sources.append(build.const(dtype, second))
    result = dtypes.bool if op is Ops.CMPLT else dtype
    return kernel_of(UOp(op, result, tuple(sources)), _ELEMENTS)


def _cast_kernel(source: DType, target: DType) -> UOp:
    return kernel_of(build.cast(load(1, source, (_ELEMENTS,)), target), _ELEMENTS)
