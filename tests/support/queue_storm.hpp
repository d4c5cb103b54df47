// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// queue_storm.hpp: many threads that use every operation of a queue at once, and the whole history of what they did.

#pragma once

#include <muster/queue.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <latch>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "fifo_monitor.hpp"
#include "history.hpp"

namespace muster_test {

struct storm {
  std::size_t capacity = 1;
  std::size_t producers = 1;
  std::size_t consumers = 1;
  std::uint64_t first_rank = 0;
  std::size_t items = 1000;  // of all producers together
  bool early_close = false;  // close in the middle, while all threads push and pop
  bool full_may_be_early = false;
};

/// How the storm's producers and consumers reach a queue: directly, or by a handle of their own.
template <class Queue>
struct one_order : Queue {
  using Queue::Queue;
  static constexpr bool fifo_per_producer = false;
  Queue& producer() { return *this; }
  Queue& consumer() { return *this; }
};
/// FIFO for each producer only: one history for each of them.
template <class Lanes>
struct order_per_producer : Lanes {
  order_per_producer(std::size_t capacity, const muster::queue_options& o)
      : Lanes(capacity, {.threads = o.threads, .first_rank = o.first_rank}) {}
  static constexpr bool fifo_per_producer = true;
  Lanes& consumer() { return *this; }
};

/// Plays one storm on a queue of uint64_t; returns what is wrong with its history, or an empty string.
/// exact_clock orders all stamps but synchronizes the threads; cheap_clock leaves them as unordered as the queue does,
/// so that a missing order in the queue is not covered up.
template <class Queue, class Clock>
class queue_storm {
 public:
  explicit queue_storm(const storm& plan)
      : plan_(plan),
        queue_(plan.capacity, {.threads = plan.producers + plan.consumers, .first_rank = plan.first_rank}),
        record_(plan.producers + plan.consumers + 1, 6 * plan.items + 100),
        producers_(static_cast<std::ptrdiff_t>(plan.producers)) {}

  std::string play() {
    {
      std::vector<std::jthread> consumers;
      for (std::size_t i = 0; i < plan_.consumers; ++i) consumers.emplace_back([this, i] { consume(i); });
      {
        std::vector<std::jthread> producers;
        for (std::size_t i = 0; i < plan_.producers; ++i) producers.emplace_back([this, i] { produce(i); });
        if (plan_.early_close) {
          while (pushed_.load(std::memory_order_relaxed) < plan_.items / 2) std::this_thread::yield();
          close();
        }
      }
      close();
    }
    queue_.check();
    const std::vector<event> history = record_.history();
    operations_ = history.size();
    if constexpr (!Queue::fifo_per_producer) return fifo_violation(history, {plan_.capacity, plan_.full_may_be_early});
    std::string wrong;
    for (std::size_t i = 0; i < plan_.producers && wrong.empty(); ++i) {
      // Reports about all lanes hold for each lane.
      std::vector<event> own;
      std::copy_if(history.begin(), history.end(), std::back_inserter(own), [&](const event& e) {
        const bool has_value = e.kind == op::push || (e.kind == op::pop && e.outcome == result::success);
        return !has_value || e.value / plan_.items == i;
      });
      wrong = fifo_violation(own, {plan_.capacity, plan_.full_may_be_early});
    }
    return wrong;
  }

  /// Those of the history.
  std::size_t operations() const { return operations_; }

 private:
  using notes = thread_log<Clock>;
  static constexpr std::chrono::microseconds moment{20};
  static constexpr std::size_t longest_bulk = 5;

  void produce(std::size_t number) {
    notes& log = record_.log(number);
    auto&& to = queue_.producer();
    // No producer reuses a lane that another left with items in it: full would then be reported of both.
    producers_.arrive_and_wait();
    const std::uint64_t end = (number + 1) * plan_.items;
    const std::uint64_t stop = number * plan_.items + plan_.items / plan_.producers;
    for (std::uint64_t next = number * plan_.items, turn = number; next < std::min(stop, end); ++turn) {
      const std::size_t done = push(to, log, next, std::min<std::uint64_t>(stop - next, longest_bulk), turn);
      if (done == ended) return;
      next += done;
      pushed_.fetch_add(done, std::memory_order_relaxed);
      if (done == 0) std::this_thread::yield();
    }
  }

  // Pushes 1 to `most` items from `value` on in one of the ways there are. Returns how many, or ended.
  template <class To>
  std::size_t push(To& to, notes& log, std::uint64_t value, std::uint64_t most, std::uint64_t turn) {
    const bool tired = log.room_left() < 2 * plan_.items + 50;  // no more operations that can fail
    std::array<std::uint64_t, longest_bulk> values;
    for (std::size_t i = 0; i < longest_bulk; ++i) values[i] = value + i;
    log.invoke(op::push, value);
    switch (tired ? 0 : turn % 6) {
      case 0: return pushed_one(log, to.push(value));
      case 1: return pushed_one(log, to.try_push(value));
      case 2: return pushed_one(log, to.push_for(value, moment));
      case 3: return pushed_one(log, to.push(value, never_.get_token()));
      case 4: return pushed_many(log, to.push_n(values.begin(), most), most, result::closed, values);
      default: return pushed_many(log, to.try_push_n(values.begin(), most), most, result::busy, values);
    }
  }

  std::size_t pushed_one(notes& log, muster::queue_status status) {
    log.respond(as_result(status));
    return status == muster::queue_status::success ? 1 : status == muster::queue_status::closed ? ended : 0;
  }

  std::size_t pushed_many(notes& log, std::size_t done, std::size_t wanted, result otherwise,
                          const std::array<std::uint64_t, longest_bulk>& values) {
    log.respond(done == 0 ? otherwise : result::success);
    for (std::size_t i = 1; i < done; ++i) log.respond_again(values[i]);
    return done < wanted && otherwise == result::closed ? ended : done;
  }

  void consume(std::size_t number) {
    notes& log = record_.log(plan_.producers + number);
    auto&& from = queue_.consumer();
    for (std::uint64_t turn = number; pop(from, log, turn); ++turn) {
    }
  }

  // Pops in one of the ways there are. False when the queue has ended.
  template <class From>
  bool pop(From& from, notes& log, std::uint64_t turn) {
    const bool tired = log.room_left() < 2 * plan_.items + 50;
    std::array<std::uint64_t, longest_bulk> values{};
    log.invoke(op::pop);
    switch (tired ? 0 : turn % 6) {
      case 0: return popped_one(log, from.pop());
      case 1: return popped_one(log, from.try_pop());
      case 2: return popped_one(log, from.pop_for(moment));
      case 3: return popped_one(log, from.pop(never_.get_token()));
      case 4: return popped_many(log, from.pop_n(values.begin(), longest_bulk), result::closed, values);
      default: return popped_many(log, from.try_pop_n(values.begin(), longest_bulk), result::busy, values);
    }
  }

  bool popped_one(notes& log, const muster::queue_result<std::uint64_t>& item) {
    if (item) {
      log.respond(result::success, *item);
      return true;
    }
    log.respond(as_result(item.status()));
    std::this_thread::yield();
    return item.status() != muster::queue_status::closed;
  }

  bool popped_many(notes& log, std::size_t done, result otherwise,
                   const std::array<std::uint64_t, longest_bulk>& values) {
    if (done == 0) {
      log.respond(otherwise);
      std::this_thread::yield();
      return otherwise != result::closed;
    }
    log.respond(result::success, values[0]);
    for (std::size_t i = 1; i < done; ++i) log.respond_again(values[i]);
    return true;
  }

  void close() {
    notes& log = record_.log(plan_.producers + plan_.consumers);
    log.invoke(op::close);
    queue_.close();
    log.respond(result::success);
  }

  static constexpr std::size_t ended = ~std::size_t{0};

  const storm plan_;
  Queue queue_;
  recording<Clock> record_;
  std::latch producers_;
  const std::stop_source never_;  // never requested
  std::atomic<std::size_t> pushed_{0};
  std::size_t operations_ = 0;
};

}  // namespace muster_test
