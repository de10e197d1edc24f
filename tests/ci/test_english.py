"""Test ci/english.py: it reports each kind of problem with its line."""

from __future__ import annotations

import pytest
from ci_modules import ci_module

english = ci_module("ci/english.py")

PLAIN = """
def double(x):
    '''Return twice `x`.'''
    return 2 * x  # x + x rounds the same
"""
LONG = "Words " + "and words " * 15


@pytest.mark.parametrize(
    ("source", "line", "text"),
    [
        ("def f():\n    'Whether x is even.'", 1, "f does not begin with a verb"),
        ("def f():\n    'The sum.'", 1, "f does not begin with a verb"),
        ("def f():\n    'Returns the sum.'", 1, "f does not begin with a verb"),
        ("def f():\n    '`x` doubled.'", 1, "f does not begin with a verb"),
        ("class A:\n    'What a node is.'", 1, "A does not begin with a verb"),
        (f"\n# {LONG}.", 2, "31 words"),
        (f"def f():\n    '''Return x.\n\n    {LONG}.\n    '''", 4, "31 words"),
        ("# The type,\n# but for a bool.", 1, '"but for" is a word to avoid'),
        ("x = 1\nfor found in ():\n    pass", 2, "found does not say"),
    ],
)
def test_each_kind_is_reported_with_its_line(source: str, line: int, text: str) -> None:
    (problem,) = english.check_source(source)
    assert problem[0] == line
    assert text in problem[1]


@pytest.mark.parametrize(
    "source",
    [
        PLAIN,
        "def f():\n    'x - x == 0. Integers only.'",
        "class A:\n    'The one node.'",
        "@AST.local('store.1')\ndef f():\n    'A slot is written by one STORE.'",
        f"def f():\n    '''Return x.\n\n    >>> f()\n    {LONG}\n    '''",
    ],
)
def test_plain_sources_pass(source: str) -> None:
    assert list(english.check_source(source)) == []


def test_a_page_has_few_long_sentences() -> None:
    long = "Words " + "and words " * 13 + ". "
    assert list(english.check_text("Short. " * 19 + long, 1, is_page=True)) == []
    (problem,) = english.check_text("Short. " * 18 + long, 1, is_page=True)
    assert "over 5 % of the 19 sentences have over 25 words" in problem[1]
    table = f"# A heading\n\n| {LONG} |\n\n```\n{LONG}\n```\n"
    assert list(english.check_text(table, 1, is_page=True)) == []
    (problem,) = english.check_text(f"{table}{LONG}.\n" + "Short. " * 40, 1, is_page=True)
    assert problem[0] == 8


def test_the_exit_code_tells(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The session `lint` of nox checks all files.
    monkeypatch.setitem(english.SETTINGS, "paths", ["ci/english.py"])
    assert english.main() == 0
    monkeypatch.setitem(english.SETTINGS, "names", ["path"])
    assert english.main() == 1
    assert "ci/english.py:" in capsys.readouterr().out
    monkeypatch.setitem(english.SETTINGS, "paths", ["no/folder"])
    with pytest.raises(SystemExit, match="no/folder"):
        english.main()
