"""What a mutant is, and how it is switched on: an edit of one source file, made as it is imported.

The file on disk stays as it is, and a process without a mutant runs no line of this. This module
imports nothing of tinyref, so that everything can still be mutated after it.
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from types import CodeType, ModuleType
from typing import Protocol

PROBE = "__tinyref_mutant_reached__"


class MutantError(Exception):
    """A mutant that no longer fits the source, or that comes too late."""


class SourceEdit(Protocol):
    """An edit of the source text of a module, made as the module is imported; with a name."""

    @property
    def name(self) -> str: ...

    @property
    def module(self) -> str: ...

    def edit(self, source: str) -> tuple[str, int]:
        """The edited source, and the number of the first line that it changes; `MutantError`."""
        ...


@dataclass(frozen=True)
class Mutant:
    """One wrong edit of the compiler.

    kind: the class of bugs it belongs to. module: the dotted name of the module it edits. old,
    new: the text that stands exactly once in it, and what replaces it. resembles: the real bug
    that it is like. stages: the stages that a right blame may name; the first is the best. causes:
    rules, optimisations or passes of which a right blame names one; none asks for no cause. device:
    the device on which it shows. is_race: whether it is about barriers, or about which work-item
    reads or writes before another one.
    """

    name: str
    kind: str
    module: str
    old: str
    new: str
    resembles: str
    stages: tuple[str, ...]
    causes: tuple[str, ...] = ()
    device: str = "PYTHON"
    is_race: bool = False

    def edit(self, source: str) -> tuple[str, int]:
        """`source` with the edit, and the number of the first line that it changes.

        Raises `MutantError` where the old text does not stand there exactly once, or the edit
        changes nothing.
        """
        count = source.count(self.old)
        if count != 1 or self.old == self.new:
            raise MutantError(
                f"mutant {self.name}: {self.old!r} stands {count} times in {self.module}: "
                "accepted is a text that stands there once, and another one for it"
            )
        at = source.index(self.old)
        # The first character that differs tells the line, not the context before it.
        same = next(
            (i for i, (x, y) in enumerate(zip(self.old, self.new, strict=False)) if x != y),
            min(len(self.old), len(self.new)),
        )
        # What is added after a whole line is a line of its own.
        same += self.new[same : same + 1] == "\n" and same == len(self.old)
        edited = source.replace(self.old, self.new)
        return edited, edited.count("\n", 0, at + same) + 1


@dataclass
class Reached:
    """How often the edited code has run; what is edited outside of functions runs on import."""

    count: int = 0

    def __call__(self) -> None:
        self.count += 1


@dataclass
class _Finder(MetaPathFinder):
    """Finds the mutated module, and lets every other one be found as always."""

    mutant: SourceEdit
    reached: Reached = field(default_factory=Reached)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.mutant.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return None
        loader = _Loader(fullname, spec.origin, self.mutant)
        return importlib.util.spec_from_file_location(
            fullname,
            spec.origin,
            loader=loader,
            submodule_search_locations=spec.submodule_search_locations,
        )


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the edited source, never cached bytecode."""

    def __init__(self, fullname: str, path: str, mutant: SourceEdit) -> None:
        super().__init__(fullname, path)
        self.mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path).decode()
        edited, line = self.mutant.edit(source)
        code: CodeType = compile(probed(edited, line), self.path, "exec", dont_inherit=True)
        return code


def probed(source: str, line: int) -> ast.Module:
    """The syntax tree of a source with a call that counts, before the statement at `line`."""
    tree = ast.parse(source)
    call = ast.Expr(ast.Call(ast.Name(PROBE, ast.Load()), [], []))
    body = _block_at(tree.body, line)
    place = next((i for i, each in enumerate(body) if _spans(each, line)), len(body))
    # Before a docstring or an import of the future nothing may stand.
    if body is not tree.body:
        body.insert(place, ast.copy_location(call, body[min(place, len(body) - 1)]))
    else:
        body.append(ast.copy_location(call, body[-1]))
    return ast.fix_missing_locations(tree)


def _spans(statement: ast.stmt, line: int) -> bool:
    return statement.lineno <= line <= (statement.end_lineno or statement.lineno)


def _block_at(body: list[ast.stmt], line: int) -> list[ast.stmt]:
    """The innermost block of statements of a function in which `line` stands, else `body`."""
    found = body
    is_inside = False
    current = body
    while True:
        statement = next((each for each in current if _spans(each, line)), None)
        if statement is None:
            return found
        is_inside = is_inside or isinstance(statement, ast.FunctionDef)
        blocks = [
            block
            for name in ("body", "orelse", "finalbody")
            for block in (getattr(statement, name, []),)
            if any(_spans(each, line) for each in block)
        ]
        if not blocks:
            return found
        current = blocks[0]
        if is_inside:
            found = current


def switch_on(mutant: SourceEdit) -> Reached:
    """Makes the edit in this process, from the next import of its module on.

    Returns the counter of how often the edited code ran. Raises `MutantError` where the module is
    imported already: then part of the process would run without the edit.
    """
    if mutant.module in sys.modules:
        raise MutantError(
            f"mutant {mutant.name}: {mutant.module} is imported already: switch it on before"
        )
    finder = _Finder(mutant)
    setattr(builtins, PROBE, finder.reached)
    sys.meta_path.insert(0, finder)
    return finder.reached
