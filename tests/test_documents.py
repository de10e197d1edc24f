"""Pages with sessions of Python, in torch and numpy too, and with what `tinyref explain` prints."""

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

DOCS = Path(__file__).parent.parent / "docs"
# The name of an exception is compared, with its module and its words.
OPTIONS = doctest.FAIL_FAST


@pytest.mark.long
@pytest.mark.parametrize("name", ["differences.md", "jit.md", "migration.md"])
def test_the_sessions_of_a_page(name: str) -> None:
    pytest.importorskip("torch", reason="the peer is not installed")
    failed, tried = doctest.testfile(str(DOCS / name), module_relative=False, optionflags=OPTIONS)
    assert tried >= 9
    assert failed == 0


def test_every_status_of_a_report_is_explained() -> None:
    page = (DOCS / "report.md").read_text()
    assert [one.value for one in Status if f"| {one.value} | {one.sentence}" not in page] == []


EXPLAINED = "(Tensor([[1.0, 2.0], [3.0, 4.0]]) * 2).sum(axis=1)"
STAGE = re.compile(r"^== (?:kernel 1, \w+: )?([\w ]+?)(?:[:,] .*| for CPU)?$", re.MULTILINE)


def stages(text: str) -> dict[str, str]:
    """What `tinyref explain` prints, by the name of the stage."""
    # Buffers are numbered over all of a process.
    parts = STAGE.split(re.sub(r"(Buffer\{.*number=)\d+", r"\g<1>0", text))
    return {name: body.strip("\n") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


# What the page of `explain` has in its style sheet.
STYLE = """<style>
rect { fill: #f6f6f2; stroke: #777; } path { fill: none; stroke: #777; }
text { fill: #555; font: 11px ui-monospace, Menlo, Consolas, monospace; text-anchor: middle; }
text.op { fill: #111; }
</style>"""


def file_of(svg: str) -> str:
    """A picture of `explain` as a file of its own, the same in every process."""
    head, _, rest = svg.partition(">")
    head = head.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')
    return re.sub(r"(Buffer\{[^<]*number=)\d+", r"\g<1>0", f"{head}>{STYLE}{rest}\n")


def test_the_pictures_are_those_of_explain(request: pytest.FixtureRequest) -> None:
    x = (Tensor([[1.0, 2.0], [3.0, 4.0]], device="CPU") * 2).sum(axis=1)
    drawn = {"tensor-graph": x.node, "kernel": x.schedule().kernels[0].ast}
    for name, root in drawn.items():
        path = DOCS / "site" / f"{name}.svg"
        wanted = file_of(str(picture(root)))
        if request.config.getoption("--update-golden"):
            path.write_text(wanted)
        assert path.read_text() == wanted, "pytest --update-golden draws it anew"
        assert f"(site/{name}.svg)" in (DOCS / "compiler.md").read_text()


def with_stages(page: str, made: dict[str, str]) -> str:
    def block(found: re.Match[str]) -> str:
        return f"{found[1]}\n```text\n{made[found[2]]}\n```\n<!-- end -->"

    pattern = r"(<!-- ([\w ]+): tests/test_documents.py --update-golden -->)\n.*?<!-- end -->"
    return re.sub(pattern, block, page, flags=re.DOTALL)


def test_the_stages_are_what_explain_prints(
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    needs_device: Callable[[str], None],
) -> None:
    needs_device("CPU")
    assert run(["explain", EXPLAINED, "--device", "CPU"]) == 0
    made = stages(capsys.readouterr().out)
    path = DOCS / "compiler.md"
    page = path.read_text()
    assert f"`{EXPLAINED}`" in page
    wanted = with_stages(page, made)
    assert len(re.findall("<!-- end -->", page)) == len(re.findall("```text\n", wanted)) == 6
    if request.config.getoption("--update-golden"):
        path.write_text(wanted)
    assert path.read_text() == wanted, "pytest --update-golden writes the blocks anew"
