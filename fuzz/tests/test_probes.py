"""Recipes and what has to be refused: drawn lists fit their plans, and a loose check shows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tinyref.device import Device
from tinyref.optimise import moves, tile
from tinyref.optimise.opt import Opt, OptOp
from tinyref.optimise.plan import Plan
from tinyref_fuzz.generate.candidates import is_small
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.optimisations import draw_lists, on_fixed_machine
from tinyref_fuzz.generate.policies import POLICIES
from tinyref_fuzz.generate.probes import accepted_probes, apply_recipe, doubtful, fitting_recipes
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.kernels.corpus import corpus_kernels

PYTHON = Device["PYTHON"].capabilities
CPU = on_fixed_machine(Device["CPU"].capabilities)
AST = {name: kernel.ast for name, kernel in corpus_kernels().items()}


def plan_of(name: str, capabilities=PYTHON) -> Plan:
    return Plan.of(AST[name], capabilities)


def test_recipes_begin_with_what_the_kernel_takes():
    recipes, weights = fitting_recipes(plan_of("matmul-float16-float32"))
    assert (OptOp.TC, OptOp.LOCAL) in recipes
    assert len(recipes) == len(weights)
    assert not any(OptOp.TC in ops for ops in fitting_recipes(plan_of("sum-rows"))[0])
    assert (OptOp.PADTO, OptOp.PACK) in fitting_recipes(plan_of("matmul-int32", CPU))[0]


@pytest.mark.parametrize(
    ("name", "capabilities", "ops"),
    [
        ("matmul-float16-float32", PYTHON, (OptOp.TC, OptOp.UPCAST)),
        ("sum-rows", PYTHON, (OptOp.GROUP, OptOp.UNROLL)),
        ("matmul-int32", CPU, (OptOp.PADTO, OptOp.PACK)),
    ],
)
def test_most_recipes_come_out_whole(name, capabilities, ops):
    plan = plan_of(name, capabilities)
    found = [apply_recipe(plan, Tape(seed=seed), ops) for seed in range(20)]
    assert all(map(is_small, found))
    whole = Counter(tuple(opt.op for opt in each.opts) == ops for each in found)
    assert whole[True] >= 10


def test_what_is_doubtful_is_refused_but_for_padding():
    tried: Counter[OptOp] = Counter()
    for number, ast in enumerate(AST.values()):
        plan = Plan.of(ast, PYTHON)
        tape = Tape(seed=number)
        tried.update(opt.op for opt in doubtful(plan, tape))
        for opts in accepted_probes(plan, tape):
            assert opts[-1].op is OptOp.PADTO, opts
    assert {OptOp.UPCAST, OptOp.LOCAL, OptOp.UNROLL, OptOp.GROUP, OptOp.PADTO} <= tried.keys()


def loose(plan: Plan, opt: Opt) -> Plan:
    return replace(plan, opts=(*plan.opts, opt))


def test_a_compiler_that_refuses_nothing_gets_lists_of_what_it_should(monkeypatch):
    plan = plan_of("sum-rows")
    monkeypatch.setattr(moves, "try_opt", loose)
    lists = accepted_probes(plan, Tape(seed=1))
    assert {opts[-1].op is OptOp.PADTO for opts in lists} == {False}


def test_an_optimisation_that_fails_is_the_end_of_its_list(monkeypatch):
    def fails(plan: Plan, opt: Opt) -> Plan:
        raise IndexError("tuple index out of range")

    monkeypatch.setattr(moves, "try_opt", fails)
    # The heuristics fail as well: the judge finds out by itself.
    assert draw_lists(AST["sum-rows"], PYTHON, Tape(seed=1), POLICIES["even"]) == ()
    assert accepted_probes(plan_of("sum-rows"), Tape(seed=1))
    assert generate(Tape(seed=3), PYTHON).opts == ()


def test_an_optimisation_that_fails_while_recipes_are_sought_is_a_list(monkeypatch):
    """The compiler neither applies nor refuses it: the judge is to see that, and names it."""

    def fails(*given: object) -> None:
        raise AttributeError("no such axis")

    monkeypatch.setattr(tile, "_targets", fails)
    ast = AST["matmul-float16-float32"]
    lists = draw_lists(ast, PYTHON, Tape(seed=1), POLICIES["even"])
    assert lists[-1] == (Opt(OptOp.TC, 0, -1, 2, 1),)
    # A kernel without such a product has the lists that it has.
    assert draw_lists(AST["sum-rows"], PYTHON, Tape(seed=1), POLICIES["even"])
