"""What is kept of each case of a campaign once it is judged, and of which sources it is.

It imports nothing that judges: whoever only gives out cases and keeps what comes back starts soon.
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

# What cases and verdicts depend on: edge values and bounds are of the spec, kernels of the data.
_SOURCES = (
    (tinyref, "*.py"),
    (tinyref_fuzz, "*.py"),
    (tinyref_fuzz, "*.json"),
    (tinyref_spec, "*.py"),
)


@functools.cache
def code_version() -> str:
    """The version and a hash of the sources: cases of other sources may be other cases."""
    digest = hashlib.blake2b(digest_size=8)
    for package, pattern in _SOURCES:
        folder = Path(str(package.__file__)).parent
        for path in sorted(folder.rglob(pattern)):
            digest.update(path.relative_to(folder).as_posix().encode())
            digest.update(path.read_bytes())
    return f"{tinyref.__version__}-{digest.hexdigest()}"


@dataclass(frozen=True)
class CampaignCase:
    """What is kept of one case.

    judged: optimised programs that were compared. verdict: None where all agree.
    """

    number: int
    seconds: float
    judged: int = 0
    verdict: KernelVerdict | None = None

    def to_json(self) -> dict[str, Any]:
        verdict = verdict_to_json(self.verdict) if self.verdict is not None else None
        return {**vars(self), "verdict": verdict}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> CampaignCase:
        verdict = verdict_from_json(data["verdict"]) if data["verdict"] is not None else None
        return CampaignCase(**{**data, "verdict": verdict})
