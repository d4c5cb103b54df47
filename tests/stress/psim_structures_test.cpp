// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// psim_queue and psim_stack, used by the fibers of several threads, with nodes that are used again at once: nothing is
// lost, nothing comes twice, and whole histories are linearizable.
#include <gtest/gtest.h>
#include <muster/combine/psim_queue.hpp>
#include <muster/combine/psim_stack.hpp>
#include <muster/fiber.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "fifo_monitor.hpp"
#include "history.hpp"
#include "lifo_monitor.hpp"
#include "scale.hpp"

namespace {

using namespace muster_test;
using number = std::uint64_t;

template <class T>
constexpr bool is_queue = false;
template <>
constexpr bool is_queue<muster::psim_queue<number>> = true;

template <class Kind>
class psim_structures : public ::testing::Test {
 protected:
  /// Each fiber pushes and pops by chance; the whole history is checked.
  template <class Clock>
  static std::string storm(unsigned carriers, unsigned fibers, std::size_t operations, unsigned seed) {
    Kind object({.threads = 64, .batch = 1 + seed % 7},
                {.yield_after_announcing = seed % 5 != 0, .alone_first = seed % 2 == 0, .chain = 1 + seed % 4});
    recording<Clock> record(carriers * fibers, operations);
    muster::run_team({.carriers = carriers, .fibers = fibers}, [&](unsigned carrier, unsigned fiber) {
      const std::size_t self = carrier * fibers + fiber;
      thread_log<Clock>& log = record.log(self);
      std::minstd_rand dice(static_cast<unsigned>(self) + seed + 1);
      for (std::size_t n = 0; n < operations; ++n) {
        if (dice() % 100 < 50) {
          const number value = self * operations + n + 1;
          log.invoke(op::push, value);
          object.push(value);
          log.respond(result::success);
        } else {
          log.invoke(op::pop);
          if (const std::optional<number> value = object.pop()) {
            log.respond(result::success, *value);
          } else {
            log.respond(result::empty);
          }
        }
        if (dice() % 4 == 0) muster::this_fiber::yield();
      }
    });
    object.check();
    const std::vector<event> history = record.history();
    return is_queue<Kind> ? fifo_violation(history) : lifo_violation(history);
  }
};

struct names {
  template <class Kind>
  static std::string GetName(int) {
    return is_queue<Kind> ? "queue" : "stack";
  }
};
using kinds = ::testing::Types<muster::psim_queue<number>, muster::psim_stack<number>>;
TYPED_TEST_SUITE(psim_structures, kinds, names);

TYPED_TEST(psim_structures, are_linearizable) {
  for (unsigned round = 0; round < scaled(400); ++round) {
    const unsigned carriers = 1 + round % 4;
    const unsigned fibers = round % 3 == 0 ? 6 : 1;
    const std::string wrong = round % 2 == 0 ? this->template storm<exact_clock>(carriers, fibers, 400, round)
                                             : this->template storm<cheap_clock>(carriers, fibers, 400, round);
    ASSERT_EQ(wrong, "") << carriers << " threads of " << fibers << " fibers, round " << round;
  }
}

TYPED_TEST(psim_structures, lose_nothing_among_eight_times_as_many_threads) {
  for (const unsigned fibers : {1U, 4U}) {
    constexpr unsigned carriers = 16;
    const std::size_t each = scaled(5000);
    TypeParam object({.threads = 64}, {.chain = 4});
    std::vector<std::vector<number>> popped(carriers * fibers);
    muster::run_team({.carriers = carriers, .fibers = fibers}, [&](unsigned carrier, unsigned fiber) {
      const std::size_t self = carrier * fibers + fiber;
      for (std::size_t n = 0; n < each; ++n) {
        object.push(self * each + n);
        if (const auto value = object.pop()) popped[self].push_back(*value);
      }
    });
    object.check();
    std::vector<unsigned> seen(carriers * fibers * each);
    for (const auto& by_one : popped)
      for (const number value : by_one) ++seen.at(value);
    while (const auto value = object.pop()) ++seen.at(*value);
    for (std::size_t value = 0; value < seen.size(); ++value) ASSERT_EQ(seen[value], 1U) << value;
  }
}

}  // namespace
