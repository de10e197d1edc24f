"""Rows of `tinyref bench` on files that hold as much to do as so many bytes can."""

from __future__ import annotations

import io
import json
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tinyref.nn.state import gguf_load, safe_load
from tinyref.nn.state.pickles import PickleReader

TENSORS = 10_000
STEPS = 500_000


def seconds_a_megabyte() -> dict[str, float]:
    """Seconds of one core for each MB: of empty tensors, and of a pickle of steps of one byte."""
    with tempfile.TemporaryDirectory(prefix="tinyref-bench-") as folder:
        path = Path(folder) / "file"
        return {
            "safetensors": _seconds_per_megabyte(_safetensors(), path, lambda: safe_load(path)),
            "gguf": _seconds_per_megabyte(_gguf(), path, lambda: gguf_load(path)),
            "pickle": _seconds_per_megabyte(_pickle(), path, lambda: _unpickle(path)),
        }


def _seconds_per_megabyte(data: bytes, path: Path, load: Callable[[], object]) -> float:
    path.write_bytes(data)
    # The time of this thread: what else the machine does is no part of it.
    start = time.thread_time()
    load()
    return (time.thread_time() - start) / (len(data) / 1e6)


def _safetensors() -> bytes:
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    text = json.dumps({str(number): entry for number in range(TENSORS)}).encode()
    return struct.pack("<Q", len(text)) + text


def _gguf() -> bytes:
    infos = [
        struct.pack("<Q", len(name)) + name + struct.pack("<IQIQ", 1, 0, 0, 0)
        for name in (str(number).encode() for number in range(TENSORS))
    ]
    data = b"GGUF" + struct.pack("<IQQ", 3, TENSORS, 0) + b"".join(infos)
    return data + bytes(-len(data) % 32)


def _pickle() -> bytes:
    return b"\x80\x02" + b"N0" * (STEPS // 2) + b"N."


def _unpickle(path: Path) -> object:
    return PickleReader({}, lambda key: key).read(io.BytesIO(path.read_bytes()))
