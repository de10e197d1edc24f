"""The description of this host: measured once and stored in the cache folder."""

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
# A description has about a kilobyte.
MAX_BYTES = 1 << 16


def host_machine() -> Machine:
    """Return the measured description of this host, or `FIXED` if there is none or MACHINE=0."""
    return _stored_in(config.text("CACHE_DIR")) if config.integer("MACHINE") else FIXED


@functools.lru_cache(maxsize=8)
def _stored_in(_folder: str) -> Machine:
    # Every launch asks for it, so the file is read once for each folder.
    return stored_machine(machine_file())


def machine_file() -> Path:
    """Return the file for a host with this processor: several hosts may share a folder."""
    return cache_folder() / f"machine-{file_name(processor_name())}.json"


def stored_machine(path: Path) -> Machine:
    """Return the machine in `path`; `FIXED` if there is none, or, with a warning, if it is bad."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return FIXED
    except OSError as error:
        return _without(path, error.strerror or str(error))
    except ValueError as error:  # an invalid path
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
        raise ValueError("not an object")
    header = (data.get("schema"), data.get("version"))
    if header != (SCHEMA, VERSION):
        raise ValueError(f"schema and version are {header}, accepted are {(SCHEMA, VERSION)}")
    return Machine.from_json(data.get("machine"))


def _without(path: Path, why: str) -> Machine:
    sys.stderr.write(
        f"machine: {printable(str(path))} is not valid: {printable(why)[:300]}; using the fixed "
        "description; `tinyref bench --machine` measures this host again\n"
    )
    return FIXED


def store_machine(machine: Machine) -> Path:
    """Write a measured description atomically; processes that start later use it for plans.

    Raises `UserError` if the cache folder cannot be written.
    """
    # Imported here: every process reads the description, and few write it.
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
    _stored_in.cache_clear()
    return path


@functools.cache
def processor_name() -> str:
    """Return the model of the processor, as the system names it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
