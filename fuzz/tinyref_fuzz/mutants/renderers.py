"""Mutants of the renderers: what a program is in LLVM IR and in C."""

from __future__ import annotations

from tinyref_fuzz.mutants.mutant import Mutant

_LLVM = "tinyref.renderers.llvm"
_C = "tinyref.renderers.c"
_C_LANGUAGE = "tinyref.renderers.c_language"
_C_STYLE = "tinyref.renderers.c_style"
_STAGES = ("device",)


def _llvm(name: str, kind: str, old: str, new: str, resembles: str) -> Mutant:
    return Mutant(name, kind, _LLVM, old, new, resembles, _STAGES, device="CPU")


def _c(
    name: str, kind: str, old: str, new: str, resembles: str, module: str = _C_LANGUAGE
) -> Mutant:
    return Mutant(name, kind, module, old, new, resembles, _STAGES, device="CLANG")


LLVM = (
    Mutant(
        name="llvm-call-of-all-lanes-but-one",
        kind="lanes lost",
        module=_LLVM,
        old="        for lane in range(node.dtype.lanes):\n            lanes = [self.emit(",
        new="        for lane in range(node.dtype.lanes - 1):\n            lanes = [self.emit(",
        resembles="a function of a vector was called for all of its lanes but the last one",
        stages=_STAGES,
        device="tinyref_fuzz.judge.devices:Library",
    ),
    _llvm(
        "llvm-signed-less-as-unsigned",
        "signed taken for unsigned",
        '("icmp ult", "icmp slt", "icmp ult", "fcmp olt")',
        '("icmp ult", "icmp ult", "icmp ult", "fcmp olt")',
        "comparisons of negative integers went by their bits",
    ),
    _llvm(
        "llvm-unsigned-less-as-signed",
        "signed taken for unsigned",
        '("icmp ult", "icmp slt", "icmp ult", "fcmp olt")',
        '("icmp ult", "icmp slt", "icmp slt", "fcmp olt")',
        "large unsigned numbers counted as negative where they are compared",
    ),
    _llvm(
        "llvm-shift-is-logical",
        "signed taken for unsigned",
        '("", "ashr", "lshr", "")',
        '("", "lshr", "lshr", "")',
        "a negative number shifted to the right became a large one",
    ),
    _llvm(
        "llvm-unsigned-division-signed",
        "signed taken for unsigned",
        '("", "sdiv", "udiv", "")',
        '("", "sdiv", "sdiv", "")',
        "division of large unsigned numbers was done signed",
    ),
    _llvm(
        "llvm-signed-remainder-unsigned",
        "signed taken for unsigned",
        '("", "srem", "urem", "")',
        '("", "urem", "urem", "")',
        "the remainder of a negative number was that of its bits",
    ),
    _llvm(
        "llvm-widened-with-zeros",
        "signed taken for unsigned",
        '        widen = "sext" if source.kind is Kind.SIGNED else "zext"',
        '        widen = "sext" if source.kind is Kind.SIGNED and source.bits > 8 else "zext"',
        "a negative byte became 255 when it was widened",
    ),
    _llvm(
        "llvm-unsigned-to-float-signed",
        "signed taken for unsigned",
        '            opcode = "sitofp" if have.kind is Kind.SIGNED else "uitofp"',
        '            opcode = "uitofp" if have.is_bool else "sitofp"',
        "large unsigned numbers became negative floats",
    ),
    _llvm(
        "llvm-float-constant-short",
        "float constant printed with too few digits",
        "    elif dtype.is_float:\n",
        "    elif dtype.is_float:\n"
        '        value = float(f"{value:.6g}")\n'
        "        if dtype.scalar is dtypes.float32:\n"
        '            (value,) = struct.unpack("<f", struct.pack("<f", value))\n',
        "constants were printed with six digits",
    ),
    _llvm(
        "llvm-lane-extracted-from-other-end",
        "vector lane extract swapped",
        'self.emit(f"extractelement {self.typed(source)}, i32 {lanes[0]}")',
        'self.emit(f"extractelement {self.typed(source)}, '
        'i32 {source.dtype.lanes - 1 - lanes[0]}")',
        "lanes were counted as a big-endian machine does",
    ),
    _llvm(
        "llvm-inverted-if",
        "inverted IF",
        'gate = self.value(node.src[2])\n        self.lines.append(f"  br i1 {gate}, '
        'label %{label}.do, label %{label}.end")',
        'gate = self.value(node.src[2])\n        self.lines.append(f"  br i1 {gate}, '
        'label %{label}.end, label %{label}.do")',
        "a gated store was done where its gate is closed",
    ),
    _llvm(
        "llvm-loop-once-more",
        "loop bound off by one",
        "more = icmp slt {kind} {name}.next, {self.value(opened.src[0])}",
        "more = icmp sle {kind} {name}.next, {self.value(opened.src[0])}",
        "a loop that tests at its end went one iteration too far",
    ),
    _llvm(
        "llvm-max-is-min",
        "operands swapped",
        'select {flags} {condition}, {kind} {second}, {kind} {first}")',
        "select {flags} {condition}, {kind} {second if left.dtype.lanes < 2 else first}, "
        '{kind} {first if left.dtype.lanes < 2 else second}")',
        "the vector form of a maximum chose the other operand",
    ),
    _llvm(
        "llvm-contracts",
        "FMA contraction allowed",
        '        self.contracts = not config.integer("STRICT_FLOAT")',
        "        self.contracts = True",
        "a product and a sum were fused, and rounded once instead of twice",
    ),
    _llvm(
        "llvm-fast-math",
        "fast-math flag set",
        '            opcode += " contract"\n',
        '            opcode += " contract"\n'
        "        elif left.dtype.is_float and node.op in _CONTRACTED:\n"
        '            opcode += " fast"\n',
        "sums were re-associated, and NaN and infinities taken for impossible",
    ),
)

C = (
    _c(
        "c-missing-parentheses",
        "missing parentheses",
        'masked = f"({count} & {dtype.bits - 1})"',
        'masked = f"{count} & {dtype.bits - 1}"',
        "in C a shift binds more tightly than a mask",
    ),
    _c(
        "c-float-constant-short",
        "float constant printed with too few digits",
        "digits = repr(number) if dtype is dtypes.float64 else str(np.float32(number))",
        'digits = f"{number:.6g}" if abs(number) < 2.0**31 else repr(number)',
        "constants were printed with six digits",
    ),
    _c(
        "c-infinity-as-name",
        "NaN and infinity as constants",
        "        if math.isfinite(number) and (number or math.copysign(1, number) > 0):",
        "        if not math.isnan(number) and (number or math.copysign(1, number) > 0):",
        "infinity was printed as a name that C does not know",
    ),
    _c(
        "c-shift-unsigned",
        "signed taken for unsigned",
        "word = _word_type(dtype) if op is Ops.SHL else dtype",
        "word = _word_type(dtype)",
        "a negative number was shifted to the right as an unsigned one",
    ),
    _c(
        "c-vector-choice-by-one-bit",
        "vector masks",
        'mask = f"-__builtin_convertvector({condition}, ',
        'mask = f"__builtin_convertvector({condition}, ',
        "the mask of a vector choice had one bit set instead of all",
        _C,
    ),
    _c(
        "c-vector-flags-not-normalised",
        "wrong cast of bool",
        'return f"__builtin_convertvector({mask}, {self.type(dtype)}) & 1"',
        'return f"__builtin_convertvector({mask}, {self.type(dtype)})"',
        "true was -1 in vectors and 1 elsewhere",
        _C,
    ),
    _c(
        "c-gate-for-the-address-alone",
        "inverted IF",
        "is_gated = len(node.src) > 2",
        "is_gated = len(node.src) > 2 and dtype.lanes > 1",
        "a scalar store forgot its gate",
        _C_STYLE,
    ),
)

MUTANTS = (*LLVM, *C)
