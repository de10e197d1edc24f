"""Equivalent kernels: every equation holds, and a wrong one is caught by the same law."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from tinyref.algebra import semantics
from tinyref.algebra.op_table import OP_TABLE
from tinyref.codegen.compile import compile_kernel
from tinyref.device import Device
from tinyref.dtype import ImageDType, dtypes
from tinyref.errors import TinyrefError
from tinyref.interpret import run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect, Ops
from tinyref.verify import verify
from tinyref_fuzz.generate.equivalent import (
    TRANSFORMATIONS,
    Domain,
    Transformation,
    axes,
    equivalents,
    reduces,
    transform,
)
from tinyref_fuzz.generate.equivalent.transformation import of_node
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.policies import DTYPES, FORMS, POLICIES, Policy
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.judge import judge, measured_outputs
from tinyref_fuzz.judge.lacks import declared_lack
from tinyref_spec.kernel_case import Case, Mode, Pair
from tinyref_spec.kernels.corpus import corpus_kernels

ALL = frozenset(DTYPES)
PYTHON = Device["PYTHON"].capabilities
# Kernels alone: to draw lists of optimisations takes as long again.
EXACT = Policy("exact", modes={Mode.FLOAT: 0, Mode.EDGE: 0}, lists=(0, 0))
SMALL = replace(POLICIES["small"], lists=(0, 0), equivalent=0)
INTEGERS = frozenset(dtype for dtype in DTYPES if not dtype.is_float)
TEXELS = replace(EXACT, forms={form: float(form == "texels") for form in FORMS})
CPU = Device["CPU"].capabilities
NAMES = sorted(TRANSFORMATIONS)
each_transformation = pytest.mark.parametrize("name", NAMES)


def extremes(case: Case, seed: int) -> tuple[np.ndarray, ...]:
    """Buffers of the same sizes with the limits of their types in them."""
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
    """Generated kernels without floats, at the limits of their types."""
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
    """What a transformation did to the value of a kernel: "" is nothing, None where it fits not."""
    new = transform(subject.ast, name, Tape(seed=seed), capabilities=PYTHON)
    if new is None:
        return None
    verify(Dialect.AST, new)
    after = evaluate(new, dict(enumerate(subject.contents)), subject.bindings)
    for slot, values in subject.value.items():
        if not np.array_equal(values, after[slot]):
            return f"{subject.name}: slot {slot}"
    return ""


# --- the table ----------------------------------------------------------------------------------


def test_there_are_many_transformations_and_each_has_an_equation():
    assert len(TRANSFORMATIONS) >= 30
    equations = [transformation.equation for transformation in TRANSFORMATIONS.values()]
    assert all(equations)
    assert len(set(equations)) == len(equations)


@pytest.mark.parametrize(
    ("domain", "admitted"),
    [
        (Domain.EVERY, "int32 uint8 bool float32"),
        (Domain.EXACT, "int32 uint8 bool"),
        (Domain.NUMBER, "int32 uint8 float32"),
        (Domain.BITS, "int32 uint8 bool"),
        (Domain.INTEGER, "int32 uint8"),
        (Domain.BOOL, "bool"),
    ],
)
def test_domains(domain, admitted):
    candidates = (dtypes.int32, dtypes.uint8, dtypes.bool, dtypes.float32)
    found = [dtype.name for dtype in candidates if domain.admits(dtype, exact_floats=False)]
    assert " ".join(found) == admitted
    assert domain.admits(dtypes.float32, exact_floats=True) == (
        domain in (Domain.EVERY, Domain.EXACT, Domain.NUMBER)
    )
    assert not domain.admits(dtypes.index, exact_floats=True)


# --- the law ------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.sampled(5)
@each_transformation
def test_each_fires_and_keeps_the_value(name):
    outcomes = [broken_by(name, subject, seed) for seed, subject in enumerate(SUBJECTS)]
    fired = [outcome for outcome in outcomes if outcome is not None]
    assert fired, "fits no kernel"
    assert not any(fired), next(filter(None, fired))


@pytest.mark.sampled(5)
@each_transformation
def test_interpreter_and_cpu_keep_the_value(name):
    checked = 0
    # Another transformation begins at another kernel, so that all of them are seen.
    start = NAMES.index(name) * 7 % len(SUBJECTS)
    for subject in (*SUBJECTS[start:], *SUBJECTS[:start]):
        new = transform(subject.ast, name, Tape(seed=start), capabilities=PYTHON)
        if new is None:
            continue
        arrays = [content.copy() for content in subject.contents]
        run_program(compile_kernel(new, Device["PYTHON"].capabilities), arrays, subject.bindings)
        for slot, values in subject.value.items():
            np.testing.assert_array_equal(arrays[slot], values, f"interpreter: {subject.name}")
        # The CPU has no images.
        if not declared_lack(new, Device["CPU"].capabilities):
            on_cpu = measured_outputs("CPU", new, subject.contents, subject.bindings)
            for slot, values in subject.value.items():
                np.testing.assert_array_equal(on_cpu[slot], values, f"CPU: {subject.name}")
        checked += 1
        if checked == 2:
            return
    assert checked


@pytest.mark.long
def test_long_chains_keep_the_value():
    lengths = []
    for seed in range(40):
        case = generate(Tape(seed=seed), PYTHON, EXACT)
        found = equivalents(case.ast, Tape(seed=seed), 8, ALL)
        lengths.append(len(found.labels))
        verify(Dialect.AST, found.ast)
        buffers = dict(enumerate(case.buffers))
        expected = evaluate(case.ast, buffers, case.bindings)
        actual = evaluate(found.ast, buffers, case.bindings)
        for slot, values in expected.items():
            assert np.array_equal(values, actual[slot]), (seed, found.labels)
    assert np.mean(lengths) > 7


def test_a_tape_replays_the_same_chain():
    case = generate(Tape(seed=3), PYTHON, EXACT)
    tape = Tape(seed=3)
    found = equivalents(case.ast, tape, 5)
    again = equivalents(case.ast, Tape(choices=tape.choices), 5)
    assert again.labels == found.labels
    assert again.ast is found.ast


def images(ast: UOp) -> list[ImageDType]:
    return [node.dtype for node in ast.toposort() if isinstance(node.dtype, ImageDType)]


@pytest.mark.long
def test_an_image_comes_last_and_only_on_a_device_that_has_them():
    """A chain may end with it on the interpreter, and the CPU is asked for none."""
    ends = 0
    for seed in range(60):
        case = generate(Tape(seed=seed), PYTHON, TEXELS)
        chain = equivalents(case.ast, Tape(seed=seed), 0, ALL, capabilities=PYTHON, images=100)
        assert chain.labels in ((), ("image",))
        ends += bool(images(chain.ast))
        on_cpu = equivalents(case.ast, Tape(seed=seed), 3, ALL, capabilities=CPU, images=100)
        assert "image" not in on_cpu.labels
    assert ends >= 20


def test_only_supported_types_are_used():
    only = frozenset({dtypes.int32, dtypes.float32, dtypes.bool})
    for seed in range(30):
        case = generate(Tape(seed=seed), replace(PYTHON, dtypes=only), EXACT)
        found = equivalents(case.ast, Tape(seed=seed), 8, only)
        used = {node.dtype for node in found.ast.toposort() if node.op in (Ops.CAST, Ops.BITCAST)}
        assert used <= only, found.labels


def test_rounding_floats_are_not_reordered():
    case = named("sum-float32")
    for name, transformation in TRANSFORMATIONS.items():
        new = transform(case.ast, name, Tape(seed=1), exact_floats=False)
        if transformation.domain is Domain.EXACT:
            assert new is None, name


# --- wrong equations are caught -----------------------------------------------------------------


def declare(domain: Domain, *ops: Ops):
    """A transformation of one node that is in no table."""

    def wrap(rewrite) -> Transformation:
        of_node("mutant", domain, *ops)(rewrite)
        return TRANSFORMATIONS.pop("mutant")

    return wrap


def padded_with_zeros(node, draw):
    found = reduces._long_axis(node, draw, 2)
    if found is None:
        return None
    bounds = [(0, 1) if axis == found[0] else (0, 0) for axis in range(8)]
    return node.replace(
        src=(
            reduces.move_views(
                node.src[0], lambda tracker: tracker.pad(bounds[: len(tracker.shape)]), found[0]
            ),
        )
    )


def signs_ignored(node, draw):
    if node.src[0].dtype is not dtypes.int32:
        return None
    return build.less(*(build.bitcast(x, dtypes.uint32) for x in node.src))


def loads_alone_flipped(sink, draw):
    flipped = axes.flip_axis(sink, draw)
    if flipped is None:
        return None
    pairs = zip(flipped.src, sink.src, strict=True)
    return sink.replace(src=tuple(new.replace(src=(old.src[0], new.src[1])) for new, old in pairs))


MUTANTS = {
    "padding is no identity": declare(Domain.EXACT, Ops.REDUCE)(padded_with_zeros),
    "a comparison has no sign": declare(Domain.INTEGER, Ops.CMPLT)(signs_ignored),
    "loads alone are flipped": Transformation("", "", Domain.EVERY, loads_alone_flipped),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_law_catches_wrong_equations(mutant, monkeypatch):
    monkeypatch.setitem(TRANSFORMATIONS, "commute", MUTANTS[mutant])
    outcomes = []
    for seed, subject in enumerate(SUBJECTS):
        try:
            outcomes.append(broken_by("commute", subject, seed))
        except TinyrefError as error:
            # The verifier may refuse what a wrong equation gives: that is caught as well.
            outcomes.append(f"{subject.name}: {error}")
    assert any(outcomes), "no kernel of the corpus differs"


# --- the oracle ---------------------------------------------------------------------------------


@pytest.fixture
def case() -> Case:
    found = (generate(Tape(seed=seed), PYTHON, EXACT) for seed in range(100))
    return next(
        each
        for each in found
        if each.equivalent is not None and each.equivalent.labels and writes_something(each)
    )


def writes_something(case: Case) -> bool:
    """Whether the kernel stores elements of its first output."""
    given = evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)[0]
    poisoned = [np.ones_like(buffer) if n == 0 else buffer for n, buffer in enumerate(case.buffers)]
    again = evaluate(case.ast, dict(enumerate(poisoned)), case.bindings)[0]
    return bool(np.any(given == again)) and given.size > 4


@pytest.mark.long
def test_a_share_of_the_kernels_has_an_equivalent_one():
    cases = [generate(Tape(seed=seed), PYTHON, EXACT) for seed in range(100)]
    assert 15 < sum(case.equivalent is not None for case in cases) < 50


def test_a_wrong_step_is_blamed_by_its_name(case):
    def wrong(sink: UOp) -> UOp:
        view, value = sink.src[0].src
        other = build.const(value.dtype, 1)
        changed = build.binary(Ops.XOR if value.dtype.is_bool else Ops.ADD, value, other)
        return build.sink(build.store(view, changed), *sink.src[1:])

    *before, (_, last) = case.equivalent.trail
    trail = (*before, ("injected", wrong(last)), ("after", wrong(last)))
    injected = replace(case, equivalent=replace(case.equivalent, trail=trail))
    verdict = judge(injected, "PYTHON")
    assert verdict.pair is Pair.EQUIVALENT
    assert "evaluator, wrong after injected in" in verdict.detail


def test_semantics_that_are_wrong_everywhere_alike_are_caught(monkeypatch):
    # Evaluator and interpreter share the op table: only an equation can tell that it is wrong.
    kernel = named("divide-by-powers-int16")
    assert broken_by("divide-by-shift", kernel, 0) == ""
    wrong = replace(OP_TABLE[Ops.IDIV], semantics=lambda dtype, sources: np.floor_divide)
    monkeypatch.setitem(OP_TABLE, Ops.IDIV, wrong)
    semantics._kernel.cache_clear()
    try:
        # A copy has not kept the value from before.
        assert broken_by("divide-by-shift", replace(kernel), 0) == f"{kernel.name}: slot 0"
    finally:
        semantics._kernel.cache_clear()
