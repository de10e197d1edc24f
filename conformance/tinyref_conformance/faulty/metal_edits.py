"""What a renderer may print wrongly in MSL, as edits of its texts."""

from __future__ import annotations

from tinyref_conformance.faulty.edits import Edit
from tinyref_spec.case import Rung

METAL_EDITS = (
    Edit(
        "MetalSwappedArguments",
        r"\[\[buffer\(1\)\]\](.*)\[\[buffer\(2\)\]\]",
        r"[[buffer(2)]]\1[[buffer(1)]]",
        "Gives the second and the third argument of a kernel each other's number.",
        Rung.INDEX,
    ),
    Edit(
        "MetalFastRoot",
        r"precise::sqrt\((v\d+)\)",
        r"(\1 * (1.0f / precise::sqrt(\1)))",
        "Prints a root as fast mode has it: a number times the reciprocal of its root.",
        Rung.ALU,
    ),
    Edit(
        "MetalVectorsForElements",
        r"\*\((device packed_\w+) \*\)\((data\d+) \+ ([^)]*)\)",
        r"((\1 *)\2)[\3]",
        "Takes the position of an element in memory for that of a vector.",
        Rung.VECTOR,
    ),
    Edit(
        "MetalBarrierOfMemory",
        r"threadgroup_barrier\(.*\);",
        "",
        "Orders accesses to memory where the work-items of a group should wait.",
        Rung.GROUP,
    ),
    Edit(
        "MetalPositionInGrid",
        r"threadgroup_position_in_grid",
        "thread_position_in_grid",
        "Takes the position of a work-item in the grid for that of its group.",
        Rung.GROUP,
    ),
)
