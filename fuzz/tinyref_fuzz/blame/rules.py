"""Which rule a kernel is right without: the other way to find a wrong one.

Compiles with some rules left out show which must go for the value to be right. It is asked where
the sides of all firings agree, and simplification is wrong all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from tinyref.algebra import simplify


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
    with simplify.ALL_RULES.without(names):
        return is_right()
