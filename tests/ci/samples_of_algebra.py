"""An op, a rule and a dtype, written where CONTRIBUTING says."""

from __future__ import annotations

from adding import RUN_CASES, Insertion, Sample

OP = Sample(
    "An op",
    {
        "tinyref/uops/ops.py": (
            Insertion('    ADD = "ADD"', '    ABS = "ABS"\n'),
            Insertion("Ops.TRUNC})", "Ops.ABS, "),
        ),
        "tinyref/algebra/op_rows.py": (
            Insertion(
                "_arithmetic(\n    Ops.ADD,",
                '_arithmetic(Ops.ABS, types.numbers, "|x|; MIN stays.", '
                'numpy_function("abs"), exact=abs)\n',
            ),
        ),
        "spec/tinyref_spec/oracles.py": (
            Insertion('    "ADD": lambda dtype', '    "ABS": lambda dtype, x: max(x, -x),\n'),
            Insertion('    "ADD": np.add,', '    "ABS": lambda x: np.copysign(x, 1),\n'),
        ),
        "spec/tinyref_spec/isa/specials.py": (
            Insertion('    "ADD": NUMBERS,', '    "ABS": NUMBERS,\n'),
            Insertion(
                "}\n# Division by zero and MIN", '    "ABS": "3 -> 3; -3 -> 3; MIN -> MIN",\n'
            ),
            Insertion("}\n\nBOOL: dict", '    "ABS": "3 -> 3; MAX -> MAX",\n'),
            Insertion("}\n\nTABLES: ", '    "ABS": "-1 -> 1; -0 -> 0; -inf -> inf; nan -> nan",\n'),
        ),
    },
    RUN_CASES
    + """
from tinyref.algebra.evaluate import value_of
from tinyref.algebra.semantics import fold
from tinyref.algebra.simplify import simplify
from tinyref.capabilities import OP_NAMES
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.errors import VerifyError
from tinyref.formats import json_format, text
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect, Ops
from tinyref.verify import verify
from tinyref_spec.clauses import clause

def absolute(x):
    return UOp(Ops.ABS, x.dtype, (x,))

# It computes: each row on the interpreter, and where constants and sizes are computed.
assert run_cases("isa.unary.abs", "PYTHON") > 50
assert fold(Ops.ABS, dtypes.int8, [-128]) == -128
assert value_of(absolute(build.variable("n", -9, 9)), {"n": -7}) == 7
assert simplify(absolute(build.const(dtypes.float32, -2.5))).arg.value == 2.5
# It prints and reads back, as text and as JSON.
node = absolute(build.variable("n", -9, 9))
assert "ABS index" in text.to_text(node)
assert text.from_text(text.to_text(node)) is node
assert json_format.from_json(json_format.to_json(node)) is node
# It is verified, and refused where its types are wrong.
verify(Dialect.TENSOR, node)
try:
    verify(Dialect.TENSOR, UOp(Ops.ABS, dtypes.bool, (build.const(dtypes.bool, True),)))
except VerifyError as error:
    assert "ABS accepts numbers, got bool" in str(error)
else:
    raise AssertionError("an ABS of bool is verified")
# A device may declare it, and the specification says what it is.
assert "ABS" in OP_NAMES and Device["PYTHON"].capabilities.ops >= {"ABS"}
assert clause("isa.abs").sentence == "ABS: |x|; MIN stays."
""",
)

RULE = Sample(
    "A rule",
    {
        "tinyref/algebra/rules/integer.py": (
            Insertion(
                '@rule("bit-mask"',
                '@rule("bit-or-mask", match(Ops.OR, x, c), when=integer, needs_bounds=True)\n'
                "def or_mask(node: UOp, x: UOp, c: UOp) -> UOp | None:\n"
                '    """x | (2**n - 1) == 2**n - 1 where 0 <= x < 2**n."""\n'
                "    ones = constant_of(c)\n"
                "    low, high = bounds(x)\n"
                "    if ones is None or ones & (ones + 1) != 0:\n"
                "        return None\n"
                "    return c if low >= 0 and high <= ones else None\n\n\n",
            ),
        ),
        "spec/tinyref_spec/proofs/integer_laws.py": (
            Insertion(
                '@law("bit-mask", constants="c")',
                '@law("bit-or-mask", constants="c")\n'
                "def or_mask(x: UOp, c: UOp) -> Equation:\n"
                '    """x | c == c where 0 <= x <= c and c is 2**n - 1."""\n'
                "    given = (_is_mask(c), within(0, x, c))\n"
                "    return Equation(raw(Ops.OR, x, c), c, given)\n\n\n",
            ),
        ),
        "tests/algebra/test_rules.py": (
            Insertion(
                '    ("bit-same", raw(Ops.AND, b, b), b),',
                '    ("bit-or-mask", raw(Ops.OR, y, const(index, 7)), const(index, 7)),\n',
            ),
        ),
    },
    """
import subprocess, sys
from tinyref.algebra.simplify import ALL_RULES, simplify
from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec.proofs import prover
from tinyref_spec.proofs.laws import laws_of

# It fires, and its test in the table of nodes runs.
x, ones = build.variable("x", 0, 9, dtypes.int16), build.const(dtypes.int16, 15)
assert simplify(UOp(Ops.OR, x.dtype, (x, ones))) is ones
tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
only = ["tests/algebra/test_rules.py", "-k", "bit-or-mask or every_rule"]
done = subprocess.run([*tests, *only], capture_output=True, text=True)
assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout + done.stderr
# It says what it holds for, and is proved.
(rule,) = [rule for rule in ALL_RULES.rules if rule.name == "bit-or-mask"]
assert rule.equation.startswith("x | (2**n - 1) == 2**n - 1") and rule.domain.family == "integer"
(law,) = laws_of("bit-or-mask")
for dtype in law.over:
    prover.require(law, dtype)
""",
)

DTYPE = Sample(
    "A dtype",
    {
        "tinyref/dtype.py": (
            Insertion(
                '    float16 = DType("float16"',
                '    fp8e3m4 = DType("fp8e3m4", Kind.FLOAT, 1, 10, 3, 4)\n',
            ),
            Insertion("fp8e5m2)\n    floats = ", "fp8e3m4, "),
            Insertion(
                "    dtypes.bfloat16: np.dtype(",
                "    dtypes.fp8e3m4: np.dtype(ml_dtypes.float8_e3m4),\n",
            ),
            Insertion(
                "    dtypes.float16: (dtypes.float32,),",
                "    dtypes.fp8e3m4: (dtypes.float16, dtypes.bfloat16),\n",
            ),
        ),
    },
    RUN_CASES
    + """
from tinyref import Tensor, dtypes
from tinyref.dtype import dtype_from_name, promote
from tinyref.formats import text
from tinyref.uops import build
from tinyref.uops.ops import Dialect
from tinyref.verify import verify

dtype = dtypes.fp8e3m4
# Every cast from and to it, on the interpreter and emulated by a compiler.
for device in ("PYTHON", "CPU"):
    assert run_cases("isa.cast.fp8e3m4.to_float32", device) == 1
    assert run_cases("isa.cast.float32.to_fp8e3m4.edge", device) == 1
    assert run_cases("isa.cast.int16.to_fp8e3m4.edge", device) == 1
    values = Tensor([1.03, 15.5, 17.0, -0.25], device=device).cast("fp8e3m4").cast("float32")
    assert values.tolist() == [1.0, 15.5, float("inf"), -0.25]
assert promote(dtype, dtypes.float16) is dtypes.float16
# It prints, reads back and is verified.
node = build.cast(build.const(dtypes.float32, 1.5), dtype)
assert "CAST fp8e3m4" in text.to_text(node)
assert text.from_text(text.to_text(node)) is node
assert dtype_from_name("fp8e3m4x4") is dtype.vec(4)
verify(Dialect.TENSOR, node)
""",
)
