"""What a renderer may print wrongly in HIP C++, as edits of its texts."""

from __future__ import annotations

from tinyref_conformance.faulty.edits import Edit
from tinyref_spec.case import Rung

HIP_EDITS = (
    Edit(
        "HipTruncatedBfloat16",
        r"\(bits \+ 0x7fffu \+ \(bits >> 16 & 1u\)\) >> 16",
        "bits >> 16",
        "Makes bfloat16 of the high bits of a float32, not of the nearest.",
        Rung.ALU,
    ),
    Edit(
        "HipReciprocalOfHalf",
        r"float quotient = \(float\)x / \(float\)y;",
        "float quotient = (float)x * (float)(_Float16)(1.0f / (float)y);",
        "Divides float16 by a product with a reciprocal.",
        Rung.ALU,
    ),
    Edit(
        "HipRoundedTwice",
        r"bits \| 1u\);",
        "bits);",
        "Rounds float64 to float32 and then to bfloat16, each to nearest.",
        Rung.CAST,
    ),
    Edit(
        "HipWrappedLanes",
        r"\.s([89a-f])\b",
        r".s0",
        "Takes the first lane of a vector for each from the ninth on.",
        Rung.VECTOR,
    ),
    Edit(
        "HipNoBarrier",
        r"__builtin_amdgcn_s_barrier\(\); ",
        "",
        "Fences memory where the work-items of a group should wait.",
        Rung.GROUP,
    ),
)
