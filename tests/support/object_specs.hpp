// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// object_specs.hpp: what correct objects other than queues are, as sequential programs for wing_gong_lowe.
//
// stack_spec     push: success, or full when it holds as many as its capacity; pop: the youngest item, or empty. busy
//                is always allowed and changes nothing. Events as for queues, without close.
// object_spec    an object whose operations are a function: its state and an argument give the next state and an
//                answer. counter_spec and fetch_and_multiply_spec are two.
// allocator_spec allocate: a block of the size asked for, aligned, inside the heap and apart from every live one; or 0
//                when it may fail. release: a block that is live, once.
// exchange_spec  request: a number that has not been used; response: the answer to a request made before, once.
#pragma once

#include "history.hpp"
#include "queue_spec.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace muster_test {

class stack_spec {
 public:
  using event_type = event;

  explicit stack_spec(std::size_t capacity = unbounded) : capacity_(capacity) {}

  bool apply(const event& e) {
    const bool pending = e.outcome == result::pending;
    if (e.outcome == result::busy) return true;
    if (e.kind == op::push) {
      if (e.outcome == result::full) return items_.size() >= capacity_;
      if (items_.size() >= capacity_ || (e.outcome != result::success && !pending)) return false;
      items_.push_back(e.value);
      return true;
    }
    if (e.kind != op::pop) return false;
    if (e.outcome == result::empty) return items_.empty();
    if (items_.empty() || (!pending && (e.outcome != result::success || items_.back() != e.value))) return false;
    items_.pop_back();
    return true;
  }

  std::size_t hash() const {
    std::uint64_t h = 1;
    for (const std::uint64_t value : items_) h = (h ^ value) * 0xff51afd7ed558ccdu, h ^= h >> 32;
    return static_cast<std::size_t>(h);
  }
  friend bool operator==(const stack_spec& a, const stack_spec& b) { return a.items_ == b.items_; }

 private:
  std::size_t capacity_;
  std::vector<std::uint64_t> items_;  // oldest first
};

/// One operation on an object that is neither queue nor stack.
struct call {
  std::uint32_t thread = 0;
  enum class kind : std::uint8_t { apply, allocate, release, request, response } what = kind::apply;
  std::uint64_t argument = 0;  // of a response: the number of the request
  std::uint64_t answer = 0;    // without meaning when pending
  std::uint64_t begin = 0;
  std::uint64_t end = never;
};

/// Throws std::invalid_argument unless the stamps are in order.
inline void require_well_formed(const call& c) {
  if (c.begin > c.end || c.begin == never)
    throw std::invalid_argument("a call of thread " + std::to_string(c.thread) +
                                " ends before it begins: " + std::to_string(c.begin) + ", " + std::to_string(c.end));
}

/// `Step` takes the state by reference and the argument, and returns the answer.
template <class State, class Step>
class object_spec {
 public:
  using event_type = call;

  explicit object_spec(State initial = State{}) : state_(std::move(initial)) {}

  bool apply(const call& c) {
    State next = state_;
    const std::uint64_t answer = Step{}(next, c.argument);
    if (c.what != call::kind::apply || (c.end != never && answer != c.answer)) return false;
    state_ = std::move(next);
    return true;
  }
  std::size_t hash() const { return std::hash<State>{}(state_); }
  friend bool operator==(const object_spec& a, const object_spec& b) { return a.state_ == b.state_; }

 private:
  State state_;
};

struct fetch_and_add {
  std::uint64_t operator()(std::uint64_t& state, std::uint64_t argument) const {
    return std::exchange(state, state + argument);
  }
};
struct fetch_and_multiply {
  std::uint64_t operator()(std::uint64_t& state, std::uint64_t argument) const {
    return std::exchange(state, state * argument);
  }
};
using counter_spec = object_spec<std::uint64_t, fetch_and_add>;
using fetch_and_multiply_spec = object_spec<std::uint64_t, fetch_and_multiply>;

/// allocate: the argument is the size, the answer the address. release: the argument is the address.
class allocator_spec {
 public:
  using event_type = call;
  struct heap {
    std::uint64_t begin, end;
    std::uint64_t alignment = 1;
    bool may_fail = true;  // answers 0 although there may be room
  };

  explicit allocator_spec(heap all) : heap_(all) {}

  /// A pending allocation has no address, so it must not count as done: leave it out. A pending release may.
  bool apply(const call& c) {
    if (c.what == call::kind::release) return live_.erase(c.argument) == 1;
    if (c.what != call::kind::allocate || c.end == never) return false;
    if (c.answer == 0) return heap_.may_fail;
    const std::uint64_t size = std::max<std::uint64_t>(c.argument, 1);
    if (c.answer % heap_.alignment != 0 || c.answer < heap_.begin || c.answer > heap_.end ||
        size > heap_.end - c.answer)
      return false;
    const auto above = live_.lower_bound(c.answer);
    if (above != live_.end() && above->first - c.answer < size) return false;
    if (above != live_.begin() && c.answer - std::prev(above)->first < std::prev(above)->second) return false;
    live_.emplace(c.answer, size);
    return true;
  }
  std::size_t hash() const {
    std::uint64_t h = 1;
    for (const auto& [address, size] : live_) h = (h ^ address ^ size << 32) * 0xff51afd7ed558ccdu, h ^= h >> 32;
    return static_cast<std::size_t>(h);
  }
  friend bool operator==(const allocator_spec& a, const allocator_spec& b) { return a.live_ == b.live_; }

 private:
  heap heap_;
  std::map<std::uint64_t, std::uint64_t> live_;  // address, size
};

/// `Answer` computes the correct answer to a request. In a request event, the argument is its number and the answer the
/// question; in a response event, the argument is the number of the request and the answer the response.
template <class Answer>
class exchange_spec {
 public:
  using event_type = call;

  bool apply(const call& c) {
    if (c.what == call::kind::request) {
      if (!used_.emplace(c.argument, false).second) return false;
      asked_[c.argument] = c.answer;
      return true;
    }
    const auto request = used_.find(c.argument);
    if (c.what != call::kind::response || request == used_.end() || request->second) return false;
    if (c.end != never && Answer{}(asked_[c.argument]) != c.answer) return false;
    request->second = true;
    return true;
  }
  std::size_t hash() const {
    std::uint64_t h = 1;
    for (const auto& [number, answered] : used_) h = (h ^ (2 * number + answered)) * 0xff51afd7ed558ccdu, h ^= h >> 32;
    return static_cast<std::size_t>(h);
  }
  friend bool operator==(const exchange_spec& a, const exchange_spec& b) {
    return a.used_ == b.used_ && a.asked_ == b.asked_;
  }

 private:
  std::map<std::uint64_t, bool> used_;  // and whether it has been answered
  std::map<std::uint64_t, std::uint64_t> asked_;
};

}  // namespace muster_test
