"""Command lists as CUDA graphs: a kernel node for each launch, one after the other."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from tinyref.contract import Launch
from tinyref.runtimes.cuda.driver import Session
from tinyref.runtimes.cuda.kernel import CudaKernel, CudaLaunch, Extents
from tinyref.runtimes.cuda.memory import Memory


class CudaGraph:
    """Launches that the driver is given as one. Arguments that change are set as it is launched.

    What is set changes no launch that was queued before (CUDA Driver API,
    cuGraphExecKernelNodeSetParams).
    """

    def __init__(self, session: Session, launches: Sequence[Launch]) -> None:
        self.session = session
        self._launches = [_bound(each) for each in launches]
        graph = session.call("no graph", "cuGraphCreate", 0)
        weakref.finalize(self, session.release, "cuGraphDestroy", graph)
        self._nodes: list[Any] = []
        for launch in self._launches:
            # Each comes after the one before it.
            before = self._nodes[-1:]
            added = (graph, before, len(before), self._parameters(launch))
            self._nodes.append(session.call("no node", "cuGraphAddKernelNode", *added))
        self._graph = session.call("no graph to launch", "cuGraphInstantiate", graph, 0)
        weakref.finalize(self, session.release, "cuGraphExecDestroy", self._graph)
        self._changed: set[int] = set()

    def _parameters(self, launch: CudaLaunch) -> Any:
        """The arguments of a launch as the driver takes those of a node; it copies them."""
        found = self.session.library.CUDA_KERNEL_NODE_PARAMS()
        found.func = launch.kernel.function
        found.gridDimX, found.gridDimY, found.gridDimZ = launch.grid
        found.blockDimX, found.blockDimY, found.blockDimZ = launch.group
        found.sharedMemBytes = 0
        found.kernelParams = launch.arguments
        return found

    def __call__(self) -> None:
        session = self.session
        for number in sorted(self._changed):
            place = (self._graph, self._nodes[number], self._parameters(self._launches[number]))
            session.call("cannot change a node", "cuGraphExecKernelNodeSetParams", *place)
        self._changed.clear()
        session.call("cannot launch the graph", "cuGraphLaunch", self._graph, session.stream)

    def rebind(self, launch: int, place: int, handle: Memory) -> None:
        """From the next call on the buffer at `place` of a launch is `handle`."""
        self._launches[launch].rebind(place, handle)
        self._changed.add(launch)

    def vary(self, launch: int, grid: Extents, variables: Sequence[int]) -> None:
        """From the next call on a launch has another grid and other values of the variables."""
        self._launches[launch].vary(grid, variables)
        self._changed.add(launch)


def _bound(launch: Launch) -> CudaLaunch:
    kernel = launch.kernel
    assert isinstance(kernel, CudaKernel)
    return kernel.prepare(launch.buffers, launch.grid, launch.group, launch.variables)
