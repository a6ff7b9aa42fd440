"""Check the built site: every local link and anchor leads somewhere, and no page loads anything from outside.

python docs/check_site.py docs/_build/html
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlparse

_LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "object": "data"}
_RELATIONS_NOT_LOADED = {"canonical", "author", "search", "next", "prev", "index"}


class Page(HTMLParser):
    """The anchors of one page, its links, and the files that it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the anchors, links and files of one tag."""
        values = {name: value for name, value in attrs if value is not None}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        name = _LOADS.get(tag)
        if name in values and not _RELATIONS_NOT_LOADED & set(values.get("rel", "").split()):
            self.loads.append(values[name])


def problems(site: Path) -> list[str]:
    """Return a line for each broken link, each missing anchor and each file from outside."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}
    found = [] if pages else [f"{site}: no pages"]
    for path, page in pages.items():
        where = path.relative_to(site)
        for load in page.loads:
            parts = urlparse(load)
            if parts.scheme in ("http", "https") or parts.netloc:
                found.append(f"{where}: loads {load}")
            elif parts.scheme != "data" and not (path.parent / unquote(parts.path)).exists():
                found.append(f"{where}: {load} does not exist")
        for link in page.links:
            address, anchor = urldefrag(link)
            if urlparse(link).scheme:
                continue
            target = (path.parent / unquote(address)).resolve() if address else path
            if not target.exists():
                found.append(f"{where}: link to {link}, which does not exist")
            elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
                found.append(f"{where}: link to {link}, which has no such anchor")
    return found


if __name__ == "__main__":
    lines = problems(Path(sys.argv[1]).resolve())
    print("\n".join(lines) or "site: every link leads somewhere")
    sys.exit(bool(lines))
