"""The equations of equivalent kernels are proved: what a transformation makes of a value equals it.

A transformation builds the right side of its equation out of the left one, so there is nothing else
to write down: each is applied to values over variables, and both sides are compared for all values,
by the solver and, where they are not too many, one by one. Of integers and bools; floats are
compared on their data in `test_equivalent.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import BINARY, Ops
from tinyref.uops.payload import SlotArg
from tinyref_fuzz.generate.equivalent import TRANSFORMATIONS, transform
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.kernels.notation import kernel_of, load
from tinyref_spec.proofs.conformance import same_value
from tinyref_spec.proofs.prover import Answer

ELEMENTWISE = sorted(
    name
    for name, each in TRANSFORMATIONS.items()
    if each.family in {"arithmetic", "logic", "casts"}
)
TYPES = (dtypes.int8, dtypes.uint8, dtypes.bool)
SUPPORTED = frozenset({*TYPES, dtypes.int16})
SEEDS = 3
COMPARED = frozenset({Ops.CMPLT, Ops.CMPNE})


def values(dtype: DType) -> Iterator[UOp]:
    """Values of one operation on inputs and constants, and of two of them."""
    x, y, z = (load(slot, dtype, (1,)) for slot in (1, 2, 3))
    p, q = (load(slot, dtypes.bool, (1,)) for slot in (4, 5))
    yield x
    yield build.const(dtype, 1) if dtype.is_bool else build.const(dtype, 12)
    inner = [build.where(p, x, y)]
    if dtype.is_bool:
        inner += [build.both(x, y), build.either(x, y)]
        ops = [Ops.AND, Ops.OR, Ops.XOR, Ops.MAX, *COMPARED]
    else:
        inner += [build.add(x, y), build.mul(x, y), build.both(x, y), build.either(x, y)]
        inner += [build.maximum(x, y), build.binary(Ops.XOR, x, y), build.sub(x, y)]
        ops = [Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX, Ops.AND, Ops.OR, Ops.XOR, *COMPARED]
        yield build.unary(Ops.NEG, x)
        yield UOp(Ops.MULACC, dtype, (x, y, z))
        yield from (build.binary(op, x, c) for op in (Ops.MOD, Ops.IDIV) for c in (4, 6, 7))
        yield from (build.mul(x, c) for c in (2, 3, 8))
        yield build.add(x, x)
        yield build.add(build.mul(x, y), x)
        yield build.add(build.mul(x, y), build.mul(x, z))
    assert set(ops) <= BINARY
    for op in sorted(ops, key=lambda op: op.name):
        yield build.binary(op, x, y)
        yield from (build.binary(op, each, z) for each in inner)
        yield from (build.binary(op, z, each) for each in inner)
    for condition in (p, build.both(p, q), build.either(p, q)):
        yield build.where(condition, x, y)


def as_variables(value: UOp) -> UOp:
    """The same over variables, which take all values of their types."""
    loads = [node for node in value.toposort() if node.op is Ops.LOAD]
    names = {node: node.src[0].src[0].arg for node in loads}
    assert all(isinstance(arg, SlotArg) for arg in names.values())
    return substitute(
        value,
        {
            node: build.variable(
                f"x{arg.slot}", int(node.dtype.minimum), int(node.dtype.maximum), node.dtype
            )
            for node, arg in names.items()
        },
    )


def sides(name: str) -> Iterator[tuple[UOp, UOp]]:
    """Values, and what the transformation makes of them."""
    for dtype in TYPES:
        for value in values(dtype):
            for seed in range(SEEDS):
                tape = Tape(seed=seed)
                new = transform(kernel_of(value, 1), name, tape, frozenset({*TYPES, dtypes.int16}))
                if new is not None:
                    yield as_variables(value), as_variables(new.src[0].src[1])


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_an_equation_holds_for_all_values(name: str) -> None:
    found = dict.fromkeys(sides(name))
    assert found, "fits no value"
    # The first of every few: they are alike.
    for left, right in list(found)[:: max(1, len(found) // 6)]:
        answer, detail = same_value(left, right)
        assert answer is Answer.PROVED, (left, right, detail)


def test_a_wrong_equation_is_refuted() -> None:
    x = build.variable("x", -128, 127, dtypes.int8)
    assert same_value(build.idiv(x, 4), build.binary(Ops.SHR, x, 2))[0] is Answer.REFUTED
