"""The oracle of a case: the evaluator where nothing rounds, else derived bounds."""

from __future__ import annotations

from tinyref import config
from tinyref.interpret.evaluate import evaluate
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg
from tinyref_fuzz.judge.oracles.analysis import STRICT, Analysis, Arithmetic
from tinyref_fuzz.judge.oracles.oracle import AllowedElements, Oracle
from tinyref_spec.kernel_case import KernelCase, Mode

# On small integers these are exact in every order, and none looks at the sign of a zero.
EXACT_OPS = frozenset(
    {
        Ops.SINK,
        Ops.STORE,
        Ops.VIEW,
        Ops.DEFINE_GLOBAL,
        Ops.LOAD,
        Ops.VALID,
        Ops.IOTA,
        Ops.CONST,
        Ops.DEFINE_VAR,
        Ops.REDUCE,
        Ops.WHERE,
        Ops.THREEFRY,
        Ops.ADD,
        Ops.SUB,
        Ops.MUL,
        Ops.NEG,
        Ops.MULACC,
        Ops.MAX,
        Ops.TRUNC,
        Ops.CMPLT,
        Ops.CMPNE,
        Ops.AND,
        Ops.OR,
        Ops.XOR,
    }
)


def oracle_for(case: KernelCase, arithmetic: Arithmetic = STRICT) -> Oracle:
    """What the written slots of `case` may hold after the kernel, on a device or the interpreter.

    arithmetic: what the device declares of its floats. Of EXACT cases every value is exact,
    unless an op could show the sign of a zero, or have no specified value: such a kernel is
    analysed as those of the other modes are, and may be exact all the same. Errors as of `evaluate`
    and of `Analysis`.
    """
    if case.mode is Mode.EXACT and all(is_exact(node) for node in case.ast.toposort()):
        written = evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)
        return Oracle({slot: AllowedElements(value, value) for slot, value in written.items()})
    strict = {"STRICT_FLOAT": 0} if arithmetic.contracts else {}
    with config.Context(**strict):
        analysis = Analysis(case.ast, case.buffers, case.bindings, arithmetic)
    return Oracle(analysis.allowed)


def evaluator_problem(case: KernelCase) -> str:
    """Return how the values of the evaluator differ from those of the analysis, or "".

    Errors as of `evaluate` and of `Analysis`.
    """
    analysed = Oracle(Analysis(case.ast, case.buffers, case.bindings).allowed)
    written = evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)
    problems = (analysed.difference(slot, value) for slot, value in written.items())
    return next(filter(None, problems), "")


def is_exact(node: UOp) -> bool:
    """Whether a node of an EXACT kernel has one value, whatever the kernel."""
    if node.op is Ops.CAST:
        return not node.src[0].dtype.is_float or node.dtype.is_float or node.dtype.is_bool
    if node.op in (Ops.IDIV, Ops.MOD):
        divisor = node.src[1].arg
        return isinstance(divisor, ConstArg) and divisor.value > 0
    return node.op in EXACT_OPS
