"""What an edit can change, by its place: literal places of each class, and the table."""

from __future__ import annotations

import ast

import pytest

from tinyref.errors import UserError
from tinyref_fuzz.mutants.edit_class import (
    EDIT_CLASSES,
    Declaration,
    class_of,
    class_of_named,
    declared_class,
    functions_of,
    parse_declarations,
    read_declarations,
)
from tinyref_fuzz.mutants.mechanical import ROOMS, mutants_of, source_of

SOURCE = """
def f(a, b):
    if a < 1:
        raise UserError("a")
    if a < 2 and b:
        words = a + 2
        raise UserError(words)
    if a < 3:
        raise UserError("c")
    else:
        b = b + 3
    if a < 4:
        b = b + 4
        if b < 5:
            raise Undecided
    if a < 6:
        raise UserError("d")
    elif a < 7:
        raise UserError("e")
    if a < 8:
        b = b + 8
    else:
        b = b - 9
        raise self.error(b)
    if a < 10:
        if b < 11:
            return a + 11
        raise UserError("g")
    raise UserError("h")
"""
# An edit, and its class.
PLACES = [
    ("a < 1 -> True", "refusal"),
    ('raise UserError("a") -> pass', "refusal"),
    ("a < 2 -> True", "refusal"),
    ("and -> or", "refusal"),
    ("2 -> 3", "refusal"),
    # Whether something else happens.
    ("a < 3 -> True", "value"),
    ('raise UserError("c") -> pass', "refusal"),
    ("3 -> 4", "value"),
    ("a < 4 -> True", "value"),
    ("4 -> 5", "value"),
    # An answer inside the compiler.
    ("b < 5 -> True", "value"),
    ("raise Undecided -> pass", "value"),
    ("a < 6 -> True", "refusal"),
    ("a < 7 -> True", "refusal"),
    ("a < 8 -> True", "value"),
    ("+ -> -", "value"),
    ("9 -> 10", "refusal"),
    ("raise self.error(b) -> pass", "refusal"),
    ("a < 10 -> True", "value"),
    ("return a + 11 -> pass", "value"),
    ('raise UserError("g") -> pass', "refusal"),
    ('raise UserError("h") -> pass', "refusal"),
]


@pytest.mark.parametrize(("edit", "wanted"), PLACES)
def test_the_class_of_a_place(edit, wanted):
    mutants = mutants_of("tinyref.views.m", SOURCE)
    found = {class_of(each, SOURCE, ()) for each in mutants if each.describe() == edit}
    assert wanted in found
    if "<" in edit or "raise" in edit:
        assert found == {wanted}


def test_what_is_declared_comes_before_the_form_of_the_source():
    (mutant,) = [m for m in mutants_of("tinyref.m", SOURCE) if m.describe() == "a < 1 -> True"]
    of_module = Declaration("m", "choice", "it chooses")
    of_function = Declaration("m", "value", "it computes", ("f",))
    assert class_of(mutant, SOURCE, [of_module]) == "choice"
    assert class_of(mutant, SOURCE, [of_function, of_module]) == "value"
    assert class_of(mutant, SOURCE, [Declaration("m", "choice", "", ("g",))]) == "refusal"
    assert declared_class("m/f.inner/operator/0", [of_function]) == "value"
    assert declared_class("m/ff/operator/0", [of_function]) is None
    assert declared_class("m.n/f/operator/0", [of_module]) is None


def test_a_call_of_what_is_declared_to_report_is_a_refusal_and_its_condition_is_none():
    source = "def f(a, b):\n    if a < 1:\n        report(a, b)\n    b = keep(b, a)\n    return b\n"
    reporting = Declaration("m", "refusal", "it reports", ("C.report",))

    def classes(declarations):
        mutants = mutants_of("tinyref.m", source)
        return {each.describe(): class_of(each, source, declarations) for each in mutants}

    found = classes([reporting])
    refused = {edit for edit, name in found.items() if name == "refusal"}
    assert refused == {"report(a, b) -> pass", "a, b -> b, a"}
    assert found["a < 1 -> True"] == found["b, a -> a, b"] == "value"
    assert set(classes([]).values()) == {"value"}


# Functions of the compiler, and what their edits can change.
DECLARED = [
    ("optimise.heuristics_groups/_matvec", "choice"),
    ("codegen.linearise.order/BlockOrder._by_registers", "choice"),
    ("schedule.materialise/Work.exceeds", "choice"),
    ("algebra.typing_rules/variable", "refusal"),
    ("interpret.machine/Memory._report_outside", "refusal"),
    ("interpret.machine/Memory._report_race", "refusal"),
    ("schedule.scheduler/_Scheduler._named_nodes", "refusal"),
    ("optimise.moves/_swap", "value"),
    # Which order is legal is no choice, nor whether a race was seen: values hang on both.
    ("codegen.linearise.order/BlockOrder.sorted", None),
    ("interpret.machine/Memory._note_read", None),
    # Right programs run without the sanitizer too.
    ("interpret.machine/Memory._inside_alone", None),
    ("algebra.rules.integer/mul_mul", None),
]


@pytest.mark.parametrize(("function", "wanted"), DECLARED)
def test_what_the_table_says_of_functions(function, wanted):
    assert declared_class(f"{function}/operator/0") == wanted


OPTIONAL = """
@rule("n", x)
def f(a, b):
    if a is None or b < 1:
        return None
    if not (a <= 2 and b):
        return None
    for each in b:
        if each > 3:
            return
    if a > 4:
        return a if b >= 5 else None
    if a == 6:
        return b
    else:
        return None
def g(a, b):
    if a < 7:
        return a and b or a > 8
    return False
def h(a):
    if a > 9:
        return 9
"""
# An edit, the answer that is safe, and whether the edit only makes it more frequent.
DECLINING = [
    ("a is None or b < 1 -> True", "None", True),
    ("a is None or b < 1 -> False", "None", False),
    ("b < 1 -> False", "None", False),
    ("a is None -> False", "None", False),
    ("or -> and", "None", False),
    ("is -> is not", "None", False),
    ("1 -> 2", "None", True),
    ("1 -> (0)", "None", False),
    ("a <= 2 -> True", "None", False),
    ("and -> or", "None", False),
    ("<= -> <", "None", True),
    ("<= -> >", "None", False),
    ("2 -> (1)", "None", True),
    ("not (a <= 2 and b) -> True", "None", True),
    ("return None -> pass", "None", False),
    ("each > 3 -> True", "None", True),
    ("3 -> (2)", "None", True),
    ("b >= 5 -> False", "None", True),
    ("b >= 5 -> True", "None", False),
    ("5 -> 6", "None", True),
    # What comes after is another answer.
    ("a > 4 -> False", "None", False),
    ("a == 6 -> False", "None", True),
    ("a == 6 -> (not (a == 6))", "None", False),
    ("a < 7 -> False", "False", True),
    ("a < 7 -> True", "False", False),
    ("or -> and", "False", True),
    ("8 -> 9", "False", True),
    ("a and b -> False", "False", True),
    ("a -> True", "False", False),
    ("a < 7 -> False", "None", False),
    ("a > 9 -> False", "None", True),
    ("9 -> 10", "None", True),
]


@pytest.mark.parametrize(("edit", "answer", "wanted"), DECLINING)
def test_an_edit_that_only_makes_a_function_decline_more_often(edit, answer, wanted):
    function = "g" if answer == "False" else "f"
    function = "h" if "9" in edit and answer == "None" else function
    declared = Declaration("m", "choice", "it is optional", (function,), declines=answer)
    mutants = mutants_of("tinyref.m", OPTIONAL)
    prefix = f"m/{function}/"
    found = [
        class_of(each, OPTIONAL, [declared])
        for each in mutants
        if each.describe() == edit and each.name.startswith(prefix)
    ]
    # Another function's answer is none of this one.
    assert found or (edit, answer) == ("a < 7 -> False", "None")
    assert ("choice" in found) is wanted


def test_only_functions_with_the_decorator_decline():
    declared = Declaration("m", "choice", "w", declines="None", decorator="rule")
    mutants = {each.name: each for each in mutants_of("tinyref.m", OPTIONAL)}
    last = [each for each in mutants.values() if each.describe() == "a > 9 -> False"]
    first = [each for each in mutants.values() if each.describe() == "a == 6 -> False"]
    assert {class_of(each, OPTIONAL, [declared]) for each in last} == {"value"}
    assert {class_of(each, OPTIONAL, [declared]) for each in first} == {"choice"}


def test_every_function_that_is_declared_exists_and_once():
    declarations = read_declarations()
    named = [
        (each.module, each.declines, name)
        for each in declarations
        for name in each.functions or ("",)
    ]
    assert len(named) == len(set(named))
    for each in declarations:
        assert each.module.split(".")[0] in ROOMS
        tree = ast.parse(source_of(f"tinyref.{each.module}"))
        assert set(each.functions) <= {name for name, _ in functions_of(tree)}, each.module
    assert {each.edit_class for each in declarations} == set(EDIT_CLASSES)


def test_a_declaration_without_class_or_reason_is_refused():
    text = '[[declaration]]\nmodule = "m"\nclass = "{}"\nwhy = "{}"\n'
    assert parse_declarations(text.format("choice", "w")) == (Declaration("m", "choice", "w"),)
    with pytest.raises(UserError, match="accepted are value, refusal, choice"):
        parse_declarations(text.format("speed", "w"))
    with pytest.raises(UserError, match=r"the reason \(why\) is missing"):
        parse_declarations(text.format("choice", ""))


def test_of_a_name_alone_the_table_speaks_where_the_edit_is_gone():
    module = "algebra.kernel_shape"
    mutants = mutants_of(f"tinyref.{module}", source_of(f"tinyref.{module}"))
    refusal = next(m for m in mutants if m.describe().startswith("raise UserError"))
    assert class_of_named(refusal.name, refusal.describe()) == "refusal"
    assert class_of_named("schedule.scheduler/_Scheduler.run/operator/99", "a -> b") == "value"
    assert class_of_named("optimise.actions/gone/operator/99", "a -> b") == "choice"
