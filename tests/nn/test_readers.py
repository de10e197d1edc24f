"""Readers of files do bounded work: so many calls for each tensor, however they are crowded."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tinyref.nn.state import gguf_load, safe_load


def safetensors(count: int, size: int) -> bytes:
    entries = {
        f"t{n}": {
            "dtype": "F32",
            "shape": [size],
            "data_offsets": [4 * size * n, 4 * size * (n + 1)],
        }
        for n in range(count)
    }
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + bytes(4 * size * count)


def gguf(count: int, size: int, kind: int = 0) -> bytes:
    infos = b""
    for n in range(count):
        name = f"t{n}".encode()
        infos += struct.pack("<Q", len(name)) + name
        infos += struct.pack("<IQIQ", 1, size, kind, 32 * n if size else 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, count, 0) + infos
    return head + bytes(-len(head) % 32) + bytes(32 * count if size else 0)


FILES: dict[str, tuple[Callable[[int], bytes], Callable[[Path], object]]] = {
    "empty safetensors": (lambda count: safetensors(count, 0), safe_load),
    "small safetensors": (lambda count: safetensors(count, 1), safe_load),
    "empty gguf": (lambda count: gguf(count, 0), gguf_load),
    "empty quantised gguf": (lambda count: gguf(count, 0, 2), gguf_load),
    "small gguf": (lambda count: gguf(count, 1), gguf_load),
}
# What a tensor may cost in calls of Python functions: at 50 ns each, 100,000 of them take seconds.
MAX_CALLS = 400


def calls(function: Callable[[], object]) -> int:
    """How many Python functions are called, those of generators included."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", FILES)
def test_a_tensor_takes_a_bounded_number_of_steps(tmp_path: Path, name: str) -> None:
    make, load = FILES[name]
    counts = []
    for number in (100, 200, 400):
        path = tmp_path / f"file{number}"
        path.write_bytes(make(number))
        load(path)  # what is cached is there
        counts.append(calls(lambda path=path: load(path)))
    first, second = counts[1] - counts[0], counts[2] - counts[1]
    assert first <= 100 * MAX_CALLS, first / 100
    assert second <= 2.1 * first, "the cost of a tensor grows with their number"
