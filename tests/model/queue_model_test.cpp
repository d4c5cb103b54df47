// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The queues under the checker: every program is searched in every way that its row allows, on a machine with the
// asymmetric fence and on one without. A search within bounds must be complete.
//
//   model-queue_model --list             the names of the programs
//   model-queue_model --replay 'LINE'    one execution step by step, as the last line of a failure names it
#include <gtest/gtest.h>

#include "queue_table.hpp"

#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace muster_model_test;

constexpr std::string_view without = ", without the asymmetric fence";

std::vector<mm::limits> searches_of(const row& r) {
  if (r.chances == 0) return {{.preemptions = r.preemptions, .stale = r.stale, .executions = 1'000'000}};
  return {{.how = mm::strategy::random, .executions = r.chances},
          {.how = mm::strategy::priorities, .executions = r.chances, .depth = 4}};
}

class queue_model : public ::testing::TestWithParam<std::size_t> {};

TEST_P(queue_model, has_no_execution_that_breaks_a_promise) {
  const row& r = table[GetParam()];
  const std::function<void()> program = make_program(r);
  for (const bool asymmetric : {true, false}) {
    mm::settings().asymmetric_fences = asymmetric;
    std::string name = name_of(r);
    if (!asymmetric) name += without;
    for (const mm::limits& within : searches_of(r)) {
      const mm::result found = mm::explore(within, program);
      ASSERT_FALSE(found.failed) << name << '\n'
                                 << found.failed->what << '\n'
                                 << found.failed->trace << mm::write_replay(name, found.failed->path);
      EXPECT_TRUE(found.complete || found.cut || r.chances != 0)
          << "not complete after " << found.executions << " executions";
      std::cout << name << ": " << found.executions << " executions" << (found.complete ? ", complete" : "") << '\n';
    }
  }
}

INSTANTIATE_TEST_SUITE_P(programs, queue_model, ::testing::Range(std::size_t{0}, table.size()), [](const auto& at) {
  return std::string(table[at.param].queue) + "_" + std::to_string(at.param);
});

/// Throws std::invalid_argument with what to do instead.
int replay(const std::string& line) {
  auto [name, path] = mm::read_replay(line);
  mm::settings().asymmetric_fences = !name.ends_with(without);
  if (name.ends_with(without)) name.resize(name.size() - without.size());
  for (const row& r : table) {
    if (name_of(r) != name) continue;
    const std::optional<mm::failure> again = mm::replay(searches_of(r)[0], path, make_program(r));
    std::cout << (again ? again->what + '\n' + again->trace : "this execution does not fail\n");
    return again ? 1 : 0;
  }
  throw std::invalid_argument("no program is called \"" + name + "\"; --list names them");
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) {
    const int failed = RUN_ALL_TESTS();
    if (::testing::UnitTest::GetInstance()->test_to_run_count() != 0 || GTEST_FLAG_GET(list_tests)) return failed;
    std::cerr << "no test has such a name; --gtest_list_tests lists them\n";
    return 2;
  }
  if (arguments.size() == 1 && arguments[0] == "--list") {
    for (const row& r : table) std::cout << name_of(r) << '\n';
    return 0;
  }
  try {
    if (arguments.size() == 2 && arguments[0] == "--replay") return replay(arguments[1]);
    if (arguments[0] == "--replay")
      throw std::invalid_argument("--replay takes one line, in quotes, as a failure ends");
    throw std::invalid_argument("what is \"" + arguments[0] + "\"? Say nothing, --list, --replay 'LINE' or --help");
  } catch (const std::invalid_argument& e) {
    std::cerr << e.what() << '\n';
    return 2;
  }
}
