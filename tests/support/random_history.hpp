// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// random_history.hpp: small and large histories with which the checkers check each other.
//
// linearizable_history  an atomic queue is run one operation after another, and each operation's interval is then
//                       stretched around its moment as far as the operations of the same thread leave room.
// mutate                changes one thing that an incorrect queue, or an incorrect clock, could have changed.
// arbitrary_history     random intervals and random outcomes, with no queue behind them.
#pragma once

#include "history.hpp"
#include "queue_spec.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace muster_test {

/// SplitMix64 (Steele, Lea, Flood, 2014): the same sequence for a seed with every standard library.
class random_source {
 public:
  explicit random_source(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// Uniform enough for tests, from 0 to n - 1.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }
  std::uint64_t between(std::uint64_t least, std::uint64_t most) { return least + next() % (most - least + 1); }
  bool one_in(std::size_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

struct history_shape {
  std::uint32_t threads = 3;
  std::size_t operations = 8;
  queue_rules rules;
  bool close = false;  // now and then a close, and a closed outcome by mutation
  bool busy = false;
  bool lifo = false;  // a stack instead of a queue
  std::size_t push_percent = 50;
  std::uint64_t spacing = 16;  // stamps from one moment to the next; 1 or 2 gives many equal stamps
};

/// Stretches each event's interval around the moment that its begin holds, within its thread.
inline void stretch(random_source& random, const history_shape& shape, std::vector<event>& history) {
  std::vector<std::size_t> previous(shape.threads, history.size());
  std::vector<std::uint64_t> moment(history.size());
  for (std::size_t i = 0; i < history.size(); ++i) moment[i] = history[i].begin;
  const auto cut = [&](std::uint64_t from, std::uint64_t to) {
    if (random.one_in(3)) return std::pair(from, to);  // both operations as short as they can be
    const std::uint64_t a = random.between(from, to), b = random.between(from, to);
    return std::pair(std::min(a, b), std::max(a, b));
  };
  for (std::size_t i = 0; i < history.size(); ++i) {
    std::size_t& before = previous[history[i].thread];
    const bool first = before == history.size();
    const auto [end, begin] = cut(first ? 0 : moment[before], moment[i]);
    if (!first) history[before].end = end;
    history[i].begin = begin;
    before = i;
  }
  const std::uint64_t last = (history.size() + 1) * shape.spacing;
  for (const std::size_t i : previous) {
    if (i < history.size()) history[i].end = cut(moment[i], last).first;
  }
}

/// A history that queue_spec explains, or stack_spec.
inline std::vector<event> linearizable_history(random_source& random, const history_shape& shape) {
  std::vector<event> history;
  history.reserve(shape.operations);
  std::deque<std::uint64_t> items;
  std::uint64_t value = 1;
  bool closed = false;
  for (std::size_t i = 0; i < shape.operations; ++i) {
    event e;
    e.thread = static_cast<std::uint32_t>(random.below(shape.threads));
    e.begin = e.end = (i + 1) * shape.spacing;
    e.kind = random.below(100) < shape.push_percent ? op::push : op::pop;
    if (shape.close && random.one_in(shape.operations)) e.kind = op::close;
    e.outcome = result::success;
    if (e.kind == op::close) {
      closed = true;
    } else if (shape.busy && random.one_in(8)) {
      e.outcome = result::busy;
      if (e.kind == op::push) e.value = value;
    } else if (e.kind == op::push) {
      e.value = value;
      if (closed) e.outcome = result::closed;
      else if (items.size() >= shape.rules.capacity) e.outcome = result::full;
      else if (shape.rules.full_may_be_early && random.one_in(4)) e.outcome = result::full;
      else items.push_back(value++);
    } else if (items.empty()) {
      e.outcome = closed ? result::closed : result::empty;
    } else {
      e.value = shape.lifo ? items.back() : items.front();
      shape.lifo ? items.pop_back() : items.pop_front();
    }
    history.push_back(e);
  }
  stretch(random, shape, history);
  return history;
}

/// Changes one thing at random. The history stays well formed, with distinct values; it may stay linearizable.
inline void mutate(random_source& random, const history_shape& shape, std::vector<event>& history) {
  if (history.empty()) return;
  std::vector<std::size_t> pushes, pops;  // the successful ones
  std::uint64_t fresh = 1;
  for (std::size_t i = 0; i < history.size(); ++i) {
    fresh = std::max(fresh, history[i].value + 1);
    if (history[i].outcome != result::success) continue;
    if (history[i].kind == op::push) pushes.push_back(i);
    if (history[i].kind == op::pop) pops.push_back(i);
  }
  const auto any = [&](const std::vector<std::size_t>& of) -> event& { return history[of[random.below(of.size())]]; };
  event& e = history[random.below(history.size())];
  switch (random.below(8)) {
    case 0:  // two pops exchange their values
      if (pops.size() >= 2) std::swap(any(pops).value, any(pops).value);
      break;
    case 1:  // an operation is lost, and with it what it did
      history.erase(history.begin() + static_cast<std::ptrdiff_t>(random.below(history.size())));
      break;
    case 2:  // an item comes out twice, or one that was never pushed, or an item instead of nothing
      if (e.kind == op::pop && !pushes.empty()) {
        e.outcome = result::success;
        e.value = random.one_in(8) ? fresh : any(pushes).value;
      }
      break;
    case 3: {  // an operation happens at another time
      const std::uint64_t length = e.end - e.begin;
      e.begin = random.between(0, (shape.operations + 1) * shape.spacing);
      e.end = e.begin + length;
      break;
    }
    case 4:  // an operation is shorter than it was
      e.begin = random.between(e.begin, e.end);
      e.end = random.between(e.begin, e.end);
      break;
    case 5:  // a pop misses its item
      if (!pops.empty()) any(pops).outcome = result::empty;
      break;
    case 6:  // closed is reported for no reason, or not reported
      if (!shape.close || e.kind == op::close) break;
      if (e.outcome != result::closed) e.outcome = result::closed;
      else if (e.kind == op::pop) e.outcome = result::empty;
      else e.outcome = result::success, e.value = fresh;
      break;
    case 7:  // full is reported for no reason, or not reported
      if (shape.rules.capacity == unbounded || e.kind != op::push) break;
      if (e.outcome == result::success) e.outcome = result::full;
      else if (e.outcome == result::full) e.outcome = result::success, e.value = fresh;
      break;
  }
}

inline std::vector<event> arbitrary_history(random_source& random, const history_shape& shape) {
  std::vector<event> history;
  std::uint64_t value = 1;
  const std::uint64_t last = shape.operations * shape.spacing;
  for (std::size_t i = 0; i < shape.operations; ++i) {
    event e;
    e.thread = static_cast<std::uint32_t>(i % shape.threads);
    e.begin = random.between(0, last);
    e.end = random.between(e.begin, std::min(last, e.begin + last / 2));
    e.outcome = result::success;
    if (shape.close && random.one_in(8)) {
      e.kind = op::close;
    } else if (random.below(100) < shape.push_percent) {
      e.kind = op::push;
      e.value = value++;
      if (shape.close && random.one_in(6)) e.outcome = result::closed;
      else if (shape.rules.capacity != unbounded && random.one_in(5)) e.outcome = result::full;
    } else {
      e.kind = op::pop;
      e.value = random.between(1, shape.operations / 2);
      if (random.one_in(4)) e.outcome = shape.close && random.one_in(2) ? result::closed : result::empty;
    }
    history.push_back(e);
  }
  return history;
}

}  // namespace muster_test
