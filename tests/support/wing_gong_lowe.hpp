// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// wing_gong_lowe.hpp: decides exactly whether a history is linearizable, for any sequential specification.
//
// Method     Wing and Gong (1993): choose, among the events that no other remaining event comes before, one that
//            the specification allows next; continue from there; backtrack when stuck. Lowe (2017): never visit
//            the same set of done events with the same state twice. States are compared, not only their hashes.
// Order      by the stamps, or as the caller says: under a weak memory model, happens-before is not an order of times.
// Pending    events may be done or left out.
// Cost       microseconds for a dozen events; exponential in the number of concurrent ones. At most 64 events.
// Spec       copyable and comparable, with hash(), and with bool apply(const event_type&), which is false, and
//            changes nothing, when the event cannot happen in this state. Spec::event_type has begin, end (`never` for
//            a pending one), and a function require_well_formed.
// Use it     for short histories of any structure, and to check faster checkers such as fifo_monitor.
#pragma once

#include "history.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <unordered_set>
#include <utility>
#include <vector>

namespace muster_test {

template <class Spec>
class wing_gong_lowe {
 public:
  using event_type = typename Spec::event_type;

  explicit wing_gong_lowe(Spec initial = Spec{}) : initial_(std::move(initial)) {}

  /// Throws std::length_error for more than 64 events, std::invalid_argument for an impossible event.
  bool linearizable(std::span<const event_type> history);
  /// The same for an order of the caller's: bit j of before[i] says that event j comes before event i.
  bool linearizable(std::span<const event_type> history, std::vector<std::uint64_t> before);

  /// Indices into the last history: an order that explains it, or else a longest order that was reached.
  const std::vector<std::size_t>& order() const { return order_; }

 private:
  using event_set = std::uint64_t;  // bit i: the event with the i-th smallest begin

  struct state {
    Spec spec;
    event_set done = 0;
    bool operator==(const state& other) const { return done == other.done && spec == other.spec; }
  };
  struct state_hash {
    std::size_t operator()(const state& s) const {
      return s.spec.hash() ^ static_cast<std::size_t>(s.done * 0x9e3779b97f4a7c15u);
    }
  };
  struct frame {
    state now;
    std::size_t candidate = 0;  // the next event to try from here
    std::size_t chosen = 0;     // the event that led to the frame above
  };

  bool descend(std::span<const event_type> history);
  void keep_order(bool only_if_longer);

  Spec initial_;
  std::vector<std::size_t> by_begin_;
  std::vector<event_set> before_;  // the predecessors of each event
  event_set complete_ = 0;         // the events that are not pending
  std::vector<frame> stack_;
  std::unordered_set<state, state_hash> seen_;
  std::vector<std::size_t> order_;
};

template <class Spec>
bool wing_gong_lowe<Spec>::linearizable(std::span<const event_type> history) {
  std::vector<std::uint64_t> before(history.size(), 0);
  for (std::size_t i = 0; i < history.size() && history.size() <= 64; ++i)
    for (std::size_t j = 0; j < history.size(); ++j)
      if (history[j].end < history[i].begin) before[i] |= std::uint64_t{1} << j;
  return linearizable(history, std::move(before));
}

template <class Spec>
bool wing_gong_lowe<Spec>::linearizable(std::span<const event_type> history, std::vector<std::uint64_t> before) {
  if (history.size() > 64) throw std::length_error("wing_gong_lowe takes at most 64 events: use a monitor");
  by_begin_.resize(history.size());
  std::iota(by_begin_.begin(), by_begin_.end(), std::size_t{0});
  std::sort(by_begin_.begin(), by_begin_.end(), [&](std::size_t a, std::size_t b) {
    return history[a].begin != history[b].begin ? history[a].begin < history[b].begin : a < b;
  });
  complete_ = 0;
  before_.assign(history.size(), 0);
  for (std::size_t i = 0; i < by_begin_.size(); ++i) {
    require_well_formed(history[by_begin_[i]]);
    if (history[by_begin_[i]].end != never) complete_ |= event_set{1} << i;
    for (std::size_t j = 0; j < by_begin_.size(); ++j)
      if ((before[by_begin_[i]] >> by_begin_[j] & 1) != 0) before_[i] |= event_set{1} << j;
  }
  order_.clear();
  seen_.clear();
  stack_.clear();
  stack_.push_back({{initial_, 0}});
  while (!stack_.empty()) {
    if ((stack_.back().now.done & complete_) == complete_) {
      keep_order(false);
      return true;
    }
    if (!descend(history)) {
      keep_order(true);
      stack_.pop_back();
    }
  }
  return false;
}

/// Tries the remaining candidates of the top frame; true when one led to a new state, which is now on top.
template <class Spec>
bool wing_gong_lowe<Spec>::descend(std::span<const event_type> history) {
  frame& top = stack_.back();
  for (std::size_t i = top.candidate; i < by_begin_.size(); ++i) {
    const event_type& e = history[by_begin_[i]];
    if ((top.now.done >> i & 1) != 0 || (before_[i] & ~top.now.done) != 0) continue;
    state next = top.now;
    if (!next.spec.apply(e)) continue;
    next.done |= event_set{1} << i;
    if (!seen_.insert(next).second) continue;
    top.candidate = i + 1;
    top.chosen = i;
    stack_.push_back({std::move(next)});
    return true;
  }
  return false;
}

template <class Spec>
void wing_gong_lowe<Spec>::keep_order(bool only_if_longer) {
  if (only_if_longer && stack_.size() - 1 <= order_.size()) return;
  order_.clear();
  for (std::size_t i = 0; i + 1 < stack_.size(); ++i) order_.push_back(by_begin_[stack_[i].chosen]);
}

}  // namespace muster_test
