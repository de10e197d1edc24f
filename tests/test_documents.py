"""Test pages with sessions of Python, torch and numpy, and with output of `explain`."""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tinyref import Tensor
from tinyref.cli.entry import run
from tinyref.cli.explain.picture import picture
from tinyref_conformance.statuses import Status
from tinyref_spec.case import Rung

DOCS = Path(__file__).parent.parent / "docs"
# The name of an exception is compared, with its module and its words.
OPTIONS = doctest.FAIL_FAST


def check_sessions(path: Path) -> None:
    failed, tried = doctest.testfile(str(path), module_relative=False, optionflags=OPTIONS)
    assert tried >= 9
    assert failed == 0


@pytest.mark.long
@pytest.mark.parametrize("name", ["differences.md", "jit.md", "migration.md"])
def test_the_sessions_of_a_page(name: str) -> None:
    pytest.importorskip("torch", reason="the peer is not installed")
    check_sessions(DOCS / name)


# The lesson on renderers has files and commands: tests/test_days.py follows it.
LESSONS = [path for path in sorted((DOCS / "course").glob("*.md")) if ">>> " in path.read_text()]


@pytest.mark.long
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_the_sessions_of_a_lesson(path: Path, needs_device: Callable[[str], None]) -> None:
    needs_device("CPU")
    check_sessions(path)


def test_the_course_has_eight_lessons_with_sessions_and_one_with_files() -> None:
    index = (DOCS / "course" / "index.md").read_text()
    links = re.findall(r"^\| \[\d\. .*?\]\((\w+)\.md\)", index, re.MULTILINE)
    assert len(links) == 9
    assert set(links) == {*(path.stem for path in LESSONS), "renderer"}


def test_every_status_of_a_report_is_explained() -> None:
    page = (DOCS / "report.md").read_text()
    assert [one.value for one in Status if f"| {one.value} | {one.sentence}" not in page] == []


def test_the_cheat_sheet_has_every_status_and_rung() -> None:
    page = (DOCS / "cheat-sheet.md").read_text()
    for status in Status:
        breaks = " yes" if status.is_broken else ""
        fails = " yes" if status.is_failure else ""
        assert f"| {status.value} | {status.symbol} |{breaks} |{fails} | " in page
    lines = re.findall(r"^\| \d+ to \d+ \| (.*) \|$", page, re.MULTILINE)
    assert ", ".join(lines).split(", ") == [rung.title for rung in Rung]


EXPLAINED = "(Tensor([[1.0, 2.0], [3.0, 4.0]]) * 2).sum(axis=1)"
STAGE = re.compile(r"^== (?:kernel 1, \w+: )?([\w ]+?)(?:[:,] .*| for CPU)?$", re.MULTILINE)


def stages(text: str) -> dict[str, str]:
    """Return the output of `tinyref explain` by the name of the stage."""
    # The whole process numbers its buffers.
    parts = STAGE.split(re.sub(r"(Buffer\{.*number=)\d+", r"\g<1>0", text))
    return {name: body.strip("\n") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


# The style sheet of the page of `explain`.
STYLE = """<style>
rect { fill: #f6f6f2; stroke: #777; } path { fill: none; stroke: #777; }
text { fill: #555; font: 11px ui-monospace, Menlo, Consolas, monospace; text-anchor: middle; }
text.op { fill: #111; }
</style>"""


def file_of(svg: str) -> str:
    """Return a picture of `explain` as a separate file, the same in every process."""
    head, _, rest = svg.partition(">")
    head = head.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')
    return re.sub(r"(Buffer\{[^<]*number=)\d+", r"\g<1>0", f"{head}>{STYLE}{rest}\n")


def test_the_pictures_are_those_of_explain(request: pytest.FixtureRequest) -> None:
    x = (Tensor([[1.0, 2.0], [3.0, 4.0]], device="CPU") * 2).sum(axis=1)
    softmax = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], device="PYTHON").softmax(axis=1)
    leaf = Tensor([1.0, 2.0, 3.0], device="PYTHON", requires_grad=True)
    (leaf * leaf).sum().backward()
    assert leaf.grad is not None
    drawn = {
        ("tensor-graph", "graph"): x.node,
        ("kernel", "kernel"): x.schedule().kernels[0].ast,
        ("softmax", "scheduling"): softmax.schedule().kernels[0].ast,
        ("gradient", "gradients"): leaf.grad.node,
    }
    for (name, lesson), root in drawn.items():
        path = DOCS / "site" / f"{name}.svg"
        expected = file_of(str(picture(root)))
        if request.config.getoption("--update-golden"):
            path.write_text(expected)
        assert path.read_text() == expected, "pytest --update-golden draws it again"
        assert f"(../site/{name}.svg)" in (DOCS / "course" / f"{lesson}.md").read_text()


BLOCK = re.compile(
    r"(<!-- ([\w ]+): tests/test_documents.py --update-golden -->)\n.*?<!-- end -->", re.DOTALL
)


def with_stages(page: str, printed: dict[str, str]) -> str:
    """Return the page with the printed stage in each block of this name."""

    def block(match: re.Match[str]) -> str:
        return f"{match[1]}\n```text\n{printed[match[2]]}\n```\n<!-- end -->"

    return BLOCK.sub(block, page)


def test_the_stages_are_what_explain_prints(
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    needs_device: Callable[[str], None],
) -> None:
    needs_device("CPU")
    assert run(["explain", EXPLAINED, "--device", "CPU"]) == 0
    printed = stages(capsys.readouterr().out)
    assert EXPLAINED in (DOCS / "course" / "index.md").read_text()
    names = []
    for path in LESSONS:
        page = path.read_text()
        names += [name for _, name in BLOCK.findall(page)]
        expected = with_stages(page, printed)
        if request.config.getoption("--update-golden"):
            path.write_text(expected)
        assert path.read_text() == expected, "pytest --update-golden writes the blocks again"
    assert sorted(names) == ["AST", "indexed kernel", "plan", "program", "source", "tensor graph"]
