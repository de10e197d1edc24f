"""Which blocks of the compiler's functions run: all that an edit in a function can change.

A block is a list of statements in a function: its body, one arm of an `if`, the body of a loop. In
a process that records, each block of each mutated room notes that it runs, in a file that all
processes of the recording share. A block's number is a hash of its place, so that no process needs
to know the others' blocks; two of one number count as one.

Nothing of the compiler is imported here: recording has to begin before.
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import importlib.util
import mmap
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import CodeType, ModuleType

from tinyref_fuzz.mutants.mechanical import ROOMS, MechanicalMutant
from tinyref_fuzz.mutants.operators import Text

# Blocks have numbers below this; there are about ten thousand of them.
NUMBERS = 1 << 20
_NAME = "__tinyref_blocks__"


@dataclass(frozen=True)
class Block:
    """Where an edit stands.

    number: of its block. function: the qualified name of the outermost function around it; entry:
    the number of that function's body. is_nested: whether the edit is in a function or lambda of
    that function, of which there may be one already.
    """

    number: int
    function: str
    entry: int
    is_nested: bool


def number_of(module: str, body: Sequence[ast.stmt]) -> int:
    """The number of a block."""
    first = body[0]
    return zlib.crc32(f"{module}:{first.lineno}:{first.col_offset}".encode()) % NUMBERS


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """The outermost functions with their qualified names."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef):
            yield f"{prefix}{child.name}", child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.stmt):
            yield from _functions(child, prefix)


def _blocks_of(function: ast.FunctionDef) -> Iterator[list[ast.stmt]]:
    """The body of a function and all blocks in it, those of inner functions too."""
    yield function.body
    for node in ast.walk(function):
        if node is function:
            continue
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and block:
                yield block


def find_block(mutant: MechanicalMutant, source: str) -> Block | None:
    """The block in which a mutant's edit stands; None of one that works as the module is imported.

    Such are default values of arguments, the domains of rules and lambdas outside of functions.
    """
    text, at = Text(source), mutant.at.start

    def spans(block: Sequence[ast.stmt]) -> bool:
        return text.start(block[0]) <= at < text.end(block[-1])

    for name, function in _functions(ast.parse(source)):
        if not spans(function.body):
            continue
        around = [block for block in _blocks_of(function) if spans(block)]
        inner = min(around, key=lambda block: text.end(block[-1]) - text.start(block[0]))
        nested = (
            text.start(node) <= at < text.end(node)
            for node in ast.walk(function)
            if node is not function and isinstance(node, ast.FunctionDef | ast.Lambda)
        )
        entry = number_of(mutant.module, function.body)
        return Block(number_of(mutant.module, inner), name, entry, any(nested))
    return None


# --- recording ----------------------------------------------------------------------------------


class Marks:
    """Which blocks have run, in a file that the processes of a recording share."""

    def __init__(self, file: Path) -> None:
        with file.open("ab") as opened:
            opened.truncate(NUMBERS)
        with file.open("r+b") as opened:
            self.memory = mmap.mmap(opened.fileno(), NUMBERS)

    def take(self) -> list[int]:
        """The numbers of the blocks that ran since the last time."""
        data = self.memory[:]
        self.memory[:] = bytes(NUMBERS)
        found, at = [], data.find(1)
        while at >= 0:
            found.append(at)
            at = data.find(1, at + 1)
        return found


def record_into(file: Path) -> Marks:
    """Marks in `file` which blocks run, of modules that this process imports from now on."""
    marks = Marks(file)
    setattr(builtins, _NAME, marks.memory)
    sys.meta_path.insert(0, _Finder())
    return marks


def is_of_rooms(module: str) -> bool:
    """Whether a module is mutated."""
    package, _, rest = module.partition(".")
    return package == "tinyref" and rest.split(".")[0] in ROOMS


class _Finder(MetaPathFinder):
    """Finds the modules of the rooms, and lets every other one be found as always."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not is_of_rooms(fullname):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return None
        return importlib.util.spec_from_file_location(
            fullname,
            spec.origin,
            loader=_Loader(fullname, spec.origin),
            submodule_search_locations=spec.submodule_search_locations,
        )


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the source with a mark in each block, never cached bytecode."""

    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(self.get_data(self.path))
        code: CodeType = compile(marked(tree, fullname), self.path, "exec", dont_inherit=True)
        return code


def marked(tree: ast.Module, module: str) -> ast.Module:
    """The tree, with a mark as the first statement of each block of its functions."""
    for _, function in _functions(tree):
        for block in list(_blocks_of(function)):
            place = ast.Name(_NAME, ast.Load())
            number = ast.Constant(number_of(module, block))
            target = ast.Subscript(place, number, ast.Store())
            mark = ast.Assign([target], ast.Constant(1))
            is_text = isinstance(block[0], ast.Expr) and isinstance(block[0].value, ast.Constant)
            # A docstring stays the first statement.
            block.insert(int(is_text), ast.copy_location(mark, block[0]))
    return ast.fix_missing_locations(tree)


FILE_VARIABLE = "REACHED_BLOCKS_OF_TINYREF"


def record_children(file: Path) -> None:
    """From now on children of this process mark what they run as well."""
    os.environ[FILE_VARIABLE] = str(file)
