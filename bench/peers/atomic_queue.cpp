// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// atomic_queue: a ring of slots, each with a state. push and pop claim a slot by fetch-add and spin on it ("optimist"),
// try_push and try_pop claim by compare-and-swap. Its single-producer, single-consumer mode has plain loads and stores.
//
// Not FIFO when threads are preempted: a slot carries no lap number, so a thread that stops between its claim and the
// slot while the others go once round the ring changes places with a thread of the next lap. With more threads than
// cores this happens within a second. It is measured as a peer all the same, and items out of order are counted.
#include "driver/request.hpp"
#include "driver/round_trips.hpp"
#include "driver/stall.hpp"
#include "driver/tails.hpp"
#include "driver/tries.hpp"
#include "peers/by_try.hpp"

#include <atomic_queue/atomic_queue.h>

#include <memory>
#include <stdexcept>
#include <utility>

namespace muster::bench {
namespace {

inline constexpr unsigned static_size = 4096;
inline constexpr unsigned stall_size = 64;

/// By push and pop, which claim first and then spin for as long as it takes.
template <class Queue, class T>
class optimist {
 public:
  static constexpr ending ends_by = ending::poisoned;

  optimist(std::size_t capacity, unsigned, unsigned) : queue_(static_cast<unsigned>(capacity)) {}

  MUSTER_HOT void push(T value) { queue_.push(std::move(value)); }
  MUSTER_HOT T pop() { return queue_.pop(); }

 private:
  Queue queue_;
};

template <class Queue, class T>
using try_outside = by_try<T, Queue, [](Queue& q, T& value) { return q.try_push(std::move(value)); },
                           [](Queue& q, T& value) { return q.try_pop(value); }>;

/// The queues whose size is a constant, behind the constructor of the others.
template <class Queue, unsigned Size>
struct sized : Queue {
  explicit sized(unsigned capacity) {
    if (capacity != Size) throw std::invalid_argument("the capacity of this queue is fixed at compile time");
  }
};

using allocator = std::allocator<item>;
using element = atomic_queue::AtomicQueueB<item, allocator, item{0}>;
using element2 = atomic_queue::AtomicQueueB2<item, allocator>;
// AtomicQueueB2 rounds sizes below 4096 up to 4096, so the stall of a small ring is measured on the static one.
using sluggish2 = sized<atomic_queue::AtomicQueue2<sluggish, stall_size>, stall_size>;
using spsc_element = atomic_queue::AtomicQueueB<item, allocator, item{0}, true, false, true>;
using spsc_static = sized<atomic_queue::AtomicQueue<item, static_size, item{0}, true, true, false, true>, static_size>;
using spsc_static2 = sized<atomic_queue::AtomicQueue2<item, static_size, true, true, false, true>, static_size>;

}  // namespace

void add_atomic_queue(catalogue& to) {
  std::vector<contender> rows{{.name = "atomic_queue spsc",
                               .note = "AtomicQueue of static size in SPSC mode, push and pop; item 0 is reserved",
                               .topics = one_to_one,
                               .stream = run_stream<optimist<spsc_static, item>>,
                               .round_trips = run_round_trips<optimist<spsc_static, item>>},
                              {.name = "atomic_queue 2 spsc",
                               .note = "AtomicQueue2 of static size in SPSC mode, push and pop",
                               .topics = one_to_one,
                               .stream = run_stream<optimist<spsc_static2, item>>,
                               .round_trips = run_round_trips<optimist<spsc_static2, item>>},
                              {.name = "atomic_queue B",
                               .note = "push and pop, which spin without giving the core away; item 0 is reserved",
                               .topics = fan_out | many_to_many | slow_consumer,
                               .no_stall = "takes only atomic items, whose copy cannot be interrupted",
                               .stream = run_stream<optimist<element, item>>},
                              {.name = "atomic_queue B try",
                               .note = "try_push and try_pop, waiting outside; item 0 is reserved; at least 64 entries",
                               .topics = fan_out | many_to_many | oversubscribed | topic::exchange,
                               .stream = run_stream<try_outside<element, item>>,
                               .tails = run_tails<try_outside<element, item>>,
                               .tries = run_tries<try_outside<element, item>>,
                               .exchange = run_exchange<try_outside<element, item>, try_outside<spsc_element, item>>},
                              {.name = "atomic_queue B2",
                               .note = "push and pop, which spin without giving the core away",
                               .topics = fan_out | many_to_many,
                               .stream = run_stream<optimist<element2, item>>},
                              {.name = "atomic_queue B2 try",
                               .note = "try_push and try_pop, waiting outside; of static size in slow-consumer",
                               .topics = one_to_one | fan_out | many_to_many | oversubscribed | slow_consumer,
                               .stream = run_stream<try_outside<element2, item>>,
                               .tails = run_tails<try_outside<element2, item>>,
                               .tries = run_tries<try_outside<element2, item>>,
                               .round_trips = run_round_trips<try_outside<element2, item>>,
                               .to_servers = true,
                               .stall = run_stall<try_outside<sluggish2, sluggish>>}};
  for (contender& c : rows) c.order = (c.topics & ~unsigned{one_to_one}) == 0;
  to.add("atomic_queue", "peer", std::move(rows));
}

}  // namespace muster::bench
