"""What reports say of the sizes that were tried."""

from __future__ import annotations

from typing import Any

import pytest
from reports_of import report_of

from tinyref.uops import build
from tinyref_conformance.not_probed import field_faults, not_probed, number
from tinyref_conformance.reports.html import html
from tinyref_conformance.reports.markdown import markdown
from tinyref_conformance.statuses import Status
from tinyref_spec.evidence import Evidence
from tinyref_spec.kernel.programs import INT, at, item_index, loop, program
from tinyref_spec.reach import extents_of

CAPABILITIES = {
    "dtypes": ["bool", "float32", "int32"],
    "emulated": ["float16"],
    "vector_lanes": [1, 4],
    "has_groups": True,
    "has_grid": False,
    "shared_bytes": 65536,
    "grid_limit": [2147483647, 65535, 65535],
    "group_size_limit": 1024,
    "buffer_limit": 64,
}


def test_the_sizes_of_a_program() -> None:
    """Use nested loops of 5 and 7, a loop of 11, 6 shared int32, and groups of 3 x 2."""
    out, shared = build.define_global(0, INT, 90), build.define_local("shared", INT, 6)
    outer, inner, alone = loop(5, 0), loop(7, 1), loop(11, 2)
    stores = [build.store(at(out, item_index(3)), counter) for counter in (inner, alone)]
    kernel = program(
        "sizes",
        outer,
        inner,
        stores[0],
        build.close(inner),
        build.close(outer),
        alone,
        stores[1],
        build.close(alone),
        build.store(at(shared, 0), build.const(INT, 1)),
        build.barrier(),
        grid=(9, 4, 1),
        group=(3, 2, 1),
    )
    assert extents_of(kernel) == {
        "group": 6,
        "barrier group": 6,
        "groups": 9,
        "shared": 24,
        "lanes": 1,
        "buffers": 1,
        "loop": 11,
        "nest": 35,
        "buffer": 360,
        "barrier type int32": 1,
    }


def test_a_program_without_a_barrier_shows_no_group_at_one() -> None:
    out = build.define_global(0, INT, 4)
    kernel = program("plain", build.store(at(out, 0), build.const(INT, 1)), group=(4, 1, 1))
    assert not {name for name in extents_of(kernel) if name.startswith("barrier")}


def test_evidence_keeps_the_largest_size_and_survives_json() -> None:
    evidence = Evidence(reach={"group": 64, "loop": 3})
    evidence.add(Evidence(reach={"group": 32, "copy": 8}))
    assert evidence.reach == {"group": 64, "loop": 3, "copy": 8}
    assert Evidence.from_json(evidence.to_json()).reach == evidence.reach
    with pytest.raises(ValueError, match="a size is an integer"):
        Evidence.from_json({"reach": {"group": "64"}})


def lines(**reach: int) -> dict[str, Any]:
    report = report_of(("isa.a.0", Status.PASS), capabilities=CAPABILITIES)
    report.rows[-1].evidence.reach.update(
        {name.replace("_", " "): size for name, size in reach.items()}
    )
    return {line.what: (line.tried, line.declared, line.is_less) for line in not_probed(report)}


def test_what_was_tried_stands_beside_what_is_declared() -> None:
    tried = lines(group=1024, barrier_group=192, loop=10**6, buffers=3, barrier_type_int32=1)
    limit = "1,024 work-items"
    assert tried["largest group"] == (limit, limit, False)
    assert tried["largest group with a barrier"] == ("192 work-items", limit, True)
    assert tried["longest loop"] == ("1,000,000 iterations", "no limit", False)
    assert tried["most shared memory"] == ("0 bytes", "64 KiB", True)
    assert "most groups along one dimension" not in tried
    types = ("all but bool, float16, float32", "4 types", True)
    assert tried["types in kernels with a barrier"] == types


def test_field_faults_that_the_suite_does_not_detect_are_counted_by_kind() -> None:
    verdicts = {
        "A": {"kind": "copies", "now": {"by": "fuzz"}},
        "B": {"kind": "copies", "now": {"by": "none"}},
        "C": {"kind": "limits", "now": {"by": "none"}},
        "D": {"kind": "limits", "now": {"by": "suite"}},
    }
    line = field_faults(verdicts)
    assert (line.tried, line.declared) == ("1; missed: copies (2), limits (1)", "4 known")
    assert line.is_less


def test_a_run_without_kernels_has_no_such_section() -> None:
    report = report_of(("isa.a.0", Status.PASS), capabilities=CAPABILITIES)
    assert not_probed(report) == []
    assert "Not probed" not in markdown(report)


def test_pages_have_the_section() -> None:
    report = report_of(("isa.a.0", Status.PASS), capabilities=CAPABILITIES)
    report.rows[-1].evidence.reach["barrier group"] = 192
    line = "| largest group with a barrier | 192 work-items | 1,024 work-items |"
    assert line in markdown(report)
    assert "Not probed in this run" in html(report)


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 bytes"), (1023, "1,023 bytes"), (65536, "64 KiB"), (1 << 32, "4 GiB")],
)
def test_bytes_in_words(size: int, words: str) -> None:
    assert number(size, "bytes") == words


@pytest.mark.long
def test_a_run_notes_copies_and_programs(conformed: Any) -> None:
    report = conformed("PYTHON", "memory.copy.float32,kernel.program.barrier*")
    tried = {line.what: line.tried for line in not_probed(report)}
    assert tried["largest copy"] != "0 bytes"
    assert tried["largest group with a barrier"] != "0 work-items"
