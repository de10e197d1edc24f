"""Pictures of graphs: each node once, below all that it needs, by dot and without it."""

from __future__ import annotations

import re
import shutil
import subprocess
from xml.etree import ElementTree

import pytest

from tinyref import Tensor
from tinyref.cli.explain import picture as pictures
from tinyref.cli.explain.limits import measured_limits
from tinyref.cli.explain.picture import Box, picture, places_by_dot, places_by_layers

needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz is not installed")

DIAMOND = [
    Box(("first",), (), ""),
    Box(("left", "float32"), (0,), ""),
    Box(("right",), (0,), ""),
    Box(("both",), (1, 2, 2), ""),
]


@pytest.mark.parametrize("layout", [places_by_layers, pytest.param(places_by_dot, marks=needs_dot)])
def test_a_node_is_below_all_that_it_needs_and_covers_none(layout: object) -> None:
    places = layout(DIAMOND)  # type: ignore[operator]
    assert sorted(places) == [0, 1, 2, 3]
    heights = [places[n][1] for n in range(4)]
    assert heights[0] < min(heights[1], heights[2])
    assert max(heights[1], heights[2]) < heights[3]
    left, right = sorted((1, 2), key=lambda n: places[n][0])
    assert places[right][0] - places[left][0] >= (DIAMOND[left].width + DIAMOND[right].width) / 2


def test_crossings_that_need_not_be_are_not_there() -> None:
    sources = [Box((name,), (), "") for name in "abc"]
    users = [Box((name,), (2 - n,), "") for n, name in enumerate("xyz")]
    places = places_by_layers([*sources, *users])
    order = [places[n][0] for n in range(3)]
    assert [places[5 - n][0] for n in range(3)] == order


def test_the_picture_has_each_node_and_each_line_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "places_by_dot", lambda boxes: None)
    x = Tensor([1.0, 2.0], device="CPU").contiguous().realize()
    root = (x * x).sum().node
    svg = ElementTree.fromstring(str(picture(root)))
    nodes = list(root.toposort())
    assert len(svg.findall("g")) == len(nodes)
    assert len(svg.findall("path")) == sum(len(set(node.src)) for node in nodes)
    texts = [each.text for each in svg.iter("text")]
    assert "MUL float32" in texts
    assert "sum" in texts
    assert svg.attrib["aria-label"] == f"{len(nodes)} nodes"


def test_text_of_a_node_is_no_markup() -> None:
    box = Box(("<b>&",), (), "<script>")
    shown = str(pictures._drawn([box], {0: (0.0, 0.0)}))
    assert "&lt;b&gt;&amp;" in shown
    assert "<script>" not in shown


def test_a_graph_that_nobody_can_read_has_no_picture() -> None:
    x = Tensor([1.0, 2.0], device="CPU")
    for number in range(pictures.MAX_NODES):
        x = x.sin() + float(number)
    assert picture(x.node) == ""


def test_where_dot_fails_layers_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise subprocess.CalledProcessError(1, "dot")

    monkeypatch.setattr(pictures.shutil, "which", lambda name: "/usr/bin/dot")
    monkeypatch.setattr(pictures.subprocess, "run", fail)
    assert places_by_dot(DIAMOND) is None
    assert len(re.findall("<rect", str(picture((Tensor([1.0]) * 2).node)))) > 1


@pytest.mark.long
def test_limits_are_measured_where_something_runs() -> None:
    limits = measured_limits("PYTHON")
    assert limits is not None
    assert limits.operations > 0
    assert limits.nbytes > 0
    assert measured_limits("NULL") is None
    assert measured_limits("DISK") is None
