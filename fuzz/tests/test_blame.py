"""Faults injected into every stage must come out with the right stage and, if any, cause."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tinyref.algebra import semantics, simplify
from tinyref.algebra.op_table import OP_TABLE
from tinyref.algebra.rewrite import RuleSet
from tinyref.codegen import accumulate
from tinyref.codegen import compile as compiling
from tinyref.codegen.decompose import integer_division, wide_integers
from tinyref.interpret import Interpreter
from tinyref.optimise import legality, normal_form
from tinyref.optimise.opt import parse_opts
from tinyref.uops import build
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ReduceArg
from tinyref_fuzz.blame.find import find_blame
from tinyref_fuzz.judge.oracles import reference
from tinyref_spec.kernel_case import Blame, Equivalent, KernelCase, KernelVerdict, Pair, Symptom
from tinyref_spec.kernels.corpus import corpus_kernels

KERNELS = corpus_kernels()
WRONG_VALUE = KernelVerdict(Pair.PLAIN, Symptom.VALUE)


def blamed(
    name: str,
    opts: str = "",
    symptom: Symptom = Symptom.VALUE,
    device: str = "PYTHON",
    pair: Pair | None = None,
    buffers: tuple[np.ndarray, ...] | None = None,
) -> Blame:
    """The blame for a case of the corpus that shows with `opts`, by `opts`' last list."""
    kernel = KERNELS[name]
    lists = (parse_opts(opts),) if opts else ()
    case = KernelCase(kernel.ast, buffers or kernel.buffers(), bindings=kernel.bindings, opts=lists)
    pair = pair or (Pair.OPTIMISED if opts else Pair.PLAIN)
    # Nothing that is known of the kernel from before the fault, and nothing of the fault after it.
    forget_facts(kernel.ast)
    try:
        return find_blame(case, KernelVerdict(pair, symptom, "injected", len(lists) - 1), device)
    finally:
        forget_facts(kernel.ast)


def forget_facts(ast: UOp) -> None:
    """Drops what other tests of this process, without an injected fault, have left at the nodes."""
    for node in ast.toposort():
        node.facts.clear()


def spoilt(root: UOp) -> UOp:
    """The graph with another value in its first STORE to a buffer."""
    store = next(node for node in root.toposort() if node.op is Ops.STORE)
    one = build.const(store.src[1].dtype, 1)
    changed = store.replace(src=(store.src[0], build.add(store.src[1], one), *store.src[2:]))
    return substitute(root, {store: changed})


@pytest.mark.parametrize("name", ["sum-rows", "sum-float32"])
def test_lowering_is_blamed_for_a_value_that_no_step_changes(name, monkeypatch):
    healthy = compiling.lower
    monkeypatch.setattr(compiling, "lower", lambda plan: spoilt(healthy(plan)))
    assert str(blamed(name)) == "lower"


def test_a_wrong_order_is_blamed_on_linearising(monkeypatch):
    healthy = compiling.linearise
    monkeypatch.setattr(compiling, "linearise", lambda root: healthy(spoilt(root)))
    assert blamed("sum-rows").stage == "linearise"


def test_a_wrong_start_of_a_reduce_is_blamed_on_accumulating(monkeypatch):
    monkeypatch.setattr(accumulate, "reduce_identity", lambda op, dtype: 1)
    assert str(blamed("sum-two-axes")) == "accumulate"


def test_a_wrong_emulation_is_blamed_on_decomposing(monkeypatch):
    monkeypatch.setattr(wide_integers, "plus", lambda x, y: x)
    found = blamed("multiply-add-int64", device="tinyref_fuzz.judge.devices:Core")
    assert str(found) == "decompose: wide_integers"


@pytest.mark.parametrize(
    ("function", "stage"), [("expand", "expand"), ("linearise", "linearise"), ("lower", "lower")]
)
def test_a_stage_that_raises_is_blamed(function, stage, monkeypatch):
    def fails(*given):
        raise IndexError("injected")

    monkeypatch.setattr(compiling, function, fails)
    found = blamed("sum-rows", symptom=Symptom.ERROR)
    assert (found.stage, "injected" in found.detail) == (stage, True)


# --- inside of stages -----------------------------------------------------------------------------


def other_reduce(root: UOp) -> UOp:
    """A maximum for every sum."""
    reduces = [node for node in root.toposort() if isinstance(node.arg, ReduceArg)]
    return substitute(
        root, {node: node.replace(arg=ReduceArg(Ops.MAX, node.arg.axes)) for node in reduces}
    )


def test_a_wrong_merge_of_axes_is_named(monkeypatch):
    merge = normal_form.merge_within

    def wrong(root, labels):
        merged, left = merge(root, labels)
        return other_reduce(merged), left

    monkeypatch.setattr(normal_form, "merge_within", wrong)
    assert str(blamed("sum-rows")) == "normal: merge_axes"


@pytest.mark.parametrize(
    ("rule", "wrongly"),
    [
        ("int-add-zero", lambda x: build.add(x, 0)),
        ("where-same", lambda x: build.where(build.less(x, 3), x, x)),
    ],
)
def test_a_wrong_rule_is_named(rule, wrongly, monkeypatch):
    def wrong(function):
        def replacement(**captures):
            found = function(**captures)
            return None if found is None else build.add(found, 1)

        return replacement

    rules = [
        replace(each, function=wrong(each.function)) if each.name == rule else each
        for each in simplify.ALL_RULES.rules
    ]
    monkeypatch.setattr(simplify, "ALL_RULES", RuleSet(rules, "wrong"))
    kernel = KERNELS["multiply-add-int32"]
    store = kernel.ast.src[0]
    ast = build.sink(build.store(store.src[0], wrongly(store.src[1])))
    found = find_blame(KernelCase(ast, kernel.buffers()), WRONG_VALUE, "PYTHON")
    assert str(found) == f"simplify: {rule}"


def test_a_wrong_value_range_is_named_and_not_the_rule_that_believes_it(monkeypatch):
    wrong = replace(OP_TABLE[Ops.MOD], value_range=lambda node, sources: (0, 1))
    monkeypatch.setitem(OP_TABLE, Ops.MOD, wrong)
    kernel = KERNELS["multiply-add-int32"]
    store = kernel.ast.src[0]
    small = build.less(build.mod(store.src[1], 131), 2)
    ast = build.sink(build.store(store.src[0], build.cast(small, store.src[1].dtype)))
    found = find_blame(KernelCase(ast, kernel.buffers()), WRONG_VALUE, "PYTHON")
    assert str(found) == "simplify: bounds"


def test_a_wrong_decomposition_is_named(monkeypatch):
    shift = integer_division.shift_right
    monkeypatch.setattr(integer_division, "shift_right", lambda *given: build.add(shift(*given), 1))
    found = blamed("divide-remainder-int32", device="tinyref_fuzz.judge.devices:SlowDivision")
    assert str(found) == "decompose: constant_division"


# --- optimisations --------------------------------------------------------------------------------


def test_an_optimisation_that_is_not_legal_is_blamed_with_its_name(monkeypatch):
    monkeypatch.setattr(legality, "padding_problem", lambda reduce, target: None)
    below_zero = tuple(-np.abs(each) - 1 for each in KERNELS["maximum-int32"].buffers())
    found = blamed("maximum-int32", "UPCAST(0, 2) PADTO(1, 16)", buffers=below_zero)
    assert str(found) == "lower: PADTO"


@pytest.mark.parametrize(
    ("opts", "cause"),
    [("GROUP(1, 2)", "GROUP"), ("UPCAST(0, 2) GROUPTOP(1, 2)", "GROUPTOP")],
)
def test_a_barrier_that_lowering_forgets_is_blamed_on_it(opts, cause, monkeypatch):
    healthy = compiling.lower

    def without_barriers(plan):
        root = healthy(plan)
        waits = {}
        for node in root.toposort():
            if node.op is Ops.AFTER and node.src[1].op is Ops.BARRIER:
                waits[node] = node.replace(src=(node.src[0], *node.src[1].src))
        return substitute(root, waits)

    monkeypatch.setattr(compiling, "lower", without_barriers)
    found = blamed("sum-rows", opts, Symptom.RACE)
    assert (found.stage, found.cause) == ("lower", cause)
    assert "race" in found.detail


# --- other pairs ----------------------------------------------------------------------------------


def test_a_device_is_blamed_for_what_it_alone_does():
    assert str(blamed("sum-rows", pair=Pair.DEVICE)) == "device"


def test_a_wrong_transformation_is_named():
    kernel = KERNELS["sum-rows"]
    other = other_reduce(kernel.ast)
    trail = (("nothing", kernel.ast), ("sum-as-maximum", other))
    case = KernelCase(kernel.ast, kernel.buffers(), equivalent=Equivalent(kernel.ast, trail))
    found = find_blame(case, KernelVerdict(Pair.EQUIVALENT, Symptom.VALUE), "PYTHON")
    assert str(found) == "evaluate: sum-as-maximum"


def test_nothing_wrong_is_said_to_be_so():
    found = blamed("sum-rows", "UPCAST(0, 2)")
    assert found.stage == "optimise"
    assert found.detail.startswith("every value is right when computed again; seen was: injected")


def test_an_interpreter_is_blamed_where_a_device_runs_the_program_right(monkeypatch):
    healthy = Interpreter.run

    def wrong(self, buffers, *given, **named):
        healthy(self, buffers, *given, **named)
        buffers[0][:1] += 1

    monkeypatch.setattr(Interpreter, "run", wrong)
    assert blamed("sum-rows").stage == "interpret"


def test_semantics_are_blamed_though_all_values_share_them(monkeypatch):
    wrong = replace(OP_TABLE[Ops.MOD], semantics=lambda dtype, sources: np.mod)
    monkeypatch.setitem(OP_TABLE, Ops.MOD, wrong)
    semantics._kernel.cache_clear()
    reference._signature_fault.cache_clear()
    try:
        assert str(blamed("divide-remainder-int32")) == "semantics: MOD"
    finally:
        semantics._kernel.cache_clear()
        reference._signature_fault.cache_clear()
