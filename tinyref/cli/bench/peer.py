"""The same programs lowered by tinygrad 0.10.3, where that is installed.

    python -m tinyref.cli.bench.peer

prints JSON: milliseconds per kernel of each program, from tensor graph to source text, or the line
`missing` and why.
"""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from tinyref.cli.bench.programs import PROGRAMS, WARM_UP, BenchProgram

PACKAGE = "tinygrad"
VERSION = "0.10.3"
DEVICE = "CPU"


def missing() -> str:
    """Why there is nothing to compare with; "" where there is."""
    try:
        found = importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return f"{PACKAGE} {VERSION} is not installed"
    return "" if found == VERSION else f"{PACKAGE} {VERSION} is not installed, but {found}"


def time_lowering(program: BenchProgram) -> dict[str, float]:
    """Milliseconds of the processor for the whole program, and its kernels."""
    tensor: Any = importlib.import_module(PACKAGE).Tensor
    get_kernel: Callable[..., Any] = importlib.import_module(f"{PACKAGE}.engine.realize").get_kernel
    device: Any = importlib.import_module(f"{PACKAGE}.device").Device

    def data(*shape: int) -> Any:
        return tensor.empty(*shape, device=DEVICE).realize()

    output = program.make(data)
    start = time.process_time()
    kernels = [item.ast for item in output.schedule() if item.ast.op.name == "SINK"]
    for ast in kernels:
        get_kernel(device[DEVICE].renderer, ast).to_program()
    return {"kernels": len(kernels), "ms": (time.process_time() - start) * 1e3}


def main() -> None:
    """Times every program once, in this fresh process."""
    reason = missing()
    if reason:
        sys.stdout.write(f"missing {reason}")
        return
    time_lowering(WARM_UP)
    gc.collect()
    json.dump({program.name: time_lowering(program) for program in PROGRAMS}, sys.stdout)


if __name__ == "__main__":
    main()
