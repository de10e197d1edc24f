"""Headless Chromium, for tests of pages: what a page has become, and what axe finds in it."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
WHY_NOT = "Chromium is not installed: apt-get install chromium"
_DARK = ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")
_RUN = """
addEventListener("load", () => setTimeout(async () => {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
  const found = await axe.run(document, { resultTypes: ["violations"] });
  const place = document.createElement("pre");
  place.id = "axe";
  place.textContent = JSON.stringify({
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    width: document.documentElement.scrollWidth,
    violations: found.violations.map((each) => ({ id: each.id, impact: each.impact,
      nodes: each.nodes.slice(0, 5).map((node) => `${node.target}: ${node.failureSummary}`) })),
  });
  document.body.append(place);
  if (parent !== window) parent.postMessage(place.outerHTML, "*");
}, 1000));
"""
# A window of Chromium has at least 500 pixels: a narrower page is shown in a frame.
_FRAME = """
<body style="margin: 0"><iframe src="{name}" width="{width}" height="2000"></iframe>
<script>addEventListener("message", (event) =>
  document.body.insertAdjacentHTML("beforeend", event.data));</script>
"""


def dumped(page: Path, fragment: str = "", dark: bool = False) -> str:
    """Return the document after its scripts ran, in a window of 1280 pixels."""
    # A page may remember which scheme it was opened in.
    profile = page.parent / ("chromium-dark" if dark else "chromium-light")
    command = [
        str(CHROMIUM),
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--dump-dom",
        f"--user-data-dir={profile}",
        "--window-size=1280,1000",
        "--virtual-time-budget=60000",
        *(_DARK if dark else ()),
        f"{page.as_uri()}{fragment}",
    ]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=150).stdout


def accessibility(page: Path, dark: bool, narrow: int = 0) -> dict[str, Any]:
    """Return the violations that axe-core finds in the unfolded page, and the width it needs.

    narrow: the width of the page in pixels, if it is shown in a frame.
    """
    axe = resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    # The page allows no script but its own.
    opened = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    copy = page.with_name(f"axe-{page.name}")
    copy.write_text(
        opened.replace("</body>", f"<script>{axe}</script><script>{_RUN}</script></body>")
    )
    if narrow:
        frame = page.with_name(f"frame-{page.name}")
        frame.write_text(_FRAME.format(name=copy.name, width=narrow))
        copy = frame
    match = re.search(r'<pre id="axe">(.*?)</pre>', dumped(copy, dark=dark), re.S)
    assert match is not None, "axe did not come to an end"
    result: dict[str, Any] = json.loads(html.unescape(match[1]))
    return result


class Page(HTMLParser):
    """The tags, ids, links, handlers of events and scripts of a page whose elements are closed."""

    VOID = frozenset({"meta", "link", "input", "br", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        assert not self.open, f"not closed: {self.open}"

    @property
    def loads(self) -> list[str]:
        """Return the files that a browser would load for the page."""
        return [link for link in self.links if link and not link.startswith(("#", "data:"))]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src"):
                self.links.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
