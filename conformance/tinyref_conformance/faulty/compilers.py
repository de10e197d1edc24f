"""Devices whose compiler gives something else than was asked for."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tinyref.runtimes.python import TextCompiler
from tinyref_conformance.faulty.broken import BrokenBackend


class _ReversingCompiler(TextCompiler):
    def compile_many(self, sources: Sequence[str]) -> list[bytes]:
        return [self.compile(source) for source in reversed(sources)]


class SwappedResults(BrokenBackend):
    """Of sources that are compiled in one call it gives the results in the wrong order."""

    @functools.cached_property
    def compiler(self) -> TextCompiler:
        return _ReversingCompiler()
