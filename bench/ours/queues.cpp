// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The library's queues as contenders.
#include "driver/event_loop.hpp"
#include "driver/request.hpp"
#include "driver/round_trips.hpp"
#include "driver/shared_pairs.hpp"
#include "driver/stall.hpp"
#include "driver/tails.hpp"
#include "driver/tries.hpp"
#include "ours/adapter.hpp"

#include <muster/fiber.hpp>
#include <muster/queue.hpp>
#include <muster/queue/notify_fd.hpp>

namespace muster::bench {
namespace {

using spsc = ours<spsc_queue<item>>;
using spmc = ours<spmc_queue<item>>;
using mpmc = ours<mpmc_queue<item>>;
using some_lanes = ours<lanes<item>>;

/// A queue whose consumer is an event loop.
class watched_mpmc {
 public:
  static constexpr ending ends_by = ending::closed;
  watched_mpmc(std::size_t capacity, unsigned, unsigned) : queue_(capacity) {}
  void close() { queue_.close(); }
  MUSTER_HOT void push(item value) { queue_.push(value); }

  class consumer {
   public:
    consumer(watched_mpmc& q, unsigned) : queue_(q.queue_), ready_(q.queue_), loop_(ready_.fd()) {}
    MUSTER_HOT bool pop(item& value) {
      for (;;) {
        if (const auto found = queue_.try_pop()) return value = *found, true;
        else if (found.status() == queue_status::closed) return false;
        if (ready_.arm()) loop_.wait();
      }
    }

   private:
    mpmc_queue<item>& queue_;
    notify_fd<mpmc_queue<item>> ready_;
    event_loop loop_;
  };

 private:
  mpmc_queue<item> queue_;
};

template <template <class, class, class> class Queue, class Layout>
outcome run_laid_out(const exchange_spec& spec) {
  return run_exchange<ours<Queue<item, Layout, wait::spin_then_park>>, spsc>(spec);
}

template <template <class, class, class> class Queue>
void add_laid_out(catalogue& to, const std::string& name) {
  const auto add = [&](const char* how, runner<exchange_spec> run) {
    to.add("muster", "ours", {{.name = name + how, .topics = queue_layouts, .exchange = run}});
  };
  add(", not aligned", run_laid_out<Queue, layout::packed>);
  add(", aligned", run_laid_out<Queue, layout::aligned>);
  add(", randomized", run_laid_out<Queue, layout::rotated>);
  add(", both", run_laid_out<Queue, layout::aligned_rotated>);
}

}  // namespace

void add_ours(catalogue& to) {
  to.add(
      "muster", "ours",
      {{.name = "spsc_queue",
        .topics = one_to_one | topic::exchange | pairs_alone,
        .stream = run_stream<spsc>,
        .tries = run_tries<spsc>,
        .exchange = run_exchange<spsc, spsc>,
        .round_trips = run_round_trips<spsc>,
        .team = run_pairs<both_ends<spsc>>},
       {.name = "spsc_queue push_n/pop_n(8)",
        .note = "eight items per operation",
        .topics = one_to_one,
        .stream = run_stream<spsc, take_eight, give_eight>},
       {.name = "spmc_queue",
        .topics = one_to_one | fan_out | oversubscribed | slow_consumer | topic::exchange | pairs_alone,
        .stream = run_stream<spmc>,
        .tails = run_tails<spmc>,
        .tries = run_tries<spmc>,
        .exchange = run_exchange<spmc, spmc>,
        .round_trips = run_round_trips<spmc>,
        .stall = run_stall<ours<spmc_queue<sluggish>>>,
        .team = run_pairs<both_ends<spmc>>},
       {.name = "spmc_queue try_pop", .topics = fan_out, .stream = run_stream<spmc, take_if_there>},
       {.name = "spmc_queue pop_n(8)",
        .note = "up to eight items per claim; pushes are single",
        .topics = fan_out,
        .stream = run_stream<spmc, take_eight>},
       {.name = "spmc_queue push_n(8)/pop_n(8)",
        .note = "eight items per push as well",
        .topics = fan_out,
        .stream = run_stream<spmc, take_eight, give_eight>},
       {.name = "spmc_queue + spsc_queue",
        .note = "requests through spmc_queue, answers through spsc_queue",
        .topics = topic::exchange,
        .exchange = run_exchange<spmc, spsc>},
       {.name = "mpmc_queue",
        .topics = one_to_one | fan_out | many_to_many | oversubscribed | slow_consumer | queue_by_fibers | queue_pairs,
        .stream = run_stream<mpmc>,
        .tails = run_tails<mpmc>,
        .tries = run_tries<mpmc>,
        .round_trips = run_round_trips<mpmc>,
        .to_event_loop = run_round_trips<mpmc, watched_mpmc>,
        .to_servers = true,
        .stall = run_stall<ours<mpmc_queue<sluggish>>>,
        .team = run_pairs<both_ends<mpmc>>},
       {.name = "mpmc_queue, a fiber for each request",
        .note = "the client is one thread",
        .round_trips = run_round_trips<mpmc, mpmc, fiber_client<fiber>>,
        .to_servers = true},
       {.name = "mpmc_queue, fibers on both sides",
        .note = "the client is one thread, and each server another, with as many fibers as requests in flight",
        .round_trips = run_round_trips<mpmc, mpmc, fiber_client<fiber>, fiber_server<fiber>>,
        .to_servers = true},
       {.name = "mpmc_queue with a line for each cell",
        .note = "layout::aligned, as FFQ^m has its cells",
        .topics = many_to_many | queue_pairs,
        .stream = run_stream<ours<mpmc_queue<item, layout::aligned>>>,
        .team = run_pairs<both_ends<ours<mpmc_queue<item, layout::aligned>>>>},
       {.name = "lanes",
        .note = "a handle and a lane of that capacity for each producer; FIFO per producer only",
        .topics = one_to_one | fan_out | many_to_many | oversubscribed,
        .strict = false,
        .stream = run_stream<some_lanes>,
        .tails = run_tails<some_lanes>,
        .tries = run_tries<some_lanes>},
       {.name = "lanes pop_n(8)",
        .note = "up to eight items per claim; pushes are single; FIFO per producer only",
        .topics = many_to_many,
        .strict = false,
        .stream = run_stream<some_lanes, take_eight>}});
  add_laid_out<mpmc_queue>(to, "mpmc_queue");
  add_laid_out<spmc_queue>(to, "spmc_queue");
  to.add("muster", "ours",
         {{.name = "mpmc_queue try_pop", .topics = many_to_many, .stream = run_stream<mpmc, take_if_there>},
          {.name = "spsc_queue consume",
           .note = "calls a function with each item in the queue",
           .topics = one_to_one,
           .stream = run_stream<spsc, take_in_place>},
          {.name = "spmc_queue consume",
           .note = "calls a function with each item in the queue",
           .topics = fan_out,
           .stream = run_stream<spmc, take_in_place>}});
}

}  // namespace muster::bench
