// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The techniques in their published form, with which the benchmark compares: CC-Synch, flat combining and PSim.
//
// The state is a list of all arguments, each a digit. An operation appends its argument and returns the list before. So
// each result says which operations came before, and in which order.
#include <gtest/gtest.h>

#include "../../bench/baselines/cc_synch_paper.hpp"
#include "../../bench/baselines/flat_combining_paper.hpp"
#include "../../bench/baselines/psim_paper.hpp"
#include "named_programs.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace muster_model_test;
using namespace muster::bench;

struct append {
  std::int64_t operator()(std::int64_t& list, std::int64_t digit) const noexcept {
    return std::exchange(list, list * 16 + digit);
  }
};
/// For a wait without bounds, which the checker must recognize.
struct waiting {
  static void turn() { muster::sync::yield(); }
};

using cc_synch = cc_synch_paper<std::int64_t, append, waiting>;
using psim = psim_paper<std::int64_t, append, waiting>;
/// Cleans up in every round, so that a record is removed when it has had no request in the last.
struct flat_combining : flat_combining_paper<std::int64_t, append, waiting> {
  flat_combining(unsigned cores, unsigned fibers, std::int64_t first)
      : flat_combining_paper(cores, fibers, cleaning{1, 0}, first) {}
};

/// Threads with so many operations each.
template <class Object>
std::function<void()> appends(std::vector<unsigned> of) {
  return [of = std::move(of)] {
    const auto threads = static_cast<unsigned>(of.size());
    Object object(threads, 1, 0);
    struct seen {
      std::int64_t before;
      std::int64_t digit;
    };
    std::vector<std::vector<seen>> all(threads);
    const auto work = [&](unsigned t) {
      typename Object::handle own(object, t, 0);
      for (unsigned i = 0; i < of[t]; ++i) {
        const auto digit = static_cast<std::int64_t>(1 + t * 4 + i);
        all[t].push_back({own.apply(digit), digit});
      }
    };
    std::vector<unsigned> others;
    for (unsigned t = 1; t < threads; ++t) others.push_back(mm::spawn([&work, t] { work(t); }));
    work(0);
    for (const unsigned t : others) static_cast<void>(mm::join(t));
    std::vector<std::size_t> next(threads);
    std::int64_t list = 0;
    for (bool moved = true; std::exchange(moved, false);)
      for (unsigned t = 0; t < threads; ++t)
        if (next[t] != of[t] && all[t][next[t]].before == list) {
          append{}(list, all[t][next[t]++].digit);
          moved = true;
        }
    for (unsigned t = 0; t < threads; ++t)
      if (next[t] != of[t]) mm::engine::running().fail("the results are not those of operations one after another");
    if (object.state() != list) mm::engine::running().fail("the state is not that of operations one after another");
  };
}

std::string text_of(const std::vector<unsigned>& of) {
  std::string text;
  for (const unsigned n : of) text += (text.empty() ? "" : " | ") + std::to_string(n);
  return text;
}

template <class Object>
std::vector<named_program> programs(const char* name, const std::vector<std::vector<unsigned>>& all) {
  std::vector<named_program> made;
  for (const auto& of : all) made.push_back({name + (": " + text_of(of)), appends<Object>(of)});
  return made;
}

const std::vector<std::vector<unsigned>> small{{1, 1}, {2, 1}, {1, 1, 1}};
const std::vector<std::vector<unsigned>> large{{3, 3}, {3, 2, 2}, {2, 2, 2, 2}};

template <class Object>
void expect_right_twice(const char* name) {
  for (const named_program& one : programs<Object>(name, small))
    expect_right(search_bounds{.preemptions = 2, .stale = 1}, one.name, one.run);
  expect_right_by_chance(programs<Object>(name, large));
}

template <class Object>
void expect_changes_noticed(const char* name, const char* file, std::vector<survivor> survivors) {
  std::vector<named_program> all = programs<Object>(name, small);
  for (named_program& one : programs<Object>(name, large)) all.push_back(std::move(one));
  expect_mutants_noticed(all, {file}, std::move(survivors));
}

TEST(cc_synch_as_published, is_linearizable) { expect_right_twice<cc_synch>("CC-Synch"); }
TEST(flat_combining_as_published, is_linearizable) { expect_right_twice<flat_combining>("flat combining"); }
TEST(psim_as_published, is_linearizable) { expect_right_twice<psim>("PSim"); }

TEST(cc_synch_as_published, has_no_order_that_is_not_needed) {
  expect_changes_noticed<cc_synch>("CC-Synch", "/cc_synch_paper.hpp", {});
}
TEST(flat_combining_as_published, has_no_order_that_is_not_needed) {
  expect_changes_noticed<flat_combining>(
      "flat combining", "/flat_combining_paper.hpp",
      {{"flat_combining_paper::publish: load repeated", true, "the compare-exchange reads it again"},
       {"flat_combining_paper::clean: load repeated", true,
        "it is the head of this round, in which no record has been removed"}});
}
// PSim's orders are not searched like that: to notice most changes, two attempts of a thread would have to fall into
// one of another.

}  // namespace
