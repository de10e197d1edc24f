"""The stored result of each case of a campaign, and the version of its sources.

This module imports no judge, so that a process that only distributes cases starts quickly.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tinyref
import tinyref_fuzz
import tinyref_spec
from tinyref_spec.kernel_case import KernelVerdict
from tinyref_spec.kernel_case.document import verdict_from_json, verdict_to_json

DEFAULT_POLICY = "all"

# Files that cases and verdicts depend on: the spec has edge values and bounds, data has kernels.
_SOURCES = (
    (tinyref, "*.py"),
    (tinyref_fuzz, "*.py"),
    (tinyref_fuzz, "*.json"),
    (tinyref_spec, "*.py"),
)


@functools.cache
def code_version() -> str:
    """Return the version and a hash of the sources; other sources may generate other cases."""
    digest = hashlib.blake2b(digest_size=8)
    for package, pattern in _SOURCES:
        folder = Path(str(package.__file__)).parent
        for path in sorted(folder.rglob(pattern)):
            digest.update(path.relative_to(folder).as_posix().encode())
            digest.update(path.read_bytes())
    return f"{tinyref.__version__}-{digest.hexdigest()}"


@dataclass(frozen=True)
class CampaignCase:
    """The result of one case."""

    number: int
    seconds: float
    judged: int = 0
    """The number of optimised programs that were compared."""
    verdict: KernelVerdict | None = None
    """None if all values agree."""

    def to_json(self) -> dict[str, Any]:
        verdict = verdict_to_json(self.verdict) if self.verdict is not None else None
        return {**vars(self), "verdict": verdict}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> CampaignCase:
        verdict = verdict_from_json(data["verdict"]) if data["verdict"] is not None else None
        return CampaignCase(**{**data, "verdict": verdict})
