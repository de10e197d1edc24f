"""Every equation of equivalent kernels holds, and a wrong one is caught."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from tinyref.algebra import semantics
from tinyref.algebra.op_table import OP_TABLE
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.interpret.evaluate import evaluate
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect, Ops
from tinyref.verify import verify
from tinyref_fuzz.generate.equivalent import TRANSFORMATIONS, equivalents, transform
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.policies import DTYPES, POLICIES, Policy
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.kernel_case import KernelCase, Mode
from tinyref_spec.kernels.corpus import corpus_kernels

PYTHON = Device["PYTHON"].capabilities
# Without lists of optimisations, which would take as long again.
EXACT = Policy("exact", modes={Mode.FLOAT: 0, Mode.EDGE: 0}, lists=(0, 0))
SMALL = replace(POLICIES["small"], lists=(0, 0), equivalent=0)
INTEGERS = frozenset(dtype for dtype in DTYPES if not dtype.is_float)
CPU = Device["CPU"].capabilities
NAMES = sorted(TRANSFORMATIONS)
each_transformation = pytest.mark.parametrize("name", NAMES)


def extremes(case: KernelCase, seed: int) -> tuple[np.ndarray, ...]:
    """Return buffers of the same sizes with the limits of their types."""
    random = np.random.default_rng(seed)
    contents = []
    for buffer in case.buffers:
        if buffer.dtype.kind == "b":
            contents.append(random.integers(0, 2, buffer.size).astype(bool))
            continue
        limits = np.iinfo(buffer.dtype)
        edges = np.array([limits.min, limits.min + 1, 0, 1, 2, limits.max], dtype=buffer.dtype)
        contents.append(random.choice(edges, buffer.size))
    return tuple(contents)


@dataclass(frozen=True)
class Subject:
    """A kernel with data on which its value is exact, and that value."""

    name: str
    ast: UOp
    contents: tuple[np.ndarray, ...]
    bindings: Mapping[str, int] = field(default_factory=dict)

    @functools.cached_property
    def value(self) -> dict[int, np.ndarray]:
        return evaluate(self.ast, dict(enumerate(self.contents)), self.bindings)


def integer_kernels(count: int) -> Iterator[Subject]:
    """Generate kernels without floats, at the limits of their types."""
    for seed in range(count):
        case = generate(Tape(seed=seed), replace(PYTHON, dtypes=INTEGERS), SMALL)
        yield Subject(f"seed {seed}", case.ast, extremes(case, seed), case.bindings)


SUBJECTS = (
    *(
        Subject(kernel.name, kernel.ast, kernel.buffers(), kernel.bindings)
        for kernel in corpus_kernels().values()
    ),
    *integer_kernels(20),
)


def named(name: str) -> Subject:
    return next(subject for subject in SUBJECTS if subject.name == name)


def broken_by(name: str, subject: Subject, seed: int) -> str | None:
    """Return how a transformation changed the value of a kernel, or ""; None if it does not fit."""
    new = transform(subject.ast, name, Tape(seed=seed))
    if new is None:
        return None
    verify(Dialect.AST, new)
    after = evaluate(new, dict(enumerate(subject.contents)), subject.bindings)
    for slot, values in subject.value.items():
        if not np.array_equal(values, after[slot]):
            return f"{subject.name}: slot {slot}"
    return ""


# --- the law ------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.sampled(5)
@each_transformation
def test_each_fires_and_keeps_the_value(name):
    outcomes = [broken_by(name, subject, seed) for seed, subject in enumerate(SUBJECTS)]
    fired = [outcome for outcome in outcomes if outcome is not None]
    assert fired, "fits no kernel"
    assert not any(fired), next(filter(None, fired))


def test_a_tape_replays_the_same_chain():
    case = generate(Tape(seed=3), PYTHON, EXACT)
    tape = Tape(seed=3)
    chain = equivalents(case.ast, tape, 5)
    again = equivalents(case.ast, Tape(choices=tape.choices), 5)
    assert again.labels == chain.labels
    assert again.ast is chain.ast


def test_only_supported_types_are_used():
    only = frozenset({dtypes.int32, dtypes.float32, dtypes.bool})
    for seed in range(30):
        case = generate(Tape(seed=seed), replace(PYTHON, dtypes=only), EXACT)
        chain = equivalents(case.ast, Tape(seed=seed), 8, only)
        used = {node.dtype for node in chain.ast.toposort() if node.op in (Ops.CAST, Ops.BITCAST)}
        assert used <= only, chain.labels


# --- the oracle ---------------------------------------------------------------------------------


def test_semantics_that_are_wrong_everywhere_alike_are_caught(monkeypatch):
    # Evaluator and interpreter share the op table: only an equation can tell that it is wrong.
    kernel = named("divide-by-powers-int16")
    assert broken_by("divide-by-shift", kernel, 0) == ""
    wrong = replace(OP_TABLE[Ops.IDIV], semantics=lambda dtype, sources: np.floor_divide)
    monkeypatch.setitem(OP_TABLE, Ops.IDIV, wrong)
    semantics._kernel.cache_clear()
    try:
        # A copy does not remember the earlier value.
        assert broken_by("divide-by-shift", replace(kernel), 0) == f"{kernel.name}: slot 0"
    finally:
        semantics._kernel.cache_clear()
