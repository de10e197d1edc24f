"""Every primitive operation on every dtype that it takes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tinyref import config
from tinyref.algebra.op_table import OP_TABLE
from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec import oracles
from tinyref_spec.bits import Array
from tinyref_spec.case import Row, Rung
from tinyref_spec.error_rules import Rule, SameBits, Ulp, ulp_limit
from tinyref_spec.isa import choices, constants, families, idioms, widths
from tinyref_spec.isa.advice import OF_FLOATS, OF_INTEGERS, TRAPS
from tinyref_spec.isa.elementwise import Operation, Reference, edge_row_of, row_of, vector_row_of
from tinyref_spec.isa.sequences import (
    bit_sequences,
    product_of_first,
    sequences,
    within_roundings_of_product,
)
from tinyref_spec.isa.specials import ACCEPTED, ALSO, VALUES, Special, specials
from tinyref_spec.oracles import Expected

_FAMILIES = {1: "unary", 2: "binary", 3: "ternary"}


def is_strict() -> bool:
    """Return True in strict float mode, in which every float op rounds to its dtype."""
    return bool(config.integer("STRICT_FLOAT"))


def _apply(op: Ops, *operands: UOp) -> UOp:
    # The node is made directly, because the builder would swap commutative operands.
    dtype = dtypes.bool if op in (Ops.CMPLT, Ops.CMPNE) else operands[-1].dtype
    return UOp(op, dtype, operands)


def _reference(op: str, dtype: DType, operands: Sequence[Array]) -> Expected:
    return oracles.evaluate(op, dtype, operands)


def _operation(
    family: str,
    op: str,
    dtype: DType,
    sources: tuple[DType, ...],
    build_node: Callable[..., UOp],
    literals: tuple[Special, ...],
) -> Operation:
    is_compare = op in ("CMPLT", "CMPNE")
    result = dtypes.bool if is_compare else dtype
    return Operation(
        f"isa.{family}.{op.lower()}.{dtype.name}",
        op,
        dtype.name,
        f"{op} on {dtype.name}: {OP_TABLE[Ops[op]].sentence}",
        _clauses(op, dtype),
        Rung.ALU,
        sources,
        result,
        build_node,
        functools.partial(_reference, op, dtype),
        _rule(op, dtype),
        literals,
        contracted=_contracted(op, dtype),
        partial=product_of_first if op == "MULACC" and dtype.is_float else None,
        advice=(OF_FLOATS if dtype.is_float else OF_INTEGERS).get(op, {}),
    )


def _contracted(op: str, dtype: DType) -> Reference | None:
    if op != "MULACC" or not dtype.is_float:
        return None
    return functools.partial(within_roundings_of_product, dtype)


def _rule(op: str, dtype: DType) -> Rule:
    # MAX may give either zero and either NaN operand, as the alternatives of its oracle say.
    return Ulp(ulp_limit(op, dtype, is_strict()))


def _clauses(op: str, dtype: DType) -> tuple[str, ...]:
    foreign = "int." if dtype.is_float else "float."
    also = (clause for clause in ALSO.get(op, ()) if not clause.startswith(foreign))
    return (f"isa.{op.lower()}", *also)


def alu_operations() -> Iterator[Operation]:
    """Yield unary, binary and ternary operations, dtype by dtype."""
    for op, accepted in ACCEPTED.items():
        count = OP_TABLE[Ops[op]].arity[0]
        make = functools.partial(_apply, Ops[op])
        for dtype in accepted:
            first = dtypes.bool if op == "WHERE" else dtype
            sources = (first, *(dtype,) * (count - 1))
            yield _operation(_FAMILIES[count], op, dtype, sources, make, specials(op, dtype))


def cast_operations() -> Iterator[Operation]:
    """Yield CAST of every dtype to every other."""
    for source in VALUES:
        for target in VALUES:
            if source is not target:
                yield _cast_operation(source, target)


def _cast_operation(source: DType, target: DType) -> Operation:
    return Operation(
        f"isa.cast.{source.name}.to_{target.name}",
        "CAST",
        source.name,
        f"CAST of {source.name} to {target.name}.",
        ("isa.cast", _cast_clause(source, target)),
        Rung.CAST,
        (source,),
        target,
        functools.partial(_cast_node, target),
        functools.partial(_cast_reference, source, target),
        Ulp(0),
        (),
        advice={"": "look at rounding, saturation and wrapping of the conversion"},
    )


def _cast_clause(source: DType, target: DType) -> str:
    if target.is_bool:
        return "cast.bool"
    if target.is_float:
        return "cast.float"
    return "cast.truncate" if source.is_float else "cast.wrap"


def _cast_node(target: DType, x: UOp) -> UOp:
    return build.cast(x, target)


def _cast_reference(source: DType, target: DType, operands: Sequence[Array]) -> Expected:
    return oracles.cast(operands[0], source, target)


def bitcast_operations() -> Iterator[Operation]:
    """Yield BITCAST between dtypes of one size."""
    for source in VALUES:
        for target in VALUES:
            if source is not target and source.itemsize == target.itemsize and not target.is_bool:
                yield Operation(
                    f"isa.bitcast.{source.name}.to_{target.name}",
                    "BITCAST",
                    source.name,
                    f"BITCAST of {source.name} to {target.name}.",
                    ("isa.bitcast",),
                    Rung.CAST,
                    (source,),
                    target,
                    functools.partial(_bitcast_node, target),
                    functools.partial(_bitcast_reference, target),
                    SameBits(),
                    (),
                )


def _bitcast_node(target: DType, x: UOp) -> UOp:
    return build.bitcast(x, target)


def _bitcast_reference(target: DType, operands: Sequence[Array]) -> Expected:
    return oracles.bitcast(operands[0], target)


def guarded_division(dtype: DType) -> Operation:
    """Return WHERE(y != 0, x / y, x): the division that is not chosen must not trap."""
    literals = (Special(("7", "2"), "3"), Special(("7", "0"), "7"), Special(("0", "0"), "0"))
    return Operation(
        f"isa.ternary.where.{dtype.name}_guards_division",
        "WHERE",
        dtype.name,
        f"WHERE guards a {dtype.name} division: the side not chosen has no effect.",
        ("isa.where", "isa.where.no_effect"),
        Rung.ALU,
        (dtype, dtype),
        dtype,
        _guarded_node,
        functools.partial(_guarded_reference, dtype),
        Ulp(0),
        literals,
        advice={"dies": TRAPS},
    )


def _guarded_node(x: UOp, y: UOp) -> UOp:
    return build.where(build.not_equal(y, 0), build.idiv(x, y), x)


def _guarded_reference(dtype: DType, operands: Sequence[Array]) -> Expected:
    x, y = operands
    divided = oracles.evaluate("IDIV", dtype, [x, np.where(y == 0, 1, y).astype(y.dtype)])
    return Expected(np.where(y == 0, x, divided.values), divided.specified)


def operations() -> Iterator[Operation]:
    """Yield all elementwise operations of the tables."""
    yield from alu_operations()
    yield from map(guarded_division, (dtypes.int32, dtypes.int64, dtypes.uint32))
    yield from cast_operations()
    yield from bitcast_operations()


def rows() -> Iterator[Row]:
    """Yield all rows of the level `isa`."""
    yield from map(row_of, sequences())
    yield from map(edge_row_of, bit_sequences())
    yield from constants.rows(_rule)
    yield from widths.rows()
    yield from idioms.rows()
    yield from families.rows()
    yield from choices.rows()
    for operation in operations():
        yield row_of(operation)
        yield vector_row_of(operation)
