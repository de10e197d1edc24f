"""What a device says of itself, asked in a process of its own, which it may end, hang or confuse.

    python -m tinyref.probe

imports a backend, opens it, and says what it declares. A library user's `Device[...]` needs none of
that; the commands do.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tinyref import config, reproduce
from tinyref.device import Capabilities, Device, is_misnamed
from tinyref.dtype import dtypes
from tinyref.errors import explained, printable
from tinyref.processes import Line, Message, Pool, WorkerProcess


@dataclass(frozen=True)
class Probed:
    """What became of asking one device.

    reason: why it does not work, or what it found. capabilities: None where it did not open.
    is_misnamed: no backend has this name.
    """

    name: str
    works: bool
    reason: str = ""
    title: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    capabilities: Mapping[str, Any] | None = None
    is_misnamed: bool = False


def probe(names: Sequence[str]) -> list[Probed]:
    """What each of these devices says; one that dies or hangs costs itself alone."""
    seconds = config.integer("OPEN_SECONDS")
    pool = Pool("tinyref.probe", {}, WorkerProcess)
    pool.environment = {**os.environ, **reproduce.settings()}
    try:
        return [_probed(pool, name, seconds) for name in names]
    finally:
        pool.close()


def _probed(pool: Pool[WorkerProcess], name: str, seconds: float) -> Probed:
    is_fresh = not pool.workers
    worker = pool.workers[0] if pool.workers else pool.start()
    worker.note_message()
    worker.send({"name": name})
    answer = _answer(pool, worker, seconds)
    if answer is not None:
        return Probed(**answer)
    words, tail = worker.killed_for, worker.log_tail()
    code = pool.remove(worker)
    if not is_fresh:
        # Perhaps it pays for one that was asked before.
        return _probed(pool, name, seconds)
    ending = f"no answer within {seconds:g} s" if words == _SILENT else worker.ending(code)
    return Probed(name, False, f"while it was opened: {ending}\n{tail}".rstrip())


_SILENT = "silence"


def _answer(pool: Pool[WorkerProcess], worker: WorkerProcess, seconds: float) -> Message | None:
    """What the worker says; None where it does not any more."""
    deadline = time.monotonic() + 10 * seconds
    while True:
        for _, message in pool.said(0.2):
            return message
        if worker.silence() > seconds or time.monotonic() > deadline:
            worker.kill(_SILENT)


# --- in the process -------------------------------------------------------------------------------


def main() -> None:
    """Answers for one name after another."""
    line = Line()
    line.hear()
    while True:
        name = line.hear()["name"]
        line.say(vars(_described(name)))


def _described(name: str) -> Probed:
    try:
        name = Device.canonical(name)
        title = printable(Device.backend_class(name).title)
    except BaseException as error:  # a package may do anything while it is imported
        return Probed(name, False, explained(error), is_misnamed=is_misnamed(error))
    available = Device.availability(name)
    reason = printable(available.reason)
    if not available.works:
        return Probed(name, False, reason, title)
    try:
        backend = Device[name]
        declared = describe_capabilities(backend.capabilities)
        versions = {printable(k): printable(v) for k, v in backend.versions().items()}
    except BaseException as error:
        # Available by its own word, and yet it does not open: the word counts for nothing.
        return Probed(name, False, explained(error), title)
    return Probed(name, True, reason, title, versions, declared)


def describe_capabilities(capabilities: Capabilities) -> dict[str, Any]:
    """What a device declares, as JSON for people."""
    return {
        "dtypes": [d.name for d in dtypes.all if d in capabilities.dtypes],
        "emulated": [d.name for d in dtypes.all if d in capabilities.emulated],
        "ops": sorted(capabilities.ops),
        "vector_lanes": list(capabilities.vector_lanes),
        "grid": capabilities.has_grid,
        "groups": capabilities.has_groups,
        "shared_bytes": capabilities.shared_bytes,
        "threads": capabilities.threads,
        "buffer_limit": capabilities.buffer_limit,
        "images": capabilities.images,
        "matrix_tiles": [tile.name for tile in capabilities.matrix_tiles],
        "keeps_subnormals": capabilities.keeps_subnormals,
    }


if __name__ == "__main__":
    main()
