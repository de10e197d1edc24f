"""Kernels for tests of the optimiser: diverse, valid, and exact in every order of a reduce.

They are written as code, so that they change with the dialect.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType

from tinyref_spec.kernels import contractions, elementwise, reduces
from tinyref_spec.kernels.family import CorpusKernel

FAMILIES = (elementwise.FAMILY, reduces.FAMILY, contractions.FAMILY)


@functools.cache
def corpus_kernels() -> Mapping[str, CorpusKernel]:
    """Return every kernel of the corpus by its name, in a fixed order."""
    kernels = (kernel for family in FAMILIES for kernel in family.kernels)
    return MappingProxyType({kernel.name: kernel for kernel in kernels})
