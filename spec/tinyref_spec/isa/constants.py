"""One operation of a loaded value and a constant, whose literal may have another type.

A literal that is wider than its operand makes the language compute in the wider type; a narrower
one loses bits (C99, 6.3.1.8 and 6.4.4). Both can store the right value. The constants here give
different bits in that case: the loaded values include their neighbours.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tinyref.dtype import ConstType, DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec import oracles, samples
from tinyref_spec.bits import Array, from_bits, to_bits
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, make_row
from tinyref_spec.data_kinds import of_all_kinds
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.error_rules import Rule
from tinyref_spec.isa.elementwise import LANES, Operation, run_operations
from tinyref_spec.oracles import Expected

# An operation, and the index of its constant operand.
Form = tuple[Ops, int]
RuleOf = Callable[[str, DType], Rule]

FLOAT_FORMS: tuple[Form, ...] = (
    (Ops.CMPLT, 0),
    (Ops.ADD, 1),
    (Ops.CMPLT, 1),
    (Ops.MUL, 1),
    (Ops.FDIV, 0),
    (Ops.FDIV, 1),
    (Ops.CMPNE, 1),
    (Ops.MAX, 1),
    (Ops.WHERE, 2),
)
INTEGER_FORMS: tuple[Form, ...] = (
    (Ops.SHL, 0),
    (Ops.ADD, 1),
    (Ops.MUL, 1),
    (Ops.CMPLT, 0),
    (Ops.CMPLT, 1),
    (Ops.CMPNE, 1),
    (Ops.MAX, 1),
    (Ops.WHERE, 2),
    (Ops.XOR, 1),
    (Ops.SHR, 0),
)
# Constants for which a wrong rewrite of the operation is nearly right.
FLOAT_SPECIALS: tuple[tuple[Form, ConstType], ...] = (
    ((Ops.ADD, 1), 0.0),
    ((Ops.ADD, 1), -0.0),
    ((Ops.MUL, 1), 0.0),
    ((Ops.MUL, 1), -1.0),
    ((Ops.CMPLT, 1), -0.0),
    ((Ops.MAX, 1), -math.inf),
    ((Ops.CMPNE, 1), math.inf),
    # A square root of -inf is NaN, and of -0 it is -0; powers of both are not.
    *(((Ops.POW, 1), exponent) for exponent in (0.5, -0.5, 2.0, -1.0, 3.0, 0.0)),
)
# None is the least integer of the type.
INTEGER_SPECIALS: tuple[tuple[Form, ConstType | None], ...] = (
    ((Ops.ADD, 1), None),
    ((Ops.MUL, 1), 2),
    ((Ops.CMPLT, 1), 0),
    ((Ops.CMPLT, 0), None),
    ((Ops.MAX, 1), None),
)
_SHIFTS = (Ops.SHL, Ops.SHR)


def constants(dtype: DType) -> tuple[ConstType, ...]:
    """Return constants of a type: decimals that it rounds, integers at limits and above 32 bits."""
    if dtype.is_float:
        # The last one has one bit more than the type, and is rounded to a power of two.
        return 0.1, 0.7, 1 / 3, 2.0 ** (dtype.mantissa_bits + 1) + 1
    largest, least = int(dtype.maximum), int(dtype.minimum)
    wide = (2**32 + 1, 2**40 + 12345) if dtype.bits == 64 else ()
    return 1, largest, least or largest - 1, largest // 3 * 2, *wide


def _compute(form: Form, constant: UOp, *loaded: UOp) -> UOp:
    op, position = form
    operands = (*loaded[:position], constant, *loaded[position:])
    dtype = dtypes.bool if op in (Ops.CMPLT, Ops.CMPNE) else constant.dtype
    # The node is made directly, because the builder would swap commutative operands.
    return UOp(op, dtype, operands)


def _reference(form: Form, dtype: DType, value: ConstType, loaded: Sequence[Array]) -> Expected:
    op, position = form
    operands = list(loaded)
    operands.insert(position, np.repeat(_stored(dtype, value), LANES))
    return oracles.evaluate(op.name, dtype, operands)


def _stored(dtype: DType, value: ConstType) -> Array:
    """Return the constant in its type, rounded by the reference: one element."""
    if dtype.is_float:
        return oracles.round_to(np.array([value]), dtype)
    return np.array([value], numpy_dtype(dtype))


def _loaded(form: Form, dtype: DType) -> Array:
    """Return values of all kinds for which the op is defined, with the neighbours of constants."""
    op, _ = form
    stored = np.concatenate([_stored(dtype, value) for value in constants(dtype)])
    bits = to_bits(stored)
    near = [from_bits(bits + step, dtype) for step in (bits.dtype.type(0), bits.dtype.type(1))]
    near.append(from_bits(bits - bits.dtype.type(1), dtype))
    random = samples.moderate if dtype.is_float else samples.random_bits
    kinds = of_all_kinds(dtype, 60)
    values = np.resize(np.concatenate([*near, kinds, random(dtype, 300, 6)]), LANES)
    if op in _SHIFTS:
        return (np.arange(LANES) % dtype.bits).astype(values.dtype)
    return values


def _operation(form: Form, dtype: DType, value: ConstType, rule_of: RuleOf) -> Operation:
    op, position = form
    name = f"{op.name} with {value} as its operand {position}"
    return Operation(
        name,
        op.name,
        dtype.name,
        "",
        (),
        Rung.ALU,
        (dtypes.bool, dtype) if op is Ops.WHERE else (dtype,),
        dtypes.bool if op in (Ops.CMPLT, Ops.CMPNE) else dtype,
        functools.partial(_compute, form, build.const(dtype, value)),
        functools.partial(_reference, form, dtype, value),
        rule_of(op.name, dtype),
        (),
    )


def _inputs(form: Form, dtype: DType) -> list[Array]:
    loaded = [_loaded(form, dtype)]
    if form[0] is Ops.WHERE:
        loaded.insert(0, samples.random_bits(dtypes.bool, LANES, 7))
    return loaded


def _run(
    pairs: Sequence[tuple[Form, ConstType]],
    dtype: DType,
    rule_of: RuleOf,
    case_id: str,
    device: DeviceUnderTest,
) -> Measurement:
    """Measure kernels of several operations; after a failure, each operation runs alone."""
    operations = [
        (_operation(form, dtype, value, rule_of), _inputs(form, dtype)) for form, value in pairs
    ]
    # Each operation has an output, and all of them share three inputs.
    several = device.capabilities.buffer_limit - 3
    compared = 0
    for first in range(0, len(operations), several):
        part = operations[first : first + several]
        measured = run_operations(case_id, part, device)
        if not measured.passed:
            return _name_operation(case_id, part, device) or measured
        compared += measured.compared
    measured.compared = compared
    return measured


def _name_operation(
    case_id: str, operations: Sequence[tuple[Operation, Sequence[Array]]], device: DeviceUnderTest
) -> Measurement | None:
    for operation, inputs in operations:
        measured = run_operations(case_id, [(operation, inputs)], device)
        if not measured.passed:
            measured.message = f"{operation.id}: {measured.message}"
            return measured
    return None


def _checks(dtype: DType, rule_of: RuleOf) -> Iterator[Check]:
    forms = FLOAT_FORMS if dtype.is_float else INTEGER_FORMS
    specials = FLOAT_SPECIALS if dtype.is_float else INTEGER_SPECIALS
    values = constants(dtype)
    # Each form with one constant, and each constant with some form.
    some = [(form, values[number % len(values)]) for number, form in enumerate(forms)]
    least = 0 if dtype.is_float else int(dtype.minimum)
    some += [(form, least if value is None else value) for form, value in specials]
    yield Check("some", functools.partial(_run, some, dtype, rule_of))
    every = [(form, value) for form in forms for value in values]
    yield Check("all", functools.partial(_run, every, dtype, rule_of), full_only=True)


def rows(rule_of: RuleOf) -> Iterator[Row]:
    """Yield a row for each type of numbers; `rule_of` returns the rule of an op on a type."""
    for dtype in (*dtypes.ints, *dtypes.floats):
        yield make_row(
            f"isa.constant.{dtype.name}",
            f"A constant operand is a {dtype.name}: nothing is computed in another type.",
            clauses=("isa.const", "isa.add", "isa.mul", "isa.cmplt", "isa.cmpne"),
            rung=Rung.ALU,
            op="CONST",
            dtype=dtype,
            uses=(dtype, dtypes.bool),
            error_rule=rule_of("ADD", dtype).sentence,
            checks=functools.partial(_checks, dtype, rule_of),
            advice="look at the type of the literal in the message, and at the type in which the "
            "language computes with it",
        )
