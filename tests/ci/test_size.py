"""Test the size budget: the tokens that count, the room of a file, and excess."""

from __future__ import annotations

import pytest
from ci_modules import ci_module

size = ci_module("ci/size.py")

SOURCE = '''"""A docstring
of two lines."""

# A comment.
x = 1


def f(a):
    """Another one."""
    return a + "text"
'''


def test_comments_and_docstrings_are_no_tokens() -> None:
    # x = 1, def f ( a ) :, return a + "text"
    assert size.count_tokens(SOURCE) == 3 + 6 + 4
    assert size.count_tokens("") == 0


@pytest.mark.parametrize(
    ("file", "room"),
    [
        ("fuzz/tinyref_fuzz/strategies.py", "fuzz"),
        ("fuzz/tests/test_lock.py", "fuzz/tests"),
        ("fuzzy/other.py", "."),
        ("noxfile.py", "."),
    ],
)
def test_a_file_is_of_the_longest_room_that_has_it(file: str, room: str) -> None:
    rooms = dict.fromkeys((".", "fuzz", "fuzz/tests"), (1, 1))
    assert size.room_of(file, rooms) == room


@pytest.mark.parametrize(
    ("budget", "is_within"), [((10, 13), True), ((9, 13), False), ((10, 12), False)]
)
def test_lines_and_tokens_have_a_limit_each(budget: tuple[int, int], is_within: bool) -> None:
    measured = size.sizes({"a/x.py": SOURCE}, {"a": budget})
    assert measured == {"a": (10, 13)}
    text, is_good = size.report(measured, {"a": budget})
    assert is_good is is_within
    assert ("OVER ITS BUDGET" in text) is not is_within
