"""Graphs, sequences and programs as JSON with a schema version, and programs as text.

What is read may come from anywhere: nothing is evaluated, and everything that is not exactly what
`to_json` writes is refused with the place where it stands.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tinyref.errors import UserError
from tinyref.foreign import unique_members
from tinyref.formats.payload_fields import (
    INTEGER,
    NAME,
    SIZE,
    Group,
    Word,
    fields_of,
    float_from_text,
    float_text,
    read_dtype,
    read_payload,
    refuse,
    toposort_with_payloads,
    tuple_of,
    write_payload,
)
from tinyref.formats.text import SEQUENCE, Names, TextReader, members_text, sequence_lines
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import Payload, TileArg
from tinyref.uops.program import Parameter, Program
from tinyref.uops.tiles import MatrixTile

SCHEMA = "tinyref.uops"
VERSION = 1
Json = dict[str, Any]
_DEEPEST = 8
_MAX_NODES = 1_000_000

_GRID = tuple_of(SIZE, 3)
_GROUP = tuple_of(INTEGER, 3)
_PARAMETER_FIELDS = fields_of(Parameter)


# --- writing ------------------------------------------------------------------------------------


def to_json(root: UOp | Sequence[UOp] | Program) -> Json:
    """A graph, a sequence of nodes or a program as a dict for `json.dumps`."""
    if isinstance(root, Program):
        return program_to_json(root)
    if isinstance(root, UOp):
        numbers = _numbers((root,))
        return _header("graph") | {"nodes": _nodes(numbers), "root": numbers[root]}
    numbers = _numbers(tuple(root))
    order = [numbers[node] for node in root]
    return _header("sequence") | {"nodes": _nodes(numbers), "order": order}


def program_to_json(program: Program) -> Json:
    """A program, its arguments and its launch as a dict for `json.dumps`."""
    numbers = _numbers((*program.uops, *_launch_nodes(program)))
    return _header("program") | {
        "name": program.name,
        "nodes": _nodes(numbers),
        "order": [numbers[node] for node in program.uops],
        "parameters": [_parameter_members(parameter) for parameter in program.parameters],
        "variables": [numbers[variable] for variable in program.variables],
        "grid": _plain(program.grid, numbers),
        "group": list(program.group),
    }


def _launch_nodes(program: Program) -> tuple[UOp, ...]:
    """Return the nodes of a program that are not among its own: variables and symbolic extents."""
    return (*program.variables, *(size for size in program.grid if isinstance(size, UOp)))


def _parameter_members(parameter: Parameter) -> Group:
    return {name: kind.write(getattr(parameter, name)) for name, kind in _PARAMETER_FIELDS}


def _read_parameter(members: Mapping[str, object], where: str) -> Parameter:
    return Parameter(**{name: kind.read(members[name], where) for name, kind in _PARAMETER_FIELDS})


def tile_to_json(tile: MatrixTile) -> Json:
    """A matrix tile alone, as it stands in a WMMA."""
    _, groups = write_payload(TileArg(tile))
    return {name: _plain(value, {}) for name, value in groups[0].items()}


def _header(kind: str) -> Json:
    return {"schema": SCHEMA, "version": VERSION, "kind": kind}


def _numbers(roots: tuple[UOp, ...]) -> dict[UOp, int]:
    return {node: number for number, node in enumerate(toposort_with_payloads(roots))}


def _nodes(numbers: dict[UOp, int]) -> list[Json]:
    return [_node(node, numbers) for node in numbers]


def _node(node: UOp, numbers: dict[UOp, int]) -> Json:
    found: Json = {
        "op": node.op.name,
        "dtype": node.dtype.name,
        "src": [numbers[source] for source in node.src],
    }
    if node.arg is not None:
        tag, groups = write_payload(node.arg)
        found["payload"] = {
            "type": tag,
            "groups": [
                {name: _plain(value, numbers) for name, value in group.items()} for group in groups
            ],
        }
    return found


def _plain(value: object, numbers: dict[UOp, int]) -> Any:
    if isinstance(value, float):
        # JSON has no NaN and no infinity, and some readers turn 1.0 into 1.
        return {"float": float_text(value)}
    if isinstance(value, UOp):
        return {"node": numbers[value]}
    if isinstance(value, tuple):
        return [_plain(item, numbers) for item in value]
    return str(value) if isinstance(value, Word) else value


# --- reading ------------------------------------------------------------------------------------


def from_json(data: object) -> UOp | tuple[UOp, ...] | Program:
    """What `to_json` wrote: the identical nodes.

    Raises `UserError` that says where `data` is wrong, what was expected and what was found.
    """
    top = _object(data, "json")
    _check_header(top)
    kind = top.get("kind")
    members = {
        "graph": {"nodes", "root"},
        "sequence": {"nodes", "order"},
        "program": {"name", "nodes", "order", "parameters", "variables", "grid", "group"},
    }.get(kind if isinstance(kind, str) else "")
    if members is None:
        raise refuse("json, kind", "graph, sequence or program", kind)
    _check_members(top, members | {"schema", "version", "kind"}, "json")
    nodes = _read_nodes(top["nodes"])
    if kind == "graph":
        return _reference(top["root"], nodes, "root")
    order = _references(top["order"], nodes, "order")
    return order if kind == "sequence" else _read_program(top, nodes, order)


def from_json_text(text: str) -> UOp | tuple[UOp, ...] | Program:
    """What `json.dumps(to_json(...))` wrote. Raises `UserError` also for text that is no JSON."""
    try:
        data = json.loads(text, object_pairs_hook=unique_members)
    except (ValueError, RecursionError) as error:
        raise UserError(f"json: cannot be read: {error}") from None
    return from_json(data)


def program_from_json(data: object) -> Program:
    """The program that `program_to_json` wrote. Raises `UserError` as `from_json` does."""
    found = from_json(data)
    if not isinstance(found, Program):
        raise refuse("json, kind", "program", _object(data, "json").get("kind"))
    return found


def tile_from_json(data: object) -> MatrixTile:
    """The tile that `tile_to_json` wrote. Raises `UserError` as `from_json` does."""
    payload = _read_payload({"type": "Tile", "groups": [data]}, [], "tile")
    if not isinstance(payload, TileArg):
        raise refuse("tile", "a matrix tile", type(payload).__name__)
    return payload.tile


def _check_header(top: Json) -> None:
    if top.get("schema") != SCHEMA:
        raise refuse("json, schema", repr(SCHEMA), top.get("schema"))
    version = top.get("version")
    if type(version) is not int or version != VERSION:
        raise refuse("json, version", f"{VERSION}, the only one so far", version)


def _object(value: object, where: str) -> Json:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise refuse(where, "an object", value)
    return dict(value)


def _check_members(value: Json, names: set[str], where: str) -> None:
    for name in names - value.keys():
        raise UserError(f"{where}: expected a member {name!r}, got none")
    for name in value.keys() - names:
        raise refuse(where, f"only the members {', '.join(sorted(names))}", name)


def _list(value: object, where: str) -> list[object]:
    if not isinstance(value, list) or len(value) > _MAX_NODES:
        raise refuse(where, f"a list of at most {_MAX_NODES} entries", value)
    return value


def _reference(value: object, nodes: list[UOp], where: str) -> UOp:
    if type(value) is not int or not 0 <= value < len(nodes):
        raise refuse(where, f"the number of an earlier node, below {len(nodes)}", value)
    return nodes[value]


def _references(value: object, nodes: list[UOp], where: str) -> tuple[UOp, ...]:
    items = _list(value, where)
    return tuple(_reference(item, nodes, f"{where}[{i}]") for i, item in enumerate(items))


def _read_nodes(value: object) -> list[UOp]:
    nodes: list[UOp] = []
    for number, item in enumerate(_list(value, "nodes")):
        where = f"nodes[{number}]"
        data = _object(item, where)
        _check_members(data, {"op", "dtype", "src"} | ({"payload"} & data.keys()), where)
        op = data["op"]
        if not isinstance(op, str) or op not in Ops.__members__:
            raise refuse(f"{where}.op", "the name of an op", op)
        dtype = read_dtype(data["dtype"], f"{where}.dtype")
        src = _references(data["src"], nodes, f"{where}.src")
        payload = None
        if "payload" in data:
            payload = _read_payload(data["payload"], nodes, f"{where}.payload")
        nodes.append(UOp(Ops[op], dtype, src, payload))
    return nodes


def _read_payload(value: object, nodes: list[UOp], where: str) -> Payload:
    data = _object(value, where)
    _check_members(data, {"type", "groups"}, where)
    groups: list[Group] = []
    for item in _list(data["groups"], where):
        group = _object(item, where)
        groups.append(
            {
                name: _from_plain(member, nodes, f"{where}.{name}"[:200], 0)
                for name, member in group.items()
            }
        )
    return read_payload(data["type"], groups, where)


def _from_plain(value: object, nodes: list[UOp], where: str, depth: int) -> object:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list) and depth < _DEEPEST:
        return tuple(
            _from_plain(item, nodes, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)
        )
    if isinstance(value, Mapping) and value.keys() == {"node"}:
        return _reference(value["node"], nodes, where)
    if isinstance(value, Mapping) and value.keys() == {"float"}:
        text = value["float"]
        number = float_from_text(text) if isinstance(text, str) else None
        if number is not None:
            return number
    raise refuse(where, 'a value, such as 1, [1, 2], {"node": 3} or {"float": "1.5"}', value)


def _read_program(top: Json, nodes: list[UOp], uops: tuple[UOp, ...]) -> Program:
    parameters: list[Parameter] = []
    for number, item in enumerate(_list(top["parameters"], "parameters")):
        where = f"parameters[{number}]"
        data = _object(item, where)
        _check_members(data, {name for name, _ in _PARAMETER_FIELDS}, where)
        parameters.append(_read_parameter(data, where))
    return Program(
        NAME.read(top["name"], "name"),
        uops,
        tuple(parameters),
        _references(top["variables"], nodes, "variables"),
        _GRID.read(_from_plain(top["grid"], nodes, "grid", 0), "grid"),
        _GROUP.read(_from_plain(top["group"], nodes, "group", 0), "group"),
    )


# --- programs as text ---------------------------------------------------------------------------

_KERNEL = "kernel "
_PARAMETER = "parameter "
_LAUNCH = "launch "


def program_to_text(program: Program) -> str:
    """A program, its arguments and its launch as text; `program_from_text` reads it back."""
    names: Names = {}
    lines = [_KERNEL + members_text({"name": program.name}, names)]
    lines += sequence_lines(program.uops, names, _launch_nodes(program))
    for parameter in program.parameters:
        lines.append(_PARAMETER + members_text(_parameter_members(parameter), names))
    launch: Group = {"variables": program.variables, "grid": program.grid, "group": program.group}
    lines.append(_LAUNCH + members_text(launch, names))
    return "\n".join(lines) + "\n"


def program_from_text(text: str) -> Program:
    """The program that `program_to_text` wrote.

    Raises `UserError` that names the line, what was expected there and what was found.
    """
    reader = TextReader(text)
    name = NAME.read(_member_line(reader, _KERNEL, ("name",))["name"], "kernel name")
    if reader.peek() != SEQUENCE:
        raise reader.error(f"the line `{SEQUENCE}`", reader.peek() or "the end")
    reader.advance()
    uops = tuple(reader.nodes())
    parameters: list[Parameter] = []
    while (reader.peek() or "").startswith(_PARAMETER):
        where = reader.where
        data = _member_line(reader, _PARAMETER, tuple(name for name, _ in _PARAMETER_FIELDS))
        parameters.append(_read_parameter(data, where))
    where = reader.where
    launch = _member_line(reader, _LAUNCH, ("variables", "grid", "group"))
    reader.end()
    variables = launch["variables"]
    if not isinstance(variables, tuple) or not all(isinstance(each, UOp) for each in variables):
        raise refuse(where, "variables as a list of nodes", variables)
    return Program(
        name,
        uops,
        tuple(parameters),
        variables,
        _GRID.read(launch["grid"], where),
        _GROUP.read(launch["group"], where),
    )


def _member_line(reader: TextReader, start: str, names: tuple[str, ...]) -> Group:
    line = reader.peek()
    if line is None or not line.startswith(start):
        raise reader.error(f"a line `{start}{'=... '.join(names)}=...`", line or "the end")
    tokens = reader.tokens(line.removeprefix(start))[::-1]
    members = reader.members(tokens)
    if tokens or members.keys() != set(names):
        raise reader.error(f"the members {', '.join(names)}", line)
    reader.advance()
    return members
