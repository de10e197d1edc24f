"""Steps on types: int32 and float32 instead of others, everywhere or one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tinyref.dtype import DType, PtrDType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp, rebuild
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg, SlotArg
from tinyref_fuzz.reduce.measure import slots
from tinyref_fuzz.reduce.search import Search
from tinyref_spec.kernel_case import Array, Case

Types = Mapping[DType, DType]


def simpler_types(search: Search) -> None:
    """All integers as int32 and all floats as float32, or all as one of them; else type by type."""
    for mapping in _everywhere(search.case):
        if search.offer(change_types, mapping):
            break
    for dtype in _types(search.case):
        for target in (dtypes.int32, dtypes.float32):
            if target is not dtype and search.offer(change_types, {dtype: target}):
                break


def _types(case: Case) -> list[DType]:
    """The types of the values of a kernel, in a fixed order."""
    found = {node.dtype for node in case.ast.toposort() if not isinstance(node.dtype, PtrDType)}
    found -= {dtypes.void, dtypes.index}
    return sorted(found, key=lambda dtype: dtype.name)


def _everywhere(case: Case) -> list[Types]:
    types = _types(case)
    numbers = [dtype for dtype in types if not dtype.is_bool]
    by_kind = {d: dtypes.float32 if d.is_float else dtypes.int32 for d in numbers}
    return [
        dict.fromkeys(types, dtypes.int32),
        dict.fromkeys(numbers, dtypes.int32),
        dict.fromkeys(numbers, dtypes.float32),
        by_kind,
    ]


def change_types(case: Case, types: Types) -> Case:
    """The case with other types for values and buffers; casts to the same type are left out."""

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        if isinstance(node.arg, SlotArg) and isinstance(node.dtype, PtrDType):
            base = types.get(node.dtype.base, node.dtype.base)
            return build.define_global(node.arg.slot, base, node.dtype.size)
        target = types.get(node.dtype, node.dtype)
        if isinstance(node.arg, ConstArg):
            return node if target is node.dtype else build.const(target, _number(node.arg, target))
        if node.op is Ops.CAST:
            return build.cast(src[0], target)
        if node.op in (Ops.CMPLT, Ops.CMPNE, Ops.VALID):
            # They give a truth value, whatever bools become elsewhere.
            return build.cast(node.with_sources(src), target)
        if node.op is Ops.IOTA:
            return build.cast(node, target)
        if node.op is Ops.WHERE and src[0].dtype is not dtypes.bool:
            src = (build.not_equal(src[0], 0), *src[1:])
        if node.op is Ops.VIEW:
            return None
        return node.replace(src=src, dtype=target)

    used = slots(case.ast)
    buffers = [
        _as_type(buffer, types, used[slot].dtype) if slot in used else buffer
        for slot, buffer in enumerate(case.buffers)
    ]
    return replace(case, ast=rebuild(case.ast, change), buffers=tuple(buffers))


def _number(arg: ConstArg, target: DType) -> float | int | bool:
    return arg.value if target.is_float else int(arg.value)


def _as_type(buffer: Array, types: Types, memory: DType) -> Array:
    """The contents in another type: what an integer cannot hold becomes 0."""
    assert isinstance(memory, PtrDType)
    target = types.get(memory.base)
    if target is None or target is memory.base:
        return buffer
    with np.errstate(all="ignore"):
        if memory.base.is_float and not target.is_float:
            wide = buffer.astype(np.float64)
            inside = np.isfinite(wide) & (np.abs(wide) < 2.0**31)
            buffer = np.where(inside, wide, 0)
        converted: Array = buffer.astype(numpy_dtype(target))
    return converted
