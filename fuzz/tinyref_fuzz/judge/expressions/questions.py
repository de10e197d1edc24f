"""What a plan is asked: whether it accepts an optimisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tinyref.optimise.opt import Opt


@dataclass(frozen=True)
class Question:
    """Whether the last of `opts` is legal after the others, on a device with `changes`."""

    opts: tuple[Opt, ...]
    is_legal: bool
    changes: Mapping[str, Any] = field(default_factory=dict)
