"""Sums of a few products of small integers, for which processors have special instructions.

Compilers find these sums in loops and in unrolled code: x86 has PMADDWD, VPDPBUSD and PMULUDQ, ARM
has SDOT and SMLAL, GPUs have DP4A. Some of them saturate, take only one sign, or multiply every
other lane. Each operand takes its limits, and all other products differ.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.build import accumulator, close, update
from tinyref.uops.node import UOp
from tinyref_spec import samples
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel.programs import INT, at, loop, program
from tinyref_spec.kernels.notation import kernel_of, left, load, right, total
from tinyref_spec.measure import run_exact

I8, U8, I16 = dtypes.int8, dtypes.uint8, dtypes.int16
U32, I64, U64 = dtypes.uint32, dtypes.int64, dtypes.uint64
# The types of two operands, and the type of their product and of the sum.
KINDS = (
    (I8, I8, INT),
    (I8, U8, INT),
    (U8, I8, INT),
    (U8, U8, INT),
    (I16, I16, INT),
    (U32, U32, U64),
    (INT, INT, I64),
)
Kind = tuple[DType, DType, DType]
# Numbers of products that one instruction adds.
COUNTS = (2, 4, 8)
ROWS = 8
# The length of a loop: vectors of bytes and a rest.
LENGTH = 35
INNER = 16
LANES = 4


def _data(kind: Kind, length: int) -> tuple[Array, Array]:
    """Return the rows of both operands: first the four pairs of limits, then random bits."""
    x, y = (samples.random_bits(kind[side], ROWS * length, 9 + side) for side in range(2))
    x, y = x.reshape(ROWS, length), y.reshape(ROWS, length)
    limits = [(int(dtype.maximum), int(dtype.minimum) or 1) for dtype in kind[:2]]
    for row in range(4):
        x[row], y[row] = limits[0][row // 2], limits[1][row % 2]
    return x, y


def _wide(values: Array, kind: Kind) -> Array:
    """Return operands in a type whose sums wrap as those of the kernel, cut to it."""
    return values.astype(np.uint64 if kind[2] is U64 else np.int64)


def _sums(x: Array, y: Array, kind: Kind) -> Array:
    """Return the sum of the products of each row, wrapped."""
    total = (_wide(x, kind) * _wide(y, kind)).sum(axis=1)
    return np.asarray(total, numpy_dtype(kind[2]))


def _position(row: UOp, length: int, column: UOp | int) -> UOp:
    return build.add(build.mul(row, length), column)


def _memories(kind: Kind, sizes: tuple[int, ...], inputs: tuple[int, int]) -> list[UOp]:
    """Return outputs of some sizes, then the two inputs."""
    kinds = [*(kind[2] for _ in sizes), *kind[:2]]
    pairs = zip(kinds, (*sizes, *inputs), strict=True)
    return [build.define_global(slot, dtype, size) for slot, (dtype, size) in enumerate(pairs)]


def _unrolled(kind: Kind, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Compute sums of 2, 4 and 8 products that the program writes out."""
    longest = max(COUNTS)
    *outputs, first, second = _memories(
        kind, (ROWS,) * len(COUNTS), (ROWS * longest, ROWS * longest)
    )
    i, stores = loop(ROWS, 0), list[UOp]()
    for out, count in zip(outputs, COUNTS, strict=True):
        # Each sum has nodes of its own, which load from this row.
        terms = [
            build.mul(
                build.cast(build.load(at(first, _position(i, longest, k))), kind[2]),
                build.cast(build.load(at(second, _position(i, longest, k))), kind[2]),
            )
            for k in range(count)
        ]
        stores.append(build.store(at(out, i), functools.reduce(build.add, terms)))
    x, y = _data(kind, longest)
    expected = [_sums(x[:, :count], y[:, :count], kind) for count in COUNTS]
    subject = program("unrolled", i, *stores, close(i))
    return run_exact(case_id, device, subject, [*[None] * len(COUNTS), x, y], expected)


def _product_of(first: UOp, second: UOp, dtype: DType) -> UOp:
    return build.mul(*(build.cast(build.load(address), dtype) for address in (first, second)))


def _loop(kind: Kind, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Add one product in each iteration of a loop."""
    out, first, second = _memories(kind, (ROWS,), (ROWS * LENGTH, ROWS * LENGTH))
    i, k = loop(ROWS, 0), loop(LENGTH, 1)
    added = accumulator("added", build.const(kind[2], 0))
    position = _position(i, LENGTH, k)
    new = update(
        added, build.add(added, _product_of(at(first, position), at(second, position), kind[2]))
    )
    subject = program("sums", i, added, k, new, close(k), build.store(at(out, i), new), close(i))
    x, y = _data(kind, LENGTH)
    return run_exact(case_id, device, subject, [None, x, y], [_sums(x, y, kind)])


def _matrix(kind: Kind, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Multiply two matrices in a kernel that the compiler lowers."""
    sizes = (ROWS, ROWS, INNER)
    factors = load(1, kind[0], left(*sizes)), load(2, kind[1], right(*sizes))
    terms = build.mul(*(build.cast(factor, kind[2]) for factor in factors))
    x, y = _data(kind, INNER)
    expected = (_wide(x, kind) @ _wide(y, kind).T).astype(numpy_dtype(kind[2]))
    kernel = kernel_of(total(terms, 2), ROWS, ROWS, 1)
    return run_exact(case_id, device, kernel, [None, x, np.ascontiguousarray(y.T)], [expected])


def _lanes(kind: Kind, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Load one operand as a vector, and the other element by element."""
    out, first, second = _memories(kind, (ROWS,), (ROWS * LANES, ROWS * LANES))
    i = loop(ROWS, 0)
    vector = build.cast(build.load(at(second, build.mul(i, LANES)), lanes=LANES), kind[2])
    terms = [
        build.mul(
            build.cast(build.load(at(first, _position(i, LANES, k))), kind[2]),
            build.gep(vector, k),
        )
        for k in range(LANES)
    ]
    final = build.store(at(out, i), functools.reduce(build.add, terms))
    subject = program("mixed", i, final, close(i))
    x, y = _data(kind, LANES)
    return run_exact(case_id, device, subject, [None, x, y], [_sums(x, y, kind)])


def _vectors(kind: Kind, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Add products of vectors in a loop, with one operand also loaded in elements."""
    count = ROWS * LANES
    whole, joined, first, second = _memories(kind, (LANES, LANES), (count, count))
    k = loop(ROWS, 0)
    wide = kind[2].vec(LANES)
    begin = build.mul(k, LANES)
    elements = [build.load(at(first, _position(k, LANES, lane))) for lane in range(LANES)]
    other = build.cast(build.load(at(second, begin), lanes=LANES), kind[2])
    factors = (build.load(at(first, begin), lanes=LANES), build.vectorize(*elements))
    totals = [accumulator(name, build.const(wide, 0)) for name in ("whole", "joined")]
    news = [
        update(total, build.add(total, build.mul(build.cast(factor, kind[2]), other)))
        for total, factor in zip(totals, factors, strict=True)
    ]
    stores = [
        build.store(at(out, build.const(INT, 0)), new)
        for out, new in zip((whole, joined), news, strict=True)
    ]
    subject = program("vectors", *totals, k, *news, close(k), *stores)
    x, y = _data(kind, LANES)
    columns = [_sums(x[:, [lane]].T, y[:, [lane]].T, kind) for lane in range(LANES)]
    expected = np.concatenate(columns)
    return run_exact(case_id, device, subject, [None, None, x, y], [expected, expected])


def _checks(kind: Kind) -> list[Check]:
    features = [f"native:{dtype.name}" for dtype in dict.fromkeys(kind)]
    native, vectors = (
        kernel_needs(features=names) for names in (features, [*features, f"vectors:{LANES}"])
    )
    return [
        Check("unrolled", functools.partial(_unrolled, kind), needs=native),
        Check("loop", functools.partial(_loop, kind), needs=native),
        Check("matrix", functools.partial(_matrix, kind)),
        Check("lanes", functools.partial(_lanes, kind), needs=vectors),
        Check("vectors", functools.partial(_vectors, kind), needs=vectors),
    ]


def rows() -> Iterator[Row]:
    """Yield a row for each pair of types."""
    for kind in KINDS:
        x, y, wide = kind
        yield make_row(
            f"kernel.program.dot.{x.name}.{y.name}",
            f"Sums of products of {x.name} and {y.name} in {wide.name}: unrolled, in loops, with "
            "one operand in a vector.",
            clauses=("isa.mul", "isa.cast", "int.wrap", "kernel.accumulator"),
            rung=Rung.LOOP,
            op="MUL",
            dtype=x,
            uses=dict.fromkeys((*kind, INT)),
            checks=functools.partial(_checks, kind),
            advice="look at instructions that add several products at once: which signs they take, "
            "whether a partial sum saturates, and which lanes they pair",
        )
