// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// oneTBB's concurrent_bounded_queue: tickets over eight micro-queues of pages, blocking push and pop. Strict FIFO.
#include "driver/round_trips.hpp"
#include "driver/shared_pairs.hpp"
#include "driver/stall.hpp"
#include "driver/tails.hpp"
#include "driver/tries.hpp"

#include <oneapi/tbb/concurrent_queue.h>

#include <utility>

namespace muster::bench {
namespace {

/// `Try` chooses between the operations that sleep in the kernel and the try_ operations with waiting outside.
template <class T, bool Try>
class tbb_bounded {
 public:
  static constexpr ending ends_by = Try ? ending::drained : ending::poisoned;

  tbb_bounded(std::size_t capacity, unsigned, unsigned) { queue_.set_capacity(static_cast<std::ptrdiff_t>(capacity)); }

  MUSTER_HOT void push(T value) {
    if constexpr (Try) {
      until([&] { return queue_.try_push(std::move(value)); });
    } else {
      queue_.push(std::move(value));
    }
  }
  MUSTER_HOT bool try_push(T value) { return queue_.try_push(std::move(value)); }
  MUSTER_HOT T pop() {
    T value{};
    queue_.pop(value);
    return value;
  }
  MUSTER_HOT bool try_pop(T& value) { return queue_.try_pop(value); }

 private:
  tbb::concurrent_bounded_queue<T> queue_;
};

}  // namespace

void add_tbb(catalogue& to) {
  to.add("tbb", "peer",
         {{.name = "tbb concurrent_bounded_queue",
           .note = "blocking push and pop",
           .topics = one_to_one | fan_out | many_to_many | oversubscribed | slow_consumer,
           .stream = run_stream<tbb_bounded<item, false>>,
           .tails = run_tails<tbb_bounded<item, false>>,
           .round_trips = run_round_trips<tbb_bounded<item, false>>,
           .to_servers = true,
           .stall = run_stall<tbb_bounded<sluggish, false>>},
          {.name = "tbb concurrent_bounded_queue try",
           .note = "try_push and try_pop, waiting outside",
           .topics = one_to_one | fan_out | many_to_many | oversubscribed | queue_pairs,
           .stream = run_stream<tbb_bounded<item, true>>,
           .tails = run_tails<tbb_bounded<item, true>>,
           .tries = run_tries<tbb_bounded<item, true>>,
           .round_trips = run_round_trips<tbb_bounded<item, true>>,
           .to_servers = true,
           .team = run_pairs<both_ends<tbb_bounded<item, true>>>}});
}

}  // namespace muster::bench
