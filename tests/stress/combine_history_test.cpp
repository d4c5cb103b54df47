// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The queue and the stack on every combining object, used by the fibers of several threads: nothing is lost, nothing
// comes twice, and whole histories are linearizable.
#include <gtest/gtest.h>
#include <muster/combine.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fifo_monitor.hpp"
#include "history.hpp"
#include "lifo_monitor.hpp"
#include "scale.hpp"
#include "structure_storm.hpp"

namespace {

using namespace muster_test;
using number = std::uint64_t;

template <class T>
constexpr bool is_queue = false;
template <class T, template <class...> class Combining>
constexpr bool is_queue<muster::combining_queue<T, Combining>> = true;

template <template <class...> class... Combining>
struct both {
  static constexpr std::size_t techniques = sizeof...(Combining);
  using types =
      ::testing::Types<muster::combining_queue<number, Combining>..., muster::combining_stack<number, Combining>...>;
};
// The others are queues and stacks as well, which are slow to compile: the matrix has them.
#if defined(MUSTER_TEST_MATRIX)
using kinds = both<muster::osci, muster::cc_synch, muster::flat_combining, muster::osci_shared>;
#else
using kinds = both<muster::osci, muster::cc_synch, muster::flat_combining>;
#endif

struct names {
  template <class Kind>
  static std::string GetName(int index) {
    static constexpr std::array<const char*, 4> all = {"osci", "cc_synch", "flat_combining", "osci_shared"};
    return (is_queue<Kind> ? "queue_" : "stack_") +
           std::string(all.at(static_cast<std::size_t>(index) % kinds::techniques));
  }
};

template <class Kind>
class combining : public ::testing::Test {
 protected:
  template <class Clock>
  static std::string violation(const structure_storm& storm, unsigned seed) {
    Kind object(muster::combine_options{.batch = 1 + seed % 7, .help = 1 + seed % 31});
    const std::vector<event> history = storm.play<Clock>(object, seed);
    object.check();
    return is_queue<Kind> ? fifo_violation(history) : lifo_violation(history);
  }
};
TYPED_TEST_SUITE(combining, kinds::types, names);

TYPED_TEST(combining, is_linearizable) {
  for (unsigned round = 0; round < scaled(40); ++round) {
    const structure_storm storm{.carriers = 1 + round % 3, .fibers = round % 2 == 0 ? 1U : 6U, .operations = 400};
    const std::string wrong = round % 3 == 0 ? this->template violation<exact_clock>(storm, round)
                                             : this->template violation<cheap_clock>(storm, round);
    ASSERT_EQ(wrong, "") << storm.carriers << " threads of " << storm.fibers << " fibers, round " << round;
  }
}

TYPED_TEST(combining, loses_nothing_among_eight_times_as_many_threads) {
  TypeParam object;  // few operations: a queue lock hands itself to threads that do not run
  ASSERT_EQ((structure_storm{.carriers = 16, .fibers = 4, .operations = scaled(100)}.count(object)), "");
}

}  // namespace
