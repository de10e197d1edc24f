"""How many kernels a call runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyref.engine import GlobalCounters


def count_kernels(function: Callable[..., Any], *arguments: Any) -> tuple[Any, int]:
    """The result of a call, and how many kernels ran: where only they did, no Python of it has."""
    before = GlobalCounters.kernel_count
    result = function(*arguments)
    return result, GlobalCounters.kernel_count - before
