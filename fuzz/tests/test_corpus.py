"""The corpus of kernels is diverse and valid."""

from __future__ import annotations

import pytest

from tinyref.uops.ops import Dialect
from tinyref.uops.payload import ViewArg
from tinyref.verify import verify
from tinyref.views.shape_tracker import tracker_of
from tinyref_spec.kernels.corpus import corpus_kernels

KERNELS = tuple(corpus_kernels().values())
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)


def test_there_are_enough_kernels_and_no_two_are_the_same():
    assert len(KERNELS) >= 60
    assert len({kernel.ast for kernel in KERNELS}) == len(KERNELS)


@each_kernel
def test_a_kernel_keeps_the_rules_and_each_variable_has_a_value(kernel):
    verify(Dialect.AST, kernel.ast)
    trackers = [tracker_of(node) for node in kernel.ast.toposort() if isinstance(node.arg, ViewArg)]
    for variable in {node.arg for tracker in trackers for node in tracker.variables()}:
        assert variable.minimum <= kernel.bindings[variable.name] <= variable.maximum
