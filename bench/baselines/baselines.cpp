// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Our own versions of other people's ideas, and the limits, as contenders.
#include "baselines/cached_index_ring.hpp"
#include "baselines/ffq_spmc_paper.hpp"
#include "baselines/half_buffers.hpp"
#include "baselines/mutex_ring.hpp"
#include "baselines/watched_mutex_ring.hpp"
#include "driver/request.hpp"
#include "driver/round_trips.hpp"
#include "driver/shared_pairs.hpp"
#include "driver/stall.hpp"
#include "driver/tails.hpp"

#include <muster/base/arch.hpp>  // isolation_size

namespace muster::bench {
namespace {

/// One shared word, as many fetch-adds as there are items: what a queue that claims items one by one cannot beat.
struct alignas(isolation_size) counter {
  std::atomic<std::uint64_t> value{0};
};

/// Consumers share one word. Producers share another, unless there is only one, who needs no atomic increment.
outcome run_fetch_add(const stream_spec& spec) {
  counter head;
  counter tail;
  std::vector<counter> taken(spec.consumers);
  outcome result = run_crew(spec.pus, [&](unsigned index, start_line& line) {
    line.arrive_and_wait();
    const bool produces = index < spec.producers;
    if (produces && spec.producers == 1) return;
    std::uint64_t own = 0;
    counter& shared = produces ? tail : head;
    while (shared.value.fetch_add(1, std::memory_order_relaxed) < spec.items) ++own;
    if (!produces) taken[index - spec.producers].value = own;
  });
  std::uint64_t all = 0;
  for (const counter& one : taken) all += one.value;
  if (all != spec.items) result.error = "the counters do not add up to the number of items";
  result.items = spec.items;
  result.peak_memory = peak_memory();
  return result;
}

/// The same for threads that push and pop: each one fetch-add, on two words. A thread pops its own items.
class two_counters {
 public:
  explicit two_counters(const team_spec&) {}

  class handle {
   public:
    handle(two_counters& all, unsigned, unsigned) : all_(all) {}
    void push(item value) {
      all_.tail_.value.fetch_add(1, std::memory_order_relaxed);
      own_ = value;
    }
    bool pop(item& value) {
      all_.head_.value.fetch_add(1, std::memory_order_relaxed);
      value = own_;
      return true;
    }

   private:
    two_counters& all_;
    item own_ = 0;
  };

 private:
  counter head_;
  counter tail_;
};

/// The producer of the slow-consumer experiment alone: how late this machine lets it be when nothing is in its way.
outcome run_schedule(const stall_spec& spec) {
  std::vector<std::uint64_t> late(spec.items);
  outcome result = run_crew({spec.pus.front()}, [&](unsigned, start_line& line) {
    line.arrive_and_wait();
    push_on_schedule(spec, late, [](item, std::uint64_t) {});
  });
  result.items = spec.items;
  result.peak_memory = peak_memory();
  result.detail = quantiles(late);
  return result;
}

}  // namespace

void add_baselines(catalogue& to) {
  to.add(
      "baseline", "baseline",
      {{.name = "rigtorp-style ring",
        .note = "single producer and consumer, cached indices; our own code",
        .topics = one_to_one,
        .stream = run_stream<cached_index_ring>,
        .round_trips = run_round_trips<cached_index_ring>},
       {.name = "mutex queue",
        .note = "a ring, std::mutex and two std::condition_variable",
        .topics = one_to_one | fan_out | many_to_many | oversubscribed | slow_consumer,
        .stream = run_stream<mutex_ring<item>>,
        .tails = run_tails<mutex_ring<item>>,
        .round_trips = run_round_trips<mutex_ring<item>>,
        .to_event_loop = run_round_trips<mutex_ring<item>, watched_mutex_ring<item>>,
        .to_servers = true,
        .stall = run_stall<mutex_ring<sluggish>>},
       {.name = "FFQ^s as printed",
        .family = "ffq paper",
        .role = "paper",
        .note = "Algorithm 1 with erratum, aligned cells; flow control outside",
        .topics = one_to_one | fan_out | slow_consumer | topic::exchange | pairs_alone,
        .stream = run_stream<ffq_spmc_paper<item>>,
        .exchange = run_exchange<ffq_spmc_paper<item, ffq_packed_cell>, ffq_spmc_paper<item, ffq_packed_cell, false>>,
        .stall = run_stall<ffq_spmc_paper<sluggish>>,
        .team = run_pairs<both_ends<ffq_spmc_paper<item>>>},
       {.name = "FFQ^s as printed, one consumer",
        .family = "ffq paper",
        .role = "paper",
        .note = "the same without the atomic increment of head",
        .topics = pairs_alone,
        .team = run_pairs<both_ends<ffq_spmc_paper<item, ffq_aligned_cell, false>>>},
       {.name = "raw fetch-add",
        .role = "limit",
        .note = "no queue: each consumer one fetch-add per item on one word; several producers likewise",
        .topics = fan_out | many_to_many | queue_pairs,
        .stream = run_fetch_add,
        .team = run_pairs<two_counters>},
       {.name = "schedule alone",
        .role = "limit",
        .note = "no queue: how late the machine lets the producer be",
        .topics = slow_consumer,
        .stall = run_schedule},
       {.name = "half buffers",
        .role = "limit",
        .note = "no queue: 2048 items per hand-over; what moving the cache lines alone costs",
        .topics = one_to_one | between_processes,
        .stream = run_stream<half_buffers_of_items<true>>,
        .between = run_between<half_buffers_of_parcels<true>>},
       {.name = "half buffers, only read",
        .note = "the same with a consumer that writes nothing into the lines it has emptied",
        .topics = one_to_one | between_processes,
        .stream = run_stream<half_buffers_of_items<false>>,
        .between = run_between<half_buffers_of_parcels<false>>}});
}

}  // namespace muster::bench
