"""The process in which candidates of a search are compiled and timed, and its other end.

    python -m tinyref.engine.search_process

reads one line of JSON with the kernel, then one line of optimisations at a time, and answers each
with the seconds of the kernel or with what went wrong.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from tinyref import config
from tinyref.device import Buffer, Device
from tinyref.errors import TinyrefError
from tinyref.runtimes.kernel import Kernel, compile_program
from tinyref.uops.compile import compile_kernel
from tinyref.uops.node import UOp
from tinyref.uops.optimise.opt import Opt, opts_text, parse_opts
from tinyref.uops.payload import VarArg
from tinyref.uops.serialize import from_json, to_json

# A candidate is launched until it has run so often or so long; the fastest launch counts.
LAUNCHES = 10
LAUNCH_SECONDS = 0.2


class Worker:
    """Times candidates of one kernel; a process that dies or hangs is replaced by the next.

    `seconds_limit` is what a candidate may take, compilation included.
    """

    def __init__(self, device: str, ast: UOp, seconds_limit: float) -> None:
        self.seconds_limit = seconds_limit
        self._first_line = json.dumps({"device": device, "kernel": to_json(ast)})
        self._process: subprocess.Popen[bytes] | None = None

    def seconds(self, opts: tuple[Opt, ...]) -> float | None:
        """The seconds of one launch; None for a candidate that fails, crashes or hangs."""
        process = self._process
        if process is None:
            process = self._process = self._start()
        answer = None
        if _send(process, opts_text(opts)):
            answer = _receive(process, self.seconds_limit)
        if answer is None:
            self.close()
            return None
        seconds = answer.get("seconds")
        return float(seconds) if isinstance(seconds, int | float) else None

    def close(self) -> None:
        """Ends the process; the next candidate starts another."""
        if self._process is None:
            return
        self._process.kill()
        self._process.communicate()
        self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        flags = {f"TINYREF_{flag.name}": str(value) for flag, value, _ in config.describe()}
        environment = {**os.environ, **flags, "TINYREF_BEAM": "0", "TINYREF_DEBUG": "0"}
        # Backends are found where this process finds them.
        environment["PYTHONPATH"] = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        process = subprocess.Popen(
            [sys.executable, "-m", "tinyref.engine.search_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        _send(process, self._first_line)
        # Starting takes a while that is no candidate's fault.
        _receive(process, self.seconds_limit + 30)
        return process


def _send(process: subprocess.Popen[bytes], line: str) -> bool:
    try:
        if process.stdin is not None:
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
    except OSError:
        return False
    return True


def _receive(process: subprocess.Popen[bytes], limit: float) -> Mapping[str, object] | None:
    """The next answer; None where none comes in `limit` seconds, or the process is dead."""
    output = process.stdout
    if output is None:
        return None
    deadline = time.monotonic() + limit
    text = b""
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while not text.endswith(b"\n"):
            if not selector.select(max(deadline - time.monotonic(), 0)):
                return None
            piece = os.read(output.fileno(), 4096)
            if not piece:
                return None
            text += piece
    try:
        answer = json.loads(text)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


# --- in the process -------------------------------------------------------------------------------


class _Bench:
    """One kernel, its buffers, and how long it takes with given optimisations."""

    def __init__(self, device: str, ast: UOp) -> None:
        self.device = device
        self.ast = ast
        self.buffers: list[Buffer] = []

    def seconds(self, opts: tuple[Opt, ...]) -> float:
        program = compile_kernel(self.ast, Device[self.device].capabilities, opts=opts)
        kernel = compile_program(self.device, program)
        if not self.buffers:
            self.buffers = [self._filled(p.dtype, p.size) for p in program.parameters]
        return _fastest(kernel, self.buffers)

    def _filled(self, dtype: Any, size: int) -> Buffer:
        buffer = Buffer(self.device, size, dtype).allocate()
        # Small positive numbers in every type: nothing overflows and no float is subnormal.
        pattern = np.random.default_rng(0).integers(1, 4, buffer.nbytes, np.uint8)
        buffer.copy_in(memoryview(pattern.tobytes()))
        return buffer


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
    # What a driver prints must not look like an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    request = json.loads(sys.stdin.readline())
    ast = from_json(request["kernel"])
    if not isinstance(ast, UOp):
        raise SystemExit("search: the first line holds no kernel")
    bench = _Bench(request["device"], ast)
    _answer(answers, {"ready": True})
    for line in sys.stdin:
        try:
            _answer(answers, {"seconds": bench.seconds(parse_opts(line.strip()))})
        except (TinyrefError, MemoryError) as error:
            _answer(answers, {"error": str(error)})


def _answer(answers: IO[str], value: Mapping[str, object]) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
