// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fifo_bound.hpp: the part of fifo_monitor that knows the capacity: VCapacity and VFull. Included by it.
//
// Both rules count items, and count better when FIFO order has been used first. Item u must precede item v when
// u's push ended before v's began or u's pop ended before v's began. Then u is pushed before v and popped before
// v, so each of v's four bounds that is looser than u's (or u's than v's) can be moved.
// A pop that reports empty takes part as an item that is pushed and popped at one moment: that is how it is
// ordered with all others.
#pragma once

#include "fifo_monitor.hpp"

namespace muster_test {

inline std::string fifo_monitor::bound() {
  // With fewer items than the capacity the bound is never reached, so that only a report of full can be wrong.
  if (items_.size() <= rules_.capacity && fulls_.empty()) return {};
  const std::vector<bounds> all = tightened();
  std::string found = capacity(all);
  return found.empty() ? full(all) : found;
}

/// The bounds of the items, in their order, moved as far as the forced order of pairs allows.
inline std::vector<fifo_monitor::bounds> fifo_monitor::tightened() const {
  std::vector<bounds> all(items_.begin(), items_.end());
  all.reserve(items_.size() + empties_.size());
  for (const report& e : empties_) all.push_back({e.begin, e.end, e.begin, e.end});

  // target(v) becomes at least target(u) for every u whose `end` is before v's `begin`.
  const auto raise = [&](key end, key begin, key target) {
    const std::vector<index> by_end = sorted_by(all, end);
    const std::vector<index> by_begin = sorted_by(all, begin);
    std::vector<stamp> raised(all.size());
    stamp greatest = 0;
    std::size_t next = 0;
    for (const index v : by_begin) {
      for (; next < by_end.size() && all[by_end[next]].*end < all[v].*begin; ++next) {
        greatest = std::max(greatest, all[by_end[next]].*target);
      }
      raised[v] = std::max(all[v].*target, greatest);
    }
    for (index v = 0; v < all.size(); ++v) all[v].*target = raised[v];
  };
  // Time run backwards turns a FIFO queue into a FIFO queue with push and pop exchanged. So what moves begins
  // forward also moves ends back.
  const auto mirror = [&] {
    for (bounds& b : all) b = {~b.pop_end, ~b.pop_begin, ~b.push_end, ~b.push_begin};
  };
  for (int direction = 0; direction < 2; ++direction) {
    raise(&bounds::push_end, &bounds::push_begin, &bounds::pop_begin);
    raise(&bounds::pop_end, &bounds::pop_begin, &bounds::push_begin);
    mirror();
  }
  all.resize(items_.size());
  return all;
}

/// VCapacity: an item is certainly inside after the end of its push and before the begin of its pop.
inline std::string fifo_monitor::capacity(const std::vector<bounds>& all) const {
  std::vector<stamp> enter, leave;
  for (const bounds& b : all) {
    if (b.push_end >= b.pop_begin) continue;
    enter.push_back(b.push_end);
    leave.push_back(b.pop_begin);
  }
  std::sort(enter.begin(), enter.end());
  std::sort(leave.begin(), leave.end());
  std::size_t left = 0;
  for (std::size_t entered = 1; entered <= enter.size(); ++entered) {
    while (leave[left] <= enter[entered - 1]) ++left;
    if (entered - left <= rules_.capacity) continue;
    const stamp moment = enter[entered - 1];
    std::string list;
    std::size_t listed = 0;
    for (std::size_t i = 0; i < all.size() && listed < 8; ++i) {
      if (all[i].push_end > moment || all[i].pop_begin <= moment) continue;
      list += (listed++ == 0 ? "" : ", ") + text(items_[i].push, items_[i].push_end);
    }
    return "VCapacity: just after stamp " + std::to_string(moment) + " at least " + std::to_string(entered - left) +
           " items were inside, but the capacity is " + std::to_string(rules_.capacity) + ": " + list +
           (entered - left > listed ? ", and more" : "");
  }
  return {};
}

/// VFull: an item can be inside from the begin of its push to the end of its pop.
inline std::string fifo_monitor::full(const std::vector<bounds>& all) const {
  std::vector<stamp> enter, leave;
  for (const bounds& b : all) enter.push_back(b.push_begin), leave.push_back(b.pop_end);
  std::sort(enter.begin(), enter.end());
  std::sort(leave.begin(), leave.end());
  const auto possible = [&](stamp moment) {
    const auto entered = std::upper_bound(enter.begin(), enter.end(), moment) - enter.begin();
    const auto left = std::lower_bound(leave.begin(), leave.end(), moment) - leave.begin();
    return static_cast<std::size_t>(entered - left);
  };
  std::vector<report> by_end = fulls_;
  std::sort(by_end.begin(), by_end.end(), [](const report& a, const report& b) { return a.end < b.end; });
  // The number grows only where an item enters. Of the entries so far, peaks holds those whose number no later
  // one reaches, so the greatest number after a stamp is that of the first peak after it.
  std::vector<std::pair<stamp, std::size_t>> peaks;
  std::size_t next = 0;
  for (const report& f : by_end) {
    for (; next < enter.size() && enter[next] <= f.end; ++next) {
      const std::size_t number = possible(enter[next]);
      while (!peaks.empty() && peaks.back().second <= number) peaks.pop_back();
      peaks.emplace_back(enter[next], number);
    }
    std::size_t most = possible(f.begin);
    const auto peak =
        std::partition_point(peaks.begin(), peaks.end(), [&](const auto& p) { return p.first < f.begin; });
    if (peak != peaks.end()) most = std::max(most, peak->second);
    if (most >= rules_.capacity) continue;
    const std::string limit =
        rules_.capacity == unbounded ? "the queue is unbounded" : "the capacity is " + std::to_string(rules_.capacity);
    return "VFull: " + text(f.where, f.end) + " reported full, but " + limit +
           " and the most items that can have been inside are " + std::to_string(most);
  }
  return {};
}

}  // namespace muster_test
