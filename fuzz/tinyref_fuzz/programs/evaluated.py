"""Kernels that are evaluated as the schedule has them: with numpy, without any compiler.

What is still wrong with them is wrong in the graph, its schedule, the memory plan or a replay; what
is right with them alone is wrong below: in codegen, a renderer, a device.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from tinyref.device import Device
from tinyref.dtype import PtrDType, numpy_dtype
from tinyref.interpret.evaluate import evaluate
from tinyref.runtimes.host.memory import HostHandle
from tinyref.runtimes.kernel import Kernel
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SlotArg, VarArg, ViewArg
from tinyref.uops.program import Parameter, Program
from tinyref.views.build import tracker_of

Extents = tuple[int, int, int]


class EvaluatedKernel:
    """A kernel AST over arrays of the host."""

    def __init__(self, ast: UOp, program: Program) -> None:
        self.ast = ast
        self.parameters = program.parameters
        self.names = [node.arg.name for node in program.variables if isinstance(node.arg, VarArg)]

    def __call__(
        self,
        buffers: Sequence[HostHandle],
        grid: Extents = (1, 1, 1),
        group: Extents = (1, 1, 1),
        variables: Sequence[int] = (),
        wait: bool = False,
    ) -> float | None:
        start = time.perf_counter()
        arrays = {}
        for parameter, handle in zip(self.parameters, buffers, strict=True):
            nbytes = parameter.size * parameter.dtype.itemsize
            arrays[parameter.slot] = handle[:nbytes].view(numpy_dtype(parameter.dtype))
        bindings = dict(zip(self.names, variables, strict=True))
        for slot, elements in evaluate(self.ast, arrays, bindings).items():
            arrays[slot][:] = elements
        return time.perf_counter() - start if wait else None


def evaluated_kernel(device: str, ast: UOp) -> Kernel:
    """The kernel of an AST on a device whose memory is the host's."""
    nodes = ast.toposort()
    written = {slot_of(node) for node in ast.src}
    read = {slot_of(node) for node in nodes if node.op is Ops.LOAD}
    memory = {
        node.arg.slot: node.dtype
        for node in nodes
        if isinstance(node.arg, SlotArg) and isinstance(node.dtype, PtrDType)
    }
    parameters = tuple(
        Parameter(slot, dtype.base, dtype.size, slot in written, slot in read)
        for slot, dtype in sorted(memory.items())
    )
    found = {node for node in nodes if node.op is Ops.DEFINE_VAR}
    views = (tracker_of(node) for node in nodes if isinstance(node.arg, ViewArg))
    found.update(variable for tracker in views for variable in tracker.variables())
    variables = sorted(
        found, key=lambda node: node.arg.name if isinstance(node.arg, VarArg) else ""
    )
    program = Program("evaluated", (), parameters, tuple(variables))
    return Kernel(Device.canonical(device), program, "", EvaluatedKernel(ast, program))


def _name_of(variable: UOp) -> str:
    return variable.arg.name if isinstance(variable.arg, VarArg) else ""
