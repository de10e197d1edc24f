"""Which part of the suite applied to a library, and the reasons for the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tinyref_conformance.statuses import MEASURED, Status

# Kinds of reasons for skipped cases, each with words that occur in its messages.
_ABOUT_TINYREF = (
    "about tinyref, or left open by the standards",
    ("it is about how tinyref", "left open"),
)
_GRADIENTS = ("gradients", ("gradient",))
_LACKS = "functions, arguments or types that the library lacks"


@dataclass
class Scope:
    """The cases in a run of a library: all, those asked, and the others by the kind of reason."""

    cases: int = 0
    asked: int = 0
    not_asked: Counter[str] = field(default_factory=Counter)

    @property
    def headline(self) -> str:
        """Return the part of the suite in words, for the verdict."""
        return f"{self.asked:,} of {self.cases:,} cases asked"

    @property
    def sentence(self) -> str:
        """Return what was not asked, the largest part first; empty if all was asked."""
        parts = [f"{count:,} {kind}" for kind, count in self.not_asked.most_common()]
        return f"not asked: {'; '.join(parts)}" if parts else ""

    def to_json(self) -> dict[str, Any]:
        return {"cases": self.cases, "asked": self.asked, "not_asked": dict(self.not_asked)}


def scope_of(results: Iterable[tuple[Status, str]]) -> Scope:
    """Return the scope of cases, from pairs of a status and a message."""
    scope = Scope()
    for status, message in results:
        scope.cases += 1
        if status in MEASURED:
            scope.asked += 1
        elif status is Status.SKIP:
            scope.not_asked[_kind_of(message)] += 1
        else:
            scope.not_asked[f"cases with the status {status.value}"] += 1
    return scope


def _kind_of(message: str) -> str:
    for kind, words in (_ABOUT_TINYREF, _GRADIENTS):
        if any(word in message for word in words):
            return kind
    return _LACKS
