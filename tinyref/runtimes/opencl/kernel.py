"""Launches of OpenCL kernels: how the arguments of a launch become those of a kernel.

A kernel takes, in this order: for each buffer the memory object and the byte at which its view
begins (ulong); for each image an image2d_t, which it reads or writes; then each
variable (int). What the images of a text are is said in its first lines.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinyref.errors import DeviceError
from tinyref.renderers.opencl import ImageParameter, images_in
from tinyref.runtimes.drivers import is_empty_launch
from tinyref.runtimes.opencl.driver import Session
from tinyref.runtimes.opencl.memory import Memory

Extents = tuple[int, int, int]


class _Image:
    """The image object of one parameter. It shares no memory with a buffer, so it is a copy."""

    def __init__(self, session: Session, parameter: ImageParameter) -> None:
        cl = session.cl
        self.session = session
        self.is_written = parameter.is_written
        self.region = (parameter.width, parameter.height)
        is_half = parameter.texel == "float16"
        channel = cl.channel_type.HALF_FLOAT if is_half else cl.channel_type.FLOAT
        form = cl.ImageFormat(cl.channel_order.RGBA, channel)
        access = cl.mem_flags.WRITE_ONLY if self.is_written else cl.mem_flags.READ_ONLY
        with session.errors(f"no image of {parameter.height} by {parameter.width} texels"):
            self.object = cl.create_image(session.context, access, form, shape=self.region)

    def fill(self, memory: Memory) -> Any:
        """The object with the bytes of `memory`; also of one that is written, maybe in part."""
        self._copy(self.object, memory.buffer, memory.offset)
        return self.object

    def put_back(self, memory: Memory) -> None:
        """What a launch wrote, into `memory`."""
        if self.is_written:
            self._copy(memory.buffer, self.object, memory.offset)

    def _copy(self, destination: Any, source: Any, offset: int) -> None:
        session = self.session
        session.cl.enqueue_copy(
            session.queue,
            destination,
            source,
            offset=offset,
            origin=(0, 0),
            region=self.region,
        )


class OpenCLKernel:
    """A kernel of a built program, launched in the order of the session's queue."""

    def __init__(self, session: Session, entry: str, program: Any, source: str) -> None:
        self.session = session
        self.entry = entry
        self._kernel = session.kernel(program, entry)
        self._images = {each.position: _Image(session, each) for each in images_in(source)}
        # The arguments of a kernel object are set one by one (OpenCL 1.2, A.2).
        self._lock = threading.Lock()

    def __call__(
        self,
        buffers: Sequence[Memory],
        grid: Extents = (1, 1, 1),
        group: Extents = (1, 1, 1),
        variables: Sequence[int] = (),
        wait: bool = False,
    ) -> float | None:
        """Queues the launch; with `wait`, gives the seconds that the device took."""
        if is_empty_launch(self.entry, grid, group):
            return 0.0 if wait else None
        sizes = [groups * items for groups, items in zip(grid, group, strict=True)]
        session = self.session
        with session.errors(f"cannot launch {self.entry}"), self._lock:
            self._bind(buffers, variables)
            event = session.launch(self._kernel, sizes, group)
            for position, image in self._images.items():
                image.put_back(buffers[position])
        if not wait:
            return None
        session.finish()
        with session.errors("no time of the launch"):
            nanoseconds = int(event.profile.end - event.profile.start)
        return max(nanoseconds, 1) * 1e-9

    def _bind(self, buffers: Sequence[Memory], variables: Sequence[int]) -> None:
        values: list[Any] = []
        for position, memory in enumerate(buffers):
            image = self._images.get(position)
            if image is None:
                values += [memory.buffer, np.uint64(memory.offset)]
            else:
                values.append(image.fill(memory))
        values += map(np.int32, variables)
        if len(values) != self._kernel.num_args:
            raise DeviceError(
                self.session.name,
                f"{self.entry} takes {self._kernel.num_args} arguments, got {len(values)} for "
                f"{len(buffers)} buffers and {len(variables)} variables",
            )
        self._kernel.set_args(*values)
