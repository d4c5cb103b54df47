// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fifo_monitor.hpp: checks a whole history of a FIFO queue, millions of events long, against queue_spec.
//
// Needs      a complete history whose successful pushes have distinct values; else std::invalid_argument.
// Sound      a history that queue_spec explains is never rejected, whatever the rules.
// Exact      when fewer pushes succeeded than the capacity (always, for an unbounded queue): then a history that
//            is accepted can be explained, too. Empty, busy, closed and close are covered by this.
// Otherwise  necessary conditions: what is rejected is wrong, what is accepted may be wrong. VCapacity and VFull
//            look at one moment at a time and count the items that must, or that can, be inside then; what only
//            two moments together show is not seen. With capacity 1, for example, push 1 [0,2], pop 1 [8,10],
//            push 2 [1,6], pop 2 [4,9] is accepted: in either order both items are inside at some moment, but
//            not at the same moment for both orders. All other rules together stay exact for the history with
//            its reports of full left out and its capacity forgotten. Of random histories that break a bounded
//            queue's rules, fewer than one in a thousand are accepted (monitor_test.cpp).
// Cost       O(n log n) time, about 100 bytes an event.
//
// The rules, in the order they are checked:
//   VRepeat    a value is popped twice                                                          [HSV]
//   VFresh     a value is popped that was not pushed, or whose push begins after the pop's end    [HSV]
//   VClosed    closed is reported before any close began; or a push succeeds or reports full, or a pop reports
//              empty, wholly after the queue was closed
//   VDrain     a pop reports closed, but a value was never popped, or only later
//   VOrd       a is pushed before b, but b is popped before a, or b is popped and a is not        [HSV]
//   VWit       a pop reports empty, but at every moment of it some item was certainly inside      [HSV]
//   VCapacity  at some moment more items than the capacity are certainly inside
//   VFull      a push reports full, but at no moment of it as many items as the capacity can be inside
// [HSV]: Henzinger, Sezgin, Vafeiadis, "Aspect-oriented linearizability proofs", CONCUR 2013: these four
// decide complete histories of pushes, pops and empties.
//
// Why close stays exact. The queue becomes closed at one moment c. It lies after the first begin of a close, and
// no later than L, the least end of all closes and of all operations that report closed. Pushes that succeed or
// report full and pops that report empty take effect before c, so a later c only gives them more room: the
// history can be explained at all if and only if it can be with c = L. With c fixed, those operations end by c at
// the latest. A pop that reports closed comes after every value has come out; so each value must be popped, and by
// D, the least end of such a pop. That is VDrain, and no other rule needs D: every pop that passes VDrain begins by
// D, so that an end moved back to D still comes after it. The rest is a history without close, and the four conditions
// decide it.
#pragma once

#include "history.hpp"
#include "queue_spec.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace muster_test {

class fifo_monitor {
 public:
  explicit fifo_monitor(std::span<const event> history, queue_rules rules = {}) : history_(history), rules_(rules) {}

  /// Empty when no rule is broken; otherwise one sentence that begins with the rule and names the operations.
  /// Uses the monitor up.
  std::string violation() &&;

 private:
  using stamp = std::uint64_t;
  using index = std::uint32_t;
  static constexpr index none = std::numeric_limits<index>::max();

  // When the push and the pop of a value can have taken effect. Starts as the stamps of the events; close_rules
  // makes ends earlier. A value that is never popped has never in both stamps of its pop.
  struct bounds {
    stamp push_begin, push_end, pop_begin, pop_end;
  };
  struct item : bounds {
    index push, pop;  // in history_; pop may be none
  };
  // A pop that reported empty or a push that reported full.
  struct report {
    index where;
    stamp begin, end;
  };
  using key = stamp bounds::*;

  void collect();
  std::string pair();
  std::string close_rules();
  std::string order() const;
  std::string empty() const;
  std::string bound();
  std::string capacity(const std::vector<bounds>& all) const;
  std::string full(const std::vector<bounds>& all) const;

  std::vector<bounds> tightened() const;
  std::string cover(const report& e, const std::vector<index>& by_push_end) const;
  std::string text(index where, stamp end) const;

  template <class T>
  static std::vector<index> sorted_by(const std::vector<T>& all, key k) {
    std::vector<index> result(all.size());
    std::iota(result.begin(), result.end(), index{0});
    std::sort(result.begin(), result.end(), [&](index a, index b) { return all[a].*k < all[b].*k; });
    return result;
  }

  std::span<const event> history_;
  queue_rules rules_;
  std::vector<std::pair<std::uint64_t, index>> pushes_, pops_;  // value and event, of those with success
  std::vector<item> items_;
  std::vector<report> empties_, fulls_;
  index first_close_ = none;                    // the close with the least begin
  index first_closed_ = none, drained_ = none;  // with the least end: what sets L, what sets D
};

/// Empty when the history passes; otherwise what is wrong with it.
inline std::string fifo_violation(std::span<const event> history, queue_rules rules = {}) {
  return fifo_monitor(history, rules).violation();
}

inline std::string fifo_monitor::violation() && {
  collect();
  std::string found = pair();
  if (found.empty()) found = close_rules();
  if (found.empty()) found = order();
  if (found.empty()) found = empty();
  if (found.empty()) found = bound();
  return found;
}

inline void fifo_monitor::collect() {
  if (history_.size() >= none) throw std::length_error("fifo_monitor takes fewer than 2^32 - 1 events");
  const auto least = [&](index& best, index candidate, stamp event::* k) {
    if (best == none || history_[candidate].*k < history_[best].*k) best = candidate;
  };
  for (index i = 0; i < history_.size(); ++i) {
    const event& e = history_[i];
    require_well_formed(e);
    switch (e.outcome) {
      case result::pending:
        throw std::invalid_argument("fifo_monitor needs a complete history: " + describe(e) + " never returned");
      case result::success:
        if (e.kind == op::push) pushes_.emplace_back(e.value, i);
        if (e.kind == op::pop) pops_.emplace_back(e.value, i);
        if (e.kind == op::close) least(first_close_, i, &event::begin), least(first_closed_, i, &event::end);
        break;
      case result::closed:
        least(first_closed_, i, &event::end);
        if (e.kind == op::pop) least(drained_, i, &event::end);
        break;
      case result::empty: empties_.push_back({i, e.begin, e.end}); break;
      case result::full:
        if (!rules_.full_may_be_early) fulls_.push_back({i, e.begin, e.end});
        break;
      case result::busy: break;
    }
  }
}

/// Matches each pop with its push: VRepeat and VFresh.
inline std::string fifo_monitor::pair() {
  std::sort(pushes_.begin(), pushes_.end());
  std::sort(pops_.begin(), pops_.end());
  items_.reserve(pushes_.size());
  auto pop = pops_.begin();
  for (auto push = pushes_.begin(); push != pushes_.end(); ++push) {
    const event& pushed = history_[push->second];
    if (push != pushes_.begin() && std::prev(push)->first == push->first) {
      throw std::invalid_argument("fifo_monitor needs distinct values: " + describe(history_[std::prev(push)->second]) +
                                  " and " + describe(pushed) + " both succeeded");
    }
    if (pop != pops_.end() && pop->first < push->first) break;  // this pop has no push
    item i{{pushed.begin, pushed.end, never, never}, push->second, none};
    if (pop != pops_.end() && pop->first == push->first) {
      const event& popped = history_[pop->second];
      if (popped.end < pushed.begin) {
        return "VFresh: " + describe(popped) + " ended before " + describe(pushed) + " began";
      }
      i.pop_begin = popped.begin, i.pop_end = popped.end, i.pop = pop->second;
      const auto next = std::next(pop);
      if (next != pops_.end() && next->first == pop->first) {
        return "VRepeat: " + describe(popped) + " and " + describe(history_[next->second]) + " returned the same item";
      }
      pop = next;
    }
    items_.push_back(i);
  }
  if (pop != pops_.end())
    return "VFresh: " + describe(history_[pop->second]) + " returned a value that was never pushed";
  return {};
}

/// VClosed and VDrain. Moves the ends that closing the queue makes earlier.
inline std::string fifo_monitor::close_rules() {
  if (first_closed_ == none) return {};
  const event& limit = history_[first_closed_];
  if (first_close_ == none) return "VClosed: " + describe(limit) + " reported closed, but close was never called";
  if (limit.end < history_[first_close_].begin) {
    return "VClosed: " + describe(limit) + " reported closed before the first close, " +
           describe(history_[first_close_]) + ", began";
  }
  const auto too_late = [&](index i, const char* what) {
    return "VClosed: " + describe(history_[i]) + what +
           " although the queue was closed before it began: " + describe(limit) +
           (limit.kind == op::close ? " had ended" : " had reported closed");
  };
  for (item& i : items_) {
    if (i.push_begin > limit.end) return too_late(i.push, " succeeded");
    i.push_end = std::min(i.push_end, limit.end);
  }
  for (report& e : empties_) {
    if (e.begin > limit.end) return too_late(e.where, " reported empty, not closed,");
    e.end = std::min(e.end, limit.end);
  }
  for (report& f : fulls_) {
    if (f.begin > limit.end) return too_late(f.where, " reported full, not closed,");
    f.end = std::min(f.end, limit.end);
  }
  if (drained_ == none) return {};
  const event& last = history_[drained_];
  for (const item& i : items_) {
    if (i.pop_begin > last.end) {
      return "VDrain: " + describe(last) + " reported closed, but " + describe(history_[i.push]) +
             " had succeeded and " +
             (i.pop == none ? "its item was never popped" : describe(history_[i.pop]) + " came later");
    }
  }
  return {};
}

/// VOrd: sweeps over the begins of pushes and keeps, of the items pushed before, the one popped last.
inline std::string fifo_monitor::order() const {
  const std::vector<index> by_begin = sorted_by(items_, &item::push_begin);
  const std::vector<index> by_end = sorted_by(items_, &item::push_end);
  index latest = none;
  std::size_t next = 0;
  for (const index b : by_begin) {
    for (; next < by_end.size() && items_[by_end[next]].push_end < items_[b].push_begin; ++next) {
      if (latest == none || items_[by_end[next]].pop_begin > items_[latest].pop_begin) latest = by_end[next];
    }
    if (latest == none || items_[b].pop_end >= items_[latest].pop_begin) continue;
    const item& first = items_[latest];
    return "VOrd: " + describe(history_[first.push]) + " came before " + describe(history_[items_[b].push]) + ", but " +
           describe(history_[items_[b].pop]) +
           (first.pop == none ? " took the second and the first was never popped"
                              : " came before " + describe(history_[first.pop]));
  }
  return {};
}

/// VWit: joins the intervals in which items are certainly inside, and looks for pops that lie within one.
inline std::string fifo_monitor::empty() const {
  if (empties_.empty()) return {};
  const std::vector<index> by_end = sorted_by(items_, &item::push_end);
  std::vector<std::pair<stamp, stamp>> held;  // open intervals that do not overlap, in order
  for (const index i : by_end) {
    const auto [from, to] = std::pair(items_[i].push_end, items_[i].pop_begin);
    if (from >= to) continue;
    if (held.empty() || held.back().second <= from) held.emplace_back(from, to);
    else held.back().second = std::max(held.back().second, to);
  }
  for (const report& e : empties_) {
    const auto after = std::partition_point(held.begin(), held.end(), [&](const auto& h) { return h.first < e.begin; });
    if (after == held.begin() || e.end >= std::prev(after)->second) continue;
    return "VWit: " + text(e.where, e.end) +
           " reported empty, but the queue held an item all the time: " + cover(e, by_end);
  }
  return {};
}

/// The event, and the moment by which close made it take effect if that is earlier than its end.
inline std::string fifo_monitor::text(index where, stamp end) const {
  const event& e = history_[where];
  if (end == e.end) return describe(e);
  return describe(e) + " (in effect by " + std::to_string(end) + ", when the queue was closed)";
}

/// The items that take turns in being inside during `e`, each until the begin of its pop; the first four.
inline std::string fifo_monitor::cover(const report& e, const std::vector<index>& by_push_end) const {
  std::string list;
  std::size_t next = 0, more = 0;
  index best = none;
  for (stamp reached = e.begin; reached <= e.end; reached = items_[best].pop_begin) {
    for (; next < by_push_end.size() && items_[by_push_end[next]].push_end < reached; ++next) {
      if (best == none || items_[by_push_end[next]].pop_begin > items_[best].pop_begin) best = by_push_end[next];
    }
    const item& i = items_[best];
    if (more++ >= 4) continue;
    list += (list.empty() ? "" : ", then ") + describe(history_[i.push]) + " until " +
            (i.pop == none ? "the end" : describe(history_[i.pop]) + " began");
  }
  return more > 4 ? list + ", and " + std::to_string(more - 4) + " more" : list;
}

}  // namespace muster_test

#include "fifo_bound.hpp"  // the members for bounded queues: VCapacity and VFull
