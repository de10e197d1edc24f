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
from tinyref_spec.kernel_case.buffers import MAX_VALUES
from tinyref_spec.kernel_case.limits import MAX_BUFFERS, read_kernel
from tinyref_spec.kernel_case.members import Json, read_list, read_object, read_version

SCHEMA = "tinyref.case"
VERSION = 1
_MEMBERS_OF_0 = ("schema", "version", "device", "detail", "kernel", "buffers", "opts", "choices")


def migrate(data: object) -> Json:
    """`data` in the present version; the same where it is in it already.

    Raises `UserError` for what is no case, for a version that is newer than this one or never was,
    and for what a step cannot bring over. `data` stays as it is.
    """
    current = read_object(data, "case")
    for step in range(read_version(current, SCHEMA, VERSION, "case"), VERSION):
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
    read_object(data, "case", _MEMBERS_OF_0)
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
        "ast": to_json(read_kernel(data["kernel"], "kernel")),
        "buffers": _buffers_of_0(data["buffers"]),
        "bindings": {},
        "opts": [data["opts"]] if data["opts"] else [],
        "equivalent": None,
    }


def _buffers_of_0(value: object) -> list[Json]:
    """Exact data only: integers, those of floats too, and bools."""
    buffers: list[Json] = []
    for slot, item in enumerate(read_list(value, MAX_BUFFERS, "buffers")):
        where = f"buffers[{slot}]"
        buffer = read_object(item, where, ("dtype", "values"))
        is_float = "float" in str(buffer["dtype"])
        values = [
            _value_of_0(each, is_float, f"{where}.values[{at}]")
            for at, each in enumerate(read_list(buffer["values"], MAX_VALUES, f"{where}.values"))
        ]
        buffers.append({"dtype": buffer["dtype"], "size": len(values), "values": values})
    return buffers


def _value_of_0(value: object, is_float: bool, where: str) -> object:
    if not is_float:
        return value
    if type(value) is not int or abs(value) > 1 << 53:
        raise refuse(where, "a small integer", value)
    return repr(float(value))


STEPS: dict[int, Callable[[Json], Json]] = {0: _from_0}
