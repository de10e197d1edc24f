"""Reduces of constants, which no kernel computes: a wrong count or power is seen."""

from __future__ import annotations

import pytest
from run_rows import failed

from tinyref.schedule import reduces

_reduce = reduces._reduce_constant


@pytest.mark.parametrize(
    ("patched", "seen"),
    [
        # One element too few, and an overflow whose sign is lost.
        (lambda node, op, value, count: _reduce(node, op, value, count - 1), "sum_rounded"),
        (lambda node, op, value, count: _reduce(node, op, value, count - 1), "product"),
        (lambda node, op, value, count: _reduce(node, op, abs(value), count), "product_odd"),
    ],
)
def test_a_wrong_reduce_of_a_constant_is_seen(patched, seen, monkeypatch) -> None:
    name = f"tensor.special.literal.constants_{seen}"
    assert failed(name, "PYTHON") == []
    monkeypatch.setattr(reduces, "_reduce_constant", patched)
    assert failed(name, "PYTHON")
