// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The paper's own queues, FFQ^s and FFQ^m as printed, under the monitor: whole histories of 1 to 8 producers and 1 to 8
// consumers, in arrays so small that producers reach cells that others still hold.
//
// They must be strict FIFO, and their flow control is a bound, too. A push that passes its check finds fewer than half
// of the cells unclaimed, and each of several producers may pass it before the others take a rank. So there are never
// more than cells / 2 + producers - 1 items for which no pop has begun, which is the count of the monitor's VCapacity.
// They never report full, and only the variant with one consumer reports empty.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "baselines/double_word.hpp"
#include "baselines/ffq_mpmc_paper.hpp"
#include "baselines/ffq_spmc_paper.hpp"
#include "fifo_monitor.hpp"
#include "history.hpp"
#include "scale.hpp"

using namespace muster_test;
using namespace muster::bench;

namespace {

namespace layout = muster::layout;
using number = std::uint64_t;

template <class Queue>
struct spsc_kind : Queue {
  using Queue::Queue;
  static constexpr std::size_t producers = 1, consumers = 1;
  static constexpr bool available = true, tells_empty = true;
};
template <class Queue>
struct spmc_kind : Queue {
  using Queue::Queue;
  static constexpr std::size_t producers = 1, consumers = 8;
  static constexpr bool available = true, tells_empty = false;
};
template <class Queue>
struct mpmc_kind : Queue {
  using Queue::Queue;
  static constexpr std::size_t producers = 8, consumers = 8;
  static constexpr bool available = double_words, tells_empty = false;
};

template <class Kind>
class baseline_ffq : public ::testing::Test {
 protected:
  struct setting {
    std::size_t cells = 0, producers = 1, consumers = 1, items = 0;
  };

  void SetUp() override {
    if (!Kind::available) GTEST_SKIP() << "not on this machine";
  }

  /// Each consumer pops as many items as make all of them together: the paper's pop has no other end.
  template <class Clock>
  static std::vector<event> storm(const setting& s) {
    Kind queue(s.cells, static_cast<unsigned>(s.producers), static_cast<unsigned>(s.consumers));
    recording<Clock> record(s.producers + s.consumers, 4 * s.items + 1);
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < s.producers; ++i)
      threads.emplace_back([&, i] { produce(queue, record.log(i), i, share(s.items, s.producers, i)); });
    for (std::size_t i = 0; i < s.consumers; ++i)
      threads.emplace_back([&, i] { consume(queue, record.log(s.producers + i), share(s.items, s.consumers, i)); });
    threads.clear();
    return record.history();
  }

  /// The same, but each thread pushes an item and pops one, in turn.
  template <class Clock>
  static std::vector<event> storm_of_pairs(const setting& s) {
    Kind queue(s.cells, static_cast<unsigned>(s.producers), static_cast<unsigned>(s.producers));
    recording<Clock> record(s.producers, 2 * s.items + 1);
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < s.producers; ++i)
      threads.emplace_back([&, i] {
        typename Kind::producer to(queue, static_cast<unsigned>(i));
        typename Kind::consumer from(queue, static_cast<unsigned>(i));
        thread_log<Clock>& log = record.log(i);
        for (number n = 0; n < share(s.items, s.producers, i); ++n) {
          push(to, log, n * most + i);
          pop(from, log);
        }
      });
    threads.clear();
    return record.history();
  }

  void judge(const std::vector<event>& history, const setting& s) {
    const std::string wrong = fifo_violation(history, {s.cells / 2 + s.producers - 1, false});
    ASSERT_EQ(wrong, "") << s.producers << " to " << s.consumers << " through " << s.cells << " cells";
    std::size_t pushed = 0, popped = 0;
    for (const event& e : history) {
      if (e.outcome != result::success) continue;
      ++(e.kind == op::push ? pushed : popped);
    }
    ASSERT_EQ(pushed, s.items);
    ASSERT_EQ(popped, s.items);
    ++storms_;
  }

  /// With fewer cells than twice the threads, all of them may be held by threads that are not running. Then a producer
  /// makes gaps as fast as it can, and the consumers have to walk over all of them: for fewer items.
  void storms(std::size_t rounds, std::size_t items) {
    std::size_t expected = 0;
    for (std::size_t round = 0; round < rounds; ++round) {
      for (const std::size_t cells_each : {1U, 2U, 8U}) {
        setting s;
        s.items = cells_each == 1 ? items / 8 : items;
        if (Kind::producers > 1) s.producers = sizes[(round + cells_each) % 5];
        if (Kind::consumers > 1) s.consumers = sizes[(round / 2 + cells_each) % 5];
        s.cells = std::bit_ceil(cells_each * (s.producers + s.consumers));
        const bool exact = (round + cells_each) % 3 == 0;
        judge(exact ? storm<exact_clock>(s) : storm<cheap_clock>(s), s);
        ++expected;
        if constexpr (Kind::producers > 1) {
          s.producers = s.consumers = sizes[(round + 1) % 5];
          s.cells = std::bit_ceil(2 * cells_each * s.producers);
          judge(exact ? storm_of_pairs<exact_clock>(s) : storm_of_pairs<cheap_clock>(s), s);
          ++expected;
        }
        if (HasFatalFailure()) return;
      }
    }
    EXPECT_EQ(storms_, expected);
    EXPECT_GT(storms_, 0U);
  }

 private:
  static constexpr std::size_t most = 16;  // threads, at least
  static constexpr std::size_t sizes[] = {1, 2, 4, 8, 3};

  static std::size_t share(std::size_t items, std::size_t among, std::size_t of) {
    return items / among + (of < items % among);
  }
  template <class Clock>
  static void push(typename Kind::producer& to, thread_log<Clock>& log, number value) {
    log.invoke(op::push, value);
    to.push(value);
    log.respond(result::success);
  }
  template <class Clock>
  static void pop(typename Kind::consumer& from, thread_log<Clock>& log) {
    log.invoke(op::pop);
    const number value = from.pop();
    log.respond(result::success, value);
  }
  template <class Clock>
  static void produce(Kind& queue, thread_log<Clock>& log, std::size_t self, std::size_t items) {
    typename Kind::producer to(queue, static_cast<unsigned>(self));
    for (number n = 0; n < items; ++n) {
      push(to, log, n * most + self);
      if (n % 61 == self) std::this_thread::yield();
    }
  }
  template <class Clock>
  static void consume(Kind& queue, thread_log<Clock>& log, std::size_t items) {
    typename Kind::consumer from(queue, 0);
    for (std::size_t n = 0; n < items;) {
      if constexpr (Kind::tells_empty) {
        if (n % 2 == 0 && log.room_left() > items) {
          number value = 0;
          log.invoke(op::pop);
          if (from.try_pop(value)) log.respond(result::success, value), ++n;
          else log.respond(result::empty), std::this_thread::yield();
          continue;
        }
      }
      pop(from, log);
      ++n;
    }
  }

  std::size_t storms_ = 0;
};

using kinds = ::testing::Types<
    spsc_kind<ffq_spmc_paper<number, ffq_packed_cell, false>>, spmc_kind<ffq_spmc_paper<number, ffq_packed_cell>>,
    spmc_kind<ffq_spmc_paper<number, ffq_aligned_cell>>, mpmc_kind<ffq_mpmc_paper<number, layout::packed>>,
    mpmc_kind<ffq_mpmc_paper<number, layout::aligned>>, mpmc_kind<ffq_mpmc_paper<number, layout::rotated>>,
    mpmc_kind<ffq_mpmc_paper<number, layout::aligned_rotated>>,
    spsc_kind<ffq_spmc_paper<number, ffq_aligned_cell, false>>,
    mpmc_kind<ffq_mpmc_paper<number, layout::aligned, funnels<2, patience>>>>;
struct names {
  template <class Kind>
  static std::string GetName(int index) {
    static constexpr const char* all[] = {"s_one_consumer", "s",         "s_aligned", "m",
                                          "m_aligned",      "m_rotated", "m_both",    "s_aligned_one_consumer",
                                          "m_funnel"};
    return all[index];
  }
};
TYPED_TEST_SUITE(baseline_ffq, kinds, names);

TYPED_TEST(baseline_ffq, is_linearizable) { this->storms(scaled(30), 2000); }
TYPED_TEST(baseline_ffq, is_linearizable_for_long_nightly) { this->storms(scaled(300), 5000); }

}  // namespace
