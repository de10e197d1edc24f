"""The process in which candidates of a search are compiled and timed, and its other end.

    python -m tinyref.engine.search_process

receives the kernel, then one list of optimisations at a time, and answers each with the seconds of
the kernel or with what went wrong. It ends by itself when its parent is gone.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping

from tinyref import config
from tinyref.arrays import np
from tinyref.codegen.compile import compile_kernel
from tinyref.device import Buffer, Device, Health
from tinyref.dtype import DType, PtrDType, numpy_dtype
from tinyref.errors import DeviceError, UserError, describe_error
from tinyref.formats.json_format import from_json, to_json
from tinyref.optimise.opt import Opt, opts_text, parse_opts
from tinyref.runtimes.kernel import Kernel, compile_program
from tinyref.uops.node import UOp
from tinyref.uops.payload import SlotArg, VarArg
from tinyref.workers.processes import Death, Limits, Message, WorkerProcess
from tinyref.workers.service import Answer, OpeningError, Send, Service, leave_device, serve

# A candidate is launched until it has run so often or so long; the fastest launch counts.
LAUNCHES = 10
LAUNCH_SECONDS = 0.2
# What the process does for itself: it times, it neither searches nor prints, and the programs of
# hundreds of candidates must not push those in use out of the cache.
OWN_FLAGS = {"BEAM": "0", "CACHE": "0", "DEBUG": "0", "DUMP": ""}


class Worker:
    """Times candidates of one kernel; a process that dies or hangs is replaced by the next.

    `seconds_limit` is what a candidate may take, compilation included.
    """

    def __init__(self, device: str, ast: UOp, seconds_limit: float) -> None:
        self.seconds_limit = seconds_limit
        self.device = device
        self._config = {"device": device, "kernel": to_json(ast), "limit": seconds_limit}
        self._service: Service | None = None

    @property
    def process(self) -> WorkerProcess | None:
        """The process that is there now."""
        return self._service.process if self._service is not None else None

    def seconds(self, opts: tuple[Opt, ...]) -> float | None:
        """The seconds of one launch; None for a candidate that fails, crashes or hangs.

        Raises `DeviceError` when no process can be started or the device does not open in it.
        """
        self.start()
        assert self._service is not None, "the process is started"
        answer = self._service.ask({"opts": opts_text(opts)}, Limits(self.seconds_limit))
        seconds = None if isinstance(answer, Death) else answer.get("seconds")
        return float(seconds) if isinstance(seconds, int | float) else None

    def close(self) -> None:
        """Ends the process, with all that it started; the next candidate starts another."""
        if self._service is not None:
            self._service.close()
            self._service = None

    def start(self) -> WorkerProcess:
        """A process in which the device is open. Raises `DeviceError` where there is none."""
        flags = {flag.name: str(value) for flag, value, _ in config.describe()} | OWN_FLAGS
        own = {f"TINYREF_{name}": value for name, value in flags.items()}
        try:
            if self._service is None:
                self._service = Service(
                    "tinyref.engine.search_process", self._config, {**os.environ, **own}
                )
            return self._service.open()
        except OSError as error:
            raise DeviceError(self.device, f"search: cannot start a process: {error}") from error
        except OpeningError as error:
            raise DeviceError(
                self.device, f"search: the process that times is not ready: {error}"
            ) from error


# --- in the process -------------------------------------------------------------------------------


class _Bench:
    """One kernel, its buffers, and how long it takes with given optimisations."""

    def __init__(self, device: str, ast: UOp) -> None:
        self.device = device
        self.ast = ast
        self.capabilities = Device[device].capabilities
        self.buffers: dict[int, Buffer] = {}

    def seconds(self, opts: tuple[Opt, ...]) -> float:
        program = compile_kernel(self.ast, self.capabilities, opts=opts)
        kernel = compile_program(self.device, program)
        if not self.buffers:
            self.buffers = {
                parameter.slot: Buffer(self.device, parameter.size, parameter.dtype).allocate()
                for parameter in program.parameters
            }
            self._fill(set(self.buffers))
        # What the last candidate has changed could be slower to compute with: subnormal floats.
        self._fill({p.slot for p in program.parameters if p.is_read and p.is_written})
        return _fastest(kernel, list(self.buffers.values()))

    def _fill(self, slots: set[int]) -> None:
        """Puts 1, 2 and 3 into the buffers of these slots, as values of the kernel's own types."""
        for node in self.ast.toposort():
            if not isinstance(node.arg, SlotArg) or not isinstance(node.dtype, PtrDType):
                continue
            if node.arg.slot in slots:
                buffer = self.buffers[node.arg.slot]
                buffer.copy_in(memoryview(_pattern(node.dtype.base, buffer.nbytes)))


def _pattern(dtype: DType, nbytes: int) -> bytes:
    """`nbytes` bytes of values that every type has, and whose sums of products stay normal."""
    values = np.random.default_rng(0).integers(1, 4, 4093).astype(numpy_dtype(dtype)).tobytes()
    return (values * (nbytes // len(values) + 1))[:nbytes]


def _fastest(kernel: Kernel, buffers: list[Buffer]) -> float:
    variables = [node.arg for node in kernel.program.variables]
    bindings = {arg.name: arg.maximum for arg in variables if isinstance(arg, VarArg)}
    times: list[float] = []
    end = time.monotonic() + LAUNCH_SECONDS
    while len(times) < LAUNCHES and (len(times) < 2 or time.monotonic() < end):
        times.append(kernel(buffers, bindings, wait=True) or 0.0)
    return min(times)


def main() -> None:
    """Answers requests until there are no more."""
    serve(_open_service)


def _open_service(configuration: Message, send: Send) -> tuple[object, Answer]:
    ast = from_json(configuration["kernel"])
    if not isinstance(ast, UOp):
        raise UserError("search: the first message holds no kernel")
    bench = _Bench(configuration["device"], ast)
    health = Health(configuration["device"])

    def answer(request: Message) -> Mapping[str, object]:
        opts = parse_opts(request["opts"])
        _end_after(configuration["limit"])
        try:
            return {"seconds": bench.seconds(opts)}
        except Exception as error:
            # A driver may raise anything; the next candidate is not to pay for it, nor for a device
            # that answers nothing but errors since.
            if health.problem_since():
                leave_device()
            return {"error": describe_error(error)}
        finally:
            _end_after(0)

    return None, answer


def _end_after(limit: float) -> None:
    """Has the system end this process in twice `limit` seconds; 0 takes it back.

    A candidate that hangs in a driver would otherwise outlive a parent that was killed.
    """
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 2 * limit)


if __name__ == "__main__":
    main()
