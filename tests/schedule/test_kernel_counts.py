"""Test that programs become exactly the numbers of kernels in the table of `kernel_counts`."""

import pytest
from kernel_counts import PROGRAMS

from tinyref.tensor import Tensor


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_tensor_program_has_exactly_this_many_kernels(program):
    built = program.build()
    outputs = [built] if isinstance(built, Tensor) else built
    planned = outputs[0].schedule(*outputs[1:])
    kernels = len(planned.kernels)
    assert (kernels, len(planned.items) - kernels) == (program.kernels, program.copies)
