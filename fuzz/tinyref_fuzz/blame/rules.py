"""Which rule a kernel is right without: the other way to find a wrong one.

Compiles with some rules left out show which must go for the value to be right. It is asked where
the sides of all firings agree, and simplification is wrong all the same.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator

from tinyref.algebra import simplify
from tinyref.algebra.rewrite import listening


@contextlib.contextmanager
def without(names: Collection[str]) -> Iterator[None]:
    """In the block the rules of these names never fire; nothing of it is kept with nodes."""
    rule_set = simplify.ALL_RULES
    rules = rule_set.rules
    known = rule_set._by_root
    rule_set.rules = tuple(rule for rule in rules if rule.name not in names)
    rule_set._by_root = {}
    try:
        with listening(afresh=True):
            yield
    finally:
        rule_set.rules = rules
        rule_set._by_root = known


def needed_without(
    names: Collection[str], is_right: Callable[[], bool], seconds: float = 1.0
) -> str:
    """The one rule of `names` without which `is_right` is true; "" where there is none.

    Halves are tried first, so that it takes few compiles; it gives up after `seconds`.
    """
    until = time.monotonic() + seconds
    left = sorted(names)
    if not left or not _is_right_without(left, is_right):
        return ""
    while len(left) > 1:
        if time.monotonic() > until:
            return ""
        half = left[: len(left) // 2]
        left = half if _is_right_without(half, is_right) else left[len(left) // 2 :]
    return left[0] if _is_right_without(left, is_right) else ""


def _is_right_without(names: Collection[str], is_right: Callable[[], bool]) -> bool:
    with without(names):
        return is_right()
