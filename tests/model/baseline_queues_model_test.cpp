// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The queues of recent years that the benchmark compares with, under the checker: SCQ, LPRQ, and LPRQ over Aggregating
// Funnels; and a funnel alone. (The checker does not see the double-word operation of LCRQ, which has LPRQ's list.)
// Rings and batches are as small as they may be, so that they are used again at once.
#include <gtest/gtest.h>

#include "../../bench/baselines/funnel.hpp"
#include "../../bench/baselines/lprq.hpp"
#include "../../bench/baselines/scq.hpp"
#include "expect_right.hpp"
#include "named_programs.hpp"
#include "structure_programs.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace muster_model_test;
using namespace muster::bench;

/// A structure with a handle for each thread.
template <class Queue>
class by_handles {
 public:
  template <class Limits>
  by_handles(std::size_t size, const Limits& limits) : queue_(size, limits) {}

  void push(number value) { mine().push(value); }
  std::optional<number> pop() {
    number value = 0;
    return mine().pop(value) ? std::optional(value) : std::nullopt;
  }
  void check() const {}

 private:
  typename Queue::handle& mine() {
    auto& own = handles_[mm::engine::running().current()];
    if (!own) own.emplace(queue_);
    return *own;
  }

  Queue queue_;
  std::array<std::optional<typename Queue::handle>, mm::most_threads> handles_;
};

template <class Queue, class Limits>
std::function<void()> program(const script& s, std::size_t size, const Limits& limits) {
  using structure = by_handles<Queue>;
  return structure_program<structure, muster_test::queue_spec>(s, [=] { return structure(size, limits); });
}

/// For a wait without bounds, which the checker must recognize.
struct waiting {
  void wait() const { muster::sync::yield(); }
};
using funnel = funnels<1, waiting>;
using list = lprq<number>;
using list_over_funnels = lprq<number, cpu_turn, muster::line_size, funnel>;

std::vector<named_program> programs_of(const script& s) {
  // The least capacity that SCQ may have and with which no push finds it full.
  const std::string text = s.text();
  const std::size_t room =
      std::max(s.threads.size(), static_cast<std::size_t>(std::count(text.begin(), text.end(), 'u')));
  return {{"SCQ: " + s.text(), program<scq<number>>(s, room, scq_limits{0})},
          {"SCQ, waiting: " + s.text(), program<scq<number>>(s, room, scq_limits{1})},
          {"LPRQ: " + s.text(), program<list>(s, 2, ring_limits{.attempts = 2, .wait = 0})},
          {"LPRQ, waiting: " + s.text(), program<list>(s, 2, ring_limits{.attempts = 4, .wait = 1})},
          {"LPRQ over funnels: " + s.text(), program<list_over_funnels>(s, 2, ring_limits{.attempts = 2, .wait = 0})}};
}

const std::vector<script> small = {{"", {"u", "o"}},    {"", {"u", "u"}},   {"u", {"o", "o"}},
                                   {"u", {"ou", "uo"}}, {"", {"uu", "oo"}}, {"oo", {"u", "o"}}};

TEST(baseline_queues_model, two_threads) {
  for (const script& s : small)
    for (const named_program& one : programs_of(s))
      expect_right(search_bounds{.preemptions = 2, .stale = 0}, one.name, one.run);
}

TEST(baseline_queues_model, old_values) {
  for (const script& s : {script{"", {"u", "o"}}, script{"u", {"o", "o"}}})
    for (const named_program& one : programs_of(s))
      expect_right(search_bounds{.preemptions = 1, .stale = 1}, one.name, one.run);
}

TEST(baseline_queues_model, three_threads) {
  for (const script& s : {script{"u", {"o", "u", "o"}}, script{"", {"u", "u", "o"}}})
    for (const named_program& one : programs_of(s))
      expect_right(search_bounds{.preemptions = 1, .stale = 0}, one.name, one.run);
}

// One enqueuer of a cell is late, the next lap's overtakes it, and a dequeuer is between the two.
TEST(baseline_queues_model, a_cell_is_overtaken) {
  const script s{"", {"u", "uu", "o"}};
  for (const named_program& one : programs_of(s))
    expect_right(search_bounds{.preemptions = 2, .stale = 0}, one.name, one.run);
}

// An item waits for its dequeuer for a lap, and then an enqueuer may not use the cell whose dequeuer has passed it.
TEST(baseline_queues_model, a_cell_is_unsafe) {
  const auto search = [](const char* name, const script& s, const std::function<void()>& run) {
    expect_right(search_bounds{.preemptions = 3, .stale = 0}, name + s.text(), run);
  };
  const script scq_laps{"u", {"o", "u", "oooooooo"}}, lprq_laps{"u", {"o", "u", "oo"}};
  search("SCQ: ", scq_laps, program<scq<number>>(scq_laps, 4, scq_limits{0}));
  search("LPRQ: ", lprq_laps, program<list>(lprq_laps, 2, ring_limits{.attempts = 2, .wait = 0}));
}

TEST(baseline_queues_model, rings_go_round) {
  for (const script& s : {script{"uuuu", {"oooo", "uuu"}}, script{"u", {"uouo", "ouou"}},
                          script{"uuu", {"ooou", "uou", "oo"}}, script{"", {"uouou", "uo", "o"}}})
    expect_right_by_chance(programs_of(s));
}

// ---------------------------------------------------------------------------------------------------------------------

/// Each thread adds these numbers in turn. All results together must be what the same additions one after another give,
/// each thread's own in its order.
std::function<void()> additions(std::vector<std::vector<number>> of) {
  return [of = std::move(of)] {
    struct shared {
      funnel::group all{1};
      funnel::counter counter{all};
    } now;
    std::vector<std::vector<std::pair<number, number>>> got(of.size());
    const auto work = [&](std::size_t t) {
      funnel::user own(now.all);
      for (const number by : of[t]) got[t].emplace_back(now.counter.fetch_add(own, by), by);
    };
    std::vector<unsigned> threads;
    for (std::size_t t = 1; t < of.size(); ++t) threads.push_back(mm::spawn([&work, t] { work(t); }));
    work(0);
    for (const unsigned t : threads) static_cast<void>(mm::join(t));
    std::vector<std::size_t> next(of.size());
    number sum = 0;
    for (bool moved = true; std::exchange(moved, false);)
      for (std::size_t t = 0; t < of.size(); ++t)
        for (; next[t] < got[t].size() && got[t][next[t]].first == sum; ++next[t], moved = true)
          sum += got[t][next[t]].second;
    for (std::size_t t = 0; t < of.size(); ++t)
      if (next[t] != of[t].size()) mm::engine::running().fail("a number is given out twice, or not at all");
    if (now.counter.load() != sum) mm::engine::running().fail("the counter is not the sum");
  };
}

TEST(baseline_funnel_model, gives_every_number_once) {
  expect_right(search_bounds{.preemptions = 3, .stale = 0}, "1 2 | 3", additions({{1, 2}, {3}}));
  expect_right(search_bounds{.preemptions = 2, .stale = 1}, "1 2 | 3", additions({{1, 2}, {3}}));
  expect_right(search_bounds{.preemptions = 2, .stale = 0}, "1 2 | 3 | 1", additions({{1, 2}, {3}, {1}}));
}

TEST(baseline_funnel_model, batches_are_used_again) {
  expect_right(search_bounds{.preemptions = -1, .stale = -1, .chances = 5000}, "1 1 1 1 | 2 2 2 | 3 3",
               additions({{1, 1, 1, 1}, {2, 2, 2}, {3, 3}}));
}

}  // namespace
