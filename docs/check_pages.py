"""Open pages in headless Chromium, at three widths, light and dark, and report what a reader would stumble over.

    python docs/check_pages.py [--axe axe.min.js] [--shots FOLDER] PAGE.html ... CHART.svg ...

It needs playwright and a Chromium (``--chromium PATH``).  Reported are horizontal scrolling, errors of the console,
requests to the outside, texts that lie on each other and, with axe-core, text of too little contrast.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

WIDTHS = (390, 820, 1440)
_CONTRAST = """async () => (await axe.run(document, {runOnly: ["color-contrast"]})).violations
    .flatMap(each => each.nodes.map(node => node.target.join(" ") + ": " + node.any.map(a => a.message).join("; ")))"""

_OVERLAPS = """() => {
    const boxes = [];
    function add(node, text, rectangle) {  // what of it can be seen, without the room above and below the letters
        let {left, top, right, bottom} = rectangle;
        for (let each = node; each && each !== document.documentElement; each = each.parentElement) {
            if (each !== node && getComputedStyle(each).overflow !== "visible" && !(each instanceof SVGElement)) {
                const clip = each.getBoundingClientRect();
                [left, right] = [Math.max(left, clip.left), Math.min(right, clip.right)];
                [top, bottom] = [Math.max(top, clip.top), Math.min(bottom, clip.bottom)];
            }
        }
        left = Math.max(left, 0);
        const rest = node instanceof SVGElement ? 0.15 : 0.25;
        if (right - left > 3 && bottom - top > 3)
            boxes.push({node, text, left: left + 1, right: right - 1,
                        top: top + rest * (bottom - top), bottom: bottom - rest * (bottom - top)});
    }
    function said(drawn) {  // glyphs are paths: the words are in a comment
        const note = [...drawn.childNodes].find(each => each.nodeType === Node.COMMENT_NODE);
        return note ? note.data.trim() : drawn.id;
    }
    const drawn = "svg text, svg g[id^='text_']";
    for (const each of document.querySelectorAll(drawn))
        if (!each.parentElement.closest(drawn) && each.checkVisibility())
            add(each, each.textContent.trim() || said(each), each.getBoundingClientRect());
    const walker = document.createTreeWalker(document.body || document.documentElement, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const parent = node.parentElement;
        if (!node.textContent.trim() || parent.closest("svg, math, script, style, noscript")) continue;
        if (!parent.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
        const range = document.createRange();
        range.selectNodeContents(node);
        for (const rectangle of range.getClientRects()) add(parent, node.textContent.trim(), rectangle);
    }
    boxes.sort((a, b) => a.top - b.top);
    const found = [];
    boxes.forEach((a, k) => {
        for (let m = k + 1; m < boxes.length && boxes[m].top < a.bottom; m++) {
            const b = boxes[m];
            if (a.left < b.right && b.left < a.right && a.node !== b.node)
                found.push(`"${a.text.slice(0, 40)}" and "${b.text.slice(0, 40)}"`);
        }
    });
    return found;
}"""
"""Pairs of texts that lie on each other: lines of text of the page, and labels of charts."""


def look(browser: Any, page: Path, width: int, scheme: str, axe: str | None, shots: Path | None) -> list[str]:
    """Return a line for each problem of one page at one width in one colour scheme."""
    found: list[str] = []
    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab.on("console", lambda message: found.append(f"console: {message.text}") if message.type == "error" else None)
    tab.on("pageerror", lambda error: found.append(f"error: {error}"))
    tab.on(
        "request",
        lambda request: None if request.url.startswith(("file:", "data:")) else found.append(f"loads {request.url}"),
    )
    tab.goto(page.resolve().as_uri())
    beyond = tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    is_chart = page.suffix == ".svg"  # a browser shows it in its own size
    if beyond > 0 and not is_chart:
        found.append(f"scrolls sideways by {beyond} pixels")
    found += [f"texts lie on each other: {each}" for each in tab.evaluate(_OVERLAPS)]
    if axe is not None and not is_chart:
        tab.add_script_tag(content=axe)
        found += [f"contrast: {each}" for each in tab.evaluate(_CONTRAST)]
    if shots is not None:
        shots.mkdir(parents=True, exist_ok=True)
        tab.screenshot(path=shots / f"{page.parent.name}-{page.stem}-{width}-{scheme}.png")
    tab.close()
    return [f"{page} ({width}, {scheme}): {each}" for each in found]


def main() -> int:
    """Look at all pages, and return 1 if one of them has a problem."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--chromium", default="/usr/bin/chromium", help="the browser (default: %(default)s)")
    parser.add_argument("--axe", type=Path, help="axe.min.js of the npm package axe-core, for the contrast")
    parser.add_argument("--shots", type=Path, help="a folder for screenshots")
    given = parser.parse_args()
    axe = given.axe.read_text(encoding="utf-8") if given.axe else None
    problems = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=given.chromium, args=["--no-sandbox", "--disable-gpu"])
        for page in given.pages:
            for width in WIDTHS:
                for scheme in ("light", "dark"):
                    for line in look(browser, page, width, scheme, axe, given.shots):
                        problems += 1
                        print(line)
        browser.close()
    print(f"{len(given.pages)} pages, {problems} problems")
    return int(problems > 0)


if __name__ == "__main__":
    sys.exit(main())
