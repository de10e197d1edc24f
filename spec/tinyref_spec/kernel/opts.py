"""Optimised kernels on the device: with each list of optimisations a kernel keeps its value.

These rows test what optimisations make of kernels: lanes, copies, work-items that share memory and
meet at barriers, threads, scratch memory. The optimiser alone decides which lists are legal; see
its tests (tests/optimise).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tinyref.dtype import DType, dtypes
from tinyref.optimise.opt import OptOp, parse_opts
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel.byte_sums import BYTE_SUMS, SIZES, byte_sum
from tinyref_spec.kernel.opt_kernels import KERNELS, CheckedKernel, subject_of

# Optimisations that pass partial results in shared memory, and the most of it that rows use.
_SHARING = frozenset({OptOp.GROUP, OptOp.GROUPTOP})
_SHARED_BYTES = 192
I8, I16, I32, I64 = dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64
U8, U32, F16, F32, BOOL = dtypes.uint8, dtypes.uint32, dtypes.float16, dtypes.float32, dtypes.bool


@dataclass(frozen=True)
class OptRow:
    """One row: a kernel of `KERNELS` in `dtype`, run with each of `lists`.

    name: OP.FORM. others: further types that it uses.
    """

    name: str
    kernel: str
    lists: tuple[str, ...]
    dtype: DType = I32
    others: tuple[DType, ...] = ()

    @property
    def ops(self) -> list[OptOp]:
        """Return the row's optimisation, or all of them for a row about several together."""
        name = self.name.partition(".")[0].upper()
        if name in OptOp.__members__:
            return [OptOp[name]]
        return list(dict.fromkeys(opt.op for text in self.lists for opt in parse_opts(text)))

    @property
    def subject(self) -> CheckedKernel:
        """Return the kernel with its data."""
        if self.kernel in BYTE_SUMS:
            return byte_sum(self.kernel, int(self.name.rpartition(".")[2]), self.dtype)
        return subject_of(self.kernel, self.dtype)

    @property
    def sentence(self) -> str:
        """Return a sentence on what the kernel computes."""
        known = BYTE_SUMS if self.kernel in BYTE_SUMS else KERNELS
        return f"{self.lists[0]}: {known[self.kernel].sentence}"


def _row(name: str, kernel: str, *lists: str, dtype: DType = I32) -> OptRow:
    return OptRow(name, kernel, lists, dtype)


PADDED_REDUCES = {
    "prime_sum": (I32, F32, F16, I8),
    "prime_max": (I32, F32, I8, U8),
    "prime_product": (I32, U8, I64),
    "shifted_sum": (I32, F32),
}
ROWS: tuple[OptRow, ...] = (
    _row("upcast.elementwise", "add", "UPCAST(0, 4)", "UPCAST(0, 12) UPCAST(0, 0)"),
    _row("upcast.float16", "add", "UPCAST(0, 4)", dtype=F16),
    _row("upcast.int8", "add", "UPCAST(0, 8)", dtype=I8),
    _row("upcast.int64", "add", "UPCAST(0, 2)", dtype=I64),
    _row("upcast.bool", "add", "UPCAST(0, 6)", dtype=BOOL),
    _row("upcast.transposed", "transpose", "UPCAST(0, 2) UPCAST(1, 4)", dtype=F32),
    _row("upcast.masked", "padded", "UPCAST(1, 4)", "UPCAST(0, 0)"),
    _row("upcast.multi_view", "multi_view", "UPCAST(1, 4)"),
    _row("upcast.outputs", "two_outputs", "UPCAST(0, 4)"),
    _row("upcast.in_place", "in_place", "UPCAST(0, 8)"),
    _row("upcast.symbolic", "symbolic_rows", "UPCAST(1, 4)"),
    _row("upcast.matmul", "matmul", "UPCAST(0, 4) UPCAST(1, 2)", dtype=F32),
    _row("upcast.softmax", "softmax", "UPCAST(1, 4)"),
    _row("upcast.local", "outer", "LOCAL(1, 6) UPCAST(2, 3)"),
    _row("unroll.row_sum", "row_sum", "UNROLL(1, 4)", "UNROLL(1, 2) UNROLL(1, 2)"),
    _row("unroll.float16", "row_sum", "UNROLL(1, 4)", dtype=F16),
    _row("unroll.int8_wraps", "row_sum", "UNROLL(1, 8)", dtype=I8),
    _row("unroll.all", "all_sum", "UNROLL(0, 32)"),
    _row("unroll.maximum", "row_max", "UNROLL(1, 4)", dtype=I8),
    *(
        _row(f"unroll.maximum_of_{form}.{dtype.name}", f"{form}_max", "UNROLL(1, 3)", dtype=dtype)
        for form in ("negated", "scaled")
        for dtype in (I32, U32, I8, I64)
    ),
    _row("unroll.any", "row_max", "UNROLL(1, 0)", dtype=BOOL),
    *(
        OptRow(
            f"unroll.{form}.{dtype.name}.{size}", form, (f"UNROLL(0, {size})",), dtype, (U8, I32)
        )
        for form, several in BYTE_SUMS.items()
        for dtype in several.dtypes
        for size in SIZES
    ),
    _row("unroll.product", "product", "UNROLL(1, 4)"),
    _row("unroll.prime", "prime_sum", "UNROLL(1, 11)"),
    _row("unroll.nested", "nested", "UNROLL(2, 4)", "UNROLL(2, 0) UNROLL(1, 2)"),
    _row("unroll.outputs", "reduce_outputs", "UNROLL(1, 4)"),
    _row("unroll.group", "row_sum", "GROUP(1, 8) UNROLL(1, 2)"),
    _row("local.elementwise", "add", "LOCAL(0, 8)", "LOCAL(0, 2) LOCAL(0, 3)"),
    _row("local.transposed", "transpose", "LOCAL(0, 3) LOCAL(1, 4)", dtype=F32),
    _row("local.masked", "padded", "LOCAL(1, 4)"),
    _row("local.smaller_output", "smaller_output", "LOCAL(1, 4)", "LOCAL(1, 8)"),
    _row("local.symbolic", "symbolic_rows", "LOCAL(1, 4)"),
    _row("local.matmul", "matmul", "LOCAL(0, 4) LOCAL(1, 3)", dtype=F32),
    _row("group.row_sum", "row_sum", "GROUP(1, 4)", "GROUP(1, 2) GROUP(2, 4)"),
    _row("group.float16", "row_sum", "GROUP(1, 8)", dtype=F16),
    _row("group.int64", "row_sum", "GROUP(1, 4)", dtype=I64),
    _row("group.int8", "row_sum", "GROUP(1, 4)", dtype=I8),
    _row("group.all", "all_sum", "GROUP(0, 32)"),
    _row("group.any", "row_max", "GROUP(1, 6)", dtype=BOOL),
    _row("group.masked", "masked_sum", "GROUP(1, 3)"),
    # The group meets again for every iteration of the outer loop: a barrier before re-use.
    _row("group.nested_inner", "nested", "GROUP(2, 4)", "GROUP(2, 8)"),
    # In the second list both have the same number of parts; the work-items are still pairs.
    _row("group.nested_both", "nested_sums", "GROUP(1, 2) GROUP(3, 4)", "GROUP(1, 2) GROUP(3, 2)"),
    _row("group.two_lengths", "two_lengths", "GROUP(1, 4)", "GROUP(1, 4) GROUP(3, 3)"),
    # The same work-items divide both.
    _row("group.softmax", "softmax", "GROUP(2, 4) GROUP(4, 4)"),
    _row("group.symbolic", "symbolic_row_sums", "GROUP(1, 4)"),
    _row("grouptop.row_sum", "row_sum", "GROUPTOP(1, 4)", "GROUP(1, 4) GROUPTOP(2, 2)"),
    _row("grouptop.float32", "all_sum", "GROUPTOP(0, 16)", dtype=F32),
    _row("grouptop.unrolled", "row_sum", "GROUPTOP(1, 4) UNROLL(2, 0)", dtype=F32),
    _row("nolocals.lanes", "matmul", "UPCAST(1, 4) NOLOCALS(0, 0) UNROLL(2, 2)", dtype=F32),
    _row("swap.split", "matmul", "UPCAST(1, 4) SWAP(0, 1)"),
    _row("padto.prime", "prime", "PADTO(0, 8) PADTO(1, 16)", dtype=F32),
    _row("padto.in_place", "in_place", "PADTO(0, 9)"),
    _row("padto.outputs", "two_outputs", "PADTO(0, 32)"),
    _row("padto.matmul", "prime_matmul", "PADTO(0, 8) PADTO(1, 8) PADTO(2, 8)", dtype=F32),
    _row("padto.symbolic", "symbolic_row_sums", "PADTO(1, 3)"),
    # Blocks of a reduce; some lanes of the last block are not terms.
    *(
        _row(
            f"padto.{kernel}.{dtype.name}",
            kernel,
            "PADTO(1, 8) UNROLL(1, 8)",
            "PADTO(1, 5)",
            dtype=dtype,
        )
        for kernel, several in PADDED_REDUCES.items()
        for dtype in several
    ),
    _row("padto.nested", "nested", "PADTO(1, 4) UNROLL(1, 4) PADTO(2, 3)", dtype=F32),
    _row("thread.elementwise", "add", "THREAD(0, 2)"),
    _row("thread.in_place", "in_place", "THREAD(0, 2)", dtype=I8),
    _row("thread.symbolic", "symbolic_rows", "THREAD(1, 2)"),
    _row("thread.matmul", "matmul", "THREAD(0, 2) UPCAST(2, 4)", dtype=F32),
    _row("pack.matmul", "matmul", "PACK(1, 1)", "PACK(0, 2) PACK(1, 1)"),
    _row("pack.int8", "matmul", "PACK(0, 2)", dtype=I8),
    # The lanes of the copy are neighbours, unlike those of the buffer.
    _row("pack.transposed", "transposed_matmul", "UPCAST(1, 4) UPCAST(0, 2) PACK(0, 2)", dtype=F32),
    _row("pack.convolution", "convolution", "UPCAST(0, 4) UPCAST(1, 3) PACK(1, 2)", dtype=F32),
    _row("pack.nested", "repeated_nested", "PACK(0, 1)"),
    # Elements that the sum reads, and that the outputs along axis 1 need again.
    _row(
        "pack.reused",
        "softmax",
        "SWAP(0, 1) PACK(0, -1)",
        "PACK(1, -1) UPCAST(1, 2) UPCAST(0, 4) UNROLL(2, 0)",
        dtype=F32,
    ),
    _row("pack.reused.int16", "softmax", "PACK(1, -1)", dtype=I16),
    # The copy has positions that padding has added to the sum, or the outputs.
    _row(
        "pack.reused.padded",
        "softmax",
        "PADTO(3, 3) UNROLL(3, 3) PACK(1, -1)",
        "PADTO(1, 5) UPCAST(1, 5) PACK(1, -1)",
        "PACK(1, -1) PADTO(3, 3) PADTO(1, 16) UPCAST(1, 4)",
        dtype=F32,
    ),
    # Each term is added to an output at an address that was loaded: no load of an output may move
    # before the store of an earlier term.
    *(
        OptRow(f"scatter.{form}", kernel, (f"SCATTER(0, 0){more}",), dtype, (I32,))
        for form, kernel, more, dtype in (
            ("sum", "scattered_sum", "", F32),
            ("lanes", "scattered_sum", " UPCAST(1, 4)", F32),
            ("float16", "scattered_sum", " UPCAST(1, 2)", F16),
            ("int8_wraps", "scattered_sum", " UPCAST(1, 0)", I8),
            ("maximum", "scattered_max", " PADTO(1, 3)", I32),
            ("threads", "scattered_sum", " THREAD(1, 2) UPCAST(2, 4)", F32),
        )
    ),
    _row("together.block", "matmul", "UPCAST(1, 4) UPCAST(0, 4) UNROLL(2, 4)", dtype=F32),
    _row(
        "together.pad_then_split",
        "prime_matmul",
        "PADTO(1, 4) UPCAST(1, 4) PADTO(2, 4) UNROLL(2, 4)",
    ),
    _row(
        "together.group_of_lanes",
        "matmul",
        "UPCAST(1, 4) UNROLL(2, 2) GROUP(2, 4) LOCAL(0, 2)",
        "GROUPTOP(2, 4) UPCAST(0, 2) UPCAST(1, 3) LOCAL(1, 2)",
        dtype=F32,
    ),
    _row("together.group_in_loop", "nested_sums", "GROUP(2, 4) UNROLL(2, 2) LOCAL(0, 2)"),
    # The value is the same in all lanes, but lanes past the end must not count.
    _row("together.pad_and_group", "repeated_sum", "PADTO(0, 4) UPCAST(0, 4) GROUP(1, 4)"),
    _row("together.pad_around_group", "repeated_nested", "PADTO(1, 4) UNROLL(1, 4) GROUP(2, 4)"),
    _row("together.everything", "softmax", "LOCAL(0, 2) GROUP(3, 2) GROUPTOP(5, 4) UPCAST(1, 4)"),
)


def _run(row: OptRow, text: str, case_id: str, device: DeviceUnderTest) -> Measurement:
    return row.subject.measure(parse_opts(text), case_id, device)


def _slug(text: str) -> str:
    """Return a list of optimisations as the end of an id: UPCAST(0, 4) is upcast_0_4."""
    short = text.lower().replace(", ", "_").replace("(", "_").replace(")", "")
    return short.replace(" ", ".")


def features_of(text: str) -> frozenset[str]:
    """Return what a device must declare before a list of optimisations can be legal on it."""
    opts = parse_opts(text)
    features = {opt.spec.feature for opt in opts if opt.spec.feature}
    if any(opt.op in _SHARING for opt in opts):
        features.add(f"shared:{_SHARED_BYTES}")
    return frozenset(features)


def _row_of(entry: OptRow) -> Row:
    names = [op.value for op in entry.ops]
    several = [features_of(text) for text in entry.lists]
    checks = [
        Check(
            f":{_slug(text)}", functools.partial(_run, entry, text), needs=kernel_needs(features=f)
        )
        for text, f in zip(entry.lists, several, strict=True)
    ]
    row = make_row(
        f"kernel.opt.{entry.name}",
        entry.sentence,
        clauses=("kernel.opt", *(f"kernel.opt.{name.lower()}" for name in names)),
        rung=Rung.OPTIMISED,
        op=names[0] if len(names) == 1 else "OPTS",
        dtype=entry.dtype,
        uses=(entry.dtype, *entry.others),
        features=frozenset.intersection(*several),
        checks=lambda: checks,
    )
    return replace(row, specials=tuple((text, "the same value") for text in entry.lists))


def rows() -> Iterator[Row]:
    """Yield a row for each line of the table."""
    yield from map(_row_of, ROWS)
