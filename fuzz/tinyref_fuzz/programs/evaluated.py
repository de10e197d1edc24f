"""Evaluate the kernels of a schedule with numpy, without any compiler.

If a program is wrong with evaluated kernels, the graph, its schedule, the memory plan or a replay
is wrong. If it is right, the fault is in codegen, a renderer or a device.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tinyref.codegen.compile import launch_order, parameters_of
from tinyref.device import Device
from tinyref.dtype import numpy_dtype
from tinyref.interpret.evaluate import evaluate
from tinyref.runtimes.host.memory import HostHandle
from tinyref.runtimes.kernel import Kernel
from tinyref.uops.node import UOp
from tinyref.uops.payload import VarArg
from tinyref.uops.program import Program
from tinyref_fuzz.reduce.measure import variables as variables_of

Array: TypeAlias = npt.NDArray[Any]
Extents = tuple[int, int, int]


class SharedMemoryError(Exception):
    """Buffer of a kernel that is written and shares memory with another one."""


def evaluated_kernel(device: str, ast: UOp) -> Kernel:
    """Return the kernel of an AST on a device whose memory is the host's."""
    parameters = parameters_of(ast, ast.toposort(), lambda memory: (memory.base, 1))
    program = Program("evaluated", (), parameters, launch_order(variables_of(ast)))
    names = [node.arg.name for node in program.variables if isinstance(node.arg, VarArg)]

    def launch(
        buffers: Sequence[HostHandle],
        grid: Extents = (1, 1, 1),
        group: Extents = (1, 1, 1),
        variables: Sequence[int] = (),
        wait: bool = False,
    ) -> float | None:
        arrays = {}
        for parameter, handle in zip(parameters, buffers, strict=True):
            nbytes = parameter.size * parameter.dtype.itemsize
            arrays[parameter.slot] = handle[:nbytes].view(numpy_dtype(parameter.dtype))
        _check_no_overlap(arrays, len(ast.src))
        bindings = dict(zip(names, variables, strict=True))
        for slot, elements in evaluate(ast, arrays, bindings).items():
            arrays[slot][:] = elements
        return 0.0 if wait else None

    return Kernel(Device.canonical(device), program, "", launch)


def _check_no_overlap(arrays: Mapping[int, Array], outputs: int) -> None:
    """Raise `SharedMemoryError` if one of the written buffers, the first ones, overlaps another.

    On a device the result would depend on the order of accesses; the evaluator reads all first.
    """
    for written, other in itertools.product(range(outputs), arrays):
        if written != other and np.may_share_memory(arrays[written], arrays[other]):
            raise SharedMemoryError(f"buffer {written} is written and shares memory with {other}")
