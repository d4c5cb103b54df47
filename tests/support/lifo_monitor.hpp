// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// lifo_monitor.hpp: decides whether a whole history of an unbounded stack is linearizable.
//
// Needs      a complete history of pushes and pops whose successful pushes have distinct values; outcomes success,
//            empty and busy (which is ignored). Otherwise std::invalid_argument.
// Exact      a history is rejected if and only if stack_spec cannot explain it (monitor_test.cpp compares the two).
// Cost       O(n log n) time for each level of nesting: a stack that is d deep at its deepest costs at most d levels.
// Source     decrease and conquer: Lee, Mathur, "Efficient Decrease-and-Conquer Linearizability Monitoring", 2024; that
//            the choices below are safe had been got wrong before: Abdulla et al., "Efficient Linearizability
//            Monitoring", PLDI 2025. So here is why.
//
// A value v is certainly inside between the end of its push and the begin of its pop, ends not included. A moment at
// which no value is certainly inside is free.
//   Split.   If there is a linearization, there is one that leaves the stack empty at a free moment t. For of the
//            values inside at t, some can be popped by t and the others be pushed only after t; let the first be popped
//            at t, from the top, and then the others be pushed, from the bottom. Values above or below one that is
//            moved were popped before or pushed after in any case. So values on the two sides of t are
//            independent, a value whose two operations can both happen at t can be left out, and a pop may report empty
//            if and only if its interval has a free moment.
//   Peel.    In a stretch without a free moment the stack is never empty, so one value is at the bottom all the time:
//            no operation of the stretch precedes its push or follows its pop. Of several such values any will do:
//            moving push and pop of one of them to the two ends of a linearization leaves it one. Leave it out and
//            continue inside.
#pragma once

#include "history.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace muster_test {

class lifo_monitor {
 public:
  explicit lifo_monitor(std::span<const event> history) : history_(history) {}

  /// Describes the violation; empty if there is none.
  std::string violation();

 private:
  /// A value's push and pop. A pop that never was lies at the end of time.
  struct value {
    std::uint64_t number = 0;
    std::uint64_t push_begin = 0, push_end = 0;
    std::uint64_t pop_begin = never, pop_end = never;
    bool pushed = false;
    bool critical() const { return push_end < pop_begin; }
  };
  /// The moments between two stamps, not including them, in which there is no free one.
  struct stretch {
    std::uint64_t begin, end;
    std::vector<value> inside;
  };

  std::string collect();
  static std::vector<stretch> stretches_of(std::vector<value> values);
  static stretch* ending_after(std::vector<stretch>& all, std::uint64_t moment);
  static stretch* around_all(std::vector<stretch>& all, std::uint64_t least, std::uint64_t most);
  static std::string peel(stretch& s);

  std::span<const event> history_;
  std::vector<value> values_;
  std::vector<event> empty_pops_;
};

inline std::string lifo_monitor::violation() {
  if (std::string wrong = collect(); !wrong.empty()) return wrong;
  std::vector<stretch> left = stretches_of(std::move(values_));
  for (const event& e : empty_pops_)
    if (around_all(left, e.begin, e.end) != nullptr)
      return "VWit: " + describe(e) + " reports empty, but some value is certainly inside all the time";
  while (!left.empty()) {
    stretch s = std::move(left.back());
    left.pop_back();
    if (std::string wrong = peel(s); !wrong.empty()) return wrong;
    for (stretch& inner : stretches_of(std::move(s.inside))) left.push_back(std::move(inner));
  }
  return {};
}

// One value for each number; or what is wrong without looking at the order.
inline std::string lifo_monitor::collect() {
  std::unordered_map<std::uint64_t, std::size_t> index;
  for (const event& e : history_) {
    require_well_formed(e);
    const bool relevant = e.outcome == result::success || e.outcome == result::empty || e.outcome == result::busy;
    if (e.kind == op::close || !relevant)
      throw std::invalid_argument("lifo_monitor knows success, empty and busy: " + describe(e));
    if (e.outcome == result::empty) empty_pops_.push_back(e);
    if (e.outcome != result::success) continue;
    const auto [at, is_new] = index.try_emplace(e.value, values_.size());
    if (is_new) values_.push_back({.number = e.value});
    value& v = values_[at->second];
    if (e.kind == op::push) {
      if (v.pushed) throw std::invalid_argument("lifo_monitor needs distinct values: " + describe(e));
      v.pushed = true, v.push_begin = e.begin, v.push_end = e.end;
    } else {
      if (v.pop_begin != never) return "VRepeat: " + std::to_string(e.value) + " is popped twice";
      v.pop_begin = e.begin, v.pop_end = e.end;
    }
  }
  for (const value& v : values_)
    if (!v.pushed || v.pop_end < v.push_begin)
      return "VFresh: " + std::to_string(v.number) + " is popped before it is pushed";
  return {};
}

// The stretches without a free moment, and the values that belong in each. Values that fit into a free moment are left
// out.
inline std::vector<lifo_monitor::stretch> lifo_monitor::stretches_of(std::vector<value> values) {
  std::sort(values.begin(), values.end(), [](const value& a, const value& b) { return a.push_end < b.push_end; });
  std::vector<stretch> all;
  for (const value& v : values) {
    if (!v.critical()) continue;
    if (all.empty() || v.push_end >= all.back().end) {
      all.push_back({v.push_end, v.pop_begin, {}});
    } else {
      all.back().end = std::max(all.back().end, v.pop_begin);
    }
  }
  for (const value& v : values) {
    stretch* const around = v.critical()
                                ? ending_after(all, v.push_end)
                                : around_all(all, std::max(v.push_begin, v.pop_begin), std::min(v.push_end, v.pop_end));
    if (around != nullptr) around->inside.push_back(v);
  }
  return all;
}

inline lifo_monitor::stretch* lifo_monitor::ending_after(std::vector<stretch>& all, std::uint64_t moment) {
  const auto found =
      std::upper_bound(all.begin(), all.end(), moment, [](std::uint64_t m, const stretch& s) { return m < s.end; });
  return found == all.end() ? nullptr : &*found;
}

// The stretch that has all moments from `least` to `most`, if there is one.
inline lifo_monitor::stretch* lifo_monitor::around_all(std::vector<stretch>& all, std::uint64_t least,
                                                       std::uint64_t most) {
  stretch* const s = ending_after(all, least);
  return s != nullptr && s->begin < least && most < s->end ? s : nullptr;
}

// Takes the values away that can be at the bottom.
inline std::string lifo_monitor::peel(stretch& s) {
  std::uint64_t first_end = never, last_begin = 0;
  for (const value& v : s.inside) {
    first_end = std::min({first_end, v.push_end, v.pop_end});
    last_begin = std::max({last_begin, v.push_begin, v.pop_begin});
  }
  const auto bottoms =
      std::erase_if(s.inside, [&](const value& v) { return v.push_begin <= first_end && v.pop_end >= last_begin; });
  if (bottoms != 0) return {};
  return "VOrder: the stack is never empty between " + std::to_string(s.begin) + " and " + std::to_string(s.end) +
         ", but no value can have been at the bottom: of " + std::to_string(s.inside.size()) + " values, " +
         std::to_string(s.inside.front().number) + " among them";
}

/// Describes the violation in the history of a stack; empty if there is none.
inline std::string lifo_violation(std::span<const event> history) { return lifo_monitor(history).violation(); }

}  // namespace muster_test
