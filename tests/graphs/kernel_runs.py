"""The number of kernels that a call runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyref.engine import GlobalCounters


def count_kernels(function: Callable[..., Any], *arguments: Any) -> tuple[Any, int]:
    """Return the result of a call and the number of kernels that ran during it."""
    before = GlobalCounters.kernel_count
    result = function(*arguments)
    return result, GlobalCounters.kernel_count - before
