"""Test that numpy is imported when it is first needed, and not before."""

from __future__ import annotations

import subprocess
import sys

import numpy
import pytest

from tinyref.arrays import np

# The exported names of `tinyref`, the building of a graph, and its parts.
WITHOUT_NUMPY = (
    "from tinyref import Context, Device, GlobalCounters, Tensor, TinyJit, Variable, dtypes",
    "from tinyref import Tensor; assert Tensor.empty(4, 2).permute(1, 0).shape == (2, 4)",
)


@pytest.mark.parametrize("code", WITHOUT_NUMPY)
def test_the_core_is_imported_without_numpy(code: str) -> None:
    check = "import sys; assert not {'numpy', 'ml_dtypes', 'llvmlite'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", f"{code}; {check}"], check=True)


def test_a_name_is_the_object_of_numpy() -> None:
    assert np.add is numpy.add
    assert vars(np)["add"] is numpy.add


def test_a_name_that_numpy_has_not_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = np.no_such_name
