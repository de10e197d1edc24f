"""Older versions of the format of cases, brought to the present one, a step for each version.

A step takes the JSON of its version and gives that of the next. What it gives is read with every
check of the present version, so a step refuses only what it cannot bring over.

Version 0 is from before the first release: a kernel as text with one list of optimisations, on
exact data that are written as plain numbers. Version 1 has the kernel as JSON with its schema, any
number of lists, bindings, modes, an equivalent kernel, exact bits of all types, and a blame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tinyref import __version__
from tinyref.errors import UserError
from tinyref.formats.json_format import to_json
from tinyref.formats.payload_fields import refuse
from tinyref.formats.text import from_text
from tinyref.uops.node import UOp
from tinyref_spec.kept import SCHEMA, VERSION

Json = dict[str, object]

LONGEST_KERNEL = 100_000
_MEMBERS_OF_0 = {"schema", "version", "device", "detail", "kernel", "buffers", "opts", "choices"}


def migrate(data: object) -> object:
    """`data` in the present version; the same where it is in it already.

    Raises `UserError` for what is no case, for a version that is newer than this one or never was,
    and for what a step cannot bring over. `data` stays as it is.
    """
    if not isinstance(data, Mapping):
        raise refuse("case", "an object", data)
    if data.get("schema") != SCHEMA:
        raise refuse("case, schema", repr(SCHEMA), data.get("schema"))
    version = data.get("version")
    if type(version) is not int or not 0 <= version <= VERSION:
        accepted = f"a version from 0 to {VERSION} (a newer one needs a newer tinyref)"
        raise refuse("case, version", accepted, version)
    current: Json = dict(data)
    for step in range(version, VERSION):
        current = STEPS[step](current)
        current["version"] = step + 1
    return current


def is_present(data: object) -> bool:
    """Whether `migrate` has nothing to do."""
    return isinstance(data, Mapping) and data.get("version") == VERSION


def _from_0(data: Json) -> Json:
    if "kernel" not in data:
        raise UserError(
            "case: version 0 with choices alone: the generator that they were made for is gone, "
            "accepted are files with the kernel"
        )
    if data.keys() != _MEMBERS_OF_0:
        raise refuse("case", f"the members {', '.join(sorted(_MEMBERS_OF_0))}", sorted(data))
    detail = data["detail"]
    return {
        "schema": SCHEMA,
        # Which one wrote it was not kept.
        "tinyref": __version__,
        "note": detail,
        "device": data["device"],
        "verdict": None,
        "blame": None,
        "choices": data["choices"],
        "mode": "exact",
        "ast": to_json(_kernel_of_0(data["kernel"])),
        "buffers": _buffers_of_0(data["buffers"]),
        "bindings": {},
        "opts": [data["opts"]] if data["opts"] else [],
        "equivalent": None,
    }


def _kernel_of_0(text: object) -> UOp:
    if not isinstance(text, str) or len(text) > LONGEST_KERNEL:
        raise refuse("kernel", f"a text of at most {LONGEST_KERNEL} characters", text)
    try:
        found = from_text(text)
    except UserError as error:
        raise UserError(f"kernel: {error}") from None
    if not isinstance(found, UOp):
        raise UserError("kernel: expected a graph, got a sequence")
    return found


def _buffers_of_0(value: object) -> list[Json]:
    """Exact data only: integers, those of floats too, and bools."""
    if not isinstance(value, list):
        raise refuse("buffers", "a list", value)
    buffers = []
    for slot, item in enumerate(value):
        where = f"buffers[{slot}]"
        if not isinstance(item, Mapping) or item.keys() != {"dtype", "values"}:
            raise refuse(where, "the members dtype, values", item)
        values = item["values"]
        if not isinstance(values, list):
            raise refuse(f"{where}.values", "a list", values)
        is_float = "float" in str(item["dtype"])
        kept = [
            _value_of_0(each, is_float, f"{where}.values[{at}]") for at, each in enumerate(values)
        ]
        buffers.append({"dtype": item["dtype"], "size": len(values), "values": kept})
    return buffers


def _value_of_0(value: object, is_float: bool, where: str) -> object:
    if not is_float:
        return value
    if type(value) is not int or abs(value) > 1 << 53:
        raise refuse(where, "a small integer", value)
    return repr(float(value))


STEPS: dict[int, Callable[[Json], Json]] = {0: _from_0}
