"""What an edit can change, by its place alone: a value, what is refused or said, or a choice.

The class is decided before anything runs, from the source and from `edit_classes.toml`, whatever
finds the edit later. The goals of conformance and fuzzer, which run right programs and compare
values, are of the class `value`; what both need not see is a matter of the quick tests.
"""

from __future__ import annotations

import ast
import functools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType

from tinyref.errors import UserError
from tinyref_fuzz.mutants.declining import declining_edits
from tinyref_fuzz.mutants.mechanical import MechanicalMutant, mechanical_mutant, source_of
from tinyref_fuzz.mutants.mutant import MutantError
from tinyref_fuzz.mutants.operators import Edit, Text

VALUE, REFUSAL, CHOICE = "value", "refusal", "choice"
EDIT_CLASSES: Mapping[str, str] = MappingProxyType(
    {
        VALUE: "what a program computes, and all that nothing says otherwise of",
        REFUSAL: "what is refused, reported or named: no value of a right program",
        CHOICE: "which of several right forms is taken: speed, memory, order",
    }
)
# Errors by which one function answers another one of the compiler: to raise them is a decision.
_ANSWERS = frozenset(
    {"Undecided", "TooLarge", "OrderMattersError", "ConflictError", "CycleError", "KernelOptError"}
)
_LEAVES = (ast.Return, ast.Continue, ast.Break, ast.Yield, ast.YieldFrom)


@dataclass(frozen=True)
class Declaration:
    """What `edit_classes.toml` says of a module, or of some of its functions.

    module: without `tinyref.`; without functions it is of all in the module. why: in one line.
    declines: the answer that is always safe; the declaration is of the edits that only make it more
    frequent, see `declining.py`. decorator: only functions that have it.
    """

    module: str
    edit_class: str
    why: str
    functions: tuple[str, ...] = ()
    declines: str = ""
    decorator: str = ""

    def is_of(self, module: str, function: str) -> bool:
        """Whether it is of this function, or of one inside it."""
        if module != self.module:
            return False
        names = self.functions
        return not names or any(function == f or function.startswith(f"{f}.") for f in names)


@functools.cache
def read_declarations() -> tuple[Declaration, ...]:
    """What the table says, those of functions before those of whole modules."""
    text = resources.files(__package__).joinpath("edit_classes.toml").read_text()
    return parse_declarations(text)


def parse_declarations(text: str) -> tuple[Declaration, ...]:
    """Such a table. Raises `UserError` for a class that there is not, or for one without reason."""
    found = []
    for each in tomllib.loads(text).get("declaration", []):
        declared = Declaration(
            *(each["module"], each["class"], each.get("why", ""), tuple(each.get("functions", ()))),
            *(each.get("declines", ""), each.get("decorator", "")),
        )
        if declared.edit_class not in EDIT_CLASSES:
            accepted = ", ".join(EDIT_CLASSES)
            raise UserError(
                f"edit classes: {declared.module}: {declared.edit_class!r}: accepted are {accepted}"
            )
        if not declared.why:
            raise UserError(f"edit classes: {declared.module}: the reason (why) is missing")
        found.append(declared)
    return tuple(sorted(found, key=lambda each: not each.functions))


def class_of(
    mutant: MechanicalMutant,
    source: str,
    declarations: Sequence[Declaration] | None = None,
) -> str:
    """The class of an edit of `source`: as declared, else by its form.

    The form is whether its place only refuses, or the edit only makes an optional function decline.
    """
    if declarations is None:
        declarations = read_declarations()
    declared = declared_class(mutant.name, declarations)
    if declared is not None:
        return declared
    declining = _declining_edits(source, _of_form(mutant.name, declarations))
    if declining.get(mutant.at) is not None:
        return declining[mutant.at]
    places = _refusing_places(source, _reporting(mutant.name, declarations))
    is_refusal = any(start <= mutant.at.start < end for start, end in places)
    return REFUSAL if is_refusal else VALUE


def declared_class(name: str, declarations: Sequence[Declaration] | None = None) -> str | None:
    """What the table says of the function that a mutant's name names; None where it does not."""
    if declarations is None:
        declarations = read_declarations()
    module, function = name.split("/")[:2]
    found = (each for each in declarations if not each.declines and each.is_of(module, function))
    return next((each.edit_class for each in found), None)


def _reporting(name: str, declarations: Sequence[Declaration]) -> frozenset[str]:
    """The functions of a mutant's module that are declared to refuse or report, by their names."""
    module = name.split("/")[0]
    return frozenset(
        function.rpartition(".")[2]
        for each in declarations
        if each.module == module and each.edit_class == REFUSAL
        for function in each.functions
    )


def _of_form(name: str, declarations: Sequence[Declaration]) -> tuple[Declaration, ...]:
    module = name.split("/")[0]
    return tuple(each for each in declarations if each.declines and each.module == module)


@functools.lru_cache(maxsize=256)
def _declining_edits(source: str, declarations: tuple[Declaration, ...]) -> dict[Edit, str]:
    """The edits by which functions that may decline do so more often, with their class."""
    if not declarations:
        return {}
    text = Text(source)
    return {
        edit: each.edit_class
        for name, function in functions_of(ast.parse(source))
        for each in declarations
        if each.is_of(each.module, name) and _has_decorator(function, each.decorator)
        for edit in declining_edits(function, each.declines, text)
    }


def functions_of(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """All functions with their qualified names."""
    for child in ast.iter_child_nodes(tree):
        name = getattr(child, "name", "")
        if isinstance(child, ast.FunctionDef):
            yield f"{prefix}{name}", child
        is_scope = isinstance(child, ast.FunctionDef | ast.ClassDef)
        yield from functions_of(child, f"{prefix}{name}." if is_scope else prefix)


def _has_decorator(function: ast.FunctionDef, wanted: str) -> bool:
    calls = (each.func if isinstance(each, ast.Call) else each for each in function.decorator_list)
    return not wanted or any(getattr(each, "id", "") == wanted for each in calls)


def class_of_named(name: str, edit: str) -> str:
    """The class of a mutant of which only name and edit are kept.

    Where the sources have another edit of that name now, only the table says something.
    """
    try:
        mutant = mechanical_mutant(name)
    except MutantError:
        mutant = None
    if mutant is not None and mutant.describe() == edit:
        return class_of(mutant, source_of(mutant.module))
    return declared_class(name) or VALUE


@functools.lru_cache(maxsize=256)
def _refusing_places(source: str, reporting: frozenset[str]) -> tuple[tuple[int, int], ...]:
    """From where to where the text does nothing but refuse, or call one that does."""
    text, tree = Text(source), ast.parse(source)
    found = (*_refusals(tree), *_reports(tree, reporting))
    return tuple((text.start(first), text.end(last)) for first, last in found)


Place = tuple[ast.expr | ast.stmt, ast.expr | ast.stmt]


def _refusals(tree: ast.AST) -> Iterator[Place]:
    """Statements that raise, blocks that can only end so, and the conditions of these alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and _is_refusal(node):
            yield node, node
        if isinstance(node, ast.If) and _refuses(node.body):
            yield node.body[0], node.body[-1]
            if _refuses_at_most(node.orelse):
                yield node.test, node.test
        if isinstance(node, ast.If | ast.Try) and _refuses(node.orelse):
            yield node.orelse[0], node.orelse[-1]
        if isinstance(node, ast.match_case | ast.ExceptHandler) and _refuses(node.body):
            yield node.body[0], node.body[-1]


def _reports(tree: ast.AST, reporting: frozenset[str]) -> Iterator[Place]:
    """Statements that do nothing but call a function that refuses or reports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = node.value.func
            if getattr(called, "attr", getattr(called, "id", "")) in reporting:
                yield node, node


def _refuses_at_most(block: Sequence[ast.stmt]) -> bool:
    """Whether the rest of an `if` does nothing, or refuses under more conditions."""
    if len(block) == 1 and isinstance(block[0], ast.If):
        return _refuses(block[0].body) and _refuses_at_most(block[0].orelse)
    return not block or _refuses(block)


def _refuses(block: Sequence[ast.stmt]) -> bool:
    """Whether a block ends in a refusal, and in nothing else."""
    last = block[-1] if block else None
    if not isinstance(last, ast.Raise) or not _is_refusal(last):
        return False
    return not any(
        isinstance(node, _LEAVES) or (isinstance(node, ast.Raise) and not _is_refusal(node))
        for statement in block
        for node in ast.walk(statement)
    )


def _is_refusal(statement: ast.Raise) -> bool:
    """Whether it goes up to who asked for what is wrong, and is no answer inside the compiler."""
    error = statement.exc
    if isinstance(error, ast.Call):
        error = error.func
    name = getattr(error, "id", getattr(error, "attr", ""))
    return name not in _ANSWERS
