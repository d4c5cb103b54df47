# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the public names of the library from its headers, by clang's AST.

A header is public if it is not in a folder detail/ and not in OWN. A name is public if a public header declares it in a
namespace other than detail, and a member also needs public access. A class also has the names that it inherits from a
base in detail/.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

# Headers for the library alone: how it is compiled, and the parts of gpu/ that no umbrella exports.
OWN = {"base/config.hpp", "base/sync.hpp", "gpu/malloc_upstream.hpp", "gpu/misuse.hpp", "gpu/slab_heap.hpp"}
# Headers that are the inside of another one: their names are used as its names.
INSIDE = {"gpu/detail/simt_single.hpp": "gpu/simt.cuh", "gpu/detail/simt_types.hpp": "gpu/simt.cuh"}
# Names in public headers for the library alone: templates of the host and of kernels use them across the two.
OWN_NAMES = {"gpu::heap_visits", "gpu::heap_memory", "gpu::heap_stream", "gpu::heap_pool", "gpu::visit_heap",
             "gpu::xmc_of_this_file", "gpu::xmc_device", "gpu::new_xmc_heap", "gpu::xmc_of_process",
             "gpu::make_xmc_heap", "gpu::require_cuda", "gpu::order_for_both", "MUSTER_GPU_SIDE", "MUSTER_GPU_COLD",
             "MUSTER_GPU_ROLLED", "MUSTER_GPU_CONSTANT"}
# Declared only to explain an error.
REFUSED = {"consume_operations::front"}

# Types that the standard demands from iterators, containers and coroutines.
STANDARD_TYPES = {
    "value_type", "reference", "pointer", "difference_type", "size_type", "iterator_category", "iterator_concept",
    "allocator_type", "promise_type",
}
# Macros of ours that say nothing to a caller, in signatures; also `inline`, which templates and members are anyway.
NOISE = re.compile(r"\bMUSTER_(?!MAKE|VERSION)\w+\b|\[\[(?!nodiscard)[^\]]*\]\]|\b(?:inline|friend)\b(?!_)")


@dataclass
class Entity:
    kind: str  # class, function, variable, alias, concept, enum, enumerator, macro
    name: str
    scope: str  # the namespaces and classes around it, without muster: "layout", "lanes::producer_handle", ""
    header: str  # "queue/spmc.hpp"
    path: Path  # the file of the declaration
    line: int
    comment: str = ""
    signature: str = ""
    members: list[Entity] = field(default_factory=list)
    bases: list[str] = field(default_factory=list)  # public bases that have a page of their own
    exempt: bool = False  # needs no comment, and is not shown without one
    covered: bool = False  # described by the comment of the sibling before it
    base: str = ""  # the class in detail/ that it is inherited from
    usr: str = ""  # clang's name of it

    @property
    def qualified(self) -> str:
        return f"{self.scope}::{self.name}" if self.scope else self.name


def public_headers(include: Path) -> list[str]:
    """The paths of the public headers below include/muster, the umbrellas left out."""
    found = [path.relative_to(include / "muster") for ending in ("hpp", "cuh")
             for path in (include / "muster").rglob(f"*.{ending}")]
    return sorted(str(path) for path in found
                  if "detail" not in path.parts and str(path) not in OWN and
                  (len(path.parts) > 1 or path.name == "version.hpp"))


def plain_comment(raw: str | None) -> str:
    """The text of a /// comment."""
    if not raw or not raw.startswith("///"):
        return ""
    return "\n".join(re.sub(r"^\s*///<? ?", "", line) for line in raw.splitlines()).strip()


def trailing_comment(lines: list[str], line: int) -> str:
    """The // comment behind the declaration in a line, and the lines that continue it."""
    found = re.search(r"//[/<]*\s?(.*)$", lines[line - 1])
    if not found:
        return ""
    text, column = [found.group(1)], found.start()
    for following in lines[line:]:
        again = re.match(r"\s*//\s?(.*)$", following)
        if not again or following.index("//") != column:
            break
        text.append(again.group(1))
    return "\n".join(text).strip()


class Reader:
    def __init__(self, include: Path, arguments: tuple[str, ...] = ()):
        try:
            from clang import cindex  # Debian: python3-clang-19
        except ImportError as missing:
            raise SystemExit("docs: this Python does not find clang.cindex, which reads the headers; install "
                             "python3-clang-19 and use /usr/bin/python3") from missing
        self.cindex = cindex
        self.kinds = cindex.CursorKind
        self.include = include.resolve()
        self.arguments = ["-xc++", "-std=c++20", f"-I{self.include}", *arguments]
        self.texts: dict[str, bytes] = {}
        self.lines: dict[str, list[str]] = {}

    def read(self, headers: list[str]) -> list[Entity]:
        """The public names of these headers, in their order of declaration."""
        source = "".join(f"#include <muster/{header}>\n" for header in headers)
        unit = self.cindex.Index.create().parse("all.cpp", args=self.arguments, unsaved_files=[("all.cpp", source)])
        errors = [str(each) for each in unit.diagnostics if each.severity >= self.cindex.Diagnostic.Error]
        if errors:
            raise SystemExit("docs: clang cannot read the headers:\n" + "\n".join(errors[:20]))
        self.wanted = {str(self.include / "muster" / header): header for header in headers}
        inside = {name: header for name, header in INSIDE.items() if header in headers}
        self.wanted |= {str(self.include / "muster" / name): header for name, header in inside.items()}
        self.classes: dict[str, Entity] = {}
        self.entities: list[Entity] = []
        self.of_namespace(unit.cursor, "")
        for name, header in [*((header, header) for header in headers), *inside.items()]:
            self.entities += self.macros(name, header)
        cover(self.entities)
        return self.entities

    # --- the tree -----------------------------------------------------------------------------------------------------

    def of_namespace(self, namespace, scope: str) -> None:
        kinds = self.kinds
        for cursor in namespace.get_children():
            file = cursor.location.file
            if file is None or not file.name.startswith(str(self.include)):
                continue
            if cursor.kind == kinds.NAMESPACE:
                if cursor.spelling in ("detail", "std", "") or not self.mentions(file.name):
                    continue
                hidden = cursor.spelling == "muster" or self.is_inline(cursor)
                inner = scope if hidden else join(scope, cursor.spelling)
                if inner not in OWN_NAMES:
                    self.of_namespace(cursor, inner)
            elif file.name in self.wanted and cursor.semantic_parent == cursor.lexical_parent:
                entity = self.entity(cursor, scope, self.wanted[file.name])
                if entity and entity.qualified not in OWN_NAMES and not self.is_known(entity):
                    self.entities.append(entity)

    def mentions(self, file: str) -> bool:
        return "/muster/" in file

    def is_inline(self, cursor) -> bool:
        return "inline" in self.text(cursor, cursor.extent.start.offset, cursor.location.offset)

    def is_known(self, entity: Entity) -> bool:
        """A second declaration of the same: takes its comment over."""
        for other in self.entities:
            if other.usr == entity.usr:
                other.comment = other.comment or entity.comment
                return True
        return False

    def entity(self, cursor, scope: str, header: str, parent: str = "") -> Entity | None:
        kinds = self.kinds
        kind = cursor.kind
        name = cursor.spelling.split("<")[0] if not cursor.spelling.startswith("operator") else cursor.spelling
        made = Entity("", name, scope, header, Path(cursor.location.file.name), cursor.location.line,
                      plain_comment(cursor.raw_comment), usr=cursor.get_usr())
        if kind in (kinds.CLASS_DECL, kinds.STRUCT_DECL, kinds.CLASS_TEMPLATE):
            made.kind = "class"
            made.signature = self.signature(cursor)
            if not cursor.is_definition():
                # A member may be defined below its class.
                below = cursor.get_definition() if parent else None
                if below is None:
                    return None
                made.path, made.line = Path(below.location.file.name), below.location.line
                made.comment = made.comment or plain_comment(below.raw_comment)
                cursor = below
            self.fill(made, cursor)
        elif kind == kinds.ENUM_DECL:
            made.kind = "enum"
            made.signature = self.signature(cursor)
            for each in cursor.get_children():
                if each.kind == kinds.ENUM_CONSTANT_DECL:
                    value = Entity("enumerator", each.spelling, made.qualified, header, made.path, each.location.line)
                    value.comment = (plain_comment(each.raw_comment) or
                                     trailing_comment(self.lines_of(made.path), each.location.line))
                    made.members.append(value)
        elif kind in (kinds.TYPE_ALIAS_DECL, kinds.TYPE_ALIAS_TEMPLATE_DECL, kinds.TYPEDEF_DECL):
            made.kind = "alias"
            made.signature = self.signature(cursor)
            made.exempt = name in STANDARD_TYPES
            if made.signature.endswith(" = auto"):  # a type of detail/ under a public name
                made.signature = made.signature.removesuffix(" = auto")
        elif kind == kinds.CONCEPT_DECL:
            made.kind = "concept"
            made.signature = self.signature(cursor)
            if re.search(r"\bauto\b", made.signature):  # it is made of concepts of detail/
                made.signature = made.signature.partition(" = ")[0]
        elif kind in (kinds.VAR_DECL, kinds.FIELD_DECL):
            made.kind = "variable"
            made.signature = self.signature(cursor)
            made.comment = made.comment or trailing_comment(self.lines_of(made.path), cursor.extent.end.line)
        elif kind in (kinds.FUNCTION_DECL, kinds.FUNCTION_TEMPLATE, kinds.CXX_METHOD, kinds.CONSTRUCTOR,
                      kinds.DESTRUCTOR, kinds.CONVERSION_FUNCTION):
            if not name or "deduction guide" in cursor.spelling:
                return None
            made.kind = "function"
            made.signature = self.signature(cursor)
            if kind == kinds.CONSTRUCTOR and re.search(r"\bauto\b", made.signature):
                return None  # takes a type of detail/, so only the library can call it
            made.exempt = (kind == kinds.DESTRUCTOR or self.is_special(cursor) or
                           re.search(r"=\s*(default|delete)\s*$", made.signature) is not None)
        else:
            return None
        return made

    def fill(self, made: Entity, cursor) -> None:
        """The public members of a class, with the ones inherited from bases in detail/."""
        kinds = self.kinds
        public = self.cindex.AccessSpecifier.PUBLIC
        scope = made.qualified
        used: set[str] = set()
        for each in cursor.get_children():
            if each.kind == kinds.CXX_BASE_SPECIFIER or each.access_specifier != public:
                continue
            if each.kind == kinds.USING_DECLARATION:
                used.add(each.spelling)
                continue
            if each.kind == kinds.FRIEND_DECL:
                continue
            member = self.entity(each, scope, made.header, scope)
            if member is not None:
                made.members.append(member)
        for alias, target in self.own_aliases(cursor):
            pattern = rf"(?<![\w:~.]){alias}\b(?!\()"
            if "auto" in target:  # a type of detail/: only the library can call such a constructor
                made.members = [member for member in made.members if member.name != made.name or
                                not re.search(pattern, member.signature)]
            for member in made.members:
                if member.kind == "function":
                    member.signature = re.sub(pattern, target, member.signature)
        own = {member.name for member in made.members}
        inherited: list[Entity] = []
        for each in cursor.get_children():
            if each.kind != kinds.CXX_BASE_SPECIFIER:
                continue
            base = self.definition_of(each)
            if base is None or not str(base.location.file).startswith(str(self.include)):
                continue
            shown = each.access_specifier == public
            if shown and str(base.location.file) in self.wanted and "detail" not in self.namespaces(base):
                made.bases.append(base.spelling.split("<")[0])
                continue
            of_base = Entity("class", base.spelling, scope, made.header, Path(base.location.file.name),
                             base.location.line)
            self.fill(of_base, base)
            for member in of_base.members:
                if member.name in (base.spelling.split("<")[0], "~" + base.spelling.split("<")[0]):
                    # Inherited constructors bear the name of the class.
                    if not (shown and base.spelling.split("<")[0] in used):
                        continue
                if f"{base.spelling}::{member.name}" in REFUSED and member.scope != base.spelling:
                    continue
                if (shown and member.name not in own) or member.name in used:
                    member.scope = scope
                    member.base = member.base or base.spelling
                    inherited.append(member)
        # A deeper base's function is hidden by that of a nearer one.
        for member in inherited:
            if not any(other.name == member.name and other.base != member.base and
                       other.signature == member.signature for other in made.members):
                made.members.append(member)

    def own_aliases(self, cursor):
        """The types to which a class gives names for itself, which a caller cannot use."""
        for each in cursor.get_children():
            if each.kind == self.kinds.TYPE_ALIAS_DECL and each.access_specifier != self.cindex.AccessSpecifier.PUBLIC:
                target = self.signature(each).partition("= ")[2]
                if target:
                    yield each.spelling, target

    def namespaces(self, cursor) -> list[str]:
        names = []
        while cursor is not None and cursor.kind != self.kinds.TRANSLATION_UNIT:
            if cursor.kind == self.kinds.NAMESPACE:
                names.append(cursor.spelling)
            cursor = cursor.semantic_parent
        return names

    def definition_of(self, specifier):
        """The class that a base specifier names."""
        for each in specifier.get_children():
            if each.kind in (self.kinds.TEMPLATE_REF, self.kinds.TYPE_REF) and each.referenced is not None:
                found = each.referenced.get_definition() or each.referenced
                if found.kind in (self.kinds.CLASS_TEMPLATE, self.kinds.CLASS_DECL, self.kinds.STRUCT_DECL):
                    return found
        return None

    def is_special(self, cursor) -> bool:
        """Copies and moves."""
        if cursor.kind == self.kinds.CONSTRUCTOR:
            return cursor.is_copy_constructor() or cursor.is_move_constructor()
        return cursor.spelling == "operator=" or cursor.spelling in ("operator==", "operator<=>", "operator!=")

    # --- the text -----------------------------------------------------------------------------------------------------

    def lines_of(self, path: Path) -> list[str]:
        if str(path) not in self.lines:
            self.lines[str(path)] = path.read_text(encoding="utf-8").splitlines()
        return self.lines[str(path)]

    def text(self, cursor, begin: int, end: int) -> str:
        name = cursor.location.file.name
        if name not in self.texts:
            self.texts[name] = Path(name).read_bytes()
        return self.texts[name][begin:end].decode()

    def signature(self, cursor) -> str:
        """The declaration without its body, initializers of members, comments and our own macros."""
        start = cursor.extent.start.offset
        text = self.text(cursor, start, cursor.extent.end.offset)
        if cursor.kind in (self.kinds.VAR_DECL, self.kinds.FIELD_DECL):
            # Of several in one declaration, clang gives each all before it.
            before = text.encode()[:cursor.location.offset - start].decode()
            if first := re.match(r"([^=,{]*?)\w+\s*(?:=[^,]*|\{[^}]*\})?,", before):
                text = first.group(1) + text[len(before):]
        return clean(text, cursor.kind in (self.kinds.VAR_DECL, self.kinds.FIELD_DECL, self.kinds.CONCEPT_DECL,
                                           self.kinds.TYPE_ALIAS_DECL, self.kinds.TYPE_ALIAS_TEMPLATE_DECL))

    def macros(self, name: str, header: str) -> list[Entity]:
        """The macros that a file of a header defines and keeps, with the comment above them."""
        path = self.include / "muster" / name
        lines = self.lines_of(path)
        text = "\n".join(lines)
        found = []
        for number, line in enumerate(lines, 1):
            match = re.match(r"#\s*define (MUSTER_\w+(?:\([^)]*\))?)", line)
            if not match or match.group(1).split("(")[0] in OWN_NAMES or (
                    f"#undef {match.group(1).split('(')[0]}" in text):
                continue
            comment: list[str] = []
            for above in reversed(lines[:number - 1]):
                if not above.startswith("///"):
                    break
                comment.insert(0, above[3:].strip())
            found.append(Entity("macro", match.group(1).split("(")[0], "", header, path, number, "\n".join(comment),
                                f"#define {match.group(1)}"))
        return found


def join(scope: str, name: str) -> str:
    return f"{scope}::{name}" if scope else name


def clean(text: str, whole: bool) -> str:
    """A declaration as a caller wants to see it. `whole`: keep what follows `=` or `{`."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = NOISE.sub(" ", text)
    end, depth, angles, at, seen = len(text), 0, 0, 0, False
    while at < len(text):
        char = text[at]
        if char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
            seen = True
        elif char == "{":
            if depth == 0 and not whole and not angles:
                end = at
                break
            depth += 1
        elif char == "}":
            depth -= 1
        elif char == ":" and depth == 0 and not whole and angles == 0:
            if text[at + 1:at + 2] == ":":
                at += 2
                continue
            if seen or re.match(r"\s*(template\s*<.*>\s*)?(class|struct|enum)\b", text, flags=re.DOTALL):
                end = at
                break
        elif char == "<" and re.search(r"(template|\w)\s*$", text[:at]) and depth == 0:
            angles += 1
        elif char == ">" and angles and depth == 0 and text[at - 1] not in "-=":
            angles -= 1
        elif char == ";" and depth == 0:
            end = at
            break
        at += 1
    text = re.sub(r"\s+", " ", text[:end]).strip()
    text = re.sub(r"^(template <.*?>) (template)", r"\1 \2", text)
    return simple(text)


# The types of detail/ that a caller meets, as he may write them. Others become `auto`.
IN_WORDS = [
    (r"detail::defaults\.options", "{}"),
    (r"(?:typename )?detail::future_of<F>", "future<std::invoke_result_t<F>>"),
    (r"(?:typename )?detail::called_function<F>::result", "std::invoke_result_t<F>"),
    (r"detail::psim_answer<(?:[^<>]|<[^<>]*>)*>", "auto"),
    (r"\s*= detail::decoder::\w+", ""),
    (r"detail::result_or_nothing<Ts>", "Ts"),
    (r"detail::values_of_many<T>", "std::vector<T>"),
]


def simple(text: str) -> str:
    """Without the names of detail/, which a caller cannot use."""
    nested = r"<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>"
    for pattern, words in IN_WORDS:
        text = re.sub(rf"(?<![\w:]){pattern}", words, text)
    text = re.sub(rf"\s*\brequires detail::\w+(?:{nested})?(?: && detail::\w+(?:{nested})?)*(?: && )?", " ", text)
    # A concept in front of a parameter of a template, then all other types.
    text = re.sub(rf"(template <[^(]*?)\bdetail::\w+(?:{nested})?(\.\.\.)? (?=[A-Z])", r"\1class\2 ", text)
    while re.search(r"template <[^(]*?\bdetail::\w+(?:\.\.\.)? [A-Z]", text):
        text = re.sub(r"(template <[^(]*?)\bdetail::\w+(\.\.\.)? (?=[A-Z])", r"\1class\2 ", text)
    text = re.sub(rf"(?:typename )?\b(?:muster::)?detail::\w+(?:{nested})?(?:::\w+)*", "auto", text)
    return re.sub(r"\( ", "(", re.sub(r"\s+", " ", text)).strip()


def cover(entities: list[Entity]) -> None:
    """Marks what needs no comment because the sibling before it has one."""
    before: Entity | None = None
    for entity in entities:
        if entity.kind == "class":
            cover(entity.members)
        if entity.comment:
            before = entity
            continue
        if before is not None and before.kind == entity.kind == "function" and before.scope == entity.scope:
            pairs = {before.name, entity.name}
            stem = before.name.removesuffix("_for")
            if before.name == entity.name or pairs == {"begin", "end"} or entity.name == stem + "_until":
                entity.covered = True


def is_of_sheet(entity: Entity) -> bool:
    """Returns true if the text at the top of the header describes this class, because the header bears its name."""
    stem = Path(entity.header).stem
    return entity.kind == "class" and entity.name in (stem, f"{stem}_queue", f"{stem}_options", f"basic_{stem}")


def is_constant_of_a_policy(entity: Entity) -> bool:
    """The constants of an empty type: what they mean is the comment of the type."""
    return entity.kind == "variable" and "static constexpr" in entity.signature


def undocumented(entities: list[Entity]) -> list[Entity]:
    """The entities that need a comment and have none."""
    found = []
    for entity in entities:
        if not (entity.comment or entity.exempt or entity.covered or is_of_sheet(entity)):
            found.append(entity)
        policy = entity.kind == "class" and all(is_constant_of_a_policy(member) for member in entity.members)
        if entity.kind in ("class", "enum") and not (policy and entity.comment):
            found += undocumented(entity.members)
    return found


def laid_out(signatures: list[str], columns: int = 84) -> list[str]:
    """The signatures as clang-format lays them out, in the style of the project but narrower."""
    mark = "// ---- next ----"
    text = f"\n{mark}\n".join(each if each.startswith("#") else each + ";" for each in signatures)
    style = f"{{BasedOnStyle: Google, ColumnLimit: {columns}, RequiresClausePosition: OwnLine}}"
    run = subprocess.run(["clang-format-19", f"--style={style}"], input=text, capture_output=True, text=True,
                         check=True)
    return [each.strip().removesuffix(";") for each in run.stdout.split(mark)]
