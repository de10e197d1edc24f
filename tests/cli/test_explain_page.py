"""Test the page of `explain`: its contents, hostile text in programs, and its errors."""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from browser import Page

from tinyref import Tensor
from tinyref.cli.entry import run
from tinyref.cli.explain import picture as pictures
from tinyref.cli.explain.kernel_stages import _changes
from tinyref.cli.explain.page import measured_limits, rate_text, seconds_text
from tinyref.cli.explain.picture import Box, picture
from tinyref.cli.explain.recording import shorten

PROGRAM = """
import sys
from tinyref import Tensor
assert __name__ == "__main__" and sys.argv == [sys.argv[0]], sys.argv
x = Tensor([[1.5, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
for step in range(3):
    y = (x @ x.T).relu().realize()
print("made", y.numpy().tolist())
z = x.sum(1).to("PYTHON").exp2().numpy()
"""


def explained(tmp_path: Path, program: str, *more: str, code: int = 0) -> str:
    path = tmp_path / "program.py"
    path.write_text(program)
    target = tmp_path / "out.html"
    assert run(["explain", str(path), "--out", str(target), *more]) == code
    return target.read_text()


@pytest.fixture
def page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    text = explained(tmp_path, PROGRAM)
    out = capsys.readouterr().out
    assert out.startswith("made [[")
    assert out.endswith(f"wrote {tmp_path / 'out.html'}: 2 schedules, 3 kernels\n")
    return text


def test_the_page_is_one_file_with_everything_in_it(page: str) -> None:
    parsed = Page(page)
    assert not {"img", "iframe", "object"} & set(parsed.tags)
    assert not parsed.loads
    assert len(set(parsed.ids)) == len(parsed.ids)
    assert {link[1:] for link in parsed.links if link.startswith("#")} <= set(parsed.ids)
    assert not parsed.handlers
    assert "default-src 'none'" in page
    assert len(page) < 200_000


def test_schedules_kernels_stages_rules_and_sources_are_there(page: str) -> None:
    assert page.count('<details class="card entry kernel"') == 3
    # The same graph three times is one schedule.
    (first, second) = re.findall(
        r'<details class="card entry" id="schedule.*?</details>', page, re.S
    )
    assert "3 times" in first
    assert "1 step, gives float32 (2, 2) on CPU" in first
    assert "gives float32 (2,) on PYTHON" in second
    assert "copy" in second
    assert "float32 x 8 (32 bytes) on CPU" in second
    kernels = re.findall(r'<details class="card entry kernel".*', page, re.S)[0]
    for stage in ("ast", "normal", "lower", "simplify", "expand", "decompose", "linearise"):
        assert f"<strong>{stage}</strong>" in kernels
    assert "<dt>Plan</dt><dd>" in kernels
    assert "define void @" in kernels, "the source of CPU"
    assert "Source for PYTHON" in kernels
    assert "in 3 launches" in kernels
    assert re.search(r'<li title="[^"]+"><code>[a-z0-9-]+</code> <b>[1-9]', kernels), "a rule"
    assert '<span class="p">' in kernels
    assert '<span class="m">' in kernels
    assert ">matmul<" in kernels or "matmul" in page


def test_rules_fire_for_each_page(tmp_path: Path, page: str) -> None:
    # Rewriting caches its results with the nodes: a second page would show no rule.
    again = explained(tmp_path, PROGRAM)
    rules = re.findall(r"<code>([a-z0-9-]+)</code> <b>(\d+)", page)
    assert rules == re.findall(r"<code>([a-z0-9-]+)</code> <b>(\d+)", again)
    assert rules


def test_pictures_lines_rates_and_each_rewrite_are_there(page: str) -> None:
    assert page.count('<svg class="graph"') >= 4
    # The line of the program that called the function, with its text.
    assert re.search(r'<span class="mono">program.py:\d+</span> <code>\S', page)
    assert re.search(r"<dt>Work</dt><dd>[^<]* [kMG]FLOPS, [^<]* [kMG]B/s</dd>", page)
    assert re.search(r"<dt>Measured limits</dt><dd>\d\S* [kMGT]FLOPS, \d\S* [kMGT]B/s,", page)
    (first, *_) = re.findall(r'<ol class="rewrites small">(.*?)</ol>', page, re.DOTALL)
    assert re.search(r"<li><code>[a-z0-9-]+</code><br><span class=\"mono minus\">[A-Z]", first)


def test_a_program_gets_its_arguments(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nfrom tinyref import Tensor\n"
        "assert sys.argv[1:] == ['--epochs', '3', '--out', 'no']\n"
        "(Tensor([1.0]) * int(sys.argv[2])).realize()\n"
    )
    target = tmp_path / "page.html"
    words = ["explain", str(program), "--out", str(target)]
    assert run([*words, "--", "--epochs", "3", "--out", "no"]) == 0
    assert target.exists()


def test_captured_functions_show_their_replays(tmp_path: Path) -> None:
    text = explained(
        tmp_path,
        "from tinyref import Tensor, TinyJit\n"
        "f = TinyJit(lambda x: (x + 1).realize())\n"
        "for i in range(5): f(Tensor([1.0 * i, 2.0]).realize())\n",
    )
    assert "3 of them replayed" in text
    assert "in 5 launches" in text


def test_an_expression_has_a_page_too(tmp_path: Path) -> None:
    target = tmp_path / "out.html"
    assert run(["explain", "Tensor([1, 2]) + 1", "--out", str(target), "--device", "PYTHON"]) == 0
    text = target.read_text()
    assert "explain, on PYTHON" in text
    assert "<h1>Tensor([1, 2]) + 1</h1>" in text


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    program = f"""
from tinyref import Tensor
(Tensor([1, 2]) + 1).realize()
raise ValueError({HOSTILE!r} + chr(0xd800))
"""
    folder = tmp_path / "<b>&quot;<i>"
    folder.mkdir()
    path = folder / "a'\"<u>.py"
    path.write_text(program)
    target = tmp_path / "out.html"
    assert run(["explain", str(path), "--out", str(target)]) == 1
    text = target.read_text()
    parsed = Page(text)
    assert parsed.tags.count("script") == 1
    assert not {"img", "u"} & set(parsed.tags)
    assert not parsed.handlers
    assert HOSTILE in html.unescape(text)
    assert HOSTILE not in text


def test_a_program_that_raises_still_gets_its_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = (
        "from tinyref import Tensor\n(Tensor([1, 2]) + 1).realize()\n"
        "def broken():\n    raise KeyError('no such thing')\nbroken()\n"
    )
    text = explained(tmp_path, program, code=1)
    captured = capsys.readouterr()
    assert captured.err == (
        f"tinyref: error: {tmp_path / 'program.py'} ended with KeyError: 'no such thing'\n"
    )
    assert "1 schedule, 1 kernel" in captured.out
    assert "KeyError: &#39;no such thing&#39;" in text
    assert "line 4, in broken" in text
    assert "runpy" not in text
    assert text.count('<details class="card entry kernel"') == 1


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("def (:\n", "SyntaxError: "),
        ("import sys; sys.exit(3)\n", "SystemExit: 3"),
        ("import no_such_module\n", "ModuleNotFoundError: "),
        ("raise KeyboardInterrupt\n", "KeyboardInterrupt"),
        ("from tinyref import Tensor\nTensor([1]).reshape(7)\n", "tinyref.errors.UserError: "),
    ],
)
def test_other_ways_to_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], program: str, line: str
) -> None:
    text = explained(tmp_path, program, code=1)
    assert line in html.unescape(text)
    assert f"ended with {line}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "statement",
    [
        "sys.stdout.close(); sys.stderr.close()",
        "os.close(1); os.close(2)",
        "sys.stdout = sys.stderr = None; os.chdir('elsewhere'); sys.path.clear(); "
        "sys.setrecursionlimit(60)",
    ],
)
def test_changes_of_the_process_by_a_program_are_undone(tmp_path: Path, statement: str) -> None:
    # The page is at the requested path, and the command says so.
    lines = ("import os, sys", "from tinyref import Tensor", "(Tensor([1]) + 1).realize()")
    (tmp_path / "program.py").write_text("\n".join([*lines, statement]))
    (tmp_path / "elsewhere").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tinyref", "explain", "program.py", "--out", "page.html"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "wrote page.html: 1 schedule, 1 kernel\n"
    assert "did not end well" not in (tmp_path / "page.html").read_text()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_kernel_that_does_not_run_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tinyref.engine import runner
    from tinyref.errors import DeviceError

    def failing(*arguments: object) -> None:
        raise DeviceError("CPU", "out of order")

    monkeypatch.setattr(runner, "_run_kernel", failing)
    text = explained(
        tmp_path, "from tinyref import Tensor\n(Tensor([1, 2]) + 1).realize()\n", code=1
    )
    assert "(did not run)" in text
    assert "out of order" in text


@pytest.mark.parametrize(
    ("program", "arguments", "says"),
    [
        (None, ["--out", "out.html"], "no such file"),
        ("pass\n", [], "computed nothing"),
        ("pass\n", ["--stage", "nope"], "stage: got 'nope', accepted are ast, normal, lower"),
        ("pass\n", ["-v", "--out", "o"], "leave out --out, a page has all"),
        (PROGRAM, ["--kernel", "9"], "has no kernel 9: accepted are 1 to 3, and globs"),
        ("pass\n", ["--out", "out.html"], "computed nothing"),
        ("from tinyref import Tensor\nTensor.ones(3).numpy()\n", ["--out", "o"], "nothing"),
        ("pass\n", ["--out", "none/out.html"], "cannot be written"),
        ("pass\n", ["--out", "."], "cannot be written"),
        ("pass\n", ["--out", "program.py"], "is the program itself"),
        ("pass\n", ["--out", "o", "--device", "NONE"], "unknown device"),
        ("import sys; sys.exit(0)\n", ["--out", "o"], "computed nothing"),
    ],
)
def test_errors_are_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    program: str | None,
    arguments: list[str],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    if program is not None:
        Path("program.py").write_text(program)
    assert run(["explain", "program.py", *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert set(os.listdir(tmp_path)) <= {"program.py"}


def test_a_program_has_a_page_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(PROGRAM)
    assert run(["explain", "train.py"]) == 0
    assert capsys.readouterr().out.endswith("wrote train.html: 2 schedules, 3 kernels\n")
    assert Path("train.html").exists()


def test_a_kernel_of_a_program_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(PROGRAM)
    assert run(["explain", "train.py", "--kernel", "1", "--stage", "ast,source"]) == 0
    titles = [line for line in capsys.readouterr().out.splitlines() if line.startswith("== ")]
    assert [title.partition(": ")[2] for title in titles] == ["AST", "source for CPU"]
    assert list(tmp_path.iterdir()) == [tmp_path / "train.py"]


def test_a_schedule_is_drawn_with_links_to_its_kernels(page: str) -> None:
    (drawn,) = re.findall(r'<svg class="graph" role="img" aria-label="3 steps".*?</svg>', page)
    assert set(re.findall(r'<a href="(#kernel-\d)">', drawn)) == {"#kernel-2", "#kernel-3"}
    assert drawn.count("<path") == 2
    assert ">2: copy</text>" in drawn


@pytest.mark.parametrize("ending", ["", "raise SystemError('no')"])
def test_a_variable_writes_the_page_of_a_program(tmp_path: Path, ending: str) -> None:
    lines = ["import os", "from tinyref import Tensor", "(Tensor([1]) + 1).realize()"]
    lines += ["assert 'TINYREF_EXPLAIN' not in os.environ", ending]
    (tmp_path / "train.py").write_text("\n".join(lines))
    done = subprocess.run(
        [sys.executable, "train.py"],
        cwd=tmp_path,
        env={**os.environ, "TINYREF_EXPLAIN": "page.html"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == bool(ending)
    assert done.stderr.endswith(f"tinyref: wrote {tmp_path / 'page.html'}\n")
    text = (tmp_path / "page.html").read_text()
    assert ("did not end well: SystemError: no" in text) == bool(ending)
    assert "train.py:3" in text


def test_long_texts_lose_their_middle() -> None:
    text = "".join(f"line {number}\n" for number in range(1000))
    short = shorten(text, 10).splitlines()
    assert len(short) == 11
    assert (short[0], short[5], short[-1]) == (
        "line 0",
        "... 990 of 1,000 lines are left out here ...",
        "line 999",
    )
    assert shorten("a\nb\n", 2) == "a\nb"


def test_changes_are_found_without_the_numbers_of_nodes() -> None:
    old = ["%0 = CONST int32 () 1", "%1 = NEG int32 (%0)", "%2 = SINK void (%1)"]
    new = ["%0 = CONST int32 () 1", "%1 = CONST int32 () 2", "%2 = NEG int32 (%0)"]
    new.append("%3 = SINK void (%2)")
    changes = _changes(old, new)
    assert changes is not None
    assert [line.text for line in changes if line.mark == "+"] == ["%1 = CONST int32 () 2"]
    assert [line.text for line in changes if line.mark == "-"] == []
    same = _changes(old, old)
    assert same is not None
    assert [line.text for line in same] == ["3 lines as before"]
    assert _changes(old, ["a", "b", "c"]) is None
    assert _changes(old, ["a"] * 2000) is None


def test_times_and_rates_have_units() -> None:
    assert [seconds_text(x) for x in (0.0, 2e-9, 1.5e-6, 0.0123, 1.5, 2345.0)] == [
        "0",
        "2 ns",
        "1.5 µs",
        "12.3 ms",
        "1.5 s",
        "2,345 s",
    ]
    assert [rate_text(x) for x in (1.5e12, 2e9, 3.25e6, 4e3)] == [
        "1.5 TFLOPS",
        "2 GFLOPS",
        "3.25 MFLOPS",
        "4 kFLOPS",
    ]


# --- pictures -------------------------------------------------------------------------------------

DIAMOND = [
    Box(("first",), (), ""),
    Box(("left", "float32"), (0,), ""),
    Box(("right",), (0,), ""),
    Box(("both",), (1, 2, 2), ""),
]


def test_a_node_is_below_all_that_it_needs_and_covers_none() -> None:
    positions = pictures.places_of(DIAMOND)
    assert sorted(positions) == [0, 1, 2, 3]
    heights = [positions[n][1] for n in range(4)]
    assert heights[0] < min(heights[1], heights[2])
    assert max(heights[1], heights[2]) < heights[3]
    left, right = sorted((1, 2), key=lambda n: positions[n][0])
    distance = positions[right][0] - positions[left][0]
    assert distance >= (DIAMOND[left].width + DIAMOND[right].width) / 2


def test_the_picture_has_each_node_and_each_line_once() -> None:
    x = Tensor([1.0, 2.0], device="CPU").contiguous().realize()
    root = (x * x).sum().node
    svg = ElementTree.fromstring(str(picture(root)))
    nodes = list(root.toposort())
    assert len(svg.findall("g")) == len(nodes)
    assert len(svg.findall("path")) == sum(len(set(node.src)) for node in nodes)
    texts = [element.text for element in svg.iter("text")]
    assert "MUL float32" in texts
    assert "sum" in texts
    assert svg.attrib["aria-label"] == f"{len(nodes)} nodes"


def test_text_of_a_node_is_no_markup() -> None:
    box = Box(("<b>&",), (), "<script>")
    markup = str(pictures._drawn([box], {0: (0.0, 0.0)}))
    assert "&lt;b&gt;&amp;" in markup
    assert "<script>" not in markup


def test_a_graph_that_nobody_can_read_has_no_picture() -> None:
    x = Tensor([1.0, 2.0], device="CPU")
    for number in range(pictures.MAX_NODES):
        x = x.sin() + float(number)
    assert picture(x.node) == ""


@pytest.mark.long
def test_limits_are_measured_where_something_runs() -> None:
    limits = measured_limits("PYTHON")
    assert limits is not None
    assert limits.operations > 0
    assert limits.nbytes > 0
    assert measured_limits("NULL") is None
    assert measured_limits("DISK") is None


# --- in a browser ---------------------------------------------------------------------------------

CHROMIUM = shutil.which("chromium")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_the_page_works_in_a_browser_from_a_file(tmp_path: Path, page: str) -> None:
    def dumped(fragment: str) -> str:
        return subprocess.run(
            [
                str(CHROMIUM),
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--dump-dom",
                f"--user-data-dir={tmp_path / 'profile'}",
                f"{(tmp_path / 'out.html').as_uri()}{fragment}",
            ],
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        ).stdout

    filtered = dumped("#filter=python")
    assert "of 3 kernels</span>" in filtered
    assert re.search(r'<details class="card entry kernel" id="kernel-1"[^>]*hidden=""', filtered)
    opened = dumped("#kernel-2")
    assert re.search(r'<details class="card entry kernel" id="kernel-2"[^>]*open=""', opened)
    assert 'class="tools" role="search">' in opened
