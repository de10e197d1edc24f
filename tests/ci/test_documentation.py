"""Test the documentation site: refusals of its build, its links, and its search."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from browser import CHROMIUM, WHY_NOT, accessibility
from ci_modules import ci_module

site = ci_module("ci/documentation.py")
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("html", "address"),
    [
        ('<script src="https://example.org/a.js"></script>', "https://example.org/a.js"),
        ('<link rel="stylesheet" href="//example.org/a.css">', "//example.org/a.css"),
        ('<img alt="" src="http://example.org/a.png">', "http://example.org/a.png"),
        ("<style>@font-face{src:url(https://example.org/a.woff)}</style>", "https://example.org/a.woff"),
    ],
)  # fmt: skip
def test_what_a_page_loads_from_elsewhere_is_refused(html: str, address: str) -> None:
    assert site.foreign_addresses(html) == [address]


def test_links_that_a_reader_may_follow_are_no_assets() -> None:
    assert site.foreign_addresses('<a href="https://example.org">x</a><img src="a.png">') == []


def test_a_name_without_a_heading_is_missing() -> None:
    page = '<h3 id="tinyref.tensor.movement.Movement.reshape">'
    missing = site.missing_names(page)
    assert "Tensor.reshape" not in missing
    assert {"Tensor.sum", "nn.Linear", "nn.state.safe_load"} <= set(missing)


@pytest.mark.parametrize(
    ("written", "on_the_site"),
    [
        ("[map](../ARCHITECTURE.md#glossary)", "[map](architecture.md#glossary)"),
        ("[guide](docs/guide.md#types)", "[guide](guide.md#types)"),
        ("see `docs/spec/isa.binary.md`.", "see [`isa.binary`](spec/isa.binary.md)."),
        ("[start](README.md)", "[start](index.md)"),
        ("[example](../examples/digits.py)", "[example](examples/digits.py)"),
        ("[contract](backend.md)", "[contract](backend.md)"),
    ],
)
def test_links_of_the_repository_hold_on_the_site(written: str, on_the_site: str) -> None:
    assert site.site_links(written, "") == on_the_site


def test_a_page_prints_a_file_of_the_repository() -> None:
    page = site.with_files((ROOT / "docs" / "backend.md").read_text())
    assert "```python\n" + (ROOT / "examples" / "custom_backend.py").read_text() in page


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_the_search_works_without_a_server(built: Path) -> None:
    # The browser opens the page as a file.
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("chromium is not installed")
    results = {}
    for words in ("argmax", "qqqqzzzz"):
        done = subprocess.run(
            [
                browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
                "--virtual-time-budget=15000", f"file://{built}/guide.html?q={words}",
            ],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        (results[words],) = re.findall(r'md-search-result__meta">([^<]*)', done.stdout)
    assert re.fullmatch(r"\d+ matching documents", results["argmax"])
    assert results["qqqqzzzz"] == "No matching documents"


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason=WHY_NOT)
@pytest.mark.skipif(find_spec("axe_core_python") is None, reason="axe-core-python is not installed")
@pytest.mark.parametrize(("dark", "narrow"), [(False, 0), (True, 0), (False, 390)])
@pytest.mark.parametrize("name", ["index", "guide", "tested", "spec/index", "api/tensor"])
def test_axe_finds_nothing_serious_in_the_site(
    built: Path, name: str, dark: bool, narrow: int
) -> None:
    result = accessibility(built / f"{name}.html", dark, narrow)
    assert result["dark"] is dark
    assert result["width"] <= (narrow or 1280)
    serious = ("serious", "critical")
    assert [fault for fault in result["violations"] if fault["impact"] in serious] == []
