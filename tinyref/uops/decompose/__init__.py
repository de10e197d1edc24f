"""Rewrites an indexed kernel into the types and ops that a device declares, or says why not."""

from __future__ import annotations

from tinyref.uops.decompose.storage import storage_dtype

__all__ = ["storage_dtype"]
