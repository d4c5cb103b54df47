#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the documentation as one site: the pages of docs/, the reference of every public name, and the examples.

usage: make.py --out DIR [--work DIR] [--sphinx PYTHON] [--check-only]

Fails, with a line `file:line: what` for each, when a public name has no comment, or a link goes nowhere.
  --out         the finished site
  --work        where the Markdown for Sphinx is written (build/docs)
  --sphinx      the Python that has the packages of tools/site/requirements.txt
  --check-only  reads and checks the headers and the Markdown, and renders nothing
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))
sys.dont_write_bytecode = True

import headers  # noqa: E402  (found through the path above)
import links  # noqa: E402
import pages  # noqa: E402
import reference  # noqa: E402

GUIDES = ["install", "queue", "combine", "fork", "gpu", "simt", "sandbox", "python", "checking"]
CONTRACTS = ["queue", "fiber", "combine", "fork", "gpu", "syscall", "places"]
DESIGN = ["index", "queue", "combine", "fork", "gpu", "syscall", "simulation", "checks", "seams", "report"]


def name_faults(root: Path, entities: list[headers.Entity]) -> list[str]:
    return [f"{entity.path.relative_to(root)}:{entity.line}: the public name {entity.qualified} has no comment: write "
            f"what it does in a /// comment above it" for entity in headers.undocumented(entities)]


def toctree(caption: str, entries: list[str]) -> str:
    lines = "\n".join(entries)
    return f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n"


def short(title: str) -> str:
    """A title as it stands in the navigation, below a caption that says what kind of page it is."""
    title = re.sub(r": (the guide|the contract of every operation|the design)$", "", title)
    return title.replace("`", "")


def navigation(site: pages.Site) -> str:
    """Every page once, in the order of a newcomer."""
    root = site.root

    def listed(folder: str, first: list[str]) -> list[str]:
        there = [Path(page).name for page in
                 (pages.home_of(str(path.relative_to(root))) for path in (root / "docs" / folder).glob("*.md"))]
        there += [Path(page).name for page in pages.HOMES.values() if page.startswith(folder + "/") and
                  Path(page).name not in there]
        names = [*(name for name in first if name in there), *sorted(set(there) - set(first))]
        titles = {name: re.search(r"^# (.*)$", site.pages[f"{folder}/{name}"], flags=re.MULTILINE) for name in names}
        return [f"{short(titles[name].group(1))} </{folder}/{name}>" for name in names]

    return "\n" + "\n".join([
        toctree("Guide", [*listed("guide", GUIDES), "The Python package </python>", "/examples"]),
        toctree("Reference", ["All names </reference/index>"] +
                [f"{title} </reference/{room}/index>" for room, title in reference.ROOMS.items()]),
        toctree("Contracts", listed("contracts", CONTRACTS)),
        toctree("Design", listed("design", DESIGN)),
        toctree("Project", ["/why-not", "/changelog", "/contributing"]),
    ])


def examples(site: pages.Site) -> str:
    """The page of the programs in examples/."""
    lines = ["# Examples\n", "Programs that do real work, and the code that the guides show. All of them are compiled "
             "and run by the tests.\n", "| program | what it does |", "|---|---|"]
    programs = sorted({name.split("/")[1] for name in site.files if name.startswith("examples/")})
    for name in programs:
        path = f"examples/{name}"
        main = next((f"{path}/{each}" for each in ("main.cpp", "send.cpp", "decode_image.cpp")
                     if f"{path}/{each}" in site.files), path)
        if path not in site.folders and not name.startswith("hello"):
            continue
        link = site.target(path, "", "examples", path)
        about = site.purpose(main) if main.endswith(".cpp") else "The code that the guide shows."
        lines.append(f"| [`{name}`]({link}) | {about} |")
    for name in site.files:
        if name.startswith("examples/"):
            site.source(name)
    return "\n".join(lines) + "\n"


def collect(root: Path, entities: list[headers.Entity]) -> pages.Site:
    site = pages.Site(root)
    for name in site.files:
        if name.endswith(".md") and pages.home_of(name):
            site.add_markdown(name)
    site.pages["index"] += navigation(site)
    site.pages["examples"] = examples(site)
    site.pages.update(reference.Writer(entities, root, pages.slug).pages())
    for header in headers.public_headers(root / "include"):
        site.source(f"include/muster/{header}")
    site.add_sources()
    return site


def write(site: pages.Site, work: Path) -> None:
    """The Markdown, as Sphinx reads it. Files that have not changed keep their time, so that Sphinx skips them."""
    here = Path(__file__).parent
    wanted = {work / f"{name}.md": text for name, text in site.pages.items()}
    wanted[work / "conf.py"] = (here / "conf.py").read_text(encoding="utf-8")
    wanted[work / "_static/muster.css"] = (here / "muster.css").read_text(encoding="utf-8")
    copies = {work / name: path for name, path in site.copies.items()}
    if work.exists():
        for path in work.rglob("*"):
            if path.is_file() and path not in wanted and path not in copies:
                path.unlink()
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for path, original in copies.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(original, path)


def report(faults: list[str]) -> int:
    for fault in faults:
        print(fault, file=sys.stderr)
    if faults:
        print(f"docs: {len(faults)} faults", file=sys.stderr)
    return 1 if faults else 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "out/site")
    parser.add_argument("--work", type=Path, default=ROOT / "build/docs")
    parser.add_argument("--sphinx", default=sys.executable)
    parser.add_argument("--check-only", action="store_true")
    given = parser.parse_args(arguments)

    include = ROOT / "include"
    entities = headers.Reader(include).read(headers.public_headers(include))
    site = collect(ROOT, entities)
    if status := report(name_faults(ROOT, entities) + [str(fault) for fault in site.faults]):
        return status
    if given.check_only:
        return 0
    source = given.work / "pages"
    write(site, source)
    # From nothing, so that no page of an earlier run stays, and with every page, as each has the navigation.
    if (given.out / "searchindex.js").is_file():
        shutil.rmtree(given.out)
    options = ["-q", "-W", "--keep-going", "-a", "-j", "auto", "-b", "html", "-d", str(given.work / "trees")]
    run = subprocess.run([given.sphinx, "-m", "sphinx", *options, str(source), str(given.out)], check=False)
    if run.returncode != 0:
        return run.returncode
    return report([f"{given.out}/{fault}" for fault in links.faults(given.out)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
