// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// lanes_programs.hpp: lanes as a queue that the scripts of queue_programs.hpp can use. A thread takes a lane at its
// first push, waiting for one that is free, and leaves it by "leave". Every other thread consumes with a handle.
#pragma once

#include "queue_programs.hpp"

#include <array>
#include <optional>

namespace muster_model_test {

template <class Lanes, std::size_t Producers>
class lanes_as_queue {
  using producer_handle = typename Lanes::producer_handle;
  using consumer_handle = typename Lanes::consumer_handle;
  using status = muster::queue_status;
  using popped = muster::queue_result<typename Lanes::value_type>;

 public:
  lanes_as_queue(std::size_t capacity, const muster::queue_options& o)
      : lanes_(capacity, {.producers = Producers, .threads = o.threads, .cells = o.cells, .first_rank = o.first_rank}) {
  }

  template <class... With>
  status push(item&& value, With&&... limit) {
    return producer().push(std::move(value), std::forward<With>(limit)...);
  }
  template <class Time>
  status push_for(item&& value, Time time) {
    return producer().push_for(std::move(value), time);
  }
  template <class Time>
  status push_until(item&& value, Time when) {
    return producer().push_until(std::move(value), when);
  }
  status try_push(item&& value) { return producer().try_push(std::move(value)); }
  template <class From>
  status emplace(From&& from) {
    return producer().emplace(std::forward<From>(from));
  }
  template <class From>
  status try_emplace(From&& from) {
    return producer().try_emplace(std::forward<From>(from));
  }
  template <class InputIt>
  std::size_t push_n(InputIt first, std::size_t n) {
    return producer().push_n(first, n);
  }
  template <class InputIt>
  std::size_t try_push_n(InputIt first, std::size_t n) {
    return producer().try_push_n(first, n);
  }
  void leave() { producers_[self()].reset(); }
  void handle() { static_cast<void>(lanes_.try_producer()); }

  popped pop() {
    return as_consumer([](auto& from) { return from.pop(); });
  }
  popped pop(std::stop_token stop) {
    return as_consumer([&](auto& from) { return from.pop(stop); });
  }
  popped try_pop() {
    return as_consumer([](auto& from) { return from.try_pop(); });
  }
  template <class Time>
  popped pop_for(Time time) {
    return as_consumer([&](auto& from) { return from.pop_for(time); });
  }
  template <class Time>
  popped pop_until(Time when) {
    return as_consumer([&](auto& from) { return from.pop_until(when); });
  }
  template <class F, class... With>
  status consume(F f, With&&... limit) {
    return as_consumer([&](auto& from) { return from.consume(f, std::forward<With>(limit)...); });
  }
  template <class F>
  status try_consume(F f) {
    return as_consumer([&](auto& from) { return from.try_consume(f); });
  }
  template <class F, class Time>
  status consume_for(F f, Time time) {
    return as_consumer([&](auto& from) { return from.consume_for(f, time); });
  }
  std::size_t pop_n(item* out, std::size_t n) {
    return as_consumer([&](auto& from) { return from.pop_n(out, n); });
  }
  std::size_t try_pop_n(item* out, std::size_t n) {
    return as_consumer([&](auto& from) { return from.try_pop_n(out, n); });
  }
  void close() { lanes_.close(); }
  bool is_closed() const { return lanes_.is_closed(); }
  std::size_t size_approx() const { return lanes_.size_approx(); }
  void check() const { lanes_.check(); }

 private:
  static unsigned self() { return mm::engine::running().current(); }

  producer_handle& producer() {
    std::optional<producer_handle>& own = producers_[self()];
    while (!own) {
      if (std::optional<producer_handle> one = lanes_.try_producer()) {
        own.emplace(*std::move(one));
      } else {
        muster::sync::yield();
      }
    }
    return *own;
  }
  template <class Operation>
  auto as_consumer(Operation operation) {
    if (self() % 2 != 0) return operation(lanes_);
    std::optional<consumer_handle>& own = consumers_[self()];
    if (!own) own.emplace(lanes_.consumer());
    return operation(*own);
  }

  Lanes lanes_;
  std::array<std::optional<producer_handle>, mm::most_threads> producers_;
  std::array<std::optional<consumer_handle>, mm::most_threads> consumers_;
};

template <class Lanes, std::size_t Producers>
inline constexpr bool fifo_per_producer<lanes_as_queue<Lanes, Producers>> = true;

}  // namespace muster_model_test
