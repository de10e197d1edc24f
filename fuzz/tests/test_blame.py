"""Check that faults injected into every stage are blamed on the right stage and cause."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tinyref.algebra import simplify
from tinyref.algebra.rewrite import RuleSet
from tinyref.codegen import compile as compiling
from tinyref.interpret import Interpreter
from tinyref.optimise import normal_form
from tinyref.optimise.opt import parse_opts
from tinyref.uops import build
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ReduceArg
from tinyref_fuzz.blame.find import find_blame
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
    """Return the blame for a case of the corpus that fails with the last list of `opts`."""
    kernel = KERNELS[name]
    lists = (parse_opts(opts),) if opts else ()
    case = KernelCase(kernel.ast, buffers or kernel.buffers(), bindings=kernel.bindings, opts=lists)
    pair = pair or (Pair.OPTIMISED if opts else Pair.PLAIN)
    # Forget what was known of the kernel before the fault, and what is known because of it.
    forget_facts(kernel.ast)
    try:
        return find_blame(case, KernelVerdict(pair, symptom, "injected", len(lists) - 1), device)
    finally:
        forget_facts(kernel.ast)


def forget_facts(ast: UOp) -> None:
    """Forget the facts that other tests of this process have stored at the nodes."""
    for node in ast.toposort():
        node.facts.clear()


def with_wrong_store(root: UOp) -> UOp:
    """Return the graph with another value in its first STORE to a buffer."""
    store = next(node for node in root.toposort() if node.op is Ops.STORE)
    one = build.const(store.src[1].dtype, 1)
    changed = store.replace(src=(store.src[0], build.add(store.src[1], one), *store.src[2:]))
    return substitute(root, {store: changed})


@pytest.mark.parametrize("name", ["sum-rows", "sum-float32"])
def test_lowering_is_blamed_for_a_value_that_no_step_changes(name, monkeypatch):
    healthy = compiling.lower
    monkeypatch.setattr(compiling, "lower", lambda plan: with_wrong_store(healthy(plan)))
    assert str(blamed(name)) == "lower"


def test_a_wrong_order_is_blamed_on_linearising(monkeypatch):
    healthy = compiling.linearise
    monkeypatch.setattr(compiling, "linearise", lambda root: healthy(with_wrong_store(root)))
    assert blamed("sum-rows").stage == "linearise"


@pytest.mark.parametrize(
    ("function", "stage"), [("expand", "expand"), ("linearise", "linearise"), ("lower", "lower")]
)
def test_a_stage_that_raises_is_blamed(function, stage, monkeypatch):
    def fails(*args):
        raise IndexError("injected")

    monkeypatch.setattr(compiling, function, fails)
    blame = blamed("sum-rows", symptom=Symptom.ERROR)
    assert (blame.stage, "injected" in blame.detail) == (stage, True)


# --- inside of stages -----------------------------------------------------------------------------


def other_reduce(root: UOp) -> UOp:
    """Replace every sum by a maximum."""
    reduces = [node for node in root.toposort() if isinstance(node.arg, ReduceArg)]
    return substitute(
        root, {node: node.replace(arg=ReduceArg(Ops.MAX, node.arg.axes)) for node in reduces}
    )


def test_a_wrong_merge_of_axes_is_named(monkeypatch):
    merge = normal_form.merge_within

    def wrong(root, labels):
        merged, rest = merge(root, labels)
        return other_reduce(merged), rest

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
        def replacement(*captures):
            result = function(*captures)
            return None if result is None else build.add(result, 1)

        return replacement

    rules = [
        replace(known, function=wrong(known.function)) if known.name == rule else known
        for known in simplify.ALL_RULES.rules
    ]
    monkeypatch.setattr(simplify, "ALL_RULES", RuleSet(rules, "wrong"))
    kernel = KERNELS["multiply-add-int32"]
    store = kernel.ast.src[0]
    ast = build.sink(build.store(store.src[0], wrongly(store.src[1])))
    blame = find_blame(KernelCase(ast, kernel.buffers()), WRONG_VALUE, "PYTHON")
    assert str(blame) == f"simplify: {rule}"


# --- other pairs ----------------------------------------------------------------------------------


def test_a_device_is_blamed_for_its_own_fault():
    assert str(blamed("sum-rows", pair=Pair.DEVICE)) == "device"


def test_a_wrong_transformation_is_named():
    kernel = KERNELS["sum-rows"]
    other = other_reduce(kernel.ast)
    trail = (("nothing", kernel.ast), ("sum-as-maximum", other))
    case = KernelCase(kernel.ast, kernel.buffers(), equivalent=Equivalent(kernel.ast, trail))
    blame = find_blame(case, KernelVerdict(Pair.EQUIVALENT, Symptom.VALUE), "PYTHON")
    assert str(blame) == "evaluate: sum-as-maximum"


def test_a_case_without_a_fault_is_reported_as_right():
    blame = blamed("sum-rows", "UPCAST(0, 2)")
    assert blame.stage == "optimise"
    assert blame.detail.startswith(
        "every value is right when computed again; the verdict was: injected"
    )


def test_an_interpreter_is_blamed_where_a_device_runs_the_program_right(monkeypatch):
    healthy = Interpreter.run

    def wrong(self, buffers, *args, **named):
        healthy(self, buffers, *args, **named)
        buffers[0][:1] += 1

    monkeypatch.setattr(Interpreter, "run", wrong)
    assert blamed("sum-rows").stage == "interpret"
