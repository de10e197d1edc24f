"""Ask a device for its declaration in a separate process, which it may end, hang or confuse.

    python -m tinyref.probe

imports a backend, opens it, and returns its declaration. The commands use it; `Device[...]` of the
library opens devices in its own process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tinyref import config, reproduce
from tinyref.capabilities import Capabilities
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.errors import explain_error, is_misnamed, printable
from tinyref.workers.processes import Death, Limits, Message
from tinyref.workers.service import Answer, Send, Service, serve


@dataclass(frozen=True)
class Probed:
    """The result of probing one device.

    reason: why it does not work, or what it reports about itself.
    capabilities: None if it did not open.
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
    """Probe these devices; one that dies or hangs does not affect the others."""
    limits = Limits(config.integer("OPEN_SECONDS"), awaited="answer")
    environment = {**os.environ, **reproduce.settings()}
    with Service("tinyref.probe", {}, environment) as service:
        return [_probe(service, name, limits) for name in names]


def _probe(service: Service, name: str, limits: Limits) -> Probed:
    is_fresh = service.process is None
    answer = service.ask({"name": name}, limits)
    if not isinstance(answer, Death):
        return Probed(**answer)
    if not is_fresh:
        # An earlier device may have broken this process.
        return _probe(service, name, limits)
    return Probed(name, False, f"while it was opened: {answer.detail}")


# --- in the process -------------------------------------------------------------------------------


def _describe_request(request: Message) -> Mapping[str, Any]:
    return vars(_describe_device(request["name"]))


def _open_service(configuration: Message, send: Send) -> tuple[object, Answer]:
    return None, _describe_request


def main() -> None:
    """Answer requests, one device after another."""
    serve(_open_service)


def _describe_device(name: str) -> Probed:
    try:
        name = Device.canonical(name)
        title = printable(Device.backend_class(name).title)
    except BaseException as error:  # a package may do anything while it is imported
        return Probed(name, False, explain_error(error), is_misnamed=is_misnamed(error))
    available = Device.availability(name)
    reason = printable(available.reason)
    if not available.works:
        return Probed(name, False, reason, title)
    try:
        backend = Device[name]
        declared = describe_capabilities(backend.capabilities)
        versions = {printable(k): printable(v) for k, v in backend.versions().items()}
    except BaseException as error:
        # It claims to be available but does not open; the error counts.
        return Probed(name, False, explain_error(error), title)
    return Probed(name, True, reason, title, versions, declared)


def describe_capabilities(capabilities: Capabilities) -> dict[str, Any]:
    """Return the capabilities of a device as readable JSON."""
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
        "contracts_floats": capabilities.contracts_floats,
        "reassociates_floats": capabilities.reassociates_floats,
        "view_alignment": capabilities.view_alignment,
        "keeps_values": capabilities.keeps_values,
    }


if __name__ == "__main__":
    main()
