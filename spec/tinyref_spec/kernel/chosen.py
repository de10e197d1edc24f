"""The forms that heuristics choose for real work: each kernel with them, and with a given list.

The lists are those of a host of two threads with vectors of 64 bytes and half a megabyte of scratch
memory; a test of this suite keeps them so. Every device runs them that has what they need.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from tinyref.optimise.opt import OptOp, opts_text, parse_opts
from tinyref.sources import docstring
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel.chosen_kernels import CHOSEN_FORMS
from tinyref_spec.kernel.opt_legal import Legal
from tinyref_spec.kernel.opts import EXACT, dtype_named, features_of, legal_use, subject_of
from tinyref_spec.measure import run_exact

# The most that a list copies.
SCRATCH_BYTES = 32 << 10


def _chosen(name: str, opts: str, axes: str, dtype: str = "float32") -> Legal:
    return Legal(name, name, ((opts, axes),), dtype)


CHOSEN: tuple[Legal, ...] = (
    _chosen(
        "exchange",
        "UPCAST(3, 8) UPCAST(2, 2) UPCAST(1, 2)",
        "global 4, global 2, upcast 8, upcast 2, upcast 2",
        "int64",
    ),
    _chosen(
        "exchange_neighbours",
        "UPCAST(0, 8) UPCAST(2, 2) UPCAST(1, 2)",
        "global 4, upcast 8, upcast 2, upcast 2",
        "int64",
    ),
    _chosen("mirrored", "UPCAST(2, 8) UPCAST(1, 4)", "global 6, upcast 8, upcast 4"),
    _chosen(
        "panel_product",
        "UPCAST(1, 16) UPCAST(0, 4) UPCAST(1, 4) PACK(0, 2)",
        "global 16, reduce 128, upcast 16, upcast 4, upcast 4",
    ),
    _chosen(
        "thin_product",
        "UPCAST(1, 2) UPCAST(0, 16)",
        "global 2, global 5, reduce 48, upcast 2, upcast 16",
    ),
    _chosen("row_product", "UPCAST(0, 16)", "global 3, reduce 32, upcast 16"),
    _chosen(
        "transposed_product",
        "UPCAST(1, 16) UPCAST(0, 8) SWAP(0, 1) PACK(1, 2)",
        "global 2, global 4, reduce 24, upcast 16, upcast 8",
    ),
    _chosen(
        "gradient_product",
        "UPCAST(1, 16) UPCAST(0, 8) UPCAST(1, 2)",
        "global 4, reduce 24, upcast 16, upcast 8, upcast 2",
    ),
    _chosen(
        "batched_product",
        "UPCAST(2, 16) UPCAST(1, 16)",
        "global 3, reduce 12, upcast 16, upcast 16",
    ),
    _chosen(
        "weighted_values",
        "UPCAST(1, 16) UPCAST(0, 8) UPCAST(1, 2)",
        "global 2, reduce 24, upcast 16, upcast 8, upcast 2",
    ),
    _chosen(
        "padded_convolution",
        "UPCAST(0, 16) UPCAST(1, 8) PACK(0, 2)",
        "global 8, reduce 4, reduce 3, reduce 3, upcast 16, upcast 8",
    ),
    _chosen(
        "strided_convolution",
        "UPCAST(0, 16) UPCAST(1, 4) PACK(0, 2)",
        "global 4, reduce 4, reduce 3, reduce 3, upcast 16, upcast 4",
    ),
    _chosen(
        "grouped_convolution",
        "UPCAST(3, 8) UPCAST(1, 4)",
        "global 2, global 2, global 8, reduce 2, reduce 3, reduce 3, upcast 8, upcast 4",
    ),
    _chosen(
        "depthwise_convolution",
        "UPCAST(2, 8)",
        "global 6, global 8, reduce 3, reduce 3, upcast 8",
    ),
    _chosen(
        "transposed_convolution",
        "UPCAST(1, 16) PACK(1, 2)",
        "global 2, global 17, reduce 3, reduce 2, upcast 16",
    ),
    _chosen("column_sums", "UPCAST(0, 16)", "global 2, reduce 24, upcast 16"),
    _chosen(
        "normalised_rows",
        "UNROLL(2, 16) UNROLL(1, 16)",
        "global 6, reduce 2, reduce 2, unroll 16, unroll 16",
    ),
    _chosen(
        "shared_rows",
        "UPCAST(1, 16) UNROLL(2, 16) UNROLL(3, 16)",
        "global 6, global 2, reduce 2, reduce 2, unroll 16, unroll 16, upcast 16",
    ),
    _chosen("pooled", "UNROLL(3, 2) UNROLL(2, 0)", "global 4, global 12, unroll 2, unroll 2"),
    _chosen("scanned_blocks", "UPCAST(1, 16)", "global 12, reduce 16, upcast 16"),
    _chosen("carried_blocks", "UPCAST(1, 16)", "global 12, upcast 16"),
    _chosen("updated_in_place", "UPCAST(0, 16)", "global 3, upcast 16"),
)


def _with_heuristics(chosen: Legal, case_id: str, device: DeviceUnderTest) -> Measurement:
    subject = subject_of(chosen.kernel, chosen.dtype)
    return run_exact(case_id, device, subject.kernel, subject.inputs, subject.expected)


def _with_list(
    chosen: Legal, text: str, axes: str, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """A device with less scratch memory runs the list without what would be copied there."""
    if device.capabilities.shared_bytes < SCRATCH_BYTES:
        text = opts_text(tuple(opt for opt in parse_opts(text) if opt.op is not OptOp.PACK))
    return legal_use(chosen, text, axes, case_id, device)


def rows() -> Iterator[Row]:
    """A row for each form."""
    for chosen in CHOSEN:
        ((text, axes),) = chosen.uses
        sentence = docstring(CHOSEN_FORMS[chosen.kernel]).partition("\n")[0]
        listed = functools.partial(_with_list, chosen, text, axes)
        checks = [
            Check("heuristics", functools.partial(_with_heuristics, chosen)),
            Check("listed", listed, needs=kernel_needs(features=features_of(text))),
        ]
        yield make_row(
            f"kernel.chosen.{chosen.name}.{chosen.dtype}",
            f"With what heuristics choose, and with {text}: {sentence}",
            ("kernel.opt",),
            Rung.OPTIMISED,
            "OPTS",
            chosen.dtype,
            EXACT,
            kernel_needs(dtype_named(chosen.dtype)),
            functools.partial(list, checks),
        )
