"""The PYTHON device: the interpreter runs programs as they are. It is the reference."""

from __future__ import annotations

import functools
import platform
import time
from collections.abc import Sequence

import ml_dtypes
import numpy as np

from tinyref import config
from tinyref.capabilities import Capabilities
from tinyref.contract import Availability
from tinyref.dtype import VECTOR_LANES, dtypes, numpy_dtype
from tinyref.errors import DeviceError, UserError
from tinyref.formats.text import program_from_text, program_to_text
from tinyref.interpret import Interpreter
from tinyref.runtimes.driver_checks import NamedBackend
from tinyref.runtimes.host.memory import HostAllocator, HostHandle
from tinyref.uops.ops import ALU
from tinyref.uops.payload import VarArg
from tinyref.uops.program import Program
from tinyref.uops.tiles import TILES

Extents = tuple[int, int, int]

SHARED_BYTES = 64 * 1024


class TextRenderer:
    """Renders a program as the text that `program_from_text` reads back."""

    def render(self, program: Program) -> str:
        return program_to_text(program)


class TextCompiler:
    """A compiler that returns the text unchanged: loading parses it."""

    @property
    def key(self) -> str:
        return "program text 1"

    def compile(self, source: str) -> bytes:
        return source.encode()


class InterpretedKernel:
    """A program that runs on byte arrays of the host; checked unless SANITIZE is 0."""

    def __init__(self, device: str, program: Program) -> None:
        self.device = device
        self.program = program
        self.names = [node.arg.name for node in program.variables if isinstance(node.arg, VarArg)]
        self.interpreter = Interpreter(program)

    def __call__(
        self,
        buffers: Sequence[HostHandle],
        grid: Extents = (1, 1, 1),
        group: Extents = (1, 1, 1),
        variables: Sequence[int] = (),
        wait: bool = False,
    ) -> float | None:
        parameters = self.program.parameters
        if len(buffers) != len(parameters) or len(variables) != len(self.names):
            raise DeviceError(
                self.device,
                f"{self.program.name} takes {len(parameters)} buffers and {len(self.names)} "
                f"variables, got {len(buffers)} and {len(variables)}",
            )
        slots = max((parameter.slot for parameter in parameters), default=-1) + 1
        arrays = [np.zeros(0, np.uint8)] * slots
        for parameter, handle in zip(parameters, buffers, strict=True):
            whole = handle.size - handle.size % parameter.dtype.itemsize
            arrays[parameter.slot] = handle[:whole].view(numpy_dtype(parameter.dtype))
        bindings = dict(zip(self.names, variables, strict=True))
        start = time.perf_counter()
        sanitize = config.integer("SANITIZE") != 0
        self.interpreter.run(arrays, bindings, grid, group, sanitize)
        return time.perf_counter() - start if wait else None


class TextBackend(NamedBackend):
    """The interpreter behind a text, with the stages of other devices; base of faulty devices.

    It has every type, op and matrix tile, and images; work-items of a group share memory.
    """

    title = "interpreter over numpy, with a sanitizer"
    survives_fork = True
    base = "PYTHON"

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._allocator = HostAllocator(self.name)

    @classmethod
    def availability(cls) -> Availability:
        return Availability(True, f"numpy {np.__version__}")

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            dtypes=frozenset(dtypes.all),
            ops=frozenset(op.name for op in ALU) | {"LOAD", "STORE"},
            vector_lanes=(1, *VECTOR_LANES),
            has_grid=True,
            has_groups=True,
            shared_bytes=SHARED_BYTES,
            images=True,
            matrix_tiles=tuple(TILES.values()),
            tiles_pay=False,
            is_interpreted=True,
        )

    @functools.cached_property
    def renderer(self) -> TextRenderer:
        return TextRenderer()

    @functools.cached_property
    def compiler(self) -> TextCompiler:
        return TextCompiler()

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        try:
            program = program_from_text(binary.decode())
            if program.name != entry:
                raise DeviceError(self.name, f"no entry {entry!r}, the text has {program.name!r}")
            return InterpretedKernel(self.name, program)
        except (UnicodeDecodeError, UserError) as error:
            source = binary.decode(errors="replace")
            raise DeviceError(self.name, f"cannot load {entry}: {error}", source) from error

    def versions(self) -> dict[str, str]:
        return {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "ml_dtypes": ml_dtypes.__version__,
        }


class PythonBackend(TextBackend):
    """The interpreter: it runs a program as it is, and prints it only on demand."""

    def interpret(self, program: Program) -> InterpretedKernel:
        return InterpretedKernel(self.name, program)
