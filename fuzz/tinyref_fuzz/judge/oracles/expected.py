"""Choose the oracle of a case: the evaluator if nothing rounds, else derived bounds."""

from __future__ import annotations

from tinyref import config
from tinyref.interpret.evaluate import evaluate
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg
from tinyref_fuzz.judge.oracles.analysis import STRICT, Analysis, Arithmetic
from tinyref_fuzz.judge.oracles.oracle import AllowedElements, Oracle
from tinyref_spec.kernel_case import KernelCase, Mode

# On small integers these are exact in every order, and do not depend on the sign of a zero.
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
    """Return the allowed contents of the written slots of `case`, on a device or the interpreter.

    Args:
        arithmetic: What the device declares of its floats.

    Values of EXACT cases are exact, unless an op depends on the sign of a zero or has no specified
    value. Then the kernel is analysed as in the other modes, and may still be exact. Raises the
    errors of `evaluate` and of `Analysis`.
    """
    if case.mode is Mode.EXACT and all(is_exact(node) for node in case.ast.toposort()):
        written = evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)
        return Oracle({slot: AllowedElements(value, value) for slot, value in written.items()})
    strict = {"STRICT_FLOAT": 0} if arithmetic.contracts else {}
    with config.Context(**strict):
        analysis = Analysis(case.ast, case.buffers, case.bindings, arithmetic)
    return Oracle(analysis.allowed)


def evaluator_problem(case: KernelCase) -> str:
    """Describe how the values of the evaluator differ from the analysis, or return "".

    Raises the errors of `evaluate` and of `Analysis`.
    """
    analysed = Oracle(Analysis(case.ast, case.buffers, case.bindings).allowed)
    written = evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)
    problems = (analysed.difference(slot, value) for slot, value in written.items())
    return next(filter(None, problems), "")


def is_exact(node: UOp) -> bool:
    """Return True if a node of an EXACT kernel has one value in any kernel."""
    if node.op is Ops.CAST:
        return not node.src[0].dtype.is_float or node.dtype.is_float or node.dtype.is_bool
    if node.op in (Ops.IDIV, Ops.MOD):
        divisor = node.src[1].arg
        return isinstance(divisor, ConstArg) and divisor.value > 0
    return node.op in EXACT_OPS
