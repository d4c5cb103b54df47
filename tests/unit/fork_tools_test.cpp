// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The view of debuggers and profilers of a stack whose forks have been stolen: that of support/shown_stack.cpp.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct outcome {
  std::string printed;
  bool well = false;
};
outcome run(const std::string& command) {
  outcome of;
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return of;
  std::vector<char> part(std::size_t{1} << 16U);
  while (const std::size_t many = std::fread(part.data(), 1, part.size(), pipe)) of.printed.append(part.data(), many);
  const int status = ::pclose(pipe);
  of.well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return of;
}
const std::string shown = SHOWN_STACK;
constexpr int depth = 5;  // of its forks

int times(std::string_view text, std::string_view what) {
  int many = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + what.size())) ++many;
  return many;
}
/// Returns true if the stack is complete, from the function that spends the time to the program's first. `after` is the
/// text that follows a function's name in a frame, and only there.
bool is_whole(std::string_view stack, const std::string& after) {
  const std::string forks = "forks_deeper" + after;
  return times(stack, "spend_time" + after) == 1 && times(stack, forks) >= depth &&
         stack.find("main" + after, stack.rfind(forks)) != stack.npos;
}

TEST(stacks, are_whole_for_a_debugger) {
  if (run("gdb -nx -batch -ex run --args true").printed.find("exited normally") == std::string::npos)
    GTEST_SKIP() << "there is no gdb that may trace here";
  const outcome got =
      run("gdb -nx -batch -ex 'set debuginfod enabled off' -ex 'break come_to_breakpoint' -ex run -ex bt " + shown);
  EXPECT_TRUE(is_whole(got.printed, " (")) << got.printed;
}

TEST(stacks, are_whole_for_a_profiler_that_unwinds_copies) {
  const std::string file = testing::TempDir() + "fork_tools_" + std::to_string(::getpid()) + ".data";
  const std::string record = "perf record -q -e cpu-clock -F 500 --call-graph dwarf,16384 -o " + file + " ";
  if (!run(record + "true").well) {
    std::filesystem::remove(file);
    GTEST_SKIP() << "there is no perf that may record here";
  }
  // A perf that the system has stopped meanwhile lacks samples, and says so. Then it looks again.
  outcome got;
  int samples = 0, whole = 0;
  for (int looks = 20; looks > 0; --looks) {
    const outcome recorded = run(record + shown);
    got = run("perf script --no-inline -i " + file);
    std::filesystem::remove(file);
    ASSERT_TRUE(recorded.well && got.well) << recorded.printed << got.printed;
    // Samples are separated by empty lines.
    samples = whole = 0;
    std::string_view rest = got.printed;
    while (!rest.empty()) {
      const std::string_view one = rest.substr(0, rest.find("\n\n"));
      rest.remove_prefix(std::min(rest.size(), one.size() + 2));
      if (one.find("spend_time+") == one.npos) continue;
      ++samples;
      whole += is_whole(one, "+") ? 1 : 0;
    }
    if (samples > 10 || got.printed.find(" and lost ") == std::string::npos) break;
  }
  EXPECT_GT(samples, 10) << got.printed;
  // One may fall where the unwind information is not exact, as in a system call.
  EXPECT_GE(10 * whole, 9 * samples) << got.printed;
}

}  // namespace
