"""Expressions that a compiler simplifies: each owes what its operations owe one after the other.

Of each there is a form at which a rule of the compiler fires, and forms that only look like it: a
constant on the other side of the limit, a negative divisor, another operation. The expected values
are those of the references of the operations, in order, wherever all of them are specified.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BufferArg, ConstArg
from tinyref_spec import oracles
from tinyref_spec.bits import Array
from tinyref_spec.case import Rung
from tinyref_spec.error_rules import Ulp
from tinyref_spec.isa.advice import TRAPS
from tinyref_spec.isa.elementwise import Operation
from tinyref_spec.oracles import Expected

Form = Callable[[UOp, UOp], UOp]


def _op(op: Ops) -> Callable[[UOp | int, UOp | int], UOp]:
    return functools.partial(build.binary, op)


_xor, _left, _right = _op(Ops.XOR), _op(Ops.SHL), _op(Ops.SHR)
_and, _or, _max, _div, _mod = build.both, build.either, build.maximum, build.idiv, build.mod
_add, _sub, _mul, _less, _ne = build.add, build.sub, build.mul, build.less, build.not_equal


def _wide(x: UOp) -> UOp:
    return build.cast(x, dtypes.int64)


def _widened(x: UOp) -> UOp:
    return build.cast(_wide(x), x.dtype)


def _truth(x: UOp) -> UOp:
    return build.cast(_ne(x, 3), x.dtype)


INTEGERS: dict[str, Form] = {
    "below_itself": lambda x, y: _less(x, x),
    "other_than_itself": lambda x, y: _ne(x, x),
    "maximum_below": lambda x, y: _less(_max(x, 3), 7),
    "maximum_below_its_limit": lambda x, y: _less(_max(x, 7), 7),
    "sum_other_than": lambda x, y: _ne(_add(x, 3), 1),
    "quotient_other_than_zero": lambda x, y: _ne(_div(x, 3), 0),
    "quotient_other_than_one": lambda x, y: _ne(_div(x, 3), 1),
    "quotient_below": lambda x, y: _less(_div(x, 3), 2),
    "quotient_below_zero": lambda x, y: _less(_div(x, 3), 0),
    "quotient_below_much": lambda x, y: _less(_div(x, 3), 100),
    "remainder_below_one": lambda x, y: _less(_mod(x, 5), 1),
    "remainder_below_two": lambda x, y: _less(_mod(x, 5), 2),
    "multiple_below": lambda x, y: _less(_mul(x, 4), 8),
    "multiple_other_than": lambda x, y: _ne(_mul(x, 4), 8),
    "sums_below": lambda x, y: _less(_add(x, 3), _add(y, 5)),
    "truth_other_than_one": lambda x, y: _ne(_truth(x), 1),
    "truth_below_one": lambda x, y: _less(_truth(x), 1),
    "truth_below_two": lambda x, y: _less(_truth(x), 2),
    "remainder_of_one": lambda x, y: _mod(x, 1),
    "quotient_by_itself": lambda x, y: _div(x, x),
    "remainder_by_itself": lambda x, y: _mod(x, x),
    "quotient_of_quotient": lambda x, y: _div(_div(x, 3), 5),
    "quotient_of_multiple": lambda x, y: _div(_mul(x, 6), 3),
    "quotient_of_sum": lambda x, y: _div(_add(_mul(x, 4), 3), 4),
    "remainder_of_remainder": lambda x, y: _mod(_mod(x, 6), 3),
    "remainder_of_smaller": lambda x, y: _mod(_mod(x, 4), 6),
    "remainder_of_multiple": lambda x, y: _mod(_mul(x, 6), 3),
    "times_zero": lambda x, y: _mul(x, 0),
    "product_of_multiples": lambda x, y: _mul(_mul(x, 3), _mul(y, 5)),
    "multiple_of_multiple": lambda x, y: _mul(_mul(x, 3), 5),
    "sums_of_multiples": lambda x, y: _add(_mul(x, 3), _mul(x, 5)),
    "sum_and_back": lambda x, y: _sub(_add(x, y), y),
    "sum_of_constants": lambda x, y: _add(_add(x, 100), 100),
    "flipped_twice": lambda x, y: _xor(_xor(x, y), y),
    "flipped_by_itself": lambda x, y: _xor(x, x),
    "flipped_by_constants": lambda x, y: _xor(_xor(x, 5), 3),
    "bits_or_zero": lambda x, y: _or(x, 0),
    "bits_and_zero": lambda x, y: _and(x, 0),
    "bits_and_bits": lambda x, y: _and(_and(x, 12), 10),
    "bits_or_bits": lambda x, y: _or(_or(x, 12), 10),
    "bits_and_themselves": lambda x, y: _and(x, x),
    "bits_of_low_mask": lambda x, y: _and(x, 7),
    "mask_of_remainder": lambda x, y: _and(_mod(x, 8), 7),
    "shifted_by_zero": lambda x, y: _left(_right(x, 0), 0),
    "shifted_there_and_back": lambda x, y: _right(_left(x, 3), 3),
    "maximum_of_itself": lambda x, y: _max(x, x),
    "maximum_of_constants": lambda x, y: _max(_max(x, 3), 5),
    "maximum_again": lambda x, y: _max(_max(x, y), y),
    "chosen_alike": lambda x, y: build.where(_less(x, y), x, x),
    "chosen_by_negation": lambda x, y: build.where(build.logical_not(_less(x, y)), x, y),
    "both_limits": lambda x, y: _and(_less(x, 5), _less(x, 3)),
    "either_limit": lambda x, y: _or(_less(x, 5), _less(x, 3)),
    "not_below": lambda x, y: build.logical_not(_less(x, 5)),
    "negated_twice": lambda x, y: build.unary(Ops.NEG, build.unary(Ops.NEG, x)),
    "product_and_sum": lambda x, y: _add(_mul(x, y), x),
    "widened_and_back": lambda x, y: _widened(x),
    "narrowed_and_back": lambda x, y: build.cast(build.cast(x, dtypes.int8), x.dtype),
    "sum_in_a_wide_type": lambda x, y: _add(
        build.cast(x, dtypes.int64), build.cast(y, dtypes.int64)
    ),
}
"""Of two integers of one type."""

SIGNED: dict[str, Form] = {
    "quotient_by_minus_one": lambda x, y: _div(x, -1),
    "quotient_below_minus_two": lambda x, y: _less(_div(x, 3), -2),
    "negative_quotient_below": lambda x, y: _less(_div(x, -3), 2),
    "negative_quotient_other_than_zero": lambda x, y: _ne(_div(x, -3), 0),
    "quotient_of_bits_other_than_zero": lambda x, y: _ne(_div(_and(x, 127), 3), 0),
    "negative_quotient_of_bits_other_than_zero": lambda x, y: _ne(_div(_and(x, 127), -3), 0),
    "negative_quotient_of_bits_below": lambda x, y: _less(_div(_and(x, 127), -3), -2),
    "negative_quotient_of_quotient": lambda x, y: _div(_div(x, -3), 5),
    "negative_multiple_below": lambda x, y: _less(_mul(x, -4), 8),
    "remainder_by_two_below_one": lambda x, y: _less(_mod(x, 2), 1),
    "negative_remainder": lambda x, y: _mod(x, -3),
    "remainder_by_a_negative_multiple": lambda x, y: _mod(_mul(x, -6), -3),
    "bits_and_ones": lambda x, y: _and(x, -1),
    "bits_or_ones": lambda x, y: _or(x, -1),
    "flipped_ones": lambda x, y: _xor(_xor(x, -1), -1),
}
"""Of those with a sign."""

FLOATS: dict[str, Form] = {
    "less_zero": lambda x, y: _sub(x, build.const(x.dtype, 0.0)),
    "more_zero": lambda x, y: _add(x, build.const(x.dtype, 0.0)),
    "more_minus_zero": lambda x, y: _add(x, build.const(x.dtype, -0.0)),
    "times_one": lambda x, y: _mul(x, build.const(x.dtype, 1.0)),
    "times_minus_one": lambda x, y: _mul(x, build.const(x.dtype, -1.0)),
    "negated_twice": lambda x, y: build.unary(Ops.NEG, build.unary(Ops.NEG, x)),
    "less_negated": lambda x, y: _sub(x, build.unary(Ops.NEG, y)),
    "truncated_twice": lambda x, y: build.unary(Ops.TRUNC, build.unary(Ops.TRUNC, x)),
    "other_than_itself": lambda x, y: _ne(x, x),
    "below_itself": lambda x, y: _less(x, x),
    "difference_of_itself": lambda x, y: _sub(x, x),
    "maximum_of_itself": lambda x, y: _max(x, x),
}
"""Of two floats of one type, each operation rounded."""


def _cases() -> Iterator[tuple[str, Form, DType]]:
    for dtype in (dtypes.int32, dtypes.uint8):
        yield from ((name, form, dtype) for name, form in INTEGERS.items())
    yield from ((name, form, dtypes.int32) for name, form in SIGNED.items())
    yield from ((name, form, dtypes.float32) for name, form in FLOATS.items())


def in_order(form: Form, dtype: DType, operands: Sequence[Array]) -> Expected:
    """What the operations of an expression owe, one after the other."""
    leaves = [UOp(Ops.BUFFER, dtype, (), BufferArg("CPU", 1, number)) for number in range(2)]
    found = {leaf: Expected(values) for leaf, values in zip(leaves, operands, strict=True)}
    count = len(operands[0])
    specified = np.ones(count, np.bool_)
    root = form(leaves[0], leaves[1])
    for node in root.toposort():
        if node in found:
            continue
        if isinstance(node.arg, ConstArg):
            values = np.full(count, node.arg.value, numpy_dtype(node.dtype))
            found[node] = Expected(values)
            continue
        sources = [found[source].values for source in node.src]
        if node.op is Ops.CAST:
            found[node] = oracles.cast(sources[0], node.src[0].dtype, node.dtype)
        else:
            found[node] = oracles.evaluate(node.op.name, node.dtype, sources)
        owed = found[node].specified
        if owed is not None:
            specified &= owed
    return Expected(found[root].values, specified)


_EACH = "look at each operation of the expression alone: isa has rows of it"


def simplified() -> Iterator[Operation]:
    """Each expression in each of its types."""
    for name, form, dtype in _cases():
        leaf = UOp(Ops.BUFFER, dtype, (), BufferArg("CPU", 1, 0))
        result = form(leaf, leaf)
        words = name.replace("_", " ")
        divides = any(node.op in (Ops.IDIV, Ops.MOD) for node in result.toposort())
        clause = "float.round" if dtype.is_float else "int.wrap"
        yield Operation(
            f"isa.sequence.simplified.{name}.{dtype.name}",
            result.op.name,
            dtype.name,
            f"What may be simplified keeps its value: {words}. In {dtype.name}.",
            (clause,),
            Rung.ALU,
            (dtype, dtype),
            result.dtype,
            form,
            functools.partial(in_order, form, dtype),
            Ulp(0),
            (),
            advice={"": _EACH, **({"dies": TRAPS} if divides else {})},
        )
