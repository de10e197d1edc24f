"""Seams of the compiler: named targets at which a fault is planted.

A seam names a function, a method, an entry of a table, a rule or a pass, and never source text. So
code around it can change without affecting the fault. Each function here returns a `Seam` for a
wrong function, rule or edit, which is patched during a block.
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
    """Seam that the compiler does not have."""


@dataclass(frozen=True)
class Seam:
    """A target, in words, and the context manager that plants the fault there."""

    target: str
    plant: Callable[[], AbstractContextManager[Any]]


# Returns the seam of a wrong function, rule or edit.
MakeSeam = Callable[[Callable[..., Any]], Seam]


def edited(root: UOp, edit: Callable[[UOp], UOp | None]) -> UOp:
    """Return `root` with every node replaced for which `edit` returns another, sources first."""
    return rebuild(root, lambda node, src: edit(node.with_sources(src)))


def function(target: str) -> MakeSeam:
    """Return the seam `module:function` or `module:Class.method`; importers keep the right one.

    The fault is a function from the right function to the wrong one.
    """

    @contextmanager
    def plant(wrong: Callable[..., Any]) -> Iterator[None]:
        module, _, names = target.partition(":")
        *owners, name = names.split(".")
        owner: object = importlib.import_module(module)
        for owner_name in owners:
            owner = getattr(owner, owner_name, None)
        right = getattr(owner, name, None)
        if right is None:
            raise SeamError(f"there is no {target}")
        with mock.patch.object(owner, name, wrong(right)):
            yield

    return lambda wrong: Seam(target, partial(plant, wrong))


def entry(target: str, key: object) -> MakeSeam:
    """Return the seam of an entry of `module:TABLE`; the fault maps it to a wrong one."""

    @contextmanager
    def plant(wrong: Callable[..., Any]) -> Iterator[None]:
        module, _, name = target.partition(":")
        table = getattr(importlib.import_module(module), name, {})
        if key not in table:
            raise SeamError(f"there is no {key} in {target}")
        with mock.patch.dict(table, {key: wrong(table[key])}):
            yield

    return lambda wrong: Seam(f"{target}[{getattr(key, 'name', key)}]", partial(plant, wrong))


def op_row(op: Ops, column: str) -> MakeSeam:
    """Return the seam of a column of the op table, such as `semantics` or `value_range`."""
    of_row = entry("tinyref.algebra.op_table:OP_TABLE", op)
    return lambda wrong: of_row(lambda row: replace(row, **{column: wrong(getattr(row, column))}))


def application(op: OptOp) -> MakeSeam:
    """Return the seam of an optimisation, wherever it is tried.

    The fault receives the right function, the plan and the Opt. It returns a plan or a refusal.
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
    """Return the seam of a rewriting rule; its parameters are the captures of the right pattern."""

    @contextmanager
    def plant(wrong: Callable[..., UOp | None]) -> Iterator[None]:
        right = simplify.ALL_RULES
        rules = {known.name: known for known in right.rules}
        if name not in rules:
            raise SeamError(f"there is no rule {name}")
        names = wrong.__code__.co_varnames[: wrong.__code__.co_argcount]
        rules[name] = replace(rules[name], function=wrong, parameters=names)
        # A separate set: nodes remember the results of the right one.
        with _in_all_modules(right, RuleSet(rules.values(), right.name)):
            yield

    return lambda wrong: Seam(f"rule {name}", partial(plant, wrong))


@contextmanager
def _in_all_modules(right: object, wrong: object) -> Iterator[None]:
    """Replace `right` by `wrong` in every module of tinyref, under every name, during the block."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("tinyref")]
    named = [(module, *item) for module in modules for item in vars(module).items()]
    targets = [(module, name) for module, name, value in named if value is right]
    for module, name in targets:
        setattr(module, name, wrong)
    try:
        yield
    finally:
        for module, name in targets:
            setattr(module, name, right)


def after(name: str, opts: frozenset[OptOp] = frozenset()) -> MakeSeam:
    """Return the seam after a pass of the compiler; the fault returns another node or None.

    `opts` are for lowering: the plan must have one of these optimisations.
    """

    def wrong(edit: Callable[[UOp], UOp | None], right: Callable[..., UOp]) -> Callable[..., UOp]:
        def apply(subject: Any, *more: Any) -> UOp:
            root = right(subject, *more)
            is_meant = not opts or any(opt.op in opts for opt in subject.opts)
            return edited(root, edit) if is_meant else root

        return apply

    return lambda edit: function(f"{COMPILE}:{name}")(partial(wrong, edit))


def text_of(renderer: str) -> MakeSeam:
    """Return the seam of a renderer `module:Class`; the fault returns another text."""
    return lambda wrong: function(f"{renderer}.render")(
        lambda right: lambda self, program: wrong(right(self, program))
    )
