"""Group findings with one cause in buckets: one report for each is enough.

The key of a bucket leaves out what varies between findings of one bug. If blame names a rule, a
pass or an optimisation, that is the key, with any symptom. If it only names a stage, the key says
how the fault shows. For an error, that is its words. Stages that translate single operations add
the operations of the reduced case. For the others it is a reduce, or what is special about its
views. For the optimiser it is the minimal set of optimisations.
"""

from __future__ import annotations

from tinyref.optimise.opt import OptOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ReduceArg, ViewArg
from tinyref.views.shape_tracker import tracker_of
from tinyref_fuzz.reduce.fault import error_words
from tinyref_spec.kernel_case import Blame, KernelCase, KernelVerdict, Symptom

OPTIMISER = "optimise"
# Stages that treat each operation separately: two operations are two bugs.
_BY_OPERATION = frozenset({"semantics", "evaluate", "simplify", "decompose", "interpret", "device"})
# The same loop, distributed over the work-items of a group from the outside or the inside.
_ALIKE = {OptOp.GROUPTOP: OptOp.GROUP}
_ERRORS = frozenset({Symptom.ERROR})
# Rules about accesses outside of their buffers.
_BOUNDS = "indexed.bounds."
# Symptoms without values to compare; further attempts would end more processes.
DEATHS = frozenset({Symptom.CRASH, Symptom.HANG, Symptom.MEMORY})
# Ops that occur in every kernel, between values, memory and types.
_EVERYWHERE = frozenset({Ops.CAST})


def bucket_of(blame: Blame, case: KernelCase, verdict: KernelVerdict) -> str:
    """Return the key of the bucket of a reduced case.

    `blame` and `verdict` must be about this case, not about the one before reduction.
    """
    if blame.cause in OptOp.__members__:
        # Plan, lowering and expansion all implement it: any of them may be wrong.
        return f"{OPTIMISER}/{_alike(blame.cause)}"
    if blame.cause:
        return f"{blame.stage}/{blame.cause}"
    if blame.stage == OPTIMISER:
        names = {_alike(opt.op.value) for opts in case.opts for opt in opts}
        return f"{OPTIMISER}/{'+'.join(sorted(names))}"
    essence = _essence(blame, case, verdict)
    return f"{blame.stage} {_kind(verdict)}" + (f" {{{essence}}}" if essence else "")


def _alike(name: str) -> str:
    """Return the name that an optimisation shares with similar ones."""
    op = OptOp.__members__.get(name)
    return name if op is None else _ALIKE.get(op, op).value


def _kind(verdict: KernelVerdict) -> str:
    """Return how a fault shows, as far as that distinguishes bugs.

    A missing barrier may show as a race or a wrong value, and a wrong index as a value or an
    access.
    """
    if _is_error(verdict):
        return "error"
    if verdict.symptom in DEATHS:
        return "death"
    return "value"


def _is_error(verdict: KernelVerdict) -> bool:
    """Return True if the words of the error matter; they do not for a refused access."""
    return verdict.symptom in _ERRORS and not error_words(verdict.detail).startswith(_BOUNDS)


def _essence(blame: Blame, case: KernelCase, verdict: KernelVerdict) -> str:
    if _is_error(verdict):
        # Rules of one family differ by their number.
        return error_words(verdict.detail).rstrip(".0123456789")
    return operations(case) if blame.stage in _BY_OPERATION else structure(case)


def operations(case: KernelCase) -> str:
    """Return the operations of a kernel by name, each once, in alphabetical order.

    A reduce counts as its operation. A kernel without any counts as a load.
    """
    names: set[str] = set()
    for node in case.ast.toposort():
        if isinstance(node.arg, ReduceArg):
            names.add(node.arg.op.name)
        elif node.op in ALU:
            names.add(node.op.name)
    without = names - {op.name for op in _EVERYWHERE}
    return " ".join(sorted(without or names or {Ops.LOAD.name}))


def structure(case: KernelCase) -> str:
    """Return what distinguishes a kernel from a row-major copy, or ""."""
    nodes = case.ast.toposort()
    views = [
        view for node in nodes if isinstance(node.arg, ViewArg) for view in tracker_of(node).views
    ]
    if any(node.op is Ops.REDUCE for node in nodes):
        return "reduce"
    if any(view.mask is not None for view in views):
        return "mask"
    if any(isinstance(step, int) and step < 0 for view in views for step in view.strides):
        return "backward"
    return "outputs" if len(case.ast.src) > 1 else ""
