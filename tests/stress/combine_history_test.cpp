// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The queue and the stack on every combining object, used by the fibers of several threads: nothing is lost, nothing
// comes twice, and whole histories are linearizable.
#include <gtest/gtest.h>
#include <muster/combine.hpp>
#include <muster/fiber.hpp>

#include <array>
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
template <class T, template <class...> class Combining>
constexpr bool is_queue<muster::combining_queue<T, Combining>> = true;

template <template <class...> class... Combining>
struct both {
  using types =
      ::testing::Types<muster::combining_queue<number, Combining>..., muster::combining_stack<number, Combining>...>;
};
using kinds = both<muster::osci, muster::osci_shared, muster::cc_synch, muster::dsm_synch, muster::h_synch,
                   muster::flat_combining, muster::oyama, muster::clh, muster::mcs>::types;

struct names {
  template <class Kind>
  static std::string GetName(int index) {
    static constexpr std::array<const char*, 9> all = {
        "osci", "osci_shared", "cc_synch", "dsm_synch", "h_synch", "flat_combining", "oyama", "clh", "mcs"};
    const auto i = static_cast<std::size_t>(index);
    return std::string(i < all.size() ? "queue_" : "stack_") + all.at(i % all.size());
  }
};

template <class Kind>
class combining : public ::testing::Test {
 protected:
  /// Each fiber pushes and pops by chance; the whole history is checked.
  template <class Clock>
  static std::string storm(unsigned carriers, unsigned fibers, std::size_t operations, unsigned seed) {
    Kind object(muster::combine_options{.batch = 1 + seed % 7, .help = 1 + seed % 31});
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
TYPED_TEST_SUITE(combining, kinds, names);

TYPED_TEST(combining, is_linearizable) {
  for (unsigned round = 0; round < scaled(40); ++round) {
    const unsigned carriers = 1 + round % 3;
    const unsigned fibers = round % 2 == 0 ? 1 : 6;
    const std::string wrong = round % 3 == 0 ? this->template storm<exact_clock>(carriers, fibers, 400, round)
                                             : this->template storm<cheap_clock>(carriers, fibers, 400, round);
    ASSERT_EQ(wrong, "") << carriers << " threads of " << fibers << " fibers, round " << round;
  }
}

TYPED_TEST(combining, loses_nothing_among_eight_times_as_many_threads) {
  constexpr unsigned carriers = 16, fibers = 4;
  const std::size_t each = scaled(100);  // a queue lock hands itself to threads that do not run
  TypeParam object;
  std::vector<std::vector<number>> popped(carriers * fibers);
  muster::run_team({.carriers = carriers, .fibers = fibers}, [&](unsigned carrier, unsigned fiber) {
    const std::size_t self = carrier * fibers + fiber;
    for (std::size_t n = 0; n < each; ++n) {
      object.push(self * each + n);
      if (const auto value = object.pop()) popped[self].push_back(*value);
    }
  });
  std::vector<unsigned> seen(carriers * fibers * each);
  for (const auto& by_one : popped)
    for (const number value : by_one) ++seen.at(value);
  while (const auto value = object.pop()) ++seen.at(*value);
  for (std::size_t value = 0; value < seen.size(); ++value) ASSERT_EQ(seen[value], 1U) << value;
}

}  // namespace
