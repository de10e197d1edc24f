"""The rows of optimised kernels: devices of every kind pass them, and broken compilers do not.

Each mutant changes one decision of planning or lowering, as real compilers have got it wrong.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from run_rows import failures
from simulated_device import SimulatedDevice

from tinyref.algebra.semantics import reduce_identity
from tinyref.capabilities import Capabilities
from tinyref.codegen import lower, peel
from tinyref.codegen.expand import copies
from tinyref.codegen.lower import Lowering
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.optimise.opt import OptOp
from tinyref.optimise.plan import Scatter
from tinyref.uops import build
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import Ops
from tinyref_spec import catalogue
from tinyref_spec.bits import Array
from tinyref_spec.case import Case, Profile
from tinyref_spec.kernel.opt_kernels import KERNELS, subject_of
from tinyref_spec.kernel.opts import ROWS

GROUPS = Device["PYTHON"].capabilities
HOST = dataclasses.replace(
    GROUPS, has_grid=False, has_groups=False, threads=2, vector_lanes=(1, 2, 4), matrix_tiles=()
)


DEVICES = {
    "host": HOST,
    "scalar host": dataclasses.replace(HOST, vector_lanes=(1,)),
    "grid": dataclasses.replace(GROUPS, has_groups=False, shared_bytes=0),
    "small grid": dataclasses.replace(GROUPS, grid_limit=(7, 5, 40)),
    "groups without grid": dataclasses.replace(GROUPS, has_grid=False),
}


def cases_of(prefix: str) -> list[Case]:
    return list(catalogue.cases(Profile.QUICK, f"kernel.opt.{prefix}*"))


PARTS = 8


@pytest.mark.sampled(PARTS + 1)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", DEVICES)
def test_devices_of_every_kind_pass(name: str, part: int) -> None:
    assert failures(SimulatedDevice(DEVICES[name]), cases_of("")[part::PARTS]) == {}


def test_every_optimisation_has_rows_and_every_kernel_is_used() -> None:
    used = {op for row in ROWS for op in row.ops}
    assert used == set(OptOp) - {OptOp.TC}
    assert {row.kernel for row in ROWS} >= KERNELS.keys()


@pytest.mark.parametrize(
    ("kernel", "wanted"),
    [
        # By numpy, of the data of the rows.
        ("row_sum", lambda x: x.reshape(6, 16).sum(1)),
        ("nested", lambda x: x.reshape(4, 6, 8).max(2).sum(1)),
        ("nested_sums", lambda x: (x.reshape(4, 6, 8).sum(2) ** 2).sum(1)),
        ("padded", lambda x: np.pad(x.reshape(5, 6), ((1, 2), (0, 2))) + 1),
        ("negated_max", lambda x: (-x.reshape(7, 3)).max(1)),
    ],
)
def test_what_a_kernel_owes(kernel: str, wanted: Callable[[Array], Array]) -> None:
    subject = subject_of(kernel, dtypes.int32)
    x = np.asarray(subject.inputs[1]).astype(np.int64)
    assert subject.expected[0].tolist() == wanted(x).reshape(-1).astype(np.int32).tolist()


def test_the_sums_of_rows_by_number() -> None:
    subject = subject_of("scattered_sum", dtypes.int32)
    numbers, terms = (np.asarray(data) for data in subject.inputs[1:])
    sums = np.zeros((6, 8), np.int32)
    for number, row in zip(numbers.tolist(), terms.reshape(12, 8), strict=True):
        if 0 <= number < 6:
            sums[number] += row
    assert subject.expected[0].tolist() == sums.reshape(-1).tolist()


# --- mutants --------------------------------------------------------------------------------------

Patch = Callable[[pytest.MonkeyPatch], None]


def no_barrier(patch: pytest.MonkeyPatch) -> None:
    """Read the parts before all of them are written."""
    healthy = Lowering.kernel

    def kernel(self: Lowering) -> UOp:
        root = healthy(self)
        gone = {
            node: node.replace(src=(node.src[0], *node.src[1].src))
            for node in root.toposort()
            if node.op is Ops.AFTER and node.src[1].op is Ops.BARRIER
        }
        return substitute(root, gone)

    patch.setattr(Lowering, "kernel", kernel)


def pad_without_guard(patch: pytest.MonkeyPatch) -> None:
    """Padded positions are loaded and stored like all others."""
    patch.setattr(Lowering, "_valid", lambda self, targets, valid, positions: valid)


def unroll_adds(patch: pytest.MonkeyPatch) -> None:
    """Add the lanes of every reduce, whatever its op is."""
    healthy = copies.combine
    patch.setattr(copies, "combine", lambda op, values: healthy(Ops.ADD, values))


def pad_with_zeros(patch: pytest.MonkeyPatch) -> None:
    """Use 0 as the term of each position that padding adds to a reduce."""
    patch.setattr(lower, "reduce_identity", lambda op, dtype: 0)


def drop_the_last_iteration(patch: pytest.MonkeyPatch) -> None:
    """End a peeled reduce with its last full block."""
    healthy = peel._joined
    patch.setattr(peel, "_joined", lambda parts: healthy(parts[:1]))


def keep_the_last_term(patch: pytest.MonkeyPatch) -> None:
    """Add each term of a scatter to what its output was before the loop over the terms."""
    healthy = Lowering._added

    def added(self: Lowering, scatter: Scatter, address: UOp, *rest: Any) -> tuple[UOp, UOp]:
        address, total = healthy(self, scatter, address, *rest)
        start = build.const(total.dtype, reduce_identity(scatter.op, total.dtype))
        return address, total.replace(src=(start, total.src[1]))

    patch.setattr(Lowering, "_added", added)


def fill_nothing(patch: pytest.MonkeyPatch) -> None:
    """Add the terms of a scatter to whatever the outputs held."""
    patch.setattr(Lowering, "_filled", lambda self, scatter, memory, identity: memory)


# mutant -> (capabilities, rows that see it, what one of the failures says)
MUTANTS: dict[Patch, tuple[Capabilities, str, str]] = {
    no_barrier: (GROUPS, "group.row_sum", "race"),
    pad_without_guard: (GROUPS, "padto", "SanitizerError"),
    unroll_adds: (HOST, "unroll", "expected"),
    pad_with_zeros: (HOST, "padto.prime_max", "expected"),
    drop_the_last_iteration: (HOST, "padto.prime_sum", "expected"),
    keep_the_last_term: (HOST, "scatter", "expected"),
    fill_nothing: (HOST, "scatter", "expected"),
}


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mutant_is_caught(monkeypatch: pytest.MonkeyPatch, mutant: Patch) -> None:
    capabilities, prefix, symptom = MUTANTS[mutant]
    device = SimulatedDevice(capabilities)
    assert failures(device, cases_of(prefix)) == {}
    mutant(monkeypatch)
    problems = failures(device, cases_of(prefix))
    assert any(symptom in problem for problem in problems.values()), problems
