"""Buckets: findings with one cause, of which one report is enough.

The key of a bucket leaves out what varies from one finding of a bug to the next. Where blame names
a rule, a pass or an optimisation, that is the key, whatever symptom it shows by. Where it names a
stage alone, the key says how the fault shows: the words of an error, else what the reduced case
does: its optimisations for the optimiser, its operations for the stages that translate single ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinyref.uops.ops import ALU, Ops
from tinyref.uops.optimise.opt import OptOp
from tinyref.uops.payload import ReduceArg
from tinyref_fuzz.case import Blame, Case, Symptom, Verdict
from tinyref_fuzz.reduce.fault import error_words

OPTIMISER = "optimise"
# Stages that treat each operation on its own: two operations are two bugs.
_BY_OPERATION = frozenset({"evaluate", "decompose", "device"})
# The same loop, shared out among the work-items of a group from the outside or the inside.
_ALIKE = {OptOp.GROUPTOP: OptOp.GROUP}
_ERRORS = frozenset({Symptom.ERROR, Symptom.LIMIT})
_DEATHS = frozenset({Symptom.CRASH, Symptom.HANG, Symptom.MEMORY})
# They connect values to memory and types in every kernel.
_EVERYWHERE = frozenset({Ops.CAST})


@dataclass(frozen=True)
class Bucket:
    """One cause of findings.

    stage, cause: what is to blame, see `Blame`. opts: the names of the optimisations that the
    reduced case needs, each once, in alphabetical order. symptom: how it shows. essence: what the
    key says besides: operations, or the words of an error.
    """

    stage: str
    cause: str
    opts: tuple[str, ...]
    symptom: str
    essence: str = ""

    @property
    def key(self) -> str:
        """A short text that is the same for all findings of the bucket."""
        names = [alike(name) for name in self.opts]
        listed = f" [{' '.join(sorted(set(names)))}]" if names else ""
        if self.cause:
            is_optimiser = self.stage == OPTIMISER
            return f"{self.stage}/{alike(self.cause)}{listed if is_optimiser else ''}"
        detail = f" {{{self.essence}}}" if self.essence else ""
        return f"{self.stage} {self.symptom}{listed if self.stage == OPTIMISER else ''}{detail}"

    def __str__(self) -> str:
        return self.key


def alike(name: str) -> str:
    """The name that an optimisation shares with those that do nearly the same."""
    op = OptOp.__members__.get(name)
    return name if op is None else _ALIKE.get(op, op).value


def bucket_of(blame: Blame, case: Case, verdict: Verdict) -> Bucket:
    """The bucket of a reduced case.

    `blame` and `verdict` are about this case, not the one that it was reduced from.
    """
    opts = sorted({opt.op.value for opts in case.opts for opt in opts})
    return Bucket(
        blame.stage, blame.cause, tuple(opts), _kind(verdict), _essence(blame, case, verdict)
    )


def _kind(verdict: Verdict) -> str:
    """How a fault shows, as far as that tells bugs apart.

    A missing barrier is a race or a wrong value, a wrong index a value or an access outside.
    """
    if verdict.symptom in _ERRORS:
        return "error"
    if verdict.symptom in _DEATHS:
        return "death"
    return "value"


def _essence(blame: Blame, case: Case, verdict: Verdict) -> str:
    if verdict.symptom in _ERRORS:
        return error_words(verdict.detail)
    return operations(case) if blame.stage in _BY_OPERATION else ""


def operations(case: Case) -> str:
    """The operations of a kernel by name, each once, in alphabetical order."""
    names: set[str] = set()
    for node in case.ast.toposort():
        if isinstance(node.arg, ReduceArg):
            names.add(f"REDUCE-{node.arg.op.name}")
        elif node.op in ALU or node.op in (Ops.VALID, Ops.IOTA):
            names.add(node.op.name)
    without = names - {op.name for op in _EVERYWHERE}
    return " ".join(sorted(without or names or {Ops.LOAD.name}))
