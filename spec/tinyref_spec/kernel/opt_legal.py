"""Legal optimisations: which kernel, which list, and the axes that its plan has afterwards."""

from __future__ import annotations

from dataclasses import dataclass

from tinyref.optimise.opt import OptOp
from tinyref_spec.kernel.padded_terms import ZERO_BEYOND

# A list of optimisations as text, and the text of the axes of the plan.
Use = tuple[str, str]


@dataclass(frozen=True)
class Legal:
    """One row: `name` is OP.FORM, `kernel` one of `FORMS` in `dtype`, which uses `others`, too."""

    name: str
    kernel: str
    uses: tuple[Use, ...]
    dtype: str = "int32"
    others: tuple[str, ...] = ()

    @property
    def op(self) -> OptOp | None:
        """The optimisation that the row is about; None for a row about several together."""
        name = self.name.partition(".")[0].upper()
        return OptOp[name] if name in OptOp.__members__ else None


_UPCAST = (
    Legal(
        "upcast.elementwise",
        "add",
        (
            ("UPCAST(0, 4)", "global 6, upcast 4"),
            ("UPCAST(0, 2) UPCAST(0, 3)", "global 4, upcast 2, upcast 3"),
            ("UPCAST(0, 12) UPCAST(0, 0)", "upcast 12, upcast 2"),
        ),
    ),
    Legal("upcast.float32", "add", (("UPCAST(0, 8)", "global 3, upcast 8"),), "float32"),
    Legal("upcast.float16", "add", (("UPCAST(0, 4)", "global 6, upcast 4"),), "float16"),
    Legal("upcast.int8", "add", (("UPCAST(0, 8)", "global 3, upcast 8"),), "int8"),
    Legal("upcast.int64", "add", (("UPCAST(0, 2)", "global 12, upcast 2"),), "int64"),
    Legal("upcast.bool", "add", (("UPCAST(0, 6)", "global 4, upcast 6"),), "bool"),
    Legal(
        "upcast.transposed",
        "transpose",
        (
            ("UPCAST(1, 4)", "global 6, global 2, upcast 4"),
            ("UPCAST(0, 2) UPCAST(1, 4)", "global 3, global 2, upcast 2, upcast 4"),
        ),
        "float32",
    ),
    Legal("upcast.broadcast", "outer", (("UPCAST(1, 4)", "global 8, global 3, upcast 4"),)),
    Legal(
        "upcast.masked",
        "padded",
        (
            ("UPCAST(1, 4)", "global 8, global 2, upcast 4"),
            ("UPCAST(0, 0)", "global 8, upcast 8"),
        ),
    ),
    Legal("upcast.multi_view", "multi_view", (("UPCAST(1, 4)", "global 8, global 3, upcast 4"),)),
    Legal("upcast.outputs", "two_outputs", (("UPCAST(0, 4)", "global 6, upcast 4"),)),
    Legal(
        "upcast.smaller_output",
        "smaller_output",
        (("UPCAST(1, 4) UPCAST(0, 2)", "global 3, global 2, upcast 4, upcast 2"),),
    ),
    Legal("upcast.in_place", "in_place", (("UPCAST(0, 8)", "global 3, upcast 8"),)),
    Legal("upcast.symbolic", "symbolic_rows", (("UPCAST(1, 4)", "global n, global 2, upcast 4"),)),
    Legal("upcast.reduce", "column_sum", (("UPCAST(0, 4)", "global 2, reduce 12, upcast 4"),)),
    Legal(
        "upcast.matmul",
        "matmul",
        (("UPCAST(0, 4) UPCAST(1, 2)", "global 2, global 6, reduce 16, upcast 4, upcast 2"),),
        "float32",
    ),
    Legal(
        "upcast.softmax",
        "softmax",
        (("UPCAST(1, 4)", "global 4, global 2, reduce 8, reduce 8, upcast 4"),),
    ),
    Legal(
        "upcast.local",
        "outer",
        (("LOCAL(1, 6) UPCAST(2, 3)", "global 8, global 2, local 2, upcast 3"),),
    ),
)
_UNROLL = (
    Legal(
        "unroll.row_sum",
        "row_sum",
        (
            ("UNROLL(1, 4)", "global 6, reduce 4, unroll 4"),
            ("UNROLL(1, 0)", "global 6, unroll 16"),
            ("UNROLL(1, 2) UNROLL(1, 2)", "global 6, reduce 4, unroll 2, unroll 2"),
        ),
    ),
    Legal(
        "unroll.float32", "row_sum", (("UNROLL(1, 8)", "global 6, reduce 2, unroll 8"),), "float32"
    ),
    Legal(
        "unroll.float16", "row_sum", (("UNROLL(1, 4)", "global 6, reduce 4, unroll 4"),), "float16"
    ),
    Legal(
        "unroll.int8_wraps", "row_sum", (("UNROLL(1, 8)", "global 6, reduce 2, unroll 8"),), "int8"
    ),
    Legal(
        "unroll.int64", "column_sum", (("UNROLL(1, 3)", "global 8, reduce 4, unroll 3"),), "int64"
    ),
    Legal("unroll.all", "all_sum", (("UNROLL(0, 32)", "reduce 2, unroll 32"),)),
    Legal("unroll.maximum", "row_max", (("UNROLL(1, 4)", "global 7, reduce 3, unroll 4"),), "int8"),
    *(
        Legal(
            f"unroll.maximum_of_{form}.{dtype}",
            f"{form}_max",
            (("UNROLL(1, 3)", "global 7, unroll 3"),),
            dtype,
        )
        for form in ("negated", "scaled")
        for dtype in ("int32", "uint32", "int8", "int64")
    ),
    Legal("unroll.any", "row_max", (("UNROLL(1, 0)", "global 7, unroll 12"),), "bool"),
    *(
        Legal(
            f"unroll.{form}.{dtype}.{size}",
            f"{form}_{size}",
            ((f"UNROLL(0, {size})", f"unroll {size}"),),
            dtype,
            ("uint8", "int32"),
        )
        for form, kinds in (
            ("mixed_bytes", ("int8", "uint8")),
            ("rectified_bytes", ("int8",)),
            ("distance_of_bytes", ("int8", "uint8")),
            ("doubled_bytes", ("int8", "uint8")),
            ("quotient_of_bytes", ("int8",)),
        )
        for dtype in kinds
        for size in (8, 16)
    ),
    Legal("unroll.product", "product", (("UNROLL(1, 4)", "global 5, reduce 2, unroll 4"),)),
    Legal("unroll.masked", "masked_sum", (("UNROLL(1, 3)", "global 5, reduce 3, unroll 3"),)),
    Legal("unroll.prime", "prime_sum", (("UNROLL(1, 11)", "global 5, unroll 11"),)),
    Legal(
        "unroll.beside_nothing",
        "sum_beside_nothing",
        (("UNROLL(1, 3)", "global 4, reduce 2, unroll 3"),),
    ),
    Legal("unroll.of_nothing", "sum_of_nothing", (("UNROLL(1, 0)", "global 4, unroll 6"),)),
    Legal(
        "unroll.matmul",
        "matmul",
        (("UNROLL(2, 4)", "global 8, global 12, reduce 4, unroll 4"),),
        "float32",
    ),
    Legal(
        "unroll.nested",
        "nested",
        (
            ("UNROLL(2, 4)", "global 4, reduce 6, reduce 2, unroll 4"),
            ("UNROLL(1, 3)", "global 4, reduce 2, reduce 8, unroll 3"),
            ("UNROLL(2, 0) UNROLL(1, 2)", "global 4, reduce 3, unroll 8, unroll 2"),
        ),
    ),
    Legal("unroll.sibling", "sibling", (("UNROLL(1, 4)", "global 6, reduce 4, unroll 4"),)),
    Legal(
        "unroll.two_lengths",
        "two_lengths",
        (("UNROLL(1, 4) UNROLL(2, 3)", "global 5, reduce 4, reduce 3, unroll 4, unroll 3"),),
    ),
    Legal(
        "unroll.softmax",
        "softmax",
        (
            (
                "UNROLL(2, 4) UNROLL(3, 2)",
                "global 4, global 8, reduce 2, reduce 4, unroll 4, unroll 2",
            ),
        ),
    ),
    Legal("unroll.outputs", "reduce_outputs", (("UNROLL(1, 4)", "global 6, reduce 4, unroll 4"),)),
    Legal(
        "unroll.symbolic", "symbolic_row_sums", (("UNROLL(1, 4)", "global n, reduce 2, unroll 4"),)
    ),
    Legal(
        "unroll.group",
        "row_sum",
        (
            ("GROUP(1, 8) UNROLL(1, 2)", "global 6, group_reduce 4, reduce 2, unroll 2"),
            ("GROUP(1, 4) UNROLL(1, 0)", "global 6, reduce 4, unroll 4"),
        ),
    ),
)
_LOCAL = (
    Legal(
        "local.elementwise",
        "add",
        (
            ("LOCAL(0, 8)", "global 3, local 8"),
            ("LOCAL(0, 24)", "local 24"),
            ("LOCAL(0, 2) LOCAL(0, 3)", "global 4, local 2, local 3"),
        ),
    ),
    Legal("local.bool", "add", (("LOCAL(0, 4)", "global 6, local 4"),), "bool"),
    Legal(
        "local.transposed",
        "transpose",
        (("LOCAL(0, 3) LOCAL(1, 4)", "global 2, global 2, local 3, local 4"),),
        "float32",
    ),
    Legal("local.masked", "padded", (("LOCAL(1, 4)", "global 8, global 2, local 4"),)),
    Legal("local.multi_view", "multi_view", (("LOCAL(1, 6)", "global 8, global 2, local 6"),)),
    Legal(
        "local.smaller_output",
        "smaller_output",
        (("LOCAL(1, 4)", "global 6, global 2, local 4"), ("LOCAL(1, 8)", "global 6, local 8")),
    ),
    Legal("local.in_place", "in_place", (("LOCAL(0, 6)", "global 4, local 6"),)),
    Legal("local.symbolic", "symbolic_rows", (("LOCAL(1, 4)", "global n, global 2, local 4"),)),
    Legal("local.row_sum", "row_sum", (("LOCAL(0, 3)", "global 2, local 3, reduce 16"),)),
    Legal(
        "local.matmul",
        "matmul",
        (("LOCAL(0, 4) LOCAL(1, 3)", "global 2, global 4, local 4, local 3, reduce 16"),),
        "float32",
    ),
    Legal("local.softmax", "softmax", (("LOCAL(1, 8)", "global 4, local 8, reduce 8, reduce 8"),)),
)
_GROUP = (
    Legal(
        "group.row_sum",
        "row_sum",
        (
            ("GROUP(1, 4)", "global 6, group_reduce 4, reduce 4"),
            ("GROUP(1, 16)", "global 6, group_reduce 16"),
            ("GROUP(1, 2) GROUP(2, 4)", "global 6, group_reduce 2, group_reduce 4, reduce 2"),
        ),
    ),
    Legal(
        "group.float32",
        "column_sum",
        (("GROUP(1, 6)", "global 8, group_reduce 6, reduce 2"),),
        "float32",
    ),
    Legal(
        "group.float16",
        "row_sum",
        (("GROUP(1, 8)", "global 6, group_reduce 8, reduce 2"),),
        "float16",
    ),
    Legal(
        "group.int64", "row_sum", (("GROUP(1, 4)", "global 6, group_reduce 4, reduce 4"),), "int64"
    ),
    Legal(
        "group.int8", "row_sum", (("GROUP(1, 4)", "global 6, group_reduce 4, reduce 4"),), "int8"
    ),
    Legal("group.all", "all_sum", (("GROUP(0, 32)", "group_reduce 32, reduce 2"),)),
    Legal("group.maximum", "row_max", (("GROUP(1, 4)", "global 7, group_reduce 4, reduce 3"),)),
    Legal("group.any", "row_max", (("GROUP(1, 6)", "global 7, group_reduce 6, reduce 2"),), "bool"),
    Legal("group.product", "product", (("GROUP(1, 4)", "global 5, group_reduce 4, reduce 2"),)),
    Legal("group.masked", "masked_sum", (("GROUP(1, 3)", "global 5, group_reduce 3, reduce 3"),)),
    Legal("group.prime", "prime_sum", (("GROUP(1, 11)", "global 5, group_reduce 11"),)),
    Legal(
        "group.matmul",
        "matmul",
        (("GROUP(2, 4)", "global 8, global 12, group_reduce 4, reduce 4"),),
        "float32",
    ),
    Legal(
        "group.nested_inner",
        "nested",
        (
            # The group meets again for every iteration of the outer loop: a barrier before re-use.
            ("GROUP(2, 4)", "global 4, group_reduce 4, reduce 6, reduce 2"),
            ("GROUP(2, 8)", "global 4, group_reduce 8, reduce 6"),
        ),
    ),
    Legal(
        "group.nested_outer",
        "nested",
        (("GROUP(1, 3)", "global 4, group_reduce 3, reduce 2, reduce 8"),),
    ),
    Legal(
        "group.nested_both",
        "nested_sums",
        (
            (
                "GROUP(1, 2) GROUP(3, 4)",
                "global 4, group_reduce 2, group_reduce 4, reduce 3, reduce 2",
            ),
            (
                # As many parts of both: the work-items are pairs all the same.
                "GROUP(1, 2) GROUP(3, 2)",
                "global 4, group_reduce 2, group_reduce 2, reduce 3, reduce 4",
            ),
        ),
    ),
    Legal(
        "group.two_lengths",
        "two_lengths",
        (
            ("GROUP(1, 4)", "global 5, group_reduce 4, reduce 4, reduce 9"),
            (
                "GROUP(1, 4) GROUP(3, 3)",
                "global 5, group_reduce 4, group_reduce 3, reduce 4, reduce 3",
            ),
        ),
    ),
    Legal(
        "group.softmax",
        "softmax",
        (
            ("GROUP(2, 4)", "global 4, global 8, group_reduce 4, reduce 2, reduce 8"),
            ("GROUP(3, 4)", "global 4, global 8, group_reduce 4, reduce 8, reduce 2"),
            (
                # The same work-items share out both.
                "GROUP(2, 4) GROUP(4, 4)",
                "global 4, global 8, group_reduce 4, group_reduce 4, reduce 2, reduce 2",
            ),
            (
                "GROUPTOP(2, 4) GROUP(4, 4) LOCAL(1, 2)",
                "global 4, global 4, local 2, group_reduce 4, group_reduce 4, reduce 2, reduce 2",
            ),
        ),
    ),
    Legal(
        "group.symbolic",
        "symbolic_row_sums",
        (("GROUP(1, 4)", "global n, group_reduce 4, reduce 2"),),
    ),
)
_GROUPTOP = (
    Legal(
        "grouptop.row_sum",
        "row_sum",
        (
            ("GROUPTOP(1, 4)", "global 6, group_reduce 4, reduce 4"),
            ("GROUPTOP(1, 2) GROUPTOP(2, 4)", "global 6, group_reduce 2, group_reduce 4, reduce 2"),
            ("GROUP(1, 4) GROUPTOP(2, 2)", "global 6, group_reduce 4, group_reduce 2, reduce 2"),
        ),
    ),
    Legal(
        "grouptop.float32",
        "all_sum",
        (("GROUPTOP(0, 16)", "group_reduce 16, reduce 4"),),
        "float32",
    ),
    Legal(
        "grouptop.int64",
        "column_sum",
        (("GROUPTOP(1, 3)", "global 8, group_reduce 3, reduce 4"),),
        "int64",
    ),
    Legal(
        "grouptop.maximum",
        "row_max",
        (("GROUPTOP(1, 3)", "global 7, group_reduce 3, reduce 4"),),
        "int8",
    ),
    Legal(
        "grouptop.masked", "masked_sum", (("GROUPTOP(1, 3)", "global 5, group_reduce 3, reduce 3"),)
    ),
    Legal(
        "grouptop.matmul",
        "matmul",
        (("GROUPTOP(2, 8)", "global 8, global 12, group_reduce 8, reduce 2"),),
    ),
    Legal(
        "grouptop.nested",
        "nested_sums",
        (("GROUPTOP(2, 2)", "global 4, group_reduce 2, reduce 6, reduce 4"),),
    ),
    Legal(
        "grouptop.unrolled",
        "row_sum",
        (("GROUPTOP(1, 4) UNROLL(2, 0)", "global 6, group_reduce 4, unroll 4"),),
        "float32",
    ),
)
_NOLOCALS = (
    Legal("nolocals.elementwise", "add", (("NOLOCALS(0, 0)", "global 24"),)),
    Legal("nolocals.row_sum", "row_sum", (("NOLOCALS(0, 0)", "global 6, reduce 16"),)),
    Legal("nolocals.matmul", "matmul", (("NOLOCALS(0, 0)", "global 8, global 12, reduce 16"),)),
    Legal(
        "nolocals.softmax",
        "softmax",
        (("NOLOCALS(0, 0)", "global 4, global 8, reduce 8, reduce 8"),),
    ),
    Legal(
        "nolocals.lanes",
        "matmul",
        (
            (
                "UPCAST(1, 4) NOLOCALS(0, 0) UNROLL(2, 2)",
                "global 8, global 3, reduce 8, unroll 2, upcast 4",
            ),
        ),
        "float32",
    ),
)
_SWAP = (
    Legal("swap.transposed", "transpose", (("SWAP(0, 1)", "global 8, global 6"),)),
    Legal("swap.twice", "transpose", (("SWAP(1, 0) SWAP(0, 1)", "global 6, global 8"),), "float32"),
    Legal("swap.broadcast", "outer", (("SWAP(0, 1)", "global 12, global 8"),), "int64"),
    Legal("swap.masked", "padded", (("SWAP(0, 1)", "global 8, global 8"),)),
    Legal("swap.multi_view", "multi_view", (("SWAP(0, 1)", "global 12, global 8"),)),
    Legal("swap.smaller_output", "smaller_output", (("SWAP(0, 1)", "global 8, global 6"),)),
    Legal("swap.symbolic", "symbolic_rows", (("SWAP(0, 1)", "global 8, global n"),)),
    Legal("swap.matmul", "matmul", (("SWAP(0, 1)", "global 12, global 8, reduce 16"),), "float32"),
    Legal(
        "swap.split",
        "matmul",
        (("UPCAST(1, 4) SWAP(0, 1)", "global 3, global 8, reduce 16, upcast 4"),),
    ),
)
_PADTO = (
    Legal(
        "padto.elementwise",
        "add",
        (("PADTO(0, 16)", "global 32"), ("PADTO(0, 7)", "global 28")),
    ),
    Legal(
        "padto.prime", "prime", (("PADTO(0, 8) PADTO(1, 16)", "global 8, global 16"),), "float32"
    ),
    Legal("padto.bool", "prime", (("PADTO(1, 4)", "global 7, global 16"),), "bool"),
    Legal("padto.masked", "padded", (("PADTO(0, 5)", "global 10, global 8"),)),
    Legal("padto.multi_view", "multi_view", (("PADTO(1, 8)", "global 8, global 16"),)),
    Legal("padto.in_place", "in_place", (("PADTO(0, 9)", "global 27"),)),
    Legal("padto.outputs", "two_outputs", (("PADTO(0, 32)", "global 32"),)),
    Legal("padto.smaller_output", "smaller_output", (("PADTO(0, 4)", "global 8, global 8"),)),
    Legal("padto.sum", "prime_sum", (("PADTO(1, 4)", "global 5, reduce 12"),)),
    Legal("padto.float16", "prime_sum", (("PADTO(1, 8)", "global 5, reduce 16"),), "float16"),
    Legal("padto.int8", "prime_sum", (("PADTO(0, 4)", "global 8, reduce 11"),), "int8"),
    Legal("padto.masked_sum", "masked_sum", (("PADTO(1, 4)", "global 5, reduce 12"),)),
    Legal("padto.chosen_sum", "chosen_sum", (("PADTO(1, 4)", "global 5, reduce 12"),), "float32"),
    # A factor that is not 0 past the end: only an integer cannot be infinite.
    Legal("padto.scaled_sum", "scaled_sum", (("PADTO(1, 4)", "global 5, reduce 12"),)),
    Legal("padto.repeated", "repeated_sum", (("PADTO(1, 3)", "global 6, reduce 9"),)),
    Legal("padto.maximum_of_outputs", "row_max", (("PADTO(0, 8)", "global 8, reduce 12"),)),
    Legal(
        "padto.matmul",
        "prime_matmul",
        (
            ("PADTO(2, 4)", "global 5, global 7, reduce 12"),
            ("PADTO(0, 8) PADTO(1, 8) PADTO(2, 8)", "global 8, global 8, reduce 16"),
        ),
        "float32",
    ),
    Legal("padto.nested", "nested", (("PADTO(1, 4)", "global 4, reduce 8, reduce 8"),)),
    Legal(
        "padto.softmax",
        "softmax",
        (("PADTO(0, 3) PADTO(1, 5)", "global 6, global 10, reduce 8, reduce 8"),),
    ),
    *(
        Legal(
            f"padto.{each.form}", each.form, (("PADTO(1, 4)", "global 5, reduce 12"),), each.dtype
        )
        for each in ZERO_BEYOND
    ),
    Legal("padto.symbolic", "symbolic_row_sums", (("PADTO(1, 3)", "global n, reduce 9"),)),
)
_THREAD = (
    Legal("thread.elementwise", "add", (("THREAD(0, 2)", "thread 2, global 12"),)),
    Legal(
        "thread.transposed",
        "transpose",
        (("THREAD(1, 2)", "thread 2, global 6, global 4"),),
        "float32",
    ),
    Legal("thread.masked", "padded", (("THREAD(0, 2)", "thread 2, global 4, global 8"),)),
    Legal(
        "thread.smaller_output",
        "smaller_output",
        (("THREAD(1, 2)", "thread 2, global 6, global 4"),),
    ),
    Legal("thread.in_place", "in_place", (("THREAD(0, 2)", "thread 2, global 12"),), "int8"),
    Legal("thread.symbolic", "symbolic_rows", (("THREAD(1, 2)", "thread 2, global n, global 4"),)),
    Legal(
        "thread.row_sum", "row_sum", (("THREAD(0, 2)", "thread 2, global 3, reduce 16"),), "int64"
    ),
    Legal(
        "thread.matmul",
        "matmul",
        (("THREAD(0, 2) UPCAST(2, 4)", "thread 2, global 4, global 3, reduce 16, upcast 4"),),
        "float32",
    ),
    Legal(
        "thread.softmax",
        "softmax",
        (("THREAD(0, 2)", "thread 2, global 2, global 8, reduce 8, reduce 8"),),
    ),
)
_PACK = (
    Legal(
        "pack.matmul",
        "matmul",
        (
            ("PACK(1, 1)", "global 8, global 12, reduce 16"),
            ("PACK(0, 2)", "global 8, global 12, reduce 16"),
            ("PACK(0, 2) PACK(1, 1)", "global 8, global 12, reduce 16"),
        ),
    ),
    Legal("pack.float32", "matmul", (("PACK(1, 1)", "global 8, global 12, reduce 16"),), "float32"),
    Legal("pack.int8", "matmul", (("PACK(0, 2)", "global 8, global 12, reduce 16"),), "int8"),
    Legal(
        "pack.prime", "prime_matmul", (("PACK(0, 2)", "global 5, global 7, reduce 11"),), "int64"
    ),
    # The lanes of the copy are neighbours, which those of the buffer are not.
    Legal(
        "pack.transposed",
        "transposed_matmul",
        (
            (
                "UPCAST(1, 4) UPCAST(0, 2) PACK(0, 2)",
                "global 4, global 3, reduce 16, upcast 4, upcast 2",
            ),
            (
                "UPCAST(1, 4) UNROLL(2, 2) PACK(0, 2)",
                "global 8, global 3, reduce 8, unroll 2, upcast 4",
            ),
        ),
        "float32",
    ),
    Legal(
        "pack.convolution",
        "convolution",
        (
            (
                "UPCAST(0, 4) UPCAST(1, 3) PACK(1, 2)",
                "global 2, global 2, reduce 4, reduce 3, upcast 4, upcast 3",
            ),
        ),
        "float32",
    ),
    Legal("pack.repeated", "repeated_sum", (("PACK(0, 1)", "global 6, reduce 8"),)),
    Legal(
        "pack.gathered",
        "gathered_product",
        (
            ("PACK(0, 3)", "global 4, global 6, reduce 8"),
            ("UPCAST(0, 2) PACK(0, 3)", "global 2, global 6, reduce 8, upcast 2"),
        ),
    ),
    Legal("pack.nested", "repeated_nested", (("PACK(0, 1)", "global 4, reduce 6, reduce 8"),)),
    # What the sum goes over, and the outputs along axis 1 need again.
    Legal(
        "pack.reused",
        "softmax",
        (
            ("PACK(1, -1)", "global 4, global 8, reduce 8, reduce 8"),
            ("SWAP(0, 1) PACK(0, -1)", "global 8, global 4, reduce 8, reduce 8"),
            ("PACK(1, -1) UPCAST(0, 2)", "global 2, global 8, reduce 8, reduce 8, upcast 2"),
            (
                "UPCAST(1, 4) UNROLL(3, 2) PACK(1, -1)",
                "global 4, global 2, reduce 8, reduce 4, unroll 2, upcast 4",
            ),
            (
                "PACK(1, -1) UPCAST(1, 2) UPCAST(0, 4) UNROLL(2, 0)",
                "global 4, reduce 8, unroll 8, upcast 2, upcast 4",
            ),
        ),
        "float32",
    ),
    Legal(
        "pack.reused.int16",
        "softmax",
        (("PACK(1, -1)", "global 4, global 8, reduce 8, reduce 8"),),
        "int16",
    ),
    Legal(
        "pack.lanes",
        "matmul",
        (
            (
                "UPCAST(1, 4) UPCAST(0, 2) PACK(0, 2)",
                "global 4, global 3, reduce 16, upcast 4, upcast 2",
            ),
            ("UNROLL(2, 4) PACK(0, 2)", "global 8, global 12, reduce 4, unroll 4"),
        ),
        "float32",
    ),
)
_TOGETHER = (
    Legal(
        "together.block",
        "matmul",
        (
            (
                "UPCAST(1, 4) UPCAST(0, 4) UNROLL(2, 4)",
                "global 2, global 3, reduce 4, unroll 4, upcast 4, upcast 4",
            ),
        ),
        "float32",
    ),
    Legal(
        "together.pad_then_split",
        "prime_matmul",
        (
            (
                "PADTO(1, 4) UPCAST(1, 4) PADTO(2, 4) UNROLL(2, 4)",
                "global 5, global 2, reduce 3, unroll 4, upcast 4",
            ),
            ("UPCAST(1, 7) PADTO(0, 2) UPCAST(0, 2)", "global 3, reduce 11, upcast 7, upcast 2"),
        ),
    ),
    Legal(
        "together.swap_and_pack",
        "matmul",
        (
            (
                "UPCAST(1, 4) UPCAST(0, 2) SWAP(0, 1) PACK(1, 2)",
                "global 3, global 4, reduce 16, upcast 4, upcast 2",
            ),
        ),
        "float32",
    ),
    Legal(
        "together.pad_and_pack",
        "prime_matmul",
        (
            (
                "PADTO(1, 8) UPCAST(1, 4) PADTO(2, 4) PACK(0, 2)",
                "global 5, global 2, reduce 12, upcast 4",
            ),
        ),
    ),
    # What is added to an axis along which the copy is the same counts nothing.
    Legal(
        "together.pad_repeated_and_pack",
        "repeated_twice",
        (("PADTO(1, 4) PACK(0, 1)", "global 4, reduce 8, reduce 8"),),
    ),
    Legal(
        "together.group_of_lanes",
        "matmul",
        (
            (
                "UPCAST(1, 4) UNROLL(2, 2) GROUP(2, 4) LOCAL(0, 2)",
                "global 4, global 3, local 2, group_reduce 4, reduce 2, unroll 2, upcast 4",
            ),
            (
                "GROUPTOP(2, 4) UPCAST(0, 2) UPCAST(1, 3) LOCAL(1, 2)",
                "global 4, global 2, local 2, group_reduce 4, reduce 4, upcast 2, upcast 3",
            ),
        ),
        "float32",
    ),
    Legal(
        "together.group_in_loop",
        "nested_sums",
        (
            (
                "GROUP(2, 4) UNROLL(2, 2) LOCAL(0, 2)",
                "global 2, local 2, group_reduce 4, reduce 3, reduce 2, unroll 2",
            ),
        ),
    ),
    Legal(
        "together.pad_and_group",
        "repeated_sum",
        (
            # The value is the same in all lanes, but those past the end have no say in it.
            (
                "PADTO(0, 4) UPCAST(0, 4) GROUP(1, 4)",
                "global 2, group_reduce 4, reduce 2, upcast 4",
            ),
            ("PADTO(1, 12) GROUP(1, 4)", "global 6, group_reduce 4, reduce 3"),
        ),
    ),
    Legal(
        "together.pad_around_group",
        "repeated_nested",
        (
            ("PADTO(1, 4) GROUP(2, 4)", "global 4, group_reduce 4, reduce 8, reduce 2"),
            (
                "PADTO(1, 4) UNROLL(1, 4) GROUP(2, 4)",
                "global 4, group_reduce 4, reduce 2, reduce 2, unroll 4",
            ),
        ),
    ),
    Legal(
        "together.everything",
        "softmax",
        (
            (
                "LOCAL(0, 2) GROUP(3, 2) GROUPTOP(5, 4) UPCAST(1, 4)",
                "global 2, global 2, local 2, group_reduce 2, group_reduce 4, reduce 4, reduce 2, "
                "upcast 4",
            ),
        ),
    ),
)
LEGAL: tuple[Legal, ...] = (
    *(_UPCAST + _UNROLL + _LOCAL + _GROUP + _GROUPTOP),
    *(_NOLOCALS + _SWAP + _PADTO + _THREAD + _PACK + _TOGETHER),
)
