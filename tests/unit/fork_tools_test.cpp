// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// What debuggers and profilers see of a stack whose forks have been stolen. They look at a case of this program, which
// is disabled for everybody else.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <muster/fork.hpp>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "fork_settings.hpp"
#include "stolen.hpp"

// With names that are found in what others print.
namespace muster_shown {

[[gnu::noinline]] void come_to_breakpoint() { asm volatile("" : : : "memory"); }
/// Of the thread, not of the clock: other programs may want the processor, too.
[[gnu::noinline]] long spend_time() {
  const auto used = [] {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
  };
  const long end = used() + 300;
  long turns = 0;
  while (used() < end) ++turns;
  come_to_breakpoint();
  return turns;
}
[[gnu::noinline]] long forks_deeper(int depth) {
  if (depth == 0) return spend_time();
  return muster_test::fork_stolen([=] { return forks_deeper(depth - 1); }, [] { return 1L; }).first;
}

}  // namespace muster_shown

namespace {

constexpr int depth = 5;

TEST(stacks, DISABLED_are_shown) {
  muster::pool two({.workers = 2, .stack_bytes = muster_test::small_stack});
  EXPECT_GT(two.run([] { return muster_shown::forks_deeper(depth); }), 0);
}

const std::string shown = " --gtest_also_run_disabled_tests --gtest_filter=stacks.DISABLED_are_shown";
std::string own_path() { return std::filesystem::read_symlink("/proc/self/exe"); }

struct outcome {
  std::string printed;
  bool well;
};
outcome run(const std::string& command) {
  outcome of{{}, false};
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return of;
  std::vector<char> part(std::size_t{1} << 16U);
  while (const std::size_t many = std::fread(part.data(), 1, part.size(), pipe)) of.printed.append(part.data(), many);
  const int status = ::pclose(pipe);
  of.well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return of;
}
bool is_there(const std::string& tool) { return run("command -v " + tool).well; }

int times(std::string_view text, std::string_view what) {
  int many = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + what.size())) ++many;
  return many;
}
/// From the function that spends the time to the program's first. What follows a function's name in a frame, and only
/// there: `after`.
bool is_whole(std::string_view stack, const std::string& after) {
  const std::string forks = "forks_deeper" + after;
  return times(stack, "spend_time" + after) == 1 && times(stack, forks) >= depth &&
         stack.find("main" + after, stack.rfind(forks)) != stack.npos;
}

TEST(stacks, are_whole_for_a_debugger) {
  if (!is_there("gdb")) GTEST_SKIP() << "gdb is not installed";
  const outcome got =
      run("gdb -nx -batch -ex 'set debuginfod enabled off' -ex 'break muster_shown::come_to_breakpoint'"
          " -ex run -ex backtrace --args " +
          own_path() + shown);
  if (got.printed.find("ptrace") != got.printed.npos) GTEST_SKIP() << "gdb may not trace here";
  EXPECT_TRUE(is_whole(got.printed, " (")) << got.printed;
}

TEST(stacks, are_whole_for_a_profiler_that_unwinds_copies) {
  if (!is_there("perf")) GTEST_SKIP() << "perf is not installed";
  const std::string file = testing::TempDir() + "fork_tools_" + std::to_string(::getpid()) + ".data";
  const bool recorded =
      run("perf record -q -e cpu-clock -F 500 --call-graph dwarf,16384 -o " + file + " " + own_path() + shown).well;
  const outcome got = recorded ? run("perf script --no-inline -i " + file) : outcome{};
  std::filesystem::remove(file);
  if (!got.well) GTEST_SKIP() << "perf may not record here";
  // Samples are separated by empty lines.
  int samples = 0, whole = 0;
  std::string_view rest = got.printed;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find("\n\n"));
    rest.remove_prefix(std::min(rest.size(), one.size() + 2));
    if (one.find("spend_time+") == one.npos) continue;
    ++samples;
    whole += is_whole(one, "+") ? 1 : 0;
  }
  EXPECT_GT(samples, 10) << got.printed;
  // One may fall where the unwind information is not exact, as in a system call.
  EXPECT_GE(10 * whole, 9 * samples) << got.printed;
}

}  // namespace
