"""Single steps of judging: compile a kernel, and run a program on the interpreter or a device.

A failure is a `RunError`, with a symptom and its description. An unexpected exception becomes a
`RunError` too, with the last stage that the compiler reached.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tinyref.algebra.rewrite import listening
from tinyref.algebra.shapes import positions_of
from tinyref.capabilities import Capabilities
from tinyref.codegen.compile import compile_kernel
from tinyref.codegen.decompose import ELEMENTARY_OPS
from tinyref.codegen.linearise import linearise
from tinyref.contract import Backend, entry_point
from tinyref.interpret import Fault, Interpreter, SanitizerError
from tinyref.optimise.opt import KernelOptError, Opt
from tinyref.runtimes.kernel import Kernel
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.program import Program
from tinyref.verify.index_bounds import check_index_bounds
from tinyref_fuzz.judge.guard import GuardedMemory
from tinyref_spec.kernel_case import Array, KernelCase, Symptom

SYMPTOMS = {
    Fault.BOUNDS: Symptom.ACCESS,
    Fault.ALIGNMENT: Symptom.ACCESS,
    Fault.UNINITIALISED: Symptom.ACCESS,
    Fault.RACE: Symptom.RACE,
    Fault.DIVERGENCE: Symptom.RACE,
    Fault.TILE: Symptom.ERROR,
}


class RunError(Exception):
    """Failure of a step: `symptom`, and `detail` in one line."""

    def __init__(self, symptom: Symptom, detail: str) -> None:
        self.symptom = symptom
        self.detail = detail
        super().__init__(detail)


@contextlib.contextmanager
def errors_from(where: Callable[[], str]) -> Iterator[None]:
    """Turn every error except `KernelOptError` into a `RunError`; `where` describes the step."""
    try:
        yield
    except (RunError, KernelOptError):
        raise
    except SanitizerError as error:
        raise RunError(SYMPTOMS[error.kind], f"{where()}: {_first_line(error)}") from error
    except MemoryError as error:
        raise RunError(Symptom.MEMORY, f"{where()}: {_first_line(error)}") from error
    except Exception as error:
        detail = f"{where()}: {type(error).__name__}: {_first_line(error)}"
        raise RunError(Symptom.ERROR, detail) from error


def _first_line(error: Exception) -> str:
    """Return the first line of an error, its buffers named as in the kernel's text."""
    return re.sub(r"\bslot (\d+)", r"b\1", str(error).partition("\n")[0])


@dataclass
class Stages:
    """Listener that records which stage the compiler reached, and which graph it linearised."""

    checks_bounds: bool = False
    reached: str = "nothing"
    graph: UOp | None = None

    def __call__(self, stage: str, before: UOp, after: UOp | tuple[UOp, ...]) -> None:
        self.reached = stage
        if stage == "linearise":
            self.graph = before
        if stage == "decompose" and self.checks_bounds and isinstance(after, UOp):
            check_index_bounds(after)


@dataclass(frozen=True)
class LinearisedKernel:
    """A program, and the graph that was linearised."""

    program: Program
    graph: UOp

    def shuffle(self, seed: int) -> Program:
        """Return the program in another legal order of its nodes."""
        return replace(self.program, uops=linearise(self.graph, seed))


def compile_checked(
    ast: UOp, capabilities: Capabilities, opts: Sequence[Opt] | None, checks_bounds: bool = False
) -> LinearisedKernel:
    """Return the kernel `ast` compiled with `opts`; None stands for the heuristics' choice.

    Raises `KernelOptError` for a list that is refused, and `RunError` for every other error.
    """
    stages = Stages(checks_bounds)
    with errors_from(lambda: f"compiler, {stages.reached} reached"):
        with listening(stages=stages):
            program = compile_kernel(ast, capabilities, opts=opts)
        if stages.graph is None:
            raise TypeError("the compiler linearised no graph")
        return LinearisedKernel(program, stages.graph)
    raise AssertionError("unreachable")


def interpret(
    program: Program, memory: GuardedMemory, bindings: Mapping[str, int], backward: bool = False
) -> dict[int, Array]:
    """Run `program` on the interpreter with its sanitizer; return each written slot's contents.

    Raises `RunError`, also if memory changed that must not.
    """
    with errors_from(lambda: "interpreter"):
        Interpreter(program).run(memory.arrays(), bindings, backward=backward)
    return checked_results(memory)


def load_kernel(backend: Backend, device: str, program: Program) -> Kernel:
    """Render and compile `program`, without caches. Raises `RunError`."""
    step = "renderer"
    with errors_from(lambda: step):
        source = backend.renderer.render(program)
        step = "compiler of the device"
        binary = backend.compiler.compile(source)
        step = "loading"
        entry = entry_point(backend.renderer, program)
        return Kernel(device, program, source, backend.load(entry, binary))
    raise AssertionError("unreachable")


def launch(kernel: Kernel, memory: GuardedMemory, bindings: Mapping[str, int]) -> dict[int, Array]:
    """Run `kernel` on its device; return each written slot's contents. Raises `RunError`."""
    with errors_from(lambda: "launch"):
        buffers = memory.on_device(kernel.device)
        chosen = [buffers[parameter.slot] for parameter in kernel.program.parameters]
        kernel(chosen, bindings, wait=True)
        memory.fetch()
    return checked_results(memory)


def other_data(case: KernelCase) -> tuple[Array, ...]:
    """Return contents for another launch of the kernel: elements are rotated by one position.

    Contents stay if positions are computed: others might lie outside a buffer.
    """
    accesses = [node.src[0] for node in case.ast.toposort() if node.op in (Ops.LOAD, Ops.STORE)]
    by = 0 if any(map(positions_of, accesses)) else 1
    return tuple(np.roll(content, by) for content in case.buffers)


def checked_results(memory: GuardedMemory) -> dict[int, Array]:
    """Return the results in `memory`. Raises `RunError` if something changed that must not."""
    problem = memory.problem()
    if problem:
        raise RunError(Symptom.RED_ZONE, problem)
    stray = memory.stray()
    if stray:
        raise RunError(Symptom.VALUE, stray)
    return memory.results()


def differing_bits(actual: Array, expected: Array, zeros_differ: bool) -> npt.NDArray[np.bool_]:
    """Return where the bits of two arrays of one type differ, ignoring payloads of NaNs.

    Without `zeros_differ`, zeros of either sign are equal.
    """
    size = actual.itemsize
    bits = np.ascontiguousarray(actual).view(np.uint8).reshape(-1, size)
    other = np.ascontiguousarray(expected).view(np.uint8).reshape(-1, size)
    differs = np.asarray((bits != other).any(axis=1))
    if differs.any():
        differs &= ~(np.asarray(actual != actual) & np.asarray(expected != expected))
        if not zeros_differ:
            differs &= np.asarray(actual != expected)
    return differs


def has_float_maximum(program: Program) -> bool:
    """Return True if a zero may have either sign: MAX may return either of two zeros."""
    return any(node.op is Ops.MAX and node.dtype.is_float for node in program.uops)


def has_float_tiles(program: Program) -> bool:
    """Return True if the program multiplies float matrix tiles, whose rounding devices choose."""
    return any(node.op is Ops.WMMA and node.dtype.is_float for node in program.uops)


def is_approximate(program: Program) -> bool:
    """Return True if it has functions whose last bits differ between devices, and in numpy."""
    return any(node.op.name in ELEMENTARY_OPS for node in program.uops)
