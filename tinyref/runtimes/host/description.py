"""The description of this host: what was measured of it once and is kept in the cache folder."""

from __future__ import annotations

import functools
import json
import platform
import sys
from pathlib import Path
from typing import Any

from tinyref import config
from tinyref.errors import DeviceError, UserError, printable
from tinyref.folders import file_name
from tinyref.foreign import json_value
from tinyref.machine import FIXED, Machine
from tinyref.runtimes.cache import cache_folder

SCHEMA, VERSION = "tinyref.machine", 1
# A description has a kilobyte.
MAX_BYTES = 1 << 16


def host_machine() -> Machine:
    """What heuristics take this host for: as it was measured, else, or with MACHINE=0, `FIXED`."""
    return _kept_in(config.text("CACHE_DIR")) if config.integer("MACHINE") else FIXED


@functools.lru_cache(maxsize=8)
def _kept_in(_folder: str) -> Machine:
    # Launches ask for it: the file is looked for once in each folder.
    return kept_machine(machine_file())


def machine_file() -> Path:
    """Where the description of a host with this processor is kept: folders may be shared."""
    return cache_folder() / f"machine-{file_name(processor_name())}.json"


def kept_machine(path: Path) -> Machine:
    """What `path` holds; `FIXED` where there is nothing, or a warning says what."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return FIXED
    except OSError as error:
        return _without(path, error.strerror or str(error))
    except ValueError as error:  # a path that no file can have
        return _without(path, str(error))
    try:
        return _machine_of(text)
    except ValueError as error:
        return _without(path, str(error))


def _machine_of(text: bytes) -> Machine:
    if len(text) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES} bytes")
    data = json_value(text)
    if not isinstance(data, dict):
        raise ValueError("no object")
    found = (data.get("schema"), data.get("version"))
    if found != (SCHEMA, VERSION):
        raise ValueError(f"schema and version are {found}, accepted are {(SCHEMA, VERSION)}")
    return Machine.from_json(data.get("machine"))


def _without(path: Path, why: str) -> Machine:
    sys.stderr.write(
        f"machine: {printable(str(path))} is not read: {printable(why)[:300]}; the fixed "
        "description is taken, `tinyref bench --machine` measures this host anew\n"
    )
    return FIXED


def keep_machine(machine: Machine) -> Path:
    """Writes what was measured, at once or not at all; processes that start later plan by it.

    Raises `UserError` where the cache folder cannot be written.
    """
    # Every process opens the host, and hardly any measures it.
    from tinyref.runtimes.data_only import replace_file

    path = machine_file()
    data: dict[str, Any] = {"schema": SCHEMA, "version": VERSION, "machine": machine.to_json()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(str(path), [json.dumps(data, indent=1).encode(), b"\n"])
    except OSError as error:
        raise UserError(f"machine: cannot write {path}: {error.strerror or error}") from error
    except DeviceError as error:
        raise UserError(f"machine: cannot write {path}: {error.message}") from error
    _kept_in.cache_clear()
    return path


@functools.cache
def processor_name() -> str:
    """The model of the processor, as the system calls it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
