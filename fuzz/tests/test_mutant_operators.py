"""The operators of mechanical mutants: what each makes of a text, and what is left out."""

from __future__ import annotations

import pytest

from tinyref_fuzz.mutants.mechanical import is_mechanical, mutants_of
from tinyref_fuzz.mutants.operators import OPERATORS, edits


def edited(body: str, operator: str) -> list[str]:
    """What an operator makes of the body of a function."""
    source = f"def f(a, b, c):\n    {body}\n"
    mutants = [each for each in mutants_of("tinyref.m", source) if each.operator == operator]
    return [each.edit(source)[0].split("\n", 1)[1].strip() for each in mutants]


# What each operator makes of a statement, in the order of the text.
MADE = [
    ("operator", "c = a + b", ["c = a - b"]),
    ("operator", "c = (a) * (b)", ["c = (a) + (b)", "c = (a) // (b)"]),
    ("operator", "c <<= a", ["c >>= a"]),
    ("operator", "c = a and b or c", ["c = a and b and c", "c = a or b or c"]),
    ("operator", "c = -a", ["c = (a)"]),
    ("comparison", "return a < b <= c", ["return a <= b <= c", "return a >= b <= c"]),
    ("comparison", "return a is not None", ["return a is None"]),
    ("comparison", "return a in b", ["return a not in b"]),
    ("constant", "c = True", ["c = False"]),
    ("constant", "c = 7 + 1", ["c = 0 + 1"]),
    ("constant", "c = 0.5", ["c = (0.5 + 1.0)"]),
    ("off-by-one", "c = 7", ["c = 8", "c = (6)"]),
    # From the end Python counts with negative numbers: an index -1 is no neighbour of 0.
    ("off-by-one", "c = a[0]", ["c = a[1]"]),
    ("off-by-one", "c = a()[0]", ["c = a()[1]"]),
    ("off-by-one", "c = [0]", ["c = [1]", "c = [(-1)]"]),
    ("off-by-one", "c = a[b:c]", ["c = a[(b) + 1:c]", "c = a[b:(c) - 1]"]),
    ("off-by-one", "c = range(a, b)", ["c = range((a) + 1, b)", "c = range(a, (b) - 1)"]),
    ("condition", "c = [x for x in a if x]", ["c = [x for x in a if True]"]),
    ("condition", "c = a if b else c", ["c = a if True else c", "c = a if False else c"]),
    ("condition", "c = a and b", ["c = True and b", "c = a and True"]),
    ("condition", "c = a or b", ["c = False or b", "c = a or False"]),
    ("statement", "a.append(b)", ["pass"]),
    ("statement", "c = a", ["pass"]),
    ("statement", "new = a", []),
    ("arguments", "c = g(a, b)", ["c = g(b, a)"]),
    ("arguments", "c = g(a, *b)", []),
    ("arguments", "c = isinstance(a, b)", []),
    ("domain", "c = a if b else c", ["c = a if (not (b)) else c"]),
    ("domain", "c = not a", ["c = bool(a)"]),
]


@pytest.mark.parametrize(("operator", "body", "made"), MADE)
def test_an_operator_makes_these_edits(operator, body, made):
    assert edited(body, operator)[: len(made)] == made
    assert bool(edited(body, operator)) == bool(made)


def test_every_operator_has_a_literal_case():
    assert {operator for operator, _, made in MADE if made} == set(OPERATORS)


# An edit that no value can show, whose form says so, and one beside it that is made.
INVISIBLE = [
    ("c = a[0]", "0 -> (-1)", "0 -> 1"),
    ("c = [0, a[b]]", None, "0 -> (-1)"),
    # The operands of a commutative op, and those of another one.
    ("c = mul(a, b)", "a, b -> b, a", None),
    ("c = build.not_equal(a, b)", "a, b -> b, a", None),
    ("c = max(a, b)", "a, b -> b, a", None),
    ("c = sub(a, b)", None, "a, b -> b, a"),
    ("c = build.less(a, b)", None, "a, b -> b, a"),
    ("c = self.add(a, b)", None, "a, b -> b, a"),
    ("c = add(a, b, c)", None, "a, b -> b, a"),
    # That a node has the payload of its op.
    (
        "c = a.op is Ops.CONST and isinstance(a.arg, ConstArg)",
        "isinstance(a.arg, ConstArg) -> True",
        "a.op is Ops.CONST -> True",
    ),
    (
        "c = a.op is not Ops.CONST or not isinstance(a.arg, ConstArg)",
        "not isinstance(a.arg, ConstArg) -> False",
        "a.op is not Ops.CONST -> False",
    ),
    (
        "c = b.op is Ops.CONST and isinstance(a.arg, ConstArg)",
        None,
        "isinstance(a.arg, ConstArg) -> True",
    ),
    (
        "c = a.op is Ops.CONST or isinstance(a.arg, ConstArg)",
        None,
        "isinstance(a.arg, ConstArg) -> False",
    ),
    (
        "c = isinstance(a.arg, ConstArg) and a.op is Ops.CONST",
        None,
        "isinstance(a.arg, ConstArg) -> True",
    ),
    # The first letters of a label.
    ("label = a[1:]", "1 -> 2", "1 -> (0)"),
    ("value = a[1:]", None, "1 -> 2"),
    # Whether all are as long.
    ("c = zip(a, b, strict=True)", "True -> False", None),
    ("c = zip(a, b, strict=False)", None, "False -> True"),
    ("c = pair(a, b, strict=True)", None, "True -> False"),
]


@pytest.mark.parametrize(("body", "left_out", "made"), INVISIBLE)
def test_an_edit_that_no_value_can_show_is_not_made_and_one_beside_it_is(body, left_out, made):
    source = f"def f(a, b, c):\n    {body}\n"
    found = [each.describe() for each in mutants_of("tinyref.m", source)]
    every = {f"{edit.old} -> {edit.new}" for _, _, edit in edits(source)}
    assert left_out is None or left_out in every
    assert left_out not in found
    assert made is None or made in found


@pytest.mark.parametrize(
    "body",
    [
        'raise ValueError(f"{a + 1}")',
        "assert a < 1, a + 1",
        'c = f"{a + 1}"',
        "c: tuple[1, 2] = b",
        "if integer('DEBUG') >= 3: print(a + 1)",
        "global c",
    ],
)
def test_what_no_value_shows_is_left_out(body):
    found = [operator for _, operator, _ in edits(f"def f(a, b):\n    {body}\n")]
    # That nothing is raised may well be seen; the statement that prints is one of its function.
    assert set(found) <= {"statement"}


def test_only_functions_are_mutated_and_no_text_for_people():
    source = "A = 1 + 2\ndef f(x: int = 3) -> 1 | 2:\n    '''1 + 2'''\n"
    assert {edit.old for _, _, edit in edits(source)} == {"3"}
    assert not list(edits("class C:\n    def __repr__(self):\n        return 1 + 2\n"))


def test_the_domain_of_a_rule_is_negated_and_dropped():
    source = "@rule('n', match(x), when=integer)\ndef f(x):\n    ...\n"
    assert [edit.new for _, _, edit in edits(source)] == [
        "lambda dtype: not (integer)(dtype)",
        "lambda dtype: True",
    ]


def test_an_edit_that_changes_nothing_is_none():
    assert [
        edit.new
        for _, operator, edit in edits("def f(a):\n    return a if True else 2\n")
        if operator == "condition"
    ] == ["False"]


def test_a_last_return_and_a_first_value_are_not_dropped():
    source = "def f(a):\n    if a:\n        return 1\n    b = 2\n    return b\n"
    dropped = [edit.old for _, operator, edit in edits(source) if operator == "statement"]
    assert dropped == ["return 1"]


def test_an_edit_elsewhere_changes_no_name():
    one = mutants_of("tinyref.views.v", "def f(a):\n    return a + 1\n")
    other = mutants_of(
        "tinyref.views.v", "def g(b):\n    return b * 2\n\ndef f(a):\n    return a + 1\n"
    )
    names = {each.name: each.at.new for each in other}
    assert one
    assert all(names[each.name] == each.at.new for each in one)
    assert all(is_mechanical(each.name) for each in one)


def test_what_is_left_out_keeps_its_number():
    found = mutants_of("tinyref.m", "def f(a):\n    return a[0] + 5\n")
    names = {each.describe(): each.name for each in found if each.operator == "off-by-one"}
    assert names == {
        "0 -> 1": "m/f/off-by-one/0",
        "5 -> 6": "m/f/off-by-one/2",
        "5 -> (4)": "m/f/off-by-one/3",
    }


def test_bytes_and_letters_are_not_confused():
    source = "def f(a):\n    return 'µµ' + a\n"
    (found,) = [edit for _, operator, edit in edits(source) if operator == "operator"]
    assert source[found.start :].startswith("+ a")
