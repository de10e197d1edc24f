"""Cases on file: a kernel with its data, lists of optimisations and what was found with it.

The format is `tinyref.case`, described field by field in docs/corpus.md. What is read may come from
anywhere: nothing is evaluated, and everything that the writer does not write is refused.
"""

from __future__ import annotations

from tinyref_spec.kept.buffers import MAX_BYTES
from tinyref_spec.kept.document import (
    MODES,
    SCHEMA,
    VERSION,
    KeptBlame,
    KeptCase,
    KeptVerdict,
    content_hash,
    from_json,
    to_json,
)
from tinyref_spec.kept.files import hash_in_name, named, read_json, read_kept, write_text
from tinyref_spec.kept.limits import check_fits, check_work
from tinyref_spec.kept.stable_text import stable_text

__all__ = [
    "MAX_BYTES",
    "MODES",
    "SCHEMA",
    "VERSION",
    "KeptBlame",
    "KeptCase",
    "KeptVerdict",
    "check_fits",
    "check_work",
    "content_hash",
    "from_json",
    "hash_in_name",
    "named",
    "read_json",
    "read_kept",
    "stable_text",
    "to_json",
    "write_text",
]
