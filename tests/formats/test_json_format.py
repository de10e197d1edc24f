"""JSON: identity after a round trip, and hostile input refused with its place."""

from __future__ import annotations

import contextlib
import copy
import json
from typing import Any

import pytest
import uop_graphs as graphs
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.formats.json_format import (
    from_json,
    from_json_text,
    program_from_json,
    program_to_json,
    to_json,
)
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.program import Program

LAW = settings(max_examples=100)


def test_the_schema_of_a_graph() -> None:
    x = build.const(dtypes.float32, -0.0)
    assert to_json(build.add(x, x)) == {
        "schema": "tinyref.uops",
        "version": 1,
        "kind": "graph",
        "nodes": [
            {
                "op": "CONST",
                "dtype": "float32",
                "src": [],
                "payload": {"type": "Const", "groups": [{"value": {"float": "-0.0"}}]},
            },
            {"op": "ADD", "dtype": "float32", "src": [0, 0]},
        ],
        "root": 1,
    }


@pytest.mark.long
@LAW
@given(graphs.node_lists())
def test_graphs_and_sequences_come_back_identical(nodes: list[UOp]) -> None:
    assert from_json_text(json.dumps(to_json(nodes[-1]), allow_nan=False)) is nodes[-1]
    sequence = (*nodes, nodes[0])
    assert from_json_text(json.dumps(to_json(sequence), allow_nan=False)) == sequence


@pytest.mark.slow
@LAW
@given(graphs.programs())
def test_programs_come_back_equal(program: Program) -> None:
    data = json.loads(json.dumps(program_to_json(program), allow_nan=False))
    assert program_from_json(data) == program
    assert to_json(program) == data
    assert from_json(data) == program


def changed(path: list[Any], value: object) -> dict[str, Any]:
    """The JSON of a program with one member replaced, or removed if the value is Ellipsis."""
    data = copy.deepcopy(program_to_json(graphs.doubling()))
    place: Any = data
    for step in path[:-1]:
        place = place[step]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["schema"], "other", "json, schema: expected 'tinyref.uops', got 'other'"),
        (["version"], 2, "json, version: expected 1, the only one so far, got 2"),
        (["version"], True, "json, version: expected 1"),
        (["version"], ..., "json, version: expected 1, the only one so far, got None"),
        (["kind"], "tree", "json, kind: expected graph, sequence or program"),
        (["kind"], ["graph"], "json, kind: expected graph, sequence or program"),
        (["kind"], "graph", "json: expected a member 'root', got none"),
        (["extra"], 1, "json: expected only the members"),
        (["nodes"], {}, "nodes: expected a list"),
        (["nodes", 3], 3, "nodes[3]: expected an object, got 3"),
        (["nodes", 3, "op"], "JUMP", "nodes[3].op: expected the name of an op, got 'JUMP'"),
        (["nodes", 3, "op"], None, "nodes[3].op: expected the name of an op"),
        (["nodes", 3, "op"], "__class__", "nodes[3].op: expected the name of an op"),
        (["nodes", 3, "dtype"], "float33", "nodes[3].dtype: expected the name of a dtype"),
        (["nodes", 3, "dtype"], 32, "nodes[3].dtype: expected the name of a dtype, got 32"),
        (["nodes", 3, "dtype"], "int8" + "*1@global" * 100, "nodes[3].dtype: expected the name"),
        (["nodes", 3, "dtype"], "int8*01@global", "nodes[3].dtype: expected the name"),
        (["nodes", 3, "src"], [3, 0], "nodes[3].src[0]: expected the number of an earlier node"),
        (["nodes", 3, "src"], [-1, 0], "nodes[3].src[0]: expected the number"),
        (["nodes", 3, "src"], [1.0], "nodes[3].src[0]: expected the number"),
        (["nodes", 3, "src"], [True], "nodes[3].src[0]: expected the number"),
        (["nodes", 3, "src"], ..., "nodes[3]: expected a member 'src', got none"),
        (["nodes", 3, "note"], 1, "nodes[3]: expected only the members"),
        (["nodes", 0, "payload"], "Slot", "nodes[0].payload: expected an object"),
        (["nodes", 0, "payload", "type"], "Slit", "nodes[0].payload: expected a payload"),
        (["nodes", 0, "payload", "type"], {}, "nodes[0].payload: expected a payload"),
        (["nodes", 0, "payload", "groups"], [], "expected one group of members, got 0"),
        (["nodes", 0, "payload", "groups", 0], {}, "expected the members slot"),
        (["nodes", 0, "payload", "groups", 0, "slot"], "0", "slot: expected an integer, got '0'"),
        (["nodes", 0, "payload", "groups", 0, "slot"], 1 << 64, "an integer below 2**64"),
        (["nodes", 0, "payload", "groups", 0, "slot"], {"node": 5}, "payload.slot: expected the"),
        (["nodes", 0, "payload", "groups", 0, "slot"], {"float": "x"}, "slot: expected a value"),
        (["nodes", 0, "payload", "groups", 0, "slot"], {"eval": "1"}, "slot: expected a value"),
        (["nodes", 0, "payload", "groups", 0, "slot"], 1.5, "slot: expected a value"),
        (["nodes", 0, "payload", "groups", 0, "slot"], [[[[[[[[[[1]]]]]]]]]], "expected a value"),
        (["order"], [99], "order[0]: expected the number of an earlier node"),
        (["variables"], None, "variables: expected a list"),
        (["name"], 5, "name: expected a text, got 5"),
        (["grid"], [1, 2], "grid: expected 3 times a size"),
        (["grid"], [1, 2, "x"], "grid[2]: expected an integer, got 'x'"),
        (["group"], [1, 1, None], "group[2]: expected an integer, got None"),
        (["parameters"], [1], "parameters[0]: expected an object"),
        (["parameters", 0, "dtype"], 1, "parameters[0]: expected the name of a dtype"),
        (["parameters", 0, "is_read"], 1, "parameters[0]: expected true or false, got 1"),
        (["parameters", 0, "size"], ..., "parameters[0]: expected a member 'size'"),
    ],
)
def test_hostile_json_is_refused_with_its_place(
    path: list[Any], value: object, message: str
) -> None:
    with pytest.raises(UserError) as caught:
        from_json(changed(path, value))
    assert message in str(caught.value)


@pytest.mark.parametrize("data", [None, 3, [], "x", {1: 2}])
def test_what_is_no_object_is_refused(data: object) -> None:
    with pytest.raises(UserError, match="json"):
        from_json(data)


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, "nan", '{"version": ' + "9" * 5000 + "}", "\x00"]
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="json"):
        from_json_text(text)


def test_a_graph_is_no_program() -> None:
    with pytest.raises(UserError, match="json, kind: expected program, got 'graph'"):
        program_from_json(to_json(graphs.row_sum()))


def test_sizes_cannot_blow_up() -> None:
    """Squaring a size again and again is refused instead of filling the memory."""
    for start in (graphs.N, build.add(graphs.N, graphs.M), build.const(dtypes.index, 3)):
        size = start
        for _ in range(70):
            size = UOp(Ops.MUL, dtypes.index, (size, size))
        data = to_json(size)
        number = data["root"]
        data["nodes"].append(
            {
                "op": "VALID",
                "dtype": "bool",
                "src": [],
                "payload": {
                    "type": "View",
                    "groups": [
                        {"shape": [{"node": number}], "strides": [1], "offset": 0, "mask": None}
                    ],
                },
            }
        )
        data["root"] = number + 1
        with pytest.raises(UserError, match="size"):
            from_json(data)


@pytest.mark.slow
@settings(LAW, max_examples=150)
@given(st.data())
def test_a_random_change_is_refused_or_read(data: st.DataObject) -> None:
    """No input, however changed, raises anything else than UserError."""
    tree: Any = json.loads(json.dumps(to_json(graphs.row_sum())))
    place = tree
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3))
    place[key] = data.draw(st.one_of(scalars, st.lists(scalars, max_size=3)))
    with contextlib.suppress(UserError):
        from_json(tree)
