#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Compiles the device's code for the supported architectures, and reports the resources that it needs there.

Without nvcc it says so, and succeeds: everything else of the library does without. Fails when something does not
compile, when registers are spilled, or when a call of a user needs more registers than it may.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ARCHITECTURES = ("80", "90")
NEWER = ("100", "120")  # where nvcc knows them; the calls of users only, and PTX of the newest architecture
FLAGS = ["-std=c++20", "-O3", "-Iinclude", "-Isim/simt", "-Iseams", "-Itests", "-Werror", "all-warnings",
         "-Xcompiler", "-Wall,-Wextra"]
MOST_REGISTERS = 40
# These call CUDA's malloc, which is a function of its own; and the whole of a page_upstream.
UNLIMITED = ("cuda_allocate_write_free", "page_upstream_allocate")
# The whole of a heap, which opens and closes slabs. A change that needs fewer lowers these.
MOST_OF = {"heap_allocate": 100, "heap_free": 64, "heap_realloc": 112}


def run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    if done.returncode != 0:
        print(done.stdout + done.stderr, end="")
        raise SystemExit(f"device code: this failed: {' '.join(command)}")
    return done.stdout + done.stderr


def resources(text: str) -> dict:
    """Registers and spilled bytes of each kernel, as ptxas reports them."""
    found, kernel = {}, None
    for line in text.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)'", line):
            kernel = match.group(1)
        elif match := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            found.setdefault(kernel, {})["spilled"] = int(match.group(1)) + int(match.group(2))
        elif match := re.search(r"Used (\d+) registers", line):
            found.setdefault(kernel, {})["registers"] = int(match.group(1))
    return found


def code_sizes(cubin: Path) -> dict:
    text = run("readelf", "-S", "-W", str(cubin))
    return {m.group(1): int(m.group(2), 16) for m in re.finditer(r"\.text\.(\w+)\s+PROGBITS\s+\w+ \w+ (\w+)", text)}


def main() -> int:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        print("device code: there is no nvcc on the PATH, so the code for GPUs was not compiled")
        return 0
    version = re.search(r"release ([\d.]+)", run(nvcc, "--version"))
    print(f"device code: nvcc {version.group(1) if version else '?'}")
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        for architecture in ARCHITECTURES:
            cubin = Path(scratch) / f"{architecture}.cubin"
            text = run(nvcc, *FLAGS, f"-arch=sm_{architecture}", "-Xptxas", "-v", "-cubin", "tests/gpu/device_code.cu",
                       "-o", str(cubin))
            sizes = code_sizes(cubin)
            print(f"{'sm_' + architecture:34} registers  spilled  code bytes")
            for kernel, needs in sorted(resources(text).items()):
                if kernel not in sizes or kernel.startswith("_Z"):
                    continue  # a kernel of the library's, which prepares something once
                most = MOST_OF.get(kernel, MOST_REGISTERS)
                over = needs["spilled"] != 0 or (needs["registers"] > most and kernel not in UNLIMITED)
                failed |= over
                print(f"  {kernel:32} {needs['registers']:9} {needs['spilled']:8} {sizes[kernel]:11}"
                      f"{'   TOO MUCH' if over else ''}")
        known = sorted(set(re.findall(r"compute_(\d+)", run(nvcc, "--list-gpu-arch"))), key=int)
        newer = [a for a in NEWER if a in known]
        run(nvcc, *FLAGS, *(f"-gencode=arch=compute_{a},code=sm_{a}" for a in newer),
            *(f"-gencode=arch=compute_{a},code=compute_{a}" for a in dict.fromkeys(("90", known[-1]))),
            "-c", "tests/gpu/device_code.cu", "-o", str(Path(scratch) / "newer.o"))
        print(f"for {', '.join('sm_' + a for a in newer) or 'no newer card'}, and PTX of 90 and {known[-1]}: compiles")
        if "--tests" in sys.argv[1:]:
            targets = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in ARCHITECTURES]
            for source in ("tests/gpu/heap_test.cpp", "tests/gpu/xmalloc_test.cpp", "tests/gpu/xmc_test.cpp",
                           "examples/guide/gpu.cpp"):
                run(nvcc, *FLAGS, *targets, "-x", "cu", "-c", source, "-o", str(Path(scratch) / "test.o"))
                print(f"{source} compiles")
    if failed:
        print(f"device code: a call may need {MOST_REGISTERS} registers, a heap's up to {MOST_OF}, and spill none")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
