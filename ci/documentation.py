"""Hooks of the documentation site (mkdocs.yml): pages of the root, links, and checks.

Links between `docs/` and the root are written for the repository, and rewritten here for the
site. The pages of the specification are not in the repository: they are generated for the site,
and `docs/spec/NAME.md` in another page becomes a link to the page.
"""

from __future__ import annotations

import functools
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tinyref_spec import pages
from tinyref_spec.tensor import surface

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
# The name that a file of the root has on the site.
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
# Tags that load a file when a page opens, and the attribute with its address.
_LOADED = {
    **{"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"},
    **{"link": "href", "object": "data"},
}
_FILE = re.compile(r"<!-- file: (\S+) -->")
# Links to files of the site.
_LINK = re.compile(r'<a [^>]*href="(?!\w+:|/)([^"#?]+)')
# Links that browsers do not load.
_NOT_LOADED = {"canonical", "next", "prev"}


@functools.cache
def specification() -> dict[str, str]:
    """Return the pages of the specification by name."""
    return pages.pages()


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the pages of the specification, the first one first, the others by name."""
    names = sorted(specification(), key=lambda name: (name != "index.md", name))
    for section in config.nav or ():
        for part in section.get("Reference", ()):
            if "Specification" in part:
                part["Specification"] = [f"spec/{name}" for name in names]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the specification, in place of old pages, the pages of the root, and the examples."""
    from mkdocs.structure.files import File

    for file in list(files):
        if file.src_uri.startswith("spec/"):
            files.remove(file)
    for name, text in specification().items():
        files.append(File.generated(config, f"spec/{name}", content=text))
    sources = {name: ROOT / source for source, name in PAGES.items()}
    sources |= {f"examples/{path.name}": path for path in ROOT.glob("examples/*.py")}
    for name, path in sources.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Turn the links of a page into those that hold on the site, and link the glossary."""
    to_root = "../" * page.file.src_uri.count("/")
    return (
        f"{site_links(with_files(markdown), to_root)}\n\nWords: [glossary]({to_root}glossary.md)\n"
    )


def with_files(markdown: str) -> str:
    """Print the file that a comment `<!-- file: NAME -->` names, by its path from the root."""
    return _FILE.sub(lambda match: f"```python\n{(ROOT / match[1]).read_text()}```", markdown)


def on_post_page(output: str, **_: object) -> str:
    """Name the dialog of the search, which the theme leaves without a name to be read out."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


def on_post_build(config: MkDocsConfig) -> None:
    """Refuse a site that loads a foreign file, or lacks a public name or the target of a link."""
    from mkdocs.exceptions import PluginError

    site = Path(config.site_dir)
    built = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    faults = [
        f"{path.relative_to(site)} loads {address}"
        for path, text in built.items()
        for address in foreign_addresses(text)
    ]
    faults += [
        f"{path.relative_to(site)} links {address}, which the site lacks"
        for path, text in built.items()
        for address in set(_LINK.findall(text))
        if not (path.parent / unquote(address)).exists()
    ]
    texts = [text for path, text in built.items() if path.parent.name == "api"]
    faults += [f"no page of the API has {label}" for label in missing_names("".join(texts))]
    if faults:
        raise PluginError("\n".join(faults))


def site_links(markdown: str, to_root: str) -> str:
    """Turn links, and names of pages of the specification, into links among the site's pages."""
    for source, name in PAGES.items():
        link = rf"\]\((?:\.\./)*{re.escape(source)}(#[\w-]*)?\)"
        markdown = re.sub(link, rf"]({to_root}{name}\1)", markdown)
    markdown = re.sub(r"`docs/spec/([\w.]+)\.md`", rf"[`\1`]({to_root}spec/\1.md)", markdown)
    markdown = re.sub(r"\]\((?:\.\./)*examples/", f"]({to_root}examples/", markdown)
    return re.sub(r"\]\(docs/", "](", markdown)


class _Addresses(HTMLParser):
    """Collects what a page loads from addresses of the web."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        address = named.get(_LOADED.get(tag, "")) or ""
        if address.startswith(("http:", "https:", "//")) and named.get("rel") not in _NOT_LOADED:
            self.addresses.append(address)


def foreign_addresses(html: str) -> list[str]:
    """Return the scripts, styles, fonts and pictures that a page loads from other sites."""
    parser = _Addresses()
    parser.feed(html)
    styles = re.findall(r"url\(['\"]?((?:https?:)?//[^)'\"]+)", html)
    return [*parser.addresses, *styles]


def missing_names(html: str) -> list[str]:
    """Return the public names that are the anchor of no heading of these pages."""
    anchors = set(re.findall(r'id="(tinyref\.[\w.]+)"', html))

    def has(where: str, name: str) -> bool:
        room = f"tinyref.{where.lower()}."
        return any(one.startswith(room) and one.endswith(f".{name}") for one in anchors)

    return [name.label for name in surface.names() if not has(name.where, name.name)]
