"""What an equivalent kernel costs, against the kernel that it was made of.

No value tells that a simplification is lost. But where a transformation only writes a value in
another way, of which the compiler makes one form, the other kernel may not become larger. So
nothing is recorded, and whoever changes the compiler changes both.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinyref.algebra.kernel_shape import kernel_shape
from tinyref.algebra.simplify import simplify
from tinyref.capabilities import Capabilities
from tinyref.codegen.lower import lower_ast
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_fuzz.generate.equivalent.laws import folds_reduces, is_operand, rule_of
from tinyref_spec.kernel_case import Equivalent
from tinyref_spec.kernels.notation import kernel_of
from tinyref_spec.proofs.kept import operations

# Transformations whose kernels became no larger on thousands of kernels of a healthy compiler.
NORMALISED = frozenset(
    {
        *("add-and-subtract", "add-by-negation", "bool-by-number", "bool-by-select"),
        *("bool-or-as-max", "bool-xor-as-compare", "commute", "constant-as-sum"),
        *("drop-axis", "insert-axis", "max-of-itself", "negate-twice", "not-twice"),
        *("reassociate", "reorder-stores", "select-flipped", "select-same", "xor-twice"),
    }
)


def simplified(ast: UOp, capabilities: Capabilities) -> UOp:
    """The kernel as it is simplified, without optimisations; errors as of `compile_kernel`."""
    return simplify(lower_ast(ast, capabilities))


def of_laws(equivalent: Equivalent) -> bool:
    """Whether nothing but laws of rules was put into the kernel."""
    return all(rule_of(label) for label in equivalent.labels)


@dataclass(frozen=True)
class Growth:
    """The step after which a kernel is larger than it was, and how large it is."""

    label: str
    had: int
    got: int

    def __str__(self) -> str:
        return f"larger after {self.label}: {self.got} operations instead of {self.had}"


def growth(
    equivalent: Equivalent, capabilities: Capabilities, origin: UOp | None = None
) -> Growth | None:
    """Of the first steps that have to keep the size the first that does not; None without one.

    Kernels whose sums may be folded are left out: what they fold depends on how they are written.
    So are those with a load or a reduce that is a constant, as of no element: another rule may take
    that first. `origin` is the first kernel as it is simplified, where that is known.
    """
    steps = []
    for label, ast in equivalent.trail:
        if label not in NORMALISED and not rule_of(label):
            break
        steps.append((label, ast))
    if not steps or folds_reduces(equivalent.origin):
        return None
    had = operations(simplified(equivalent.origin, capabilities) if origin is None else origin)
    if operations(simplified(steps[-1][1], capabilities)) <= had:
        return None
    for label, ast in steps:
        got = operations(simplified(ast, capabilities))
        if got > had:
            is_known = _has_constant(equivalent.origin, capabilities)
            return None if is_known else Growth(label, had, got)
    return None


def _has_constant(ast: UOp, capabilities: Capabilities) -> bool:
    """Whether a load or a reduce of a kernel comes to a constant."""
    for node in filter(is_operand, ast.toposort()):
        alone = simplified(kernel_of(node, *kernel_shape(node)), capabilities)
        if any(each.op is Ops.STORE and each.src[1].op is Ops.CONST for each in alone.toposort()):
            return True
    return False
