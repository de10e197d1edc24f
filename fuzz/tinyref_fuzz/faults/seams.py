"""Seams of the compiler: places with a public name at which a fault is planted.

A seam names a function, a method, an entry of a table, a rule or a pass, never a piece of source
text: code around it can change without touching the fault. Each function here returns a `Seam` of
what is wrong there; the seam is patched for as long as a block.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest import mock

from tinyref.algebra import simplify
from tinyref.algebra.rewrite import RuleSet
from tinyref.optimise import moves
from tinyref.optimise.opt import Opt, OptOp
from tinyref.optimise.plan import Plan
from tinyref.uops.node import UOp, rebuild
from tinyref.uops.ops import Ops

COMPILE = "tinyref.codegen.compile"


class SeamError(Exception):
    """A seam that the compiler does not have."""


@dataclass(frozen=True)
class Seam:
    """A place, in words, and the context manager that plants the fault there."""

    place: str
    plant: Callable[[], AbstractContextManager[Any]]


# Makes a seam of the wrong function, rule or edit.
MakeSeam = Callable[[Callable[..., Any]], Seam]


def edited(root: UOp, edit: Callable[[UOp], UOp | None]) -> UOp:
    """Return `root` with every node replaced for which `edit` gives another, sources first."""
    return rebuild(root, lambda node, src: edit(node.with_sources(src)))


def function(place: str) -> MakeSeam:
    """Return the seam `module:function` or `module:Class.method`; importers keep the right one.

    The fault is a function of the right function that gives the wrong one.
    """

    @contextmanager
    def plant(wrong: Callable[..., Any]) -> Iterator[None]:
        module, _, names = place.partition(":")
        *owners, name = names.split(".")
        owner: object = importlib.import_module(module)
        for each in owners:
            owner = getattr(owner, each, None)
        right = getattr(owner, name, None)
        if right is None:
            raise SeamError(f"there is no {place}")
        with mock.patch.object(owner, name, wrong(right)):
            yield

    return lambda wrong: Seam(place, partial(plant, wrong))


def entry(place: str, key: object) -> MakeSeam:
    """Return the seam of one entry of `module:TABLE`, of which the fault gives another."""

    @contextmanager
    def plant(wrong: Callable[..., Any]) -> Iterator[None]:
        module, _, name = place.partition(":")
        table = getattr(importlib.import_module(module), name, {})
        if key not in table:
            raise SeamError(f"there is no {key} in {place}")
        with mock.patch.dict(table, {key: wrong(table[key])}):
            yield

    return lambda wrong: Seam(f"{place}[{getattr(key, 'name', key)}]", partial(plant, wrong))


def op_row(op: Ops, column: str) -> MakeSeam:
    """Return the seam of a column of the op table, as `semantics` or `value_range`."""
    of_row = entry("tinyref.algebra.op_table:OP_TABLE", op)
    return lambda wrong: of_row(lambda row: replace(row, **{column: wrong(getattr(row, column))}))


def application(op: OptOp) -> MakeSeam:
    """Return the seam of an optimisation, in whatever asks for it; the fault gets the right
    function, the plan and the Opt, and gives a plan or the right refusal.
    """

    @contextmanager
    def plant(wrong: Callable[..., Any]) -> Iterator[None]:
        right = moves.try_opt

        def try_opt(plan: Plan, opt: Opt) -> Any:
            return wrong(right, plan, opt) if opt.op is op else right(plan, opt)

        with _in_all_modules(right, try_opt):
            yield

    return lambda wrong: Seam(f"optimisation {op.name}", partial(plant, wrong))


def rule(name: str) -> MakeSeam:
    """Return the seam of a rewriting rule, whose parameters are captures of the right pattern."""

    @contextmanager
    def plant(wrong: Callable[..., UOp | None]) -> Iterator[None]:
        right = simplify.ALL_RULES
        rules = {each.name: each for each in right.rules}
        if name not in rules:
            raise SeamError(f"there is no rule {name}")
        names = wrong.__code__.co_varnames[: wrong.__code__.co_argcount]
        rules[name] = replace(rules[name], function=wrong, parameters=names)
        # A set of its own: nodes keep what the right one made of them.
        with _in_all_modules(right, RuleSet(rules.values(), right.name)):
            yield

    return lambda wrong: Seam(f"rule {name}", partial(plant, wrong))


@contextmanager
def _in_all_modules(right: object, wrong: object) -> Iterator[None]:
    """In the block every module of tinyref that has `right` under some name has `wrong`."""
    modules = [each for name, each in list(sys.modules.items()) if name.startswith("tinyref")]
    named = [(module, *item) for module in modules for item in vars(module).items()]
    places = [(module, name) for module, name, value in named if value is right]
    for module, name in places:
        setattr(module, name, wrong)
    try:
        yield
    finally:
        for module, name in places:
            setattr(module, name, right)


def after(name: str, opts: frozenset[OptOp] = frozenset()) -> MakeSeam:
    """Return the seam behind a pass of the compiler, for a fault that gives another node or None.

    opts: for lowering, the optimisations of which a plan must have one.
    """

    def wrong(edit: Callable[[UOp], UOp | None], right: Callable[..., UOp]) -> Callable[..., UOp]:
        def apply(given: Any, *more: Any) -> UOp:
            root = right(given, *more)
            is_meant = not opts or any(opt.op in opts for opt in given.opts)
            return edited(root, edit) if is_meant else root

        return apply

    return lambda edit: function(f"{COMPILE}:{name}")(partial(wrong, edit))


def text_of(renderer: str) -> MakeSeam:
    """Return the seam of a renderer `module:Class`, for a fault that gives another text."""
    return lambda wrong: function(f"{renderer}.render")(
        lambda right: lambda self, program: wrong(right(self, program))
    )
