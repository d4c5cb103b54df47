# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the pages of the API reference, as Markdown, from the entities that headers.py has read."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import headers as reader
from headers import Entity

ROOMS = {
    "queue": "Queues",
    "fiber": "Fibers",
    "combine": "Combining",
    "fork": "Fork/join",
    "gpu": "GPU memory",
    "syscall": "Sandboxes",
    "base": "Base and version",
}
GUIDES = {"queue": "queue", "fiber": "combine", "combine": "combine", "fork": "fork", "gpu": "gpu",
          "syscall": "sandbox"}


def room_of(header: str) -> str:
    return header.split("/")[0] if "/" in header else "base"


def page_of(header: str) -> str:
    """The page of a header, without its ending."""
    return f"reference/{room_of(header)}/{Path(header).name.replace('.', '-')}"


def anchor_of(entity: Entity) -> str:
    """The anchor of a name. Sphinx knows only letters, digits and single hyphens, so that :: becomes a letter."""
    name = entity.qualified
    if re.search(r"operator\W", name):
        name = operator_name(name)
    name = name.replace("~", "end-of-").replace("::", "-m-").replace("_", "-").lower()
    return "api-" + re.sub(r"[^a-z0-9]+", "-", name).strip("-")


def operator_name(qualified: str) -> str:
    """A name that can stand in an address, for an operator."""
    signs = {"*": "star", "->": "arrow", "[]": "at", "()": "call", "==": "equal", "!=": "unequal", "++": "next",
             "=": "assign", "<=>": "compare", "<<": "left"}
    stem, sign = re.match(r"(.*\boperator)\s*(.*)$", qualified).groups()
    return f"{stem}-{signs.get(sign, sign)}"


# --- the text at the top of a header ----------------------------------------------------------------------------------


@dataclass
class Sheet:
    intro: str  # what it is
    rows: list[tuple[str, str]]  # Order, Progress, …
    more: list[str]  # how it works: the paragraphs after the rows


def sheet_of(lines: list[str]) -> Sheet:
    """Reads the product sheet: `name.hpp: sentence`, rows `Key   text` with the text in column 12, and paragraphs."""
    text: list[str] = []
    for line in lines[3:]:
        if not line.startswith("//"):
            break
        text.append(line[3:] if line.startswith("// ") else line[2:])
    rows: list[tuple[str, str]] = []
    paragraphs: list[list[str]] = [[]]
    in_rows = False
    for number, line in enumerate(text):
        key = re.match(r"([A-Z][\w()]*(?: \w+)?|[a-z]+(?:\(\d\))?(?= {2})) +(?=\S)", line[:12])
        following = text[number + 1] if number + 1 < len(text) else ""
        alone = key is not None and " " not in key.group(1) and len(key.group(1)) == 10 and (
            in_rows or following.startswith(" " * 11))
        if key and len(key.group(0)) == 11 and (len(key.group(1)) < 10 or alone):
            rows.append((key.group(1), line[11:]))
            in_rows = True
        elif wide := re.match(r"([A-Z]\w*, \w+) {2,}(\S.*)$", line):
            rows.append((wide.group(1), wide.group(2)))
            in_rows = True
        elif in_rows and line.startswith(" " * 11):
            rows[-1] = (rows[-1][0], f"{rows[-1][1]}\n{line[11:]}")
        else:
            if line.strip():
                if in_rows:
                    paragraphs.append([])
                paragraphs[-1].append(line)
            elif paragraphs[-1]:
                paragraphs.append([])
            in_rows = False
    whole = ["\n".join(each) for each in paragraphs if each]
    intro = re.sub(r"^[\w./]+: ", "", whole[0]) if whole else ""
    more = whole[1:]
    if not rows:
        intro, more = "\n\n".join([intro, *more]), []
    return Sheet(intro, rows, more)


# --- comments as Markdown ---------------------------------------------------------------------------------------------


class Names:
    """Where the public names are, to link them from comments."""

    def __init__(self, entities: list[Entity], public: list[str]):
        self.public = set(public)
        self.places: dict[str, tuple[str, str]] = {}  # a name as it is written -> page, anchor
        many: set[str] = set()

        def enter(name: str, entity: Entity) -> None:
            place = (page_of(entity.header), anchor_of(entity))
            if self.places.setdefault(name, place) != place:
                many.add(name)

        def walk(some: list[Entity], around: str) -> None:
            for entity in some:
                if entity.kind == "enumerator" or (entity.exempt and not entity.comment):
                    continue
                enter(entity.qualified, entity)
                if around:  # as pool::submit within muster, or of_call within its class
                    enter(f"{around.split('::')[-1]}::{entity.name}", entity)
                elif "_" in entity.name:
                    enter(entity.name, entity)
                walk(entity.members, entity.qualified if entity.kind == "class" else around)

        def parameters(some: list[Entity]):
            for entity in some:
                yield from parameters(entity.members)
                if entity.kind == "variable" and entity.scope:
                    yield entity.name

        walk(entities, "")
        # A word in code marks is more often a member of the options than the type of the same name.
        for name in parameters(entities):
            self.places.pop(name, None)
        for name in many:
            if "::" in name:
                del self.places[name]

    def link(self, code: str, here: str) -> str:
        """Code, with a link if it is a public name elsewhere than on this page."""
        if re.fullmatch(r"docs/(contracts|guide|design)/\w+\.md", code):
            return f"[`{code}`]({code.removeprefix('docs')})"
        header = code.strip("<>").removeprefix("muster/")
        for each in (header, f"{here.split('/')[1]}/{header}" if here else ""):
            if each in self.public and page_of(each) != here:
                return f"[`{code}`](/{page_of(each)}.md)"
        name = re.sub(r"\(.*\)$", "", code).removeprefix("muster::")
        place = self.places.get(name)
        if place is None or place[0] == here:
            return f"`{code}`"
        return f"[`{code}`](#{place[1]})"


CODE = re.compile(r"`[^`]+`|\b(?:std|muster)::[\w:]+(?:<[\w:, *&]*>)?(?:\(\))?|"
                  r"\b[A-Za-z]\w*(?:::~?\w+)+(?:\(\))?|"
                  r"(?<![\w/.])~?\b[a-zA-Z]\w*_\w+\b(?!/|\.\w)(?:\([^()]{0,40}\))?|"
                  r"(?<![\w/.])\b[a-z]\w*\([\w*&+., …]{0,40}\)|"
                  r"\b[\w/]+\.(?:hpp|cuh|md)\b|\bMUSTER_\w+\b|<muster/[\w/.]+>")


def markdown(text: str, names: Names, here: str) -> str:
    """A comment as Markdown: its code in code marks, the rest escaped. Indented lines stay as they are."""
    blocks = re.split(r"\n\s*\n", text)
    return "\n\n".join(block_markdown(each, names, here) for each in blocks)


def block_markdown(block: str, names: Names, here: str) -> str:
    lines = block.splitlines()
    indented = [line.startswith("  ") for line in lines]
    if any(indented) and not re.match(r"\s*(\d+\.|-|\*) ", lines[indented.index(True)]):
        # A table or code: as it stands.
        first = indented.index(True)
        head = inline("\n".join(lines[:first]), names, here)
        last = len(lines) - indented[::-1].index(True)
        code = "\n".join(line[2:] if line.startswith("  ") else line for line in lines[first:last])
        tail = inline("\n".join(lines[last:]), names, here)
        return "\n\n".join(each for each in (head, f"```text\n{code}\n```", tail) if each)
    return inline("\n".join(line.strip() for line in lines), names, here)


def inline(text: str, names: Names, here: str) -> str:
    made, at = [], 0
    # A declaration within a sentence stands between three spaces.
    text = re.sub(r" {3}(\S[^\n`]*;)(?: {3}|(?=\n|$))", r" `\1` ", text)
    for found in CODE.finditer(text):
        made.append(escape(text[at:found.start()]))
        made.append(names.link(found.group(0).strip("`"), here))
        at = found.end()
    made.append(escape(text[at:]))
    return "".join(made)


def escape(text: str) -> str:
    text = re.sub(r"([\\*_<>\[\]{}$|#^~`])", r"\\\1", text)
    return re.sub(r"^(\s*\d+)\. ", r"\1\\. ", text, flags=re.MULTILINE)


def first_sentence(text: str) -> str:
    """Up to the first full stop that ends a sentence."""
    text = " ".join(text.split())
    found = re.match(r".*?[^.](?:\.(?=\s+[A-Z`(~\d])|\.$)", text)
    return found.group(0) if found else text


# --- contracts --------------------------------------------------------------------------------------------------------


@dataclass
class Row:
    cells: dict[str, str]
    section: str  # the heading
    anchor: str
    spans: list[str]  # the code in the first cell


# Objects as the rows name them.
OBJECTS = {"graph": "task_graph", "node": "task_node", "group": "task_group", "line": "pipeline",
           "scope": "async_scope"}
NAMESPACES = {"gpu", "layout", "shape", "this_fiber", "wait"}
# Sections whose headings do not name the classes that their rows are about.
SECTIONS = {"pool": "Pools", "per_worker": "Pools", "basic_heap": "Heaps with slabs",
            "basic_heap_ref": "Heaps with slabs", "basic_heap_allocator": "Heaps with slabs", "xmalloc": "Heaps",
            "bump_upstream": "Bases and the FIFO", "page_upstream": "Bases and the FIFO", "fifo": "Bases and the FIFO"}


class Contracts:
    """The rows of docs/contracts/ROOM.md, by the operation that they describe."""

    def __init__(self, folder: Path, slug):
        self.rows: dict[str, list[Row]] = {}
        self.sections: dict[str, list[tuple[str, str]]] = {}
        for path in sorted(folder.glob("*.md")):
            rows: list[Row] = []
            sections: list[tuple[str, str]] = []
            title, head, seen = "", [], {}
            for line in path.read_text(encoding="utf-8").splitlines():
                if line.startswith("#"):
                    title, head = line.lstrip("# "), []
                    sections.append((title, slug(title, seen)))
                elif line.startswith("|"):
                    cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
                    if not head:
                        head = cells
                    elif head[0] in ("operation", "call") and not set(line) <= set("|-: "):
                        spans = re.findall(r"`([^`]+)`", cells[0])
                        if re.search(r"\bconstructor\b", cells[0]):
                            spans.append("constructor")
                        rows.append(Row(dict(zip(head, cells)), *sections[-1], spans))
                else:
                    head = []
            self.rows[path.stem] = rows
            self.sections[path.stem] = sections

    def of(self, entity: Entity) -> list[Row]:
        room = room_of(entity.header)
        classes = [name for name in entity.scope.split("::") if name and name not in NAMESPACES]
        own = classes[-1] if classes else ""
        found = []
        for row in self.rows.get(room, []):
            words = set(re.findall(r"\w+", row.section))
            within = bool(words & set(classes)) or any(f"{name}_handle" in row.cells["operation" if "operation" in
                                                       row.cells else "call"] for name in classes)
            for span in row.spans:
                name = re.sub(r"\(.*$", "", span).replace("pool.", "pool::").replace("co_await ", "")
                parts = re.split(r"::|\.", name)
                if parts[-1] == "constructor":
                    parts = [entity.name] if within and entity.name == own else [""]
                if parts[-1] != entity.name:
                    continue
                owner = OBJECTS.get(parts[-2], parts[-2]) if len(parts) > 1 else ""
                about = " ".join(row.spans)
                if (owner and owner in (own, *classes)) or (not owner and within) or (
                        not owner and not own) or (owner and not own and owner == "this_fiber") or (
                        not owner and own and (re.search(rf"\b{own}\b", about) or own.rstrip("s") in
                                               row.section.lower())) or (entity.name == own and not owner):
                    found.append(row)
                    break
        found = found or self.of_all(room, classes, "constructor" if entity.name == own else entity.name)
        if not found and "consume_" in f"{entity.name}_" and entity.name != "consume":
            # The row is that of `consume` and its other forms.
            found = self.of(replace(entity, name="consume"))
        return found

    def of_all(self, room: str, classes: list[str], name: str) -> list[Row]:
        """The rows of a section that describes several classes together."""
        sections = {SECTIONS[each] for each in classes if each in SECTIONS}
        if room == "queue" and classes and "queue_result" not in classes:
            sections.add("All queues")
        return [row for row in self.rows.get(room, []) if row.section in sections and
                name in (re.sub(r"[(<].*$", "", span) for span in row.spans)]

    def section(self, room: str, name: str) -> str | None:
        """The anchor of the section about a class."""
        for title, anchor in self.sections.get(room, []):
            if name in re.findall(r"\w+", title):
                return anchor
        return None


# --- pages ------------------------------------------------------------------------------------------------------------


class Writer:
    def __init__(self, entities: list[Entity], root: Path, slug):
        self.entities = entities
        # Some headers define only members of classes of other headers.
        public = reader.public_headers(root / "include")
        self.root = root
        self.names = Names(entities, public)
        self.contracts = Contracts(root / "docs/contracts", slug)
        self.by_header: dict[str, list[Entity]] = {header: [] for header in public}
        for entity in entities:
            self.by_header[entity.header].append(entity)
        self.layout()

    def layout(self) -> None:
        """All signatures at once, as one run of clang-format takes as long for many as for one."""
        all_of: list[Entity] = []

        def walk(some: list[Entity]) -> None:
            for entity in some:
                if entity.kind != "enumerator":
                    all_of.append(entity)
                walk(entity.members)

        walk(self.entities)
        for entity, text in zip(all_of, reader.laid_out([entity.signature for entity in all_of]), strict=True):
            entity.signature = text

    def pages(self) -> dict[str, str]:
        """Every page, by its path without the ending."""
        made = {"reference/index": self.index()}
        for room in ROOMS:
            made[f"reference/{room}/index"] = self.room(room)
        for header in self.by_header:
            made[page_of(header)] = self.header(header)
        return made

    def index(self) -> str:
        text = ["# Reference\n", "Every public name, by part. A page describes one header: what it promises, then its "
                "types and functions. The contracts say more about each operation.\n"]
        for room, title in ROOMS.items():
            text.append(f"## {title}\n")
            text.append(self.table(room))
            text.append(f"More: [{title.lower() if title[0] != 'G' else title}](/reference/{room}/index.md)\n")
        return "\n".join(text)

    def headers_of(self, room: str) -> list[str]:
        return sorted(header for header in self.by_header if room_of(header) == room)

    def table(self, room: str) -> str:
        """The headers of a room and their names."""
        lines = ["| header | names |", "|---|---|"]
        for header in self.headers_of(room):
            shown = []
            for entity in self.by_header[header]:
                link = f"[`{entity.qualified}`](#{anchor_of(entity)})"
                if link not in shown and not entity.exempt:
                    shown.append(link)
            lines.append(f"| [`{Path(header).name}`](/{page_of(header)}.md) | {', '.join(shown)} |")
        return "\n".join(lines) + "\n"

    def room(self, room: str) -> str:
        title = ROOMS[room]
        links = []
        if room in GUIDES:
            links.append(f"[guide](/guide/{GUIDES[room]}.md)")
        if room in self.contracts.sections:
            links.append(f"[contracts](/contracts/{room}.md)")
        text = [f"# {title}\n"]
        if links:
            text.append(" · ".join(links) + "\n")
        text += ["| name | header | what it is |", "|---|---|---|"]
        for header in self.headers_of(room):
            seen = set()
            if not self.by_header[header]:
                intro = inline(capital(first_sentence(self.sheet(header).intro)), self.names, page_of(header))
                text.append(f"| | [`{Path(header).name}`](/{page_of(header)}.md) | {intro} |")
            for entity in self.by_header[header]:
                if entity.qualified in seen or entity.exempt:
                    continue
                seen.add(entity.qualified)
                about = entity.comment or (capital(self.sheet(header).intro) if reader.is_of_sheet(entity) else
                                           self.comment_before(entity))
                brief = inline(first_sentence(about), self.names, page_of(header)).replace("|", "\\|")
                text.append(f"| [`{entity.qualified}`](#{anchor_of(entity)}) | "
                            f"[`{Path(header).name}`](/{page_of(header)}.md) | {brief} |")
        text.append("\n```{toctree}\n:hidden:\n\n" +
                    "\n".join(f"{Path(header).name} </{page_of(header)}>" for header in self.headers_of(room)) +
                    "\n```\n")
        return "\n".join(text)

    def sheet(self, header: str) -> Sheet:
        path = self.root / "include/muster" / header
        return sheet_of(path.read_text(encoding="utf-8").splitlines())

    def header(self, header: str) -> str:
        here = page_of(header)
        room = room_of(header)
        sheet = self.sheet(header)
        links = [f"[source](/source/include/muster/{header}.md)"]
        if room in GUIDES:
            links.append(f"[guide](/guide/{GUIDES[room]}.md)")
        if room in self.contracts.sections:
            own = [self.contracts.section(room, entity.name) for entity in self.by_header[header]]
            anchor = next((each for each in own if each), None)
            links.append(f"[contracts](/contracts/{room}.md{'#' + anchor if anchor else ''})")
        text = [f"# {header}\n", f"```cpp\n#include <muster/{header}>\n```\n", " · ".join(links) + "\n",
                markdown(capital(sheet.intro), self.names, here) + "\n"]
        if sheet.rows:
            text.append(":::{container} sheet\n")
            for key, words in sheet.rows:
                text.append(f"{key}\n: " + markdown(words, self.names, here).replace("\n", "\n  ") + "\n")
            text.append(":::\n")
        if sheet.more:
            text.append("<details class=\"more\"><summary>How it works</summary>\n")
            text.append("\n\n".join(markdown(each, self.names, here) for each in sheet.more) + "\n")
            text.append("</details>\n")
        text += self.group(self.by_header[header], 2, here)
        return "\n".join(text)

    def group(self, entities: list[Entity], level: int, here: str) -> list[str]:
        """Entities of one scope; those of the same name together, at the place of the first."""
        text: list[str] = []
        done: set[str] = set()
        constants: list[Entity] = []
        for entity in entities:
            if entity.kind == "variable" and level > 2:
                constants.append(entity)
                continue
            if entity.exempt and not entity.comment or entity.qualified in done:
                continue
            same = [other for other in entities if other.qualified == entity.qualified and
                    not (other.exempt and not other.comment)]
            done.add(entity.qualified)
            text += self.entity(same, level, here)
        if constants:
            text = self.variables(constants, here) + text
        return text

    def variables(self, members: list[Entity], here: str) -> list[str]:
        text = []
        # The constants of a policy have no comments.
        if bare := [member for member in members if not member.comment]:
            text += [f"({anchor_of(member)})=" for member in bare]
            text.append("```cpp\n" + "\n".join(f"{member.signature};" for member in bare) + "\n```\n")
        if len(bare) == len(members):
            return text
        text.append(":::{container} fields\n")
        for member in members:
            if member.comment:
                text.append(f"({anchor_of(member)})=")
                text.append(f"`{' '.join(member.signature.split())}`\n: " +
                            markdown(member.comment, self.names, here).replace("\n", "\n  ") + "\n")
        text.append(":::\n")
        return text

    def entity(self, same: list[Entity], level: int, here: str) -> list[str]:
        entity = same[0]
        title = entity.qualified if level == 2 or entity.kind == "class" else entity.name
        if entity.kind == "function" and level > 2:
            own = entity.scope.split("::")[-1]
            title = {own: "constructor", f"~{own}": "destructor"}.get(entity.name, title)
        text = [f"({anchor_of(entity)})=", f"{'#' * level} {escape(title)}\n"]
        if entity.kind == "class":
            return text + self.klass(entity, level, here)
        if entity.kind == "enum":
            text.append(f"```cpp\n{entity.signature}\n```\n")
            text.append(markdown(entity.comment, self.names, here) + "\n")
            for value in entity.members:
                text.append(f"`{value.name}`\n: " +
                            markdown(value.comment, self.names, here).replace("\n", "\n  ") + "\n")
            return text
        # Overloads that share a comment share a block of code.
        block: list[str] = []
        comment = ""
        for each in [*same, None]:
            if each is None or (each.comment and block):
                text.append("```cpp\n" + "\n".join(f"{one};" if not one.startswith("#") else one for one in block) +
                            "\n```\n")
                text.append(markdown(comment, self.names, here) + "\n")
                block = []
            if each is not None:
                comment = each.comment if not block else comment
                if not block and not each.comment:
                    comment = self.comment_before(each)
                block.append(each.signature)
        text += self.contract(entity)
        return text

    def comment_before(self, entity: Entity) -> str:
        """The comment that covers an entity of another name: that of push_for is also that of push_until."""
        stem = entity.name.removesuffix("_until")
        if stem != entity.name:
            return f"As `{stem}_for`, until a point in time."
        if entity.name == "end":
            return "The end of the range that `begin` starts."
        return ""

    def klass(self, entity: Entity, level: int, here: str) -> list[str]:
        text = [f"```cpp\n{entity.signature};\n```\n"]
        if entity.bases:
            bases = ", ".join(self.names.link(base, "") for base in entity.bases)
            text.append(f"Inherits {bases}.\n")
        if entity.comment:
            text.append(markdown(entity.comment, self.names, here) + "\n")
        return text + self.group(entity.members, min(level + 1, 4), here)

    def contract(self, entity: Entity) -> list[str]:
        rows = self.contracts.of(entity)
        if not rows:
            return []
        room = room_of(entity.header)
        text = [":::{container} contract\n"]
        for row in rows[:4]:
            cells = [f"{head}: {relative(cell)}" for head, cell in list(row.cells.items())[1:] if cell]
            text.append(f"[{relative(plain(list(row.cells.values())[0]))}](/contracts/{room}.md#{row.anchor}): " +
                        "; ".join(f"*{cell.split(': ', 1)[0]}* {cell.split(': ', 1)[1]}" for cell in cells) + "\n")
        text.append(":::\n")
        return text


def plain(cell: str) -> str:
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell)


def relative(cell: str) -> str:
    """A cell of docs/contracts on a page elsewhere: without its links."""
    return plain(cell).replace("\\|", "|")


def capital(text: str) -> str:
    """With a capital, unless the first word is a name."""
    return text if re.match(r"\w*(?:[_:(]|\d\b)", text) else text[:1].upper() + text[1:]
