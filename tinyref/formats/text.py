"""Graphs and programs as text, one node on a line, which parses back to the identical nodes.

    %0 = DEFINE_GLOBAL float32*12@global () Slot{slot=1}
    %1 = VIEW float32*12@global (%0) View{shape=(3, 4) strides=(4, 1) offset=0 mask=none}
    %2 = LOAD float32 (%1)
    %3 = CONST float32 () 2.0
    %4 = MUL float32 (%2, %3)   # the last line of a graph is its root

The text of a sequence starts with the line `program`: its nodes are the `%` lines in order, and
`$` lines are nodes that only sources or payloads need.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence

from tinyref import config
from tinyref.algebra.rewrite import StageListener
from tinyref.dtype import DType
from tinyref.errors import UserError
from tinyref.formats.payload_fields import (
    INT_LIMIT,
    INTEGER,
    NAME,
    SIZE,
    Group,
    Word,
    fields_of,
    float_from_text,
    float_text,
    payload_nodes,
    read_dtype,
    read_payload,
    refuse,
    toposort_with_payloads,
    tuple_of,
    write_payload,
)
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg, Payload
from tinyref.uops.program import Parameter, Program

Names = dict[UOp, str]
SEQUENCE = "program"


def to_text(root: UOp | Sequence[UOp]) -> str:
    """Write `root` and its inputs, or the nodes of a sequence in order; ends with a newline."""
    if isinstance(root, UOp):
        return "".join(line + "\n" for line in _graph_lines(root))
    return "".join(line + "\n" for line in sequence_lines(root, {}))


def from_text(text: str) -> UOp | tuple[UOp, ...]:
    """Read the root of a graph, or the nodes of a sequence, as written by `to_text`.

    Raises `UserError` with the line, what was expected there, and what is there.
    """
    reader = TextReader(text)
    if reader.peek() == SEQUENCE:
        reader.advance()
        nodes = reader.nodes()
        reader.end()
        return tuple(nodes)
    nodes = reader.nodes()
    reader.end()
    if not nodes:
        raise UserError("text: expected a node or the line `program`, got no line")
    return nodes[-1]


def node_text(node: UOp) -> str:
    """Return one node for a message, with the ops of its sources instead of their numbers."""
    sources = ", ".join(source.op.name for source in node.src)
    names = {need: need.op.name for need in payload_nodes(node.arg)}
    return f"{node.op.name} {node.dtype.name} ({sources}){_payload_text(node.arg, names)}"


# --- writing ------------------------------------------------------------------------------------


def _line(name: str, node: UOp, names: Names) -> str:
    sources = ", ".join([names[source] for source in node.src])
    payload = "" if node.arg is None else _payload_text(node.arg, names)
    return f"{name} = {node.op.name} {node.dtype.name} ({sources}){payload}"


def _graph_lines(root: UOp) -> Iterator[str]:
    names: Names = {}
    for node in toposort_with_payloads((root,)):
        name = f"%{len(names)}"
        yield _line(name, node, names)
        names[node] = name


def sequence_lines(nodes: Sequence[UOp], names: Names, extra: Sequence[UOp] = ()) -> Iterator[str]:
    """Yield the lines of a sequence and of the nodes `extra`; fills `names`."""
    yield SEQUENCE
    helpers = 0
    members = set(nodes)
    for number, node in enumerate(nodes):
        for need in _nodes_to_name(node, names, members):
            name = f"${helpers}"
            helpers += 1
            yield _line(name, need, names)
            names[need] = name
        name = f"%{number}"
        yield _line(name, node, names)
        names[node] = name
    for node in extra:
        for need in [*_nodes_to_name(node, names, set()), node]:
            if need not in names:
                name = f"${helpers}"
                helpers += 1
                yield _line(name, need, names)
                names[need] = name


def _nodes_to_name(node: UOp, names: Names, members: set[UOp]) -> list[UOp]:
    """Return the nodes that `node` needs and that have no name yet, sources first.

    A program in legal order has such nodes only inside payloads.
    """
    needs = (*payload_nodes(node.arg), *node.src) if node.arg is not None else node.src
    if all(need in names for need in needs):
        return []
    roots = tuple(need for need in needs if need not in names)
    return [need for need in toposort_with_payloads(roots) if need not in names]


def _payload_text(payload: Payload, names: Names) -> str:
    if payload is None:
        return ""
    if isinstance(payload, ConstArg):
        return " " + plain_text(payload.value, names)
    tag, groups = write_payload(payload)
    return f" {tag}{' '.join(_group_text(group, names) for group in groups)}"


def _group_text(group: Group, names: Names) -> str:
    return "{" + members_text(group, names) + "}"


def members_text(group: Group, names: Names) -> str:
    """Return members as `name=value name=value`."""
    return " ".join(f"{name}={plain_text(value, names)}" for name, value in group.items())


def plain_text(value: object, names: Names) -> str:
    """Return a plain value as text; nodes appear with their names."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, Word | int):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, UOp):
        return names[value]
    if isinstance(value, tuple):
        parts = [plain_text(item, names) for item in value]
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
    raise TypeError(f"text: not a plain value: {value!r}")


# --- reading ------------------------------------------------------------------------------------

_NODE = re.compile(r"([%$]\d+)\s*=\s*(\w+)\s+([^\s(]+)\s+\(([^)]*)\)\s*(.*)", re.ASCII)
_TOKEN = re.compile(
    r"""\s*(?:(?P<punctuation>[(){},=])
    |(?P<name>[%$]\d+)
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<word>[-+]?[A-Za-z0-9_.][-+\w.:]*))""",
    re.VERBOSE | re.ASCII,
)
_COMMENT = re.compile(r"""((?:[^"#]|"(?:[^"\\]|\\.)*")*)""")
_INTEGER = re.compile(r"-?\d{1,25}", re.ASCII)
_FIXED: dict[str, object] = {"none": None, "true": True, "false": False}
_DEEPEST = 8


class TextReader:
    """Reads lines one after another and records the node of each name."""

    def __init__(self, text: str) -> None:
        self.lines: list[tuple[int, str]] = []
        for number, line in enumerate(text.splitlines(), start=1):
            if "#" in line:
                match = _COMMENT.match(line)
                line = match[1] if match is not None else line
            line = line.strip()
            if line:
                self.lines.append((number, line))
        self.position = 0
        self.named: dict[str, UOp] = {}
        self._dtypes: dict[str, DType] = {}

    def peek(self) -> str | None:
        """Return the next line, or None after the last."""
        return self.lines[self.position][1] if self.position < len(self.lines) else None

    @property
    def where(self) -> str:
        """Return the position of the next line, for errors."""
        if self.position < len(self.lines):
            return f"text line {self.lines[self.position][0]}"
        return "text: at the end"

    def advance(self) -> None:
        """Go to the next line."""
        self.position += 1

    def end(self) -> None:
        """Raise `UserError` if a line is left."""
        line = self.peek()
        if line is not None:
            raise self.error("a node `%0 = OP dtype (sources) payload`", line)

    def error(self, expected: str, got: str) -> UserError:
        """Return the error for the current line."""
        return UserError(f"{self.where}: expected {expected}, got {got[:80]!r}")

    def nodes(self) -> list[UOp]:
        """Read the nodes of all `%` lines up to the first line that is not a node."""
        result: list[UOp] = []
        while (line := self.peek()) is not None and line[0] in "%$":
            match = _NODE.fullmatch(line)
            if match is None:
                raise self.error("`%0 = OP dtype (sources) payload`", line)
            name, op, dtype, sources, payload = match.groups()
            if name in self.named:
                raise self.error(f"a new name, {name} is taken", line)
            node = self._node(op, dtype, sources, payload)
            self.named[name] = node
            if name[0] == "%":
                result.append(node)
            self.advance()
        return result

    def _node(self, op_name: str, dtype_name: str, sources: str, payload: str) -> UOp:
        op = Ops.__members__.get(op_name)
        if op is None:
            raise self.error("the name of an op", op_name)
        dtype = self._dtypes.get(dtype_name)
        if dtype is None:
            dtype = self._dtypes[dtype_name] = read_dtype(dtype_name, self.where)
        src = tuple(self.node(part.strip()) for part in sources.split(",")) if sources else ()
        if not payload:
            return UOp(op, dtype, src)
        arg = self._constant(payload) if op is Ops.CONST else None
        return UOp(op, dtype, src, arg or self._payload(payload))

    def node(self, name: str) -> UOp:
        """Return the node of an earlier line."""
        node = self.named.get(name)
        if node is None:
            raise self.error("the name of an earlier line, such as %0", name)
        return node

    def _constant(self, text: str) -> ConstArg | None:
        value = self._word(text)
        return None if value is None or isinstance(value, Word) else ConstArg(value)  # type: ignore[arg-type]

    def _payload(self, text: str) -> Payload:
        tokens = self.tokens(text)
        if len(tokens) == 1 and tokens[0][0] == "word":
            value = self._constant(text)
            if value is not None:
                return value
        kind, tag = tokens.pop(0)
        if kind != "word" or not tokens:
            raise self.error("a payload `Tag{member=value}`", text)
        tokens.reverse()
        groups: list[Group] = []
        while tokens:
            groups.append(self._group(tokens))
        return read_payload(tag, groups, self.where)

    def _group(self, tokens: list[tuple[str, str]]) -> Group:
        self._take(tokens, "{")
        group = self.members(tokens)
        self._take(tokens, "}")
        return group

    def members(self, tokens: list[tuple[str, str]]) -> Group:
        """Read members `name=value` up to a brace or the end; `tokens` are reversed."""
        group: Group = {}
        while tokens and tokens[-1][0] == "word":
            name = tokens.pop()[1]
            if name in group:
                raise self.error(f"one member {name}", f"{name} twice")
            self._take(tokens, "=")
            group[name] = self._value(tokens, 0)
        return group

    def _take(self, tokens: list[tuple[str, str]], text: str) -> None:
        token = tokens.pop()[1] if tokens else "the end of the line"
        if token != text:
            raise self.error(f"`{text}`", token)

    def _value(self, tokens: list[tuple[str, str]], depth: int) -> object:
        if not tokens:
            raise self.error("a value", "the end of the line")
        kind, text = tokens.pop()
        if kind == "name":
            return self.node(text)
        if kind == "string":
            return self._string(text)
        if kind == "word":
            return self._word(text)
        if text != "(" or depth >= _DEEPEST:
            raise self.error("a value", text)
        items: list[object] = []
        while tokens and tokens[-1][1] != ")":
            items.append(self._value(tokens, depth + 1))
            if tokens and tokens[-1][1] == ",":
                tokens.pop()
            elif tokens and tokens[-1][1] != ")":
                raise self.error("`,` or `)`", tokens[-1][1])
        self._take(tokens, ")")
        return tuple(items)

    def _string(self, text: str) -> str:
        try:
            return str(json.loads(text))
        except ValueError:
            raise self.error("a text in double quotes", text) from None

    def _word(self, text: str) -> object:
        if text in _FIXED:
            return _FIXED[text]
        if _INTEGER.fullmatch(text):
            value = int(text)
            if abs(value) >= INT_LIMIT:
                raise self.error("an integer below 2**64", text)
            return value
        number = float_from_text(text) if "_" not in text else None
        return Word(text) if number is None else number

    def tokens(self, text: str) -> list[tuple[str, str]]:
        """Return the tokens of `text` as (kind, text)."""
        result: list[tuple[str, str]] = []
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None or match.lastgroup is None:
                raise self.error("a payload `Tag{member=value}`", text[position:])
            result.append((match.lastgroup, match[match.lastgroup]))
            position = match.end()
        return result


# --- programs as text ---------------------------------------------------------------------------

_GRID = tuple_of(SIZE, 3)
_GROUP = tuple_of(INTEGER, 3)
_PARAMETER_FIELDS = fields_of(Parameter)
_KERNEL = "kernel "
_PARAMETER = "parameter "
_LAUNCH = "launch "


def _launch_nodes(program: Program) -> tuple[UOp, ...]:
    """Return the nodes that a launch needs in addition: variables and symbolic extents."""
    return (*program.variables, *(size for size in program.grid if isinstance(size, UOp)))


def _parameter_members(parameter: Parameter) -> Group:
    return {name: kind.write(getattr(parameter, name)) for name, kind in _PARAMETER_FIELDS}


def _read_parameter(members: Mapping[str, object], where: str) -> Parameter:
    return Parameter(**{name: kind.read(members[name], where) for name, kind in _PARAMETER_FIELDS})


def program_to_text(program: Program) -> str:
    """Write a program, its arguments and its launch; `program_from_text` reads it back."""
    names: Names = {}
    lines = [_KERNEL + members_text({"name": program.name}, names)]
    lines += sequence_lines(program.uops, names, _launch_nodes(program))
    for parameter in program.parameters:
        lines.append(_PARAMETER + members_text(_parameter_members(parameter), names))
    launch: Group = {"variables": program.variables, "grid": program.grid, "group": program.group}
    lines.append(_LAUNCH + members_text(launch, names))
    return "\n".join(lines) + "\n"


def program_from_text(text: str) -> Program:
    """Read the program that `program_to_text` wrote.

    Raises `UserError` with the line, what was expected there, and what is there.
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
    if not isinstance(variables, tuple) or not all(isinstance(node, UOp) for node in variables):
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


# --- the flag DUMP --------------------------------------------------------------------------------


def wants_dump(stage: str) -> bool:
    """Return True if DUMP asks for `stage`, by `after:STAGE` in a list or by `after:*`.

    Raises `UserError` for the name of no stage.
    """
    flag = config.text("DUMP")
    if not flag:
        return False
    names = config.dumped_stages(flag)
    return "*" in names or stage in names


def dumping(title: str) -> tuple[StageListener, ...]:
    """Return the listener that prints each stage named in DUMP; none without the flag."""
    if not config.text("DUMP"):
        return ()
    return (lambda stage, before, after: dump_after(stage, title, after),)


def dump_after(stage: str, title: str, value: UOp | Sequence[UOp]) -> None:
    """Print `value` on standard error if DUMP asks for `stage`, under a comment with its name."""
    if wants_dump(stage):
        sys.stderr.write(f"# after {stage}: {title}\n{to_text(value)}")
