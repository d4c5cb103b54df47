# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Takes the Markdown pages and the files that they link into the site, and checks each link on the way."""

from __future__ import annotations

import posixpath
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Where the pages of the project are in the site. Every other file that a page links is below source/.
HOMES = {
    "README.md": "index",
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "docs/why-not.md": "why-not",
    "docs/design/README.md": "design/index",
    "python/README.md": "python",
    "report/README.md": "design/report",
    "seams/README.md": "design/seams",
}
LARGEST_PAGE = 150_000  # bytes of a source file that becomes a page; a larger one is copied
LANGUAGES = {".cpp": "cpp", ".hpp": "cpp", ".cuh": "cpp", ".cu": "cpp", ".py": "python", ".pyi": "python",
             ".cmake": "cmake", ".json": "json", ".toml": "toml", ".sh": "bash", ".md": "markdown"}

LINK = re.compile(r"(?<!\\)(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
OUTSIDE = re.compile(r"[a-z]+:")


@dataclass
class Fault:
    place: str  # "docs/guide/queue.md:12"
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


def home_of(path: str) -> str | None:
    """The page of a Markdown file in the site, or none."""
    if path in HOMES:
        return HOMES[path]
    found = re.fullmatch(r"docs/(.+)\.md", path)
    return found.group(1) if found else None


def slug(title: str, seen: dict[str, int]) -> str:
    """The anchor of a heading, as GitHub makes it. `seen`: those of the page before it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "")
    made = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
    number = seen.get(made, 0)
    seen[made] = number + 1
    return f"{made}-{number}" if number else made


def hide_code(text: str) -> str:
    """The text with every character of its code blocks, comments and code with brackets replaced by a space."""
    def blank(found: re.Match) -> str:
        return re.sub(r"[^\n]", " ", found.group(0))

    text = re.sub(r"^( *)(`{3,}|~{3,})[^\n]*\n(?:.*?\n)??\1\2 *$", blank, text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", blank, text, flags=re.DOTALL)
    return re.sub(r"`[^`\n]+`", lambda found: blank(found) if "](" in found.group(0) else found.group(0), text)


def anchors_of(text: str) -> set[str]:
    seen: dict[str, int] = {}
    found = {slug(line.lstrip("#").strip(), seen) for line in hide_code(text).splitlines()
             if re.match(r"#{1,6} ", line)}
    return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def tracked_files(root: Path) -> list[str]:
    run = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True)
    if run.returncode == 0:
        return [name for name in run.stdout.splitlines() if (root / name).is_file()]
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()
                  and path.relative_to(root).parts[0] not in (".git", "build", "out"))


class Site:
    """The pages under way: their Markdown by path without ending, files to copy, and faults."""

    def __init__(self, root: Path):
        self.root = root
        self.files = tracked_files(root)
        self.folders = {posixpath.dirname(name) for name in self.files}
        self.folders |= {posixpath.dirname(name) for name in list(self.folders)}
        self.pages: dict[str, str] = {}
        self.copies: dict[str, Path] = {}
        self.faults: list[Fault] = []
        self.wanted: list[str] = []  # source files and folders to make pages for
        self.anchors: dict[str, set[str]] = {}

    def text_of(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def add_markdown(self, path: str) -> None:
        """A page of the project."""
        self.pages[home_of(path)] = self.relinked(self.text_of(path), path)

    def relinked(self, text: str, path: str) -> str:
        """The text with its links turned to where their goals are in the site."""
        hidden = hide_code(text)
        made, at = [], 0
        for found in LINK.finditer(hidden):
            place = f"{path}:{text.count(chr(10), 0, found.start()) + 1}"
            made += [text[at:found.start()],
                     self.link(found.group(1), text[found.start(2):found.end(2)], found.group(3), path, place) or
                     text[found.start():found.end()]]
            at = found.end()
        return "".join([*made, text[at:]])

    def link(self, picture: str, words: str, target: str, path: str, place: str) -> str | None:
        if OUTSIDE.match(target):
            return None
        file, _, anchor = target.partition("#")
        goal = posixpath.normpath(posixpath.join(posixpath.dirname(path), file)) if file else path
        new = self.target(goal, anchor, place, target)
        return f"{picture}[{words}]({new})" if new else None

    def target(self, goal: str, anchor: str, place: str, target: str) -> str | None:
        """The place of a file in the site; none, and a fault, if the link is dead."""
        if goal not in self.files and goal not in self.folders:
            self.faults.append(Fault(place, f"dead link: there is no '{goal}' ({target})"))
            return None
        home = home_of(goal) if goal.endswith(".md") else None
        if anchor and (home or goal.endswith(".md")):
            if goal not in self.anchors:
                self.anchors[goal] = anchors_of(self.text_of(goal))
            if anchor not in self.anchors[goal]:
                self.faults.append(Fault(place, f"dead link: '{goal}' has no heading with the anchor '{anchor}' "
                                                f"({target})"))
                return None
        if home:
            return f"/{home}.md" + (f"#{anchor}" if anchor else "")
        if goal.endswith((".svg", ".png")):
            self.copies[f"pictures/{posixpath.basename(goal)}"] = self.root / goal
            return f"/pictures/{posixpath.basename(goal)}"
        return self.source(goal)

    def source(self, path: str) -> str:
        """The link to a source file or folder, which becomes a page or a copy."""
        if path not in self.wanted:
            self.wanted.append(path)
        if path in self.folders:
            return f"/source/{path}/index.md"
        if (self.root / path).stat().st_size > LARGEST_PAGE:
            return f"/source/{path}"
        return f"/source/{path}.md"

    def add_sources(self) -> None:
        """The pages of all files and folders that have been linked."""
        for path in self.wanted:  # grows
            if path in self.folders:
                self.pages[f"source/{path}/index"] = self.folder(path)
            elif (self.root / path).stat().st_size > LARGEST_PAGE:
                self.copies[f"source/{path}"] = self.root / path
            else:
                self.pages[f"source/{path}"] = self.file(path)

    def folder(self, path: str) -> str:
        lines = ["---", "orphan: true", "nosearch: true", "---", f"# {path}\n"]
        inside = sorted({name[len(path) + 1:].split("/")[0] for name in self.files if name.startswith(path + "/")})
        for name in inside:
            full = f"{path}/{name}"
            shown = f"{name}/" if full in self.folders else name
            new = self.target(full, "", path, full)
            lines.append(f"* [`{shown}`]({new})" + (f": {purpose}" if (purpose := self.purpose(full)) else ""))
        return "\n".join(lines) + "\n"

    def purpose(self, path: str) -> str:
        """The first sentence of the comment at the top of a file."""
        if path in self.folders or Path(path).suffix not in (".cpp", ".hpp", ".cuh", ".cu"):
            return ""
        found = re.search(r"^//\n(// (?:.|\n)*?)\n(?!// \S)", self.text_of(path), flags=re.MULTILINE)
        if not found:
            return ""
        text = " ".join(line[3:] for line in found.group(1).splitlines())
        text = re.sub(r"^[\w./ -]+: ", "", text)
        sentence = re.match(r".*?[^.](?:\.(?=\s)|\.$|$)", text).group(0)
        return re.sub(r"([\\*_<>\[\]{}$|`])", r"\\\1", sentence)

    def file(self, path: str) -> str:
        text = self.text_of(path)
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`{3,}", text)), default=0))
        language = LANGUAGES.get(Path(path).suffix, "text")
        if Path(path).name == "CMakeLists.txt":
            language = "cmake"
        elif text.startswith("#!") and "python" in text.splitlines()[0]:
            language = "python"
        elif text.startswith("#!"):
            language = "bash"
        return f"---\norphan: true\nnosearch: true\n---\n# {escape(path)}\n\n{fence}{language}\n{text}{fence}\n"


def escape(text: str) -> str:
    return re.sub(r"([*_])", r"\\\1", text)
