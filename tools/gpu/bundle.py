#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""A folder with everything that a machine with a GPU needs to test and measure muster: `./dev gpu --bundle`.

  bundle.py place FOLDER            whether the folder may be made there, or replaced
  bundle.py pack PROGRAMS FOLDER    copies programs, the libraries that they need, and the runner
  bundle.py check FOLDER            starts it without a GPU, moved, in an empty environment
  bundle.py merge FOLDER [RESULTS]  copies its result files into bench/results

The C library and the driver are the machine's; all other libraries are in the folder. The programs find them from
their own place (DT_RPATH, which holds for the libraries' own libraries too), so the folder may be moved.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("device-heap", "device-xmalloc", "device-xmc", "dynamic-graph", "muster-bench", "word-table")
OUT_OF_TIME = 3  # a status of the runner
PACKED = {"bin", "lib", "run", "LICENSE", "COMMIT", "NEEDS"}
MOST_BYTES = 40 << 20
# Parts of the C library, and the loader.
OF_THE_MACHINE = re.compile(r"(ld-linux[\w.-]*|libc|libm|libdl|libpthread|librt)\.so(\.\d+)*")


class Failed(Exception):
    """One sentence for the user."""


def output(*command: str | Path, **options: object) -> str:
    try:
        done = subprocess.run([str(one) for one in command], text=True, capture_output=True, check=False, **options)
    except FileNotFoundError as error:
        raise Failed(f"there is no {command[0]} on the PATH") from error
    if done.returncode != 0:
        raise Failed(f"this failed: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def needed(file: Path) -> list[str]:
    """The names of the libraries that a program or library asks for."""
    return re.findall(r"\(NEEDED\)\s+Shared library: \[(.+)\]", output("readelf", "-d", "-W", file))


def resolved(file: Path, **options: object) -> dict[str, str]:
    """Where the loader finds each library of a program, directly needed or not."""
    found = {}
    for line in output("ldd", file, **options).splitlines():
        if match := re.match(r"\s*(\S+) => (not found|\S+)", line):
            found[match.group(1)] = match.group(2)
    return found


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def newest_of_c_library(files: list[Path]) -> str:
    versions = {m for file in files for m in re.findall(r"\bGLIBC_([\d.]+)", output("readelf", "-V", "-W", file))}
    return "GLIBC_" + max(versions, key=lambda version: [int(part) for part in version.split(".")])


def commit() -> str:
    try:
        head = output("git", "-C", ROOT, "rev-parse", "--short=12", "HEAD").strip()
        return head + ("+" if output("git", "-C", ROOT, "status", "--porcelain", "-uno") else "")
    except (Failed, OSError):
        return "unknown"


def check_place(folder: Path) -> None:
    """A bundle replaces nothing but what an earlier call has made."""
    if folder.exists() and not folder.is_dir():
        raise Failed(f"{folder} is no folder")
    there = {file.name for file in folder.iterdir()} if folder.exists() else set()
    if there and ("COMMIT" not in there or not there <= PACKED):
        others = ", ".join(sorted(there - PACKED)[:3]) or "no COMMIT"
        raise Failed(f"{folder} has other files ({others}): name a folder that is empty or does not exist")


def pack(programs: Path, folder: Path, names: tuple[str, ...] = PROGRAMS) -> None:
    missing = [name for name in names if not (programs / name).exists()]
    if missing:
        raise Failed(f"{programs} has no {', '.join(missing)}: build the preset gpu first")
    check_place(folder)
    if folder.exists():
        shutil.rmtree(folder)
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    (folder / "COMMIT").write_text(commit() + "\n")
    libraries: dict[str, str] = {}
    for name in names:
        output("strip", "-o", folder / "bin" / name, programs / name)
        libraries |= resolved(programs / name)
    for name, path in sorted(libraries.items()):
        if OF_THE_MACHINE.fullmatch(name):
            continue
        if path == "not found":
            raise Failed(f"a program needs {name}, which is not on this machine")
        output("strip", "--strip-unneeded", "-o", folder / "lib" / name, Path(path).resolve())
    shutil.copy(ROOT / "tools" / "gpu" / "run", folder / "run")
    shutil.copy(ROOT / "LICENSE", folder / "LICENSE")
    files = sorted((folder / "bin").iterdir()) + sorted((folder / "lib").iterdir())
    (folder / "NEEDS").write_text(newest_of_c_library(files) + "\n")
    check_files(folder)


def check_files(folder: Path) -> None:
    """Nothing outside of the folder is needed but the C library; and it is not too large."""
    programs, libraries = sorted((folder / "bin").iterdir()), sorted((folder / "lib").iterdir())
    there = {library.name for library in libraries}
    for file in programs + libraries:
        outside = [name for name in needed(file) if name not in there and not OF_THE_MACHINE.fullmatch(name)]
        if outside:
            raise Failed(f"{file.name} needs {', '.join(outside)}, which the folder lacks")
    for program in programs:
        dynamic = output("readelf", "-d", "-W", program)
        paths = re.findall(r"\((RPATH|RUNPATH)\)\s+Library r(?:un)?path: \[(.*)\]", dynamic)
        if there and paths != [("RPATH", "$ORIGIN/../lib")]:
            raise Failed(f"{program.name} looks for libraries in {paths}, not in RPATH $ORIGIN/../lib alone")
    size = size_of(folder)
    if size > MOST_BYTES:
        raise Failed(f"{folder} has {size / (1 << 20):.1f} MiB, and may have {MOST_BYTES >> 20}")
    print(
        f"bundle: {folder}, {size / (1 << 20):.1f} MiB: {len(programs)} programs, {len(libraries)} libraries; commit "
        f"{(folder / 'COMMIT').read_text().strip()}; needs a C library with {(folder / 'NEEDS').read_text().strip()}"
    )


def bare_root(folder: Path, results: Path) -> list[str]:
    """A command that runs another where there is nothing but the folder, the C library, bash and coreutils."""
    names = ("bash", "basename", "cat", "cut", "date", "dirname", "env", "getconf", "grep", "head", "ls", "mkdir",
             "mv", "nproc", "readlink", "rm", "sed", "sort", "tee", "timeout", "tr", "uname")
    tools = [Path(found).resolve() for name in names if (found := shutil.which(name, path="/usr/bin:/bin"))]
    libraries = {path for tool in tools for path in resolved(tool).values() if path.startswith("/")}
    # The C++ library is not among what these programs need, nor anything else of the folder.
    libraries |= {path for program in (folder / "bin").iterdir() for name, path in resolved(program).items()
                  if OF_THE_MACHINE.fullmatch(name) and path.startswith("/")}
    command = ["bwrap", "--unshare-all", "--die-with-parent", "--clearenv", "--proc", "/proc", "--dev", "/dev",
               "--ro-bind", "/sys", "/sys", "--tmpfs", "/tmp", "--setenv", "PATH", "/usr/bin"]
    for tool, name in zip(tools, names, strict=True):
        command += ["--ro-bind", str(tool), f"/usr/bin/{name}"]
    loader = re.findall(r"interpreter: (\S+)\]", output("readelf", "-l", "-W", tools[0]))[0]
    for path in {*libraries, loader}:
        command += ["--ro-bind", os.path.realpath(path), path]
    command += ["--symlink", "usr/bin", "/bin", "--ro-bind", str(folder), "/some where/muster"]
    return [*command, "--bind", str(results), "/out", "--chdir", "/"]


def check(folder: Path) -> None:
    folder = folder.resolve()
    check_files(folder)
    with tempfile.TemporaryDirectory() as scratch:
        moved = Path(scratch) / "else where"
        shutil.copytree(folder, moved)
        for program in sorted((moved / "bin").iterdir()):
            for name, path in resolved(program, env={"PATH": "/usr/bin:/bin"}, cwd="/").items():
                if not OF_THE_MACHINE.fullmatch(name) and not path.startswith(scratch):
                    raise Failed(f"{program.name}, moved, takes {name} from {path}")
        start = [["env", "-i", "PATH=/usr/bin:/bin", str(moved / "run")]]
        bare = bare_root(moved, Path(scratch)) if shutil.which("bwrap") else []
        if bare and subprocess.run([*bare, "/usr/bin/uname"], capture_output=True, check=False).returncode == 0:
            start.append([*bare, "/some where/muster/run"])
        else:
            print("bundle: not started in a bare root: there is no bwrap that works")
        for number, command in enumerate(start):
            results = Path(scratch) / f"results {number}"
            results.mkdir()
            inside = f"/out/{results.name}" if number == 1 else str(results)
            done = subprocess.run([*command, "--without-gpu", "--seconds", "240", "--out", inside], cwd="/",
                                  text=True, capture_output=True, check=False)
            print(done.stdout, end="")
            if done.returncode == OUT_OF_TIME:
                raise Failed(f"{command[-1]} had no time for everything; is this machine busy?")
            if done.returncode != 0:
                log = results / "log.txt"
                print(done.stderr + (log.read_text() if log.exists() else ""), end="")
                raise Failed(f"{command[-1]} ended with status {done.returncode}")
            merge(results, Path(scratch) / f"merged {number}")
            where = "a bare root" if number == 1 else "an empty environment"
            print(f"bundle: moved, it runs in {where}")


def merge(folder: Path, to: Path) -> None:
    """Copies result files that the report accepts as they are."""
    sys.path.insert(0, str(ROOT / "report"))
    try:
        import load
    except ImportError as error:
        raise Failed(f"the result files cannot be checked: {error} (apt-get install python3-jsonschema)") from error
    files = sorted((folder / "bench" / "results").glob("*.json")) or sorted(folder.glob("*.json"))
    if not folder.is_dir():
        raise Failed(f"there is no folder {folder}")
    if not files:
        raise Failed(f"{folder} has no result files, neither in bench/results nor itself")
    accepted: list[Path] = []
    wrong: list[str] = []
    for file in files:
        results, problems = load.read_file(file)
        broken = [one for one in problems if one.endswith(load.AGAIN)]
        if broken or not results:
            wrong += broken or problems or [f"{file.name}: has no results"]
            continue
        for problem in problems:
            print(f"bundle: {problem}")
        built = results[0].run.build.get("commit", "unknown")
        if not re.fullmatch(r"[0-9a-f]{12}", built):
            print(f"bundle: {file.name}: was measured by a build of {built}, not of a commit: not for the record")
        target = to / file.name
        if target.exists() and target.samefile(file):
            continue
        if target.exists() and target.read_bytes() != file.read_bytes():
            wrong.append(f"{target} exists and is another: rename or remove one of the two")
            continue
        accepted.append(file)
    for file in accepted:
        to.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, to / file.name)
        document = json.loads(file.read_text())
        machine = document["machine"]
        print(f"bundle: {file.name}: {len(document['results'])} charts of {machine.get('gpu', machine.get('cpu'))}")
    if wrong:
        raise Failed("not copied:\n  " + "\n  ".join(wrong))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("place")
    one.add_argument("folder", type=Path)
    one = commands.add_parser("pack")
    one.add_argument("programs", type=Path)
    one.add_argument("folder", type=Path)
    one = commands.add_parser("check")
    one.add_argument("folder", type=Path)
    one = commands.add_parser("merge")
    one.add_argument("folder", type=Path)
    one.add_argument("results", type=Path, nargs="?", default=ROOT / "bench" / "results")
    given = parser.parse_args()
    try:
        if given.command == "place":
            check_place(given.folder)
        elif given.command == "pack":
            pack(given.programs, given.folder)
        elif given.command == "check":
            check(given.folder)
        else:
            merge(given.folder, given.results)
    except (Failed, OSError) as error:
        print(f"bundle: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
