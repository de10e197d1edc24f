"""What a renderer may print wrongly in CUDA C++, as edits of its texts."""

from __future__ import annotations

from tinyref_conformance.faulty.edits import Edit
from tinyref_spec.case import Rung

CUDA_EDITS = (
    Edit(
        "CudaOrderedComparison",
        r"__hneu\(([^,()]+), ([^,()]+)\)",
        r"(__hlt(\1, \2) || __hlt(\2, \1))",
        "Finds NaN equal to what a half is compared with.",
        Rung.ALU,
    ),
    Edit(
        "CudaProductWithReciprocal",
        r"__fdiv_rn\((v\d+), (v\d+)\)",
        r"__fmul_rn(\1, __fdiv_rn(1.0f, \2))",
        "Divides float32 by a product with a reciprocal, as fast mode does.",
        Rung.ALU,
    ),
    Edit(
        "CudaRoundedTwice",
        r"__double2half\((v\d+)\)",
        r"__float2half_rn((float)\1)",
        "Rounds float64 to float32 and then to float16.",
        Rung.CAST,
    ),
    Edit(
        "CudaFirstVector",
        r"\*\(const (\w+) \*\)&(\w+)\[[^\]]*\]",
        r"*(const \1 *)&\2[0]",
        "Loads the first vector of a buffer wherever a vector is loaded.",
        Rung.VECTOR,
    ),
    Edit(
        "CudaRepeatedLanes",
        r"v\.s([4-7]) = s\1;",
        r"v.s\1 = x;",
        "Makes four lanes of a structure of the first one.",
        Rung.VECTOR,
    ),
)
