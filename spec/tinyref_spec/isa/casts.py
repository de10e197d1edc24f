"""Special cases of CAST and BITCAST, as literals, by target and kind of source."""

from __future__ import annotations

from tinyref.dtype import DType, Kind
from tinyref_spec.isa.specials import Special, parse

# Integer to integer: wraps. Values that the source does not have do not apply.
INTEGER_TO: dict[str, str] = {
    "int8": """
        127 -> 127; 128 -> -128; 255 -> -1; 256 -> 0; 300 -> 44; -129 -> 127; -1 -> -1; 65535 -> -1
        2147483647 -> -1; -2147483648 -> 0; 4294967295 -> -1; 9223372036854775807 -> -1; 0 -> 0""",
    "uint8": """
        255 -> 255; 256 -> 0; -1 -> 255; 300 -> 44; -128 -> 128; 65535 -> 255; 4294967040 -> 0
        9223372036854775807 -> 255; 0 -> 0; 100 -> 100""",
    "int16": """
        32767 -> 32767; 32768 -> -32768; 65535 -> -1; 65536 -> 0; -32769 -> 32767; -1 -> -1
        100000 -> -31072; 127 -> 127; -128 -> -128; 255 -> 255; 9223372036854775807 -> -1""",
    "uint16": """
        65535 -> 65535; 65536 -> 0; -1 -> 65535; -32768 -> 32768; 100000 -> 34464; -128 -> 65408
        255 -> 255; 127 -> 127""",
    "int32": """
        2147483647 -> 2147483647; 2147483648 -> -2147483648; 4294967295 -> -1; 4294967296 -> 0
        -1 -> -1; -2147483649 -> 2147483647; -128 -> -128; 255 -> 255; -32768 -> -32768
        65535 -> 65535; 127 -> 127""",
    "uint32": """
        4294967295 -> 4294967295; 4294967296 -> 0; -1 -> 4294967295; -2147483648 -> 2147483648
        -128 -> 4294967168; 255 -> 255; 127 -> 127; 65535 -> 65535""",
    "int64": """
        9223372036854775807 -> 9223372036854775807; 9223372036854775808 -> -9223372036854775808
        18446744073709551615 -> -1; 4294967295 -> 4294967295; -1 -> -1; -2147483648 -> -2147483648
        -128 -> -128; 255 -> 255; 127 -> 127""",
    "uint64": """
        18446744073709551615 -> 18446744073709551615; -1 -> 18446744073709551615; 127 -> 127
        -2147483648 -> 18446744071562067968; 4294967295 -> 4294967295; 255 -> 255
        -128 -> 18446744073709551488""",
    "bool": "0 -> False; 1 -> True; 2 -> True; -1 -> True; MIN -> True; MAX -> True; 256 -> True",
}
# An unsigned MIN is zero.
_UNSIGNED_TO_BOOL = "0 -> False; 1 -> True; 2 -> True; MAX -> True; 256 -> True; 65536 -> True"

# Integer to float: one rounding to nearest even, overflow to infinity (fp8e4m3: NaN).
INTEGER_TO_FLOAT: dict[str, str] = {
    "fp8e4m3": """
        0 -> 0; 1 -> 1; 17 -> 16; 19 -> 20; 18 -> 18; 464 -> 448; 465 -> nan; -19 -> -20; 100 -> 96
        9223372036854775807 -> nan; 127 -> 128""",
    "fp8e5m2": """
        0 -> 0; 1 -> 1; 9 -> 8; 11 -> 12; 10 -> 10; 61439 -> 57344; 61440 -> inf; -11 -> -12
        9223372036854775807 -> inf; 127 -> 128; 100 -> 96""",
    "float16": """
        0 -> 0; 1 -> 1; 2049 -> 2048; 2051 -> 2052; 65504 -> 65504; 65519 -> 65504; 65520 -> inf
        -65520 -> -inf; -2051 -> -2052; 100 -> 100; -128 -> -128; 255 -> 255""",
    "bfloat16": """
        0 -> 0; 1 -> 1; 257 -> 256; 259 -> 260; -259 -> -260; 65535 -> 65536; 255 -> 255; 100 -> 100
        -128 -> -128; 9223372036854775807 -> 9223372036854775808; 2147483647 -> 2147483648
        9259400833873739777 -> 9295429630892703744
        4629700416936869889 -> 4647714815446351872; 33685505 -> 33816576; 16842753 -> 16908288""",
    "float32": """
        0 -> 0; 1 -> 1; 16777217 -> 16777216; 16777219 -> 16777220; -16777217 -> -16777216
        2147483647 -> 2147483648; 4294967295 -> 4294967296; 9007199791611905 -> 9007200328482816
        9223372036854775807 -> 9223372036854775808; 18446744073709551615 -> 18446744073709551616
        255 -> 255; -128 -> -128; 32767 -> 32767; 100 -> 100""",
    "float64": """
        0 -> 0; 1 -> 1; 9007199254740993 -> 9007199254740992; 9007199254740995 -> 9007199254740996
        18446744073709551615 -> 18446744073709551616; 9223372036854775807 -> 9223372036854775808
        2147483647 -> 2147483647; 4294967295 -> 4294967295; -128 -> -128; 255 -> 255; 100 -> 100""",
}

# Float to integer: truncates; NaN, infinities and what is out of range are unspecified.
FLOAT_TO_SIGNED = """
    2.5 -> 2; -2.5 -> -2; 0.5 -> 0; -0.5 -> 0; 0 -> 0; -0 -> 0; SUB -> 0; -SUB -> 0; -1.75 -> -1
    96 -> 96; -112 -> -112; 0.875 -> 0; -1 -> -1; inf -> ?; -inf -> ?; nan -> ?; 127 -> 127
    -128 -> -128; 127.5 -> 127"""
FLOAT_TO_UNSIGNED = """
    2.5 -> 2; 0.5 -> 0; 0 -> 0; -0 -> 0; -0.5 -> 0; SUB -> 0; 96 -> 96; 0.875 -> 0; 1.75 -> 1
    inf -> ?; -inf -> ?; nan -> ?; -2 -> ?; 255 -> 255; 255.5 -> 255"""
FLOAT_TO_INTEGER_LIMITS: dict[str, str] = {
    "int16": "32752 -> 32752; -32768 -> -32768; 32767.5 -> 32767",
    "uint16": "65504 -> 65504; 57344 -> 57344; 65535.5 -> 65535",
    "int32": "2147483520 -> 2147483520; -2147483648 -> -2147483648; 2147483648 -> ?",
    "uint32": "4294967040 -> 4294967040; 3000000000 -> 3000000000; 4294967296 -> ?",
    "int64": """
        9223371487098961920 -> 9223371487098961920; -9223372036854775808 -> -9223372036854775808
        9223372036854775808 -> ?; 9007199254740991 -> 9007199254740991""",
    "uint64": """
        18446742974197923840 -> 18446742974197923840; 9223372036854775808 -> 9223372036854775808
        18446744073709551616 -> ?; 9007199254740993024 -> 9007199254740993024""",
}
FLOAT_TO_BOOL = """
    0 -> False; -0 -> False; nan -> True; SUB -> True; 0.5 -> True; inf -> True; -inf -> True
    -SUB -> True; 1 -> True; -LARGEST -> True"""

# Float to float, by target: ties to even, overflow, subnormals, one rounding only.
FLOAT_TO_FLOAT: dict[str, str] = {
    "fp8e4m3": """
        448 -> 448; 464 -> 448; 480 -> nan; -480 -> nan; 0x1.1p0 -> 1; 0x1.3p0 -> 0x1.4p0
        0x1p-9 -> SUB; 0x1p-10 -> 0; 0x1.8p-10 -> SUB; 0x1.8p-9 -> SUB2; inf -> nan; -inf -> nan
        0x1.1000001p0 -> 0x1.2p0; LARGEST -> nan""",
    "fp8e5m2": """
        57344 -> 57344; 61440 -> inf; -61440 -> -inf; 0x1.2p0 -> 1; 0x1.6p0 -> 0x1.8p0
        0x1p-16 -> SUB; 0x1p-17 -> 0; 0x1.8p-17 -> SUB; 0x1.8p-16 -> SUB2; inf -> inf
        0x1.2000001p0 -> 0x1.4p0; 61439 -> 57344""",
    "float16": """
        65504 -> 65504; 65519 -> 65504; 65520 -> inf; -65520 -> -inf; 0x1.002p0 -> 1
        0x1.006p0 -> 0x1.008p0; 0x1p-24 -> SUB; 0x1p-25 -> 0; 0x1.8p-25 -> SUB; -0x1p-25 -> -0
        0x1.8p-24 -> SUB2; 0x1.0020000001p0 -> 0x1.004p0; inf -> inf; -inf -> -inf; 448 -> 448
        0x1p-14 -> NORMAL""",
    "bfloat16": """
        0x1.01p0 -> 1; 0x1.03p0 -> 0x1.04p0; 0x1.010001p0 -> 0x1.02p0; 0x1.0100000001p0 -> 0x1.02p0
        0x1.ffp127 -> inf; -0x1.ffp127 -> -inf; 0x1.fep127 -> LARGEST; 0x1p-133 -> SUB
        0x1p-134 -> 0; 0x1.8p-134 -> SUB; 0x1.8p-133 -> SUB2; inf -> inf; -inf -> -inf; 448 -> 448
        0x1p-126 -> NORMAL; -0x1p-134 -> -0""",
    "float32": """
        0x1.000001p0 -> 1; 0x1.000003p0 -> 0x1.000004p0; 0x1.ffffffp127 -> inf; 0x1p-149 -> SUB
        0x1p-150 -> 0; 0x1.8p-150 -> SUB; 0x1.8p-149 -> SUB2; -0x1p-150 -> -0; inf -> inf
        -inf -> -inf; 448 -> 448; 0x1p-126 -> NORMAL; 0x1p-24 -> 0x1p-24; 0x1p-133 -> 0x1p-133
        0x1p-16 -> 0x1p-16; 0x1p-9 -> 0x1p-9; -0x1.ffffffp127 -> -inf""",
    "float64": """
        0x1p-149 -> 0x1p-149; 0x1p-133 -> 0x1p-133; 0x1p-24 -> 0x1p-24; inf -> inf; -inf -> -inf
        448 -> 448; 0x1.000002p0 -> 0x1.000002p0; 0x1p-9 -> 0x1p-9; 0x1p-16 -> 0x1p-16""",
}
ANY_FLOAT_TO_FLOAT = "0 -> 0; -0 -> -0; 1 -> 1; -1.5 -> -1.5; nan -> nan; 0.25 -> 0.25"

BITCAST: dict[tuple[str, str], str] = {
    (
        "float32",
        "int32",
    ): "1 -> 1065353216; -0 -> MIN; 0 -> 0; inf -> 2139095040; -1 -> -1082130432",
    ("float32", "uint32"): "1 -> 0x3f800000; -0 -> 0x80000000; SUB -> 1; inf -> 0x7f800000",
    ("int32", "float32"): "1065353216 -> 1; MIN -> -0; 0 -> 0; 1 -> SUB; 2139095039 -> LARGEST",
    ("uint32", "float32"): "0x3f800000 -> 1; 0x80000000 -> -0; 0xff800000 -> -inf; 1 -> SUB",
    ("float16", "uint16"): "1 -> 0x3c00; -0 -> 0x8000; inf -> 0x7c00; LARGEST -> 0x7bff",
    ("uint16", "float16"): "0x3c00 -> 1; 0x8000 -> -0; 0x7c00 -> inf; 1 -> SUB",
    ("bfloat16", "uint16"): "1 -> 0x3f80; -0 -> 0x8000; inf -> 0x7f80; SUB -> 1",
    ("uint16", "bfloat16"): "0x3f80 -> 1; 0x8000 -> -0; 0x7f80 -> inf; 1 -> SUB",
    ("float64", "uint64"): "1 -> 0x3ff0000000000000; -0 -> 0x8000000000000000; SUB -> 1",
    ("uint64", "float64"): "0x3ff0000000000000 -> 1; 0x8000000000000000 -> -0; 1 -> SUB",
    ("float64", "int64"): "-0 -> MIN; 0 -> 0; 1 -> 0x3ff0000000000000",
    ("int64", "float64"): "MIN -> -0; 0 -> 0; 0x3ff0000000000000 -> 1",
    ("int8", "uint8"): "-1 -> 255; MIN -> 128; 127 -> 127",
    ("uint8", "int8"): "255 -> -1; 128 -> MIN; 127 -> 127",
    ("fp8e4m3", "uint8"): "1 -> 0x38; -0 -> 0x80; 448 -> 0x7e",
    ("uint8", "fp8e4m3"): "0x38 -> 1; 0x80 -> -0; 0x7e -> 448; 1 -> SUB",
    ("fp8e5m2", "uint8"): "1 -> 0x3c; -0 -> 0x80; inf -> 0x7c",
    ("uint8", "fp8e5m2"): "0x3c -> 1; 0x80 -> -0; 0x7c -> inf; 1 -> SUB",
    ("int32", "uint32"): "-1 -> MAX; MIN -> TOP; 7 -> 7",
    ("uint32", "int32"): "MAX -> -1; TOP -> MIN; 7 -> 7",
    ("int64", "uint64"): "-1 -> MAX; MIN -> TOP; 7 -> 7",
    ("uint64", "int64"): "MAX -> -1; TOP -> MIN; 7 -> 7",
    ("int16", "uint16"): "-1 -> MAX; MIN -> TOP; 7 -> 7",
    ("uint16", "int16"): "MAX -> -1; TOP -> MIN; 7 -> 7",
    ("float16", "int16"): "-0 -> MIN; 1 -> 0x3c00; -inf -> -1024",
    ("int16", "float16"): "MIN -> -0; 0x3c00 -> 1; -1024 -> -inf",
    ("bfloat16", "int16"): "-0 -> MIN; 1 -> 0x3f80; -inf -> -128",
    ("int16", "bfloat16"): "MIN -> -0; 0x3f80 -> 1; -128 -> -inf",
    ("float16", "bfloat16"): "-0 -> -0; 0 -> 0; SUB -> SUB",
    ("bfloat16", "float16"): "-0 -> -0; 0 -> 0; SUB -> SUB",
    ("bool", "uint8"): "True -> 1; False -> 0",
    ("bool", "int8"): "True -> 1; False -> 0",
}


def cast_specials(source: DType, target: DType) -> tuple[Special, ...]:
    """The literal cases of CAST from `source` to `target`; some may not apply to the source."""
    return parse(_cast_table(source, target))


def _cast_table(source: DType, target: DType) -> str:
    if source.is_bool:
        return "False -> False; True -> True" if target.is_bool else "False -> 0; True -> 1"
    if source.is_int:
        if target.is_float:
            return INTEGER_TO_FLOAT[target.name]
        if target.is_bool and source.is_unsigned:
            return _UNSIGNED_TO_BOOL
        return INTEGER_TO[target.name]
    if target.is_bool:
        return FLOAT_TO_BOOL
    if target.is_float:
        # A target's own names (SUB, LARGEST) in the first column belong to the source.
        return f"{ANY_FLOAT_TO_FLOAT}; {FLOAT_TO_FLOAT[target.name]}"
    table = FLOAT_TO_SIGNED if target.kind is Kind.SIGNED else FLOAT_TO_UNSIGNED
    return f"{table}; {FLOAT_TO_INTEGER_LIMITS.get(target.name, '')}"


def bitcast_specials(source: DType, target: DType) -> tuple[Special, ...]:
    """The literal cases of BITCAST from `source` to `target`."""
    return parse(BITCAST.get((source.name, target.name), ""))
