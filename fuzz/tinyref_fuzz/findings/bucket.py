"""Buckets: findings with one cause, of which one report is enough.

The key of a bucket leaves out what varies from one finding of a bug to the next. Where blame names
a rule, a pass or an optimisation, that is the key, whatever symptom it shows by. Where it names a
stage alone, the key says how the fault shows: the words of an error, else what the reduced case
does: its operations for the stages that translate single ones, for the others whether it reduces,
and what is special about its views. For the optimiser it is the minimal set of optimisations.
"""

from __future__ import annotations

from tinyref.optimise.opt import OptOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ReduceArg, ViewArg
from tinyref.views.shape_tracker import tracker_of
from tinyref_fuzz.reduce.fault import error_words
from tinyref_spec.kernel_case import Blame, KernelCase, KernelVerdict, Symptom

OPTIMISER = "optimise"
# Stages that treat each operation on its own: two operations are two bugs.
_BY_OPERATION = frozenset({"semantics", "evaluate", "simplify", "decompose", "interpret", "device"})
# The same loop, shared out among the work-items of a group from the outside or the inside.
_ALIKE = {OptOp.GROUPTOP: OptOp.GROUP}
_ERRORS = frozenset({Symptom.ERROR})
# Rules on accesses that leave their buffers.
_BOUNDS = "indexed.bounds."
# Here there is nothing to compare, and to try more would end more processes.
DEATHS = frozenset({Symptom.CRASH, Symptom.HANG, Symptom.MEMORY})
# They connect values to memory and types in every kernel.
_EVERYWHERE = frozenset({Ops.CAST})


def bucket_of(blame: Blame, case: KernelCase, verdict: KernelVerdict) -> str:
    """The key of the bucket of a reduced case.

    `blame` and `verdict` are about this case, not the one that it was reduced from.
    """
    if blame.cause in OptOp.__members__:
        # Plan, lowering and expansion carry it out: which of them is wrong may vary.
        return f"{OPTIMISER}/{_alike(blame.cause)}"
    if blame.cause:
        return f"{blame.stage}/{blame.cause}"
    if blame.stage == OPTIMISER:
        names = {_alike(opt.op.value) for opts in case.opts for opt in opts}
        return f"{OPTIMISER}/{'+'.join(sorted(names))}"
    essence = _essence(blame, case, verdict)
    return f"{blame.stage} {_kind(verdict)}" + (f" {{{essence}}}" if essence else "")


def _alike(name: str) -> str:
    """The name that an optimisation shares with those that do nearly the same."""
    op = OptOp.__members__.get(name)
    return name if op is None else _ALIKE.get(op, op).value


def _kind(verdict: KernelVerdict) -> str:
    """How a fault shows, as far as that distinguishes bugs.

    A missing barrier is a race or a wrong value, a wrong index a value or an access outside.
    """
    if _is_error(verdict):
        return "error"
    if verdict.symptom in DEATHS:
        return "death"
    return "value"


def _is_error(verdict: KernelVerdict) -> bool:
    """Whether the words matter; an access that is refused before it happens is one all the same."""
    return verdict.symptom in _ERRORS and not error_words(verdict.detail).startswith(_BOUNDS)


def _essence(blame: Blame, case: KernelCase, verdict: KernelVerdict) -> str:
    if _is_error(verdict):
        # Rules of one family have numbers.
        return error_words(verdict.detail).rstrip(".0123456789")
    return operations(case) if blame.stage in _BY_OPERATION else structure(case)


def operations(case: KernelCase) -> str:
    """The operations of a kernel by name, each once, in alphabetical order.

    A reduce counts as its operation. A kernel without any loads and stores.
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
    """The one thing that sets a kernel apart from a row-major copy; empty where nothing does."""
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
