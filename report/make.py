#!/usr/bin/python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Make one self-contained page (and a short Markdown version) from result files of muster-bench.

  python3 report/make.py [FILE_OR_DIR...] [--out DIR]

Exit status: 0 when the page was written, 2 when an input or a Python package is not usable.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
from pathlib import Path

PACKAGES = {"jinja2": "python3-jinja2", "jsonschema": "python3-jsonschema", "numpy": "python3-numpy"}
HERE = Path(__file__).resolve().parent
DEFAULT_INPUTS = (Path("bench/results"), Path("out/results"))


def missing_packages() -> list[str]:
    return [package for module, package in PACKAGES.items() if importlib.util.find_spec(module) is None]


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Make one page from result files of muster-bench.")
    parser.add_argument(
        "inputs",
        nargs="*",
        type=Path,
        metavar="FILE_OR_DIR",
        help="result files, or directories of them (default: bench/results and out/results)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out/report"),
        metavar="DIR",
        help="where index.html and report.md go (default: %(default)s)",
    )
    return parser.parse_args(argv)


def shortened(page: str) -> str:
    """The page without what HTML lets out: the quotes around most values of attributes, and the ends of rows, cells and
    items. A tenth of it."""
    value = r"""="([^\s"'=<>`]+)"(?=[\s>])"""
    page = re.sub(r"<[a-z][^<>]*>", lambda tag: re.sub(value, r"=\1", tag[0]), page)
    return re.sub(r"</(?:td|th|tr|li|dt|dd)>", "", page)


def render(context: dict) -> dict[str, str]:
    import jinja2

    from styles import symbols, variables

    loader = jinja2.FileSystemLoader(HERE)
    page = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    plain = jinja2.Environment(
        loader=loader,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    # A bar inside a cell would end the cell, a line break would end the table.
    plain.filters["cell"] = lambda text: " ".join(str(text).split()).replace("|", "\\|")
    style = (HERE / "style.css").read_text(encoding="utf-8")
    return {
        "index.html": page.get_template("page.html.j2").render(
            context, style=style, variables=variables(), symbols=symbols()
        ),
        "report.md": plain.get_template("report.md.j2").render(context),
    }


def main(argv: list[str] | None = None) -> int:
    options = arguments(argv)
    if missing := missing_packages():
        print(
            f"report: needs Python packages that {sys.executable} does not have; install them with:\n"
            f"  apt-get install {' '.join(missing)}",
            file=sys.stderr,
        )
        if Path(sys.executable).resolve().parent != Path("/usr/bin"):
            print(
                "and start the report with /usr/bin/python3, the Python that these packages are for.",
                file=sys.stderr,
            )
        return 2

    from bars import BadTable
    from load import BadFile, merge, read_all

    try:
        found, problems = read_all(options.inputs or [path for path in DEFAULT_INPUTS if path.is_dir()])
        for problem in problems:
            print(f"report: {problem}", file=sys.stderr)
        results = merge(found)
        if not results:
            where = " and ".join(map(str, options.inputs or DEFAULT_INPUTS))
            raise BadFile(
                f"no results in {where}: make some with "
                "muster-bench run ID... --json out/results/NAME.json"
            )
    except (BadFile, BadTable) as error:
        print(f"report: {error}", file=sys.stderr)
        return 2
    from page import build  # Only now: loading the drawing library takes longer than refusing a file.

    try:
        options.out.mkdir(parents=True, exist_ok=True)
        for name, text in render(build(results, options.out.resolve(), problems)).items():
            if name.endswith(".html"):
                text = shortened(text)
            (options.out / name).write_text(text, encoding="utf-8")
    except OSError as error:
        print(f"report: cannot write to {options.out}: {error.strerror}", file=sys.stderr)
        return 2
    print(options.out / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
