"""Check of calls that must be refused, and of the words of the error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tinyref.errors import UserError


def check_refusal(words: Sequence[str], call: Callable[..., object], *arguments: Any) -> None:
    """Assert that `call(*arguments)` raises a `UserError` of one line that contains all `words`."""
    with pytest.raises(UserError) as caught:
        call(*arguments)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message
