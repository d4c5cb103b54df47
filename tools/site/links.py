# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Checks the pages of a finished site: every link, anchor, picture, style and script must be in it, and all code must
be of the language that it is marked as."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

# These load with a page; a reader follows the others.
LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("source", "src"), ("iframe", "src"), ("object", "data")}
FOLLOWED = {("a", "href")}
# <link rel=…> that loads nothing.
NAMES_ONLY = {"canonical", "index", "search", "next", "prev", "author", "copyright", "top", "up", "help"}


# In a style.
NETWORK = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])((?:https?:)?//[^"')]*)""")


class Page(HTMLParser):
    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.anchors: set[str] = set()
        self.links: list[tuple[int, str, bool]] = []  # line, target, whether it loads with the page
        self.not_understood: list[int] = []  # lines with code that the highlighter marks as wrong
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if "err" in (values.get("class") or "").split():
            self.not_understood.append(self.getpos()[0])
        for name in ("id", "name"):
            if values.get(name):
                self.anchors.add(values[name])
        for name, value in attrs:
            if value is None or (tag, name) not in LOADED | FOLLOWED:
                continue
            loads = (tag, name) in LOADED and not (tag == "link" and values.get("rel") in NAMES_ONLY)
            self.links.append((self.getpos()[0], value, loads))


def faults(site: Path) -> list[str]:
    """One line for each dead link, `page:line: what`; empty if there is none."""
    site = site.resolve()
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    if not pages:
        return [f"{site}: there is no page"]
    found = []
    for path in sorted(site.rglob("*.css")):
        for target in NETWORK.findall(path.read_text(encoding="utf-8")):
            found.append(f"{path.relative_to(site)}: loads from the network: {target}")
    for path, page in pages.items():
        where = path.relative_to(site)
        for line in page.not_understood:
            found.append(f"{where}:{line}: this code is not of the language that its block names")
        for line, target, loads in page.links:
            parts = urlsplit(target)
            if parts.scheme in ("http", "https", "") and parts.netloc:
                if loads:
                    found.append(f"{where}:{line}: loads from the network: {target}")
                continue
            if parts.scheme:  # mailto:, data:
                continue
            address, anchor = urldefrag(target)
            file = unquote(urlsplit(address).path)
            goal = (path.parent / file).resolve() if file else path
            if goal.is_dir():
                goal /= "index.html"
            if not goal.is_file():
                found.append(f"{where}:{line}: dead link: {target}")
            elif not goal.is_relative_to(site):
                found.append(f"{where}:{line}: leaves the site: {target}")
            elif anchor and anchor != "top" and goal.suffix == ".html":
                there = pages.get(goal)
                if there is not None and unquote(anchor) not in there.anchors:
                    found.append(f"{where}:{line}: dead link: {target}: that page has no such anchor")
    return found
