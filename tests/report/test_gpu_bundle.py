# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""The folder for a machine with a GPU, with programs that only pretend: tools/gpu/run continues when one fails or takes
too long, and tools/gpu/bundle.py finds what would be missing there, and takes over only what the report accepts."""

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "gpu"))

import bundle  # noqa: E402
from sample import document  # noqa: E402

# Takes the place of muster-bench: writes a result to the file of --json.
BENCH = """#!/bin/bash
while (($# != 0)); do
  if [[ $1 == --json ]]; then printf '{\\n "complete": true,\\n "experiment": "a/b"}' >"$2"; fi
  shift
done
"""
GPU = """#!/bin/bash
if [[ $* == *=name* ]]; then echo 'NVIDIA H100 80GB HBM3'; fi
"""


class Folder(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.at = Path(scratch.name)
        self.folder, self.out = self.at / "the folder", self.at / "the results"
        (self.folder / "bin").mkdir(parents=True)
        (self.folder / "lib").mkdir()
        (self.at / "path").mkdir()
        shutil.copy(ROOT / "tools" / "gpu" / "run", self.folder / "run")
        for name, text in (("COMMIT", "0123456789ab"), ("NEEDS", "GLIBC_2.2"), ("LICENSE", "")):
            (self.folder / name).write_text(text + "\n")
        for name in bundle.PROGRAMS:
            self.program(f"the folder/bin/{name}", "#!/bin/bash\n")
        self.program("the folder/bin/muster-bench", BENCH)

    def program(self, name: str, text: str) -> None:
        file = self.at / name
        file.write_text(text)
        file.chmod(0o755)

    def command(self) -> list[str]:
        path = f"PATH={self.at / 'path'}:/usr/bin:/bin"
        return ["env", "-i", path, str(self.folder / "run"), "--out", str(self.out)]

    def start(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([*self.command(), *arguments], cwd="/", text=True, capture_output=True, check=False)

    def results(self) -> list[str]:
        return sorted(file.name.split("-cores-")[1] for file in (self.out / "bench" / "results").iterdir())


class Run(Folder):
    def test_the_plan_takes_fifteen_minutes(self):
        done = self.start("--plan")
        self.assertEqual((done.returncode, self.out.exists()), (0, False))
        self.assertRegex(done.stdout, r"in all +900 s")
        for part in ("facts", "tests", "figures", "filled", "slabs", "cases", "sanitizer", "processors"):
            self.assertIn(f"  {part} ", done.stdout)

    def test_what_needs_no_gpu_starts_without_one(self):
        done = self.start("--without-gpu")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(len(self.results()), 5)
        self.assertTrue(all(name.endswith("-smoke.json") for name in self.results()))
        self.assertEqual((self.out / "summary.txt").read_text(), done.stdout)
        self.assertIn("nothing failed", done.stdout)

    def test_a_gpu_is_in_the_names_of_its_results(self):
        self.program("path/nvidia-smi", GPU)
        done = self.start()
        self.assertEqual(done.returncode, 0, done.stdout)
        kinds = [name.split("h100-")[1] for name in self.results() if "h100-" in name]
        self.assertEqual(kinds, ["heap-cases-quick.json", "heap-quick.json", "xmalloc-filled-quick.json",
                                 "xmalloc-quick.json"])
        self.assertEqual(len(self.results()), 7)
        self.assertIn("NVIDIA H100", done.stdout)
        self.assertIn("device-xmalloc", (self.out / "log.txt").read_text())

    def test_a_part_that_fails_ends_no_other(self):
        self.program("path/nvidia-smi", GPU)
        self.program("the folder/bin/device-xmc", "#!/bin/bash\necho it is wrong\nexit 1\n")
        done = self.start("tests", "figures")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"tests +FAILED: status 1 after \d+ s: device-xmc")
        self.assertRegex(done.stdout, r"tests +ok, \d+ s: device-xmalloc")
        self.assertRegex(done.stdout, r"figures +ok")
        self.assertIn("it is wrong", (self.out / "log.txt").read_text())

    def test_a_program_that_takes_too_long_is_cut_off(self):
        self.program("path/nvidia-smi", GPU)
        self.program("the folder/bin/device-xmc", "#!/bin/bash\nexec sleep 100\n")
        done = self.start("--seconds", "4", "tests", "figures")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"tests +FAILED: cut off after \d s: device-xmc")
        self.assertIn("no time was left", done.stdout)

    def test_parts_without_time_are_no_success(self):
        done = self.start("--without-gpu", "--seconds", "1", "facts", "figures")
        self.assertEqual(done.returncode, bundle.OUT_OF_TIME, done.stdout)
        self.assertIn("NOT ALL WAS DONE: no time was left for 2 ", done.stdout)
        self.assertNotIn("nothing failed", done.stdout)

    def test_a_result_of_an_earlier_run_stays_until_there_is_a_new_one(self):
        self.start("--without-gpu", "processors")
        file = next((self.out / "bench" / "results").iterdir())
        file.write_text("earlier")
        # In 5 s, there is no time for the program; then it fails.
        for seconds, program, text in (("5", BENCH, "no time was left for muster-bench"),
                                       ("60", "#!/bin/bash\nexit 1\n", "there is no new bench/results")):
            self.program("the folder/bin/muster-bench", program)
            done = self.start("--without-gpu", "--seconds", seconds, "processors")
            self.assertIn(text, done.stdout)
            self.assertEqual((file.read_text(), len(self.results())), ("earlier", 1))
            self.assertNotIn("charts", done.stdout)
        self.program("the folder/bin/muster-bench", BENCH)
        self.assertIn("has 1 charts", self.start("--without-gpu", "processors").stdout)
        self.assertNotEqual(file.read_text(), "earlier")
        self.assertEqual(len(self.results()), 1)

    def test_an_interrupt_ends_it(self):
        self.program("path/nvidia-smi", GPU)
        self.program("the folder/bin/device-xmc", f"#!/bin/bash\necho $$ >'{self.at}/id'\nexec sleep 100\n")
        # As a terminal does: a group of processes of its own, which all receive the signal, and none ignores it.
        begun = subprocess.Popen([*self.command(), "tests", "figures"], stdout=subprocess.PIPE, text=True,
                                 start_new_session=True,
                                 preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        while not (self.at / "id").exists() or not (self.at / "id").read_text():
            time.sleep(0.01)
        os.killpg(begun.pid, signal.SIGINT)
        told = begun.communicate()[0]
        self.assertEqual(begun.returncode, 130)
        self.assertIn("interrupted", told)
        self.assertNotIn("figures  ", told.split("in all")[1])
        # The program may still be on its way out, and then it is init's child.
        interrupted = Path("/proc", (self.at / "id").read_text().strip())
        until = time.monotonic() + 30
        while interrupted.exists() and time.monotonic() < until:
            time.sleep(0.01)
        self.assertFalse(interrupted.exists())

    def test_an_experiment_without_a_result_has_failed(self):
        self.program("the folder/bin/muster-bench", "#!/bin/bash\n")
        done = self.start("--without-gpu", "figures")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, "FAILED: there is no new bench/results/.*-gpu-emulated-xmalloc-smoke.json")

    def test_results_of_a_run_that_was_cut_off_are_kept(self):
        self.program("the folder/bin/muster-bench", BENCH.replace("true", "false") + "kill -INT $$\n")
        done = self.start("--without-gpu", "filled")
        self.assertEqual(done.returncode, 1)
        self.assertIn("1 charts, and is not complete", done.stdout)

    def test_counts_of_the_emulation_are_no_results_of_a_gpu(self):
        self.program("path/nvidia-smi", GPU)
        self.program("the folder/bin/muster-bench", BENCH.replace("a/b", "on the emulation of a GPU"))
        done = self.start("slabs")
        self.assertEqual((done.returncode, self.results()), (1, []))
        self.assertIn("used its emulation instead", done.stdout)

    @unittest.skipIf(list(Path("/proc/driver").glob("nvidia/gpus/*")), "there is a GPU")
    def test_an_error_of_nvidia_smi_is_no_name(self):
        self.program("path/nvidia-smi", "#!/bin/bash\necho 'NVIDIA-SMI has failed: err0r'\nexit 9\n")
        done = self.start("facts")
        self.assertNotIn("err0r", done.stdout)

    @unittest.skipIf(list(Path("/dev").glob("nvidia[0-9]*")), "there is a GPU")
    def test_nothing_is_measured_without_a_gpu(self):
        done = self.start()
        self.assertEqual((done.returncode, self.results()), (1, []))
        self.assertIn("no NVIDIA GPU that works", done.stdout)

    def test_an_older_c_library_gets_its_own_cxx_library(self):
        self.program("path/getconf", "#!/bin/bash\necho glibc 2.1\n")
        done = self.start("--without-gpu", "filled")
        self.assertRegex(done.stdout, r"is GLIBC_2\.1, and the folder needs GLIBC_2\.2[:;] "
                                      r"(.* /\S+/libstdc\+\+\.so\.6|.*no C\+\+ library)")

    def test_mistakes_are_refused(self):
        wrong = (["--seconds", "soon"], ["figure"], ["--fast"], ["--seconds"], ["--out", ""], ["facts", "facts"])
        for arguments in wrong:
            self.assertEqual(self.start(*arguments).returncode, 2, arguments)
        for seconds in ("0", "soon", "-1", "99999999999999999999"):
            self.assertRegex(self.start("--seconds", seconds).stderr, f"from 1 to 9999999, got {seconds}")
        # Nothing can be made in a file.
        self.assertRegex(self.start("--out", "/dev/null/results", "facts").stderr,
                         "cannot be written to /dev/null/results; name another")


@unittest.skipIf(shutil.which("nvcc", path="/usr/bin:/bin"), "nvcc is where ./dev looks in any case")
class BareMachine(Folder):
    """./dev gpu where a GPU is, but nothing that compiles for it."""

    def setUp(self):
        super().setUp()
        (self.at / "checkout").mkdir()
        shutil.copy(ROOT / "dev", self.at / "checkout" / "dev")
        self.program("path/nvidia-smi", GPU)

    def dev(self) -> subprocess.CompletedProcess:
        environment = {"PATH": f"{self.at / 'path'}:/usr/bin:/bin", "DEV_NO_SETUP": "1"}
        return subprocess.run([self.at / "checkout" / "dev", "gpu"], env=environment, text=True, capture_output=True,
                              check=False)

    def test_what_is_missing_is_named(self):
        done = self.dev()
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, "a GPU is here, but its programs cannot be built without: .*nvcc")
        self.assertIn("./dev gpu --bundle, on a machine with nvcc and a network", done.stdout)

    def test_a_bundle_is_run(self):
        shutil.copytree(self.folder, self.at / "checkout" / "build" / "gpu-bundle")
        done = self.dev()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("running build/gpu-bundle, built from commit 0123456789ab", done.stdout)
        self.assertIn("nothing failed", done.stdout)
        self.assertTrue((self.at / "checkout" / "out" / "gpu" / "summary.txt").exists())


class Pack(Folder):
    def test_a_program_that_is_missing_is_named(self):
        with self.assertRaisesRegex(bundle.Failed, "has no device-heap, .*build the preset gpu"):
            bundle.pack(self.at, self.at / "new")

    def test_no_other_files_are_replaced(self):
        (self.at / "new" / "lib").mkdir(parents=True)
        with self.assertRaisesRegex(bundle.Failed, r"has other files \(no COMMIT\)"):
            bundle.pack(self.folder / "bin", self.at / "new")
        for name in ("COMMIT", "NEEDS", "mine"):
            (self.at / "new" / name).write_text("")
        with self.assertRaisesRegex(bundle.Failed, r"has other files \(mine\)"):
            bundle.pack(self.folder / "bin", self.at / "new")
        self.assertTrue((self.at / "new" / "mine").exists())
        # As ./dev gpu --bundle asks before it builds.
        for place, why in ((self.at / "new", r"has other files \(mine\)"), (self.folder / "run", "is no folder")):
            with self.assertRaisesRegex(bundle.Failed, why):
                bundle.check_place(place)
        bundle.check_place(self.at / "not there")

    def test_a_tool_that_is_missing_is_named(self):
        with self.assertRaisesRegex(bundle.Failed, "there is no no-such-tool on the PATH"):
            bundle.output("no-such-tool")

    def test_a_library_that_is_not_in_the_folder_is_found(self):
        program = next(Path(one) for one in ("/usr/bin/ls", "/usr/bin/git", sys.executable)
                       if any(not bundle.OF_THE_MACHINE.fullmatch(name) for name in bundle.needed(Path(one))))
        shutil.rmtree(self.folder / "bin")
        (self.folder / "bin").mkdir()
        shutil.copy(program, self.folder / "bin")
        with self.assertRaisesRegex(bundle.Failed, f"{program.name} needs lib.*, which the folder lacks"):
            bundle.check_files(self.folder)
        for name, path in bundle.resolved(program).items():
            if not bundle.OF_THE_MACHINE.fullmatch(name):
                shutil.copy(path, self.folder / "lib" / name)
        with self.assertRaisesRegex(bundle.Failed, "looks for libraries in"):
            bundle.check_files(self.folder)

    def test_the_c_library_is_the_newest_that_a_file_needs(self):
        self.assertRegex(bundle.newest_of_c_library([Path("/usr/bin/env").resolve()]), r"^GLIBC_2\.\d+$")


class Merge(Folder):
    def merge(self) -> str:
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            bundle.merge(self.at, self.at / "merged")
        return told.getvalue()

    def write(self, name: str, content: object) -> None:
        (self.at / name).write_text(content if isinstance(content, str) else json.dumps(content))

    def test_a_folder_that_is_missing_is_named(self):
        with self.assertRaisesRegex(bundle.Failed, "there is no folder .*/absent"):
            bundle.merge(self.at / "absent", self.at / "merged")

    def test_results_are_copied_once(self):
        with self.assertRaisesRegex(bundle.Failed, "has no result files"):
            self.merge()
        self.write("a.json", document() | {"machine": document()["machine"] | {"gpu": "NVIDIA H100, 580"}})
        self.assertRegex(self.merge(), "a.json: 3 charts of NVIDIA H100, 580")
        self.assertTrue((self.at / "merged" / "a.json").exists())
        self.merge()
        self.write("a.json", document() | {"date": "2001-01-01T00:00:00Z"})
        with self.assertRaisesRegex(bundle.Failed, "exists and is another"):
            self.merge()

    def test_what_the_report_would_leave_out_is_refused(self):
        self.write("a.json", document())
        self.write("b.json", json.dumps(document())[:-40])
        self.write("c.json", document() | {"profile": "hasty"})
        with self.assertRaisesRegex(bundle.Failed, "(?s)b.json: is not JSON.*c.json: .*hasty"):
            self.merge()
        self.assertEqual([file.name for file in (self.at / "merged").iterdir()], ["a.json"])

    def test_results_that_are_already_there_stay(self):
        self.write("a.json", document())
        with contextlib.redirect_stdout(io.StringIO()):
            bundle.merge(self.at, self.at)
        self.assertTrue((self.at / "a.json").exists())

    def test_a_build_of_no_commit_is_named(self):
        self.write("a.json", document() | {"build": document()["build"] | {"commit": "0123456789ab+"}})
        self.assertIn("not for the record", self.merge())


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    unittest.main()
