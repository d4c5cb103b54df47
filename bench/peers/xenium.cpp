// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// xenium: vyukov_bounded_queue (a ring of sequence numbers) and ramalhete_queue (a list of arrays, unbounded).
#include "driver/request.hpp"
#include "driver/round_trips.hpp"
#include "driver/shared_pairs.hpp"
#include "driver/stall.hpp"
#include "driver/tails.hpp"
#include "driver/tries.hpp"

#include <xenium/policy.hpp>
#include <xenium/ramalhete_queue.hpp>
#include <xenium/reclamation/generic_epoch_based.hpp>
#include <xenium/vyukov_bounded_queue.hpp>

#include <bit>
#include <utility>

namespace muster::bench {
namespace {

/// By the weak try_ operations: the strong ones wait inside, without a pause and without giving the core away.
template <class T>
class vyukov {
 public:
  using queue_type = xenium::vyukov_bounded_queue<T>;
  static constexpr ending ends_by = ending::drained;

  vyukov(std::size_t capacity, unsigned, unsigned) : queue_(std::bit_ceil(capacity)) {}

  MUSTER_HOT void push(T value) {
    until([&] { return queue_.try_push_weak(std::move(value)); });
  }
  MUSTER_HOT bool try_push(T value) { return queue_.try_push_weak(std::move(value)); }
  MUSTER_HOT bool try_pop(T& value) { return queue_.try_pop_weak(value); }

 private:
  queue_type queue_;
};

/// Stores pointers; an item is below 2^47 and travels as the address of an object that does not exist.
class ramalhete {
 public:
  struct nothing;
  using queue_type = xenium::ramalhete_queue<nothing*, xenium::policy::reclaimer<xenium::reclamation::epoch_based<>>>;
  static constexpr ending ends_by = ending::drained;

  ramalhete(std::size_t, unsigned, unsigned) {}

  MUSTER_HOT void push(item value) { queue_.push(reinterpret_cast<nothing*>(value)); }
  MUSTER_HOT bool try_pop(item& value) {
    nothing* address = nullptr;
    if (!queue_.try_pop(address)) return false;
    value = reinterpret_cast<item>(address);
    return true;
  }

 private:
  queue_type queue_;
};

}  // namespace

void add_xenium(catalogue& to) {
  to.add(
      "xenium", "peer",
      {{.name = "xenium vyukov_bounded_queue",
        .note = "weak try_push and try_pop, waiting outside",
        .topics = one_to_one | fan_out | many_to_many | oversubscribed | slow_consumer | topic::exchange | queue_pairs,
        .stream = run_stream<vyukov<item>>,
        .tails = run_tails<vyukov<item>>,
        .tries = run_tries<vyukov<item>>,
        .exchange = run_exchange<vyukov<item>, vyukov<item>>,
        .round_trips = run_round_trips<vyukov<item>>,
        .to_servers = true,
        .stall = run_stall<vyukov<sluggish>>,
        .team = run_pairs<both_ends<vyukov<item>>>},
       {.name = "xenium ramalhete_queue",
        .note = "unbounded: its producers never wait; epoch-based reclamation",
        .topics = one_to_one | fan_out | many_to_many | oversubscribed | slow_consumer | queue_by_fibers | queue_pairs,
        .no_stall = "stores pointers, whose copy cannot be interrupted",
        .stream = run_stream<ramalhete>,
        .tails = run_tails<ramalhete>,
        .team = run_pairs<both_ends<ramalhete>>}});
}

}  // namespace muster::bench
