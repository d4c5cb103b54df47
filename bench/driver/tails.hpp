// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// tails.hpp: how long each push and each pop of a stream takes, waiting included. The clock is read twice for each, at
// the same cost for all contenders.
#pragma once

#include "driver/quantiles.hpp"
#include "driver/stream.hpp"

#include <array>
#include <mutex>
#include <utility>
#include <vector>

namespace muster::bench {

/// A queue of driver/stream.hpp whose handles time their operations. There is one in a process.
template <class Q>
class timed {
  using clock = std::chrono::steady_clock;

 public:
  static constexpr ending ends_by = Q::ends_by;

  timed(std::size_t capacity, unsigned producers, unsigned consumers) : queue_(capacity, producers, consumers) {}
  void close() { queue_.close(); }

  /// The times of pushes and of pops, from handles that have gone.
  inline static std::array<std::vector<std::uint64_t>, 2> times{};

  class producer {
   public:
    producer(timed& q, unsigned index) : to_(producer_of(q.queue_, index)) {}
    producer(const producer&) = delete;
    producer& operator=(const producer&) = delete;
    ~producer() { keep(0, own_); }
    MUSTER_HOT void push(item value) {
      const clock::time_point begin = clock::now();
      to_.push(value);
      own_.push_back(nanoseconds_since(begin));
    }

   private:
    decltype(producer_of(std::declval<Q&>(), 0)) to_;
    std::vector<std::uint64_t> own_;
  };

  class consumer {
   public:
    consumer(timed& q, unsigned index) : from_(consumer_of(q.queue_, index)) {}
    consumer(const consumer&) = delete;
    consumer& operator=(const consumer&) = delete;
    ~consumer() { keep(1, own_); }
    MUSTER_HOT bool pop(item& value) {
      const clock::time_point begin = clock::now();
      if (!from_.pop(value)) return false;
      own_.push_back(nanoseconds_since(begin));
      return true;
    }
    MUSTER_HOT item pop() {
      const clock::time_point begin = clock::now();
      const item value = from_.pop();
      own_.push_back(nanoseconds_since(begin));
      return value;
    }
    /// The driver waits outside: a pop begins with the first try.
    MUSTER_HOT bool try_pop(item& value) {
      if (!waits_) begin_ = clock::now();
      waits_ = !from_.try_pop(value);
      if (!waits_) own_.push_back(nanoseconds_since(begin_));
      return !waits_;
    }

   private:
    decltype(consumer_of(std::declval<Q&>(), 0)) from_;
    std::vector<std::uint64_t> own_;
    clock::time_point begin_{};
    bool waits_ = false;
  };

 private:
  static void keep(std::size_t side, const std::vector<std::uint64_t>& more) {
    static std::mutex one_by_one;
    const std::lock_guard<std::mutex> lock(one_by_one);
    times[side].insert(times[side].end(), more.begin(), more.end());
  }

  Q queue_;
};

template <class Q>
outcome run_tails(const tail_spec& spec) {
  outcome result = run_stream<timed<Q>>(spec);
  for (const std::size_t side : {0U, 1U})
    if (!timed<Q>::times[side].empty())
      result.detail.merge(quantiles(std::move(timed<Q>::times[side]), side == 0 ? "push " : "pop "));
  return result;
}

}  // namespace muster::bench
