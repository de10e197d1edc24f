"""What a renderer may print wrongly, as edits of its texts: in OpenCL C and in WGSL."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tinyref_spec.case import Rung


@dataclass(frozen=True)
class Edit:
    """What is printed wrongly: each match of the regular expression `right` becomes `wrong`.

    sentence: what is wrong, for a reader. rung: where the suite must see it first, which is low of
    what is wrong about where views begin: some cases of each row have all buffers unaligned.
    """

    name: str
    right: str
    wrong: str
    sentence: str
    rung: Rung

    def apply(self, text: str) -> str:
        """The text as the broken renderer prints it."""
        return re.sub(self.right, self.wrong, text, flags=re.MULTILINE)


# A value, in a text.
_V = r"(v\d+)"

OPENCL_EDITS = (
    Edit(
        "LostInfinity",
        r"as_float\(0x7f800000u\)",
        "3.4028235e+38f",
        "Prints infinity as the largest float.",
        Rung.STORE,
    ),
    Edit(
        "LostNegativeZeroLiteral",
        r"as_float\(0x80000000u\)",
        "(-0.0f + 0.0f)",
        "Prints the literal -0.0 as 0.0.",
        Rung.STORE,
    ),
    Edit(
        "ZeroForNan",
        r"as_float\(0x7fc00000u\)",
        "0.0f",
        "Prints NaN as 0.",
        Rung.STORE,
    ),
    Edit(
        "LeastIntegerOffByOne",
        r"\(-2147483647 - 1\)",
        "(-2147483647)",
        "Prints the least int32 one too large.",
        Rung.STORE,
    ),
    Edit(
        "ShortDecimals",
        r"(\d\.\d{3})\d+(e[+-]?\d+)?f",
        r"\1\2f",
        "Prints floats with four digits.",
        Rung.STORE,
    ),
    Edit(
        "LostFloatSuffix",
        r"(\d\.\d+(e[+-]?\d+)?|\de[+-]?\d+)f\b",
        r"\1",
        "Prints float32 literals as those of float64.",
        Rung.ALU,
    ),
    Edit(
        "LostLongSuffix",
        r"\b(\d+)l\b",
        r"\1",
        "Prints int64 literals as those of int32, where they fit.",
        Rung.ALU,
    ),
    Edit(
        "SwappedOperands",
        rf"{_V} / {_V}",
        r"\2 / \1",
        "Prints the operands of a division in reverse.",
        Rung.ALU,
    ),
    Edit(
        "SwappedBuffers",
        r"base1, ulong start1, __global uchar \*base2, ulong start2",
        "base2, ulong start2, __global uchar *base1, ulong start1",
        "Gives a kernel its second and third buffer in reverse.",
        Rung.INDEX,
    ),
    Edit(
        "IgnoredOffset",
        r" \+ start\d+\)",
        ")",
        "Ignores the byte at which a view begins.",
        Rung.STORE,
    ),
    Edit(
        "OffsetInElements",
        r"\(base(\d+) \+ start\d+\)",
        r"base\1 + start\1",
        "Takes the byte at which a view begins for an element.",
        Rung.STORE,
    ),
    Edit(
        "OffsetOfTheFirst",
        r"\+ start\d+\)",
        "+ start0)",
        "Lets every view begin where the first one does.",
        Rung.ONE_ALU,
    ),
    Edit(
        "SwappedGroupDimensions",
        r"get_group_id\(([01])\)",
        r"get_group_id(1 - \1)",
        "Swaps the first two dimensions of the grid.",
        Rung.INDEX,
    ),
    Edit(
        "LogicalShift",
        rf"int (v\d+) = {_V} >> ",
        r"int \1 = (uint)\2 >> ",
        "Shifts negative numbers to the right as unsigned ones.",
        Rung.ALU,
    ),
    Edit(
        "NanEqualsItself",
        rf"bool (v\d+) = {_V} != (v\d+);",
        r"bool \1 = \2 < \3 || \3 < \2;",
        "Finds NaN equal to what it is compared with.",
        Rung.ALU,
    ),
    Edit(
        "UnsignedBytes",
        r" char (v\d+)",
        r" uchar \1",
        "Keeps signed bytes in unsigned variables.",
        Rung.ALU,
    ),
    Edit(
        "RoundedCast",
        r"\? \((u?int|u?char|u?short|u?long)\)(v\d+) :",
        r"? (\1)(\2 + 0.5f) :",
        "Rounds as it makes integers of floats.",
        Rung.CAST,
    ),
    Edit(
        "ConvertedBits",
        r"as_u?int\((v\d+)\)",
        r"(int)\1",
        "Converts where it should reinterpret bits.",
        Rung.ONE_ALU,
    ),
    Edit(
        "LostStoreGate",
        r"if \(v\d+\) \{ (.*) \}",
        r"\1",
        "Forgets the gate of a store.",
        Rung.GATE,
    ),
    Edit(
        "InvertedStoreGate",
        r"if \((v\d+)\) \{ (data\d+\[)",
        r"if (!\1) { \2",
        "Stores where the gate is closed.",
        Rung.GATE,
    ),
    Edit(
        "LostLoadGate",
        r"v\d+ \? (data\d+\[(v|i|group_)\d+\]) : [^;]*;",
        r"\1;",
        "Forgets the gate of a load.",
        Rung.GATE,
    ),
    Edit(
        "SwappedLanes",
        r"\.s([01])\b(.*?)\.s([01])\b",
        r".s\3\2.s\1",
        "Swaps the first two lanes of a vector.",
        Rung.VECTOR,
    ),
    Edit(
        "ShortVectorStore",
        r" data\d+\[[^]]*\] = v\d+\.s[13];$",
        "",
        "Does not store the last lane of a vector.",
        Rung.VECTOR,
    ),
    Edit(
        "LoopOnceMore",
        r"for \(int (i\d+) = 0; i\d+ < ",
        r"for (int \1 = 0; \1 <= ",
        "Runs loops once more.",
        Rung.GATE,
    ),
    Edit(
        "LoopFromOne",
        r"for \(int (i\d+) = 0;",
        r"for (int \1 = 1;",
        "Begins loops at 1.",
        Rung.GATE,
    ),
    Edit(
        "SwappedItemDimensions",
        r"get_local_id\(([01])\)",
        r"get_local_id(1 - \1)",
        "Swaps the first two dimensions of a group.",
        Rung.GROUP,
    ),
    Edit(
        "GroupForItem",
        r"get_local_id",
        "get_group_id",
        "Takes the index of the group for that of the work-item.",
        Rung.GROUP,
    ),
    Edit(
        "GlobalForGroup",
        r"get_group_id",
        "get_global_id",
        "Takes the index of the work-item in the grid for that of its group.",
        Rung.GROUP,
    ),
    Edit(
        "NoBarrier",
        r"\n *barrier\(.*\);",
        "",
        "Prints no barriers.",
        Rung.GROUP,
    ),
    Edit(
        "PrivateArray",
        r"__local ",
        "",
        "Gives every work-item an array of its own where the group shares one.",
        Rung.GROUP,
    ),
    Edit(
        "ShortSharedArray",
        r"(__local .*)\[(\d+)\];",
        r"\1[\2 - 1];",
        "Makes shared arrays one element too short.",
        Rung.GROUP,
    ),
)

WGSL_EDITS = (
    Edit(
        "WgslLostInfinity",
        r"bitcast<f32>\(\(0x7f800000u \| launch_words\[0\]\)\)",
        "3.4028234e+38f",
        "Prints infinity as the largest float.",
        Rung.STORE,
    ),
    Edit(
        "WgslLostNegativeZero",
        r"\(0x80000000u \|",
        "(0u |",
        "Prints the literal -0.0 as 0.0.",
        Rung.STORE,
    ),
    Edit(
        "WgslLostMask",
        r"atomicAnd\([^;]*\); ",
        "",
        "Does not clear the bits of a byte before it sets them.",
        Rung.STORE,
    ),
    Edit(
        "WgslClearedNeighbours",
        r"atomicAnd\(&([^,]*), [^;]*\); ",
        r"atomicAnd(&\1, 0u); ",
        "Clears the neighbours of a byte that it writes.",
        Rung.STORE,
    ),
    Edit(
        "WgslIgnoredOffset",
        r"data\d+_at \+ ",
        "",
        "Ignores where a view begins.",
        Rung.STORE,
    ),
    Edit(
        "WgslOffsetInBytes",
        r" / \d+u\);",
        ");",
        "Takes the byte at which a view begins for an element.",
        Rung.STORE,
    ),
    Edit(
        "WgslOtherVariable",
        r"(let var_\w+: i32 = .*launch_words\[)1\]",
        r"\g<1>2]",
        "Reads the word after that of the first variable.",
        Rung.STORE,
    ),
    Edit(
        "WgslOtherGroupIndex",
        r"group_id\.x",
        "group_id.y",
        "Takes the second index of a group for the first.",
        Rung.INDEX,
    ),
    Edit(
        "WgslSwappedSelect",
        r"select\(([^,()]+), ([^,()]+), ",
        r"select(\2, \1, ",
        "Swaps what is chosen and what is not.",
        Rung.ONE_ALU,
    ),
    Edit(
        "WgslLogicalShift",
        r": i32 = (v\d+) >> (.*);",
        r": i32 = i32(u32(\1) >> \2);",
        "Shifts negative numbers to the right as unsigned ones.",
        Rung.ALU,
    ),
    Edit(
        "WgslNanEqualsItself",
        r"!\((v\d+) == (v\d+)\)",
        r"(\1 < \2 || \2 < \1)",
        "Finds NaN equal to what it is compared with.",
        Rung.ALU,
    ),
    Edit(
        "WgslLostStoreGate",
        r"if \(v\d+\) \{ (data.*) \}",
        r"\1",
        "Forgets the gate of a store.",
        Rung.GATE,
    ),
    Edit(
        "WgslLostLoadGate",
        r"if \(v\d+\) \{ (v\d+ = data.*) \}",
        r"\1",
        "Forgets the gate of a load.",
        Rung.GATE,
    ),
    Edit(
        "WgslOtherItemIndex",
        r"item_id\.x",
        "item_id.y",
        "Takes the second index of a work-item for the first.",
        Rung.GROUP,
    ),
    Edit(
        "WgslGroupForItem",
        r"i32\(item_id",
        "i32(group_id",
        "Takes the index of the group for that of the work-item.",
        Rung.GROUP,
    ),
    Edit(
        "WgslNoBarrier",
        r"\n *storageBarrier\(\); workgroupBarrier\(\);",
        "",
        "Prints no barriers.",
        Rung.GROUP,
    ),
    Edit(
        "WgslPrivateArray",
        r"var<workgroup>",
        "var<private>",
        "Gives every work-item an array of its own where the group shares one.",
        Rung.GROUP,
    ),
    Edit(
        "WgslShortArray",
        r"(var<workgroup> .*, )(\d+)>;",
        r"\1\2 - 1>;",
        "Makes shared arrays one element too short.",
        Rung.GROUP,
    ),
    Edit(
        "WgslShortGroup",
        r"@workgroup_size\((\d*[2-9]\d*|1\d+),",
        r"@workgroup_size(\1 - 1,",
        "Launches groups with one work-item less.",
        Rung.GROUP,
    ),
)
