// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "peers/moodycamel.hpp"

#include "driver/request.hpp"
#include "driver/round_trips.hpp"
#include "driver/shared_pairs.hpp"
#include "driver/stall.hpp"
#include "driver/tails.hpp"
#include "driver/tries.hpp"

namespace muster::bench {

void add_moodycamel(catalogue& to) {
  to.add(
      "moodycamel", "peer",
      {{.name = "moodycamel ConcurrentQueue",
        .note = "enqueue and try_dequeue with tokens; unbounded: its producers never wait; FIFO per producer only",
        .topics = one_to_one | fan_out | many_to_many | oversubscribed | slow_consumer | topic::exchange | queue_pairs,
        .strict = false,
        .stream = run_stream<moodycamel_tokens<item>>,
        .tails = run_tails<moodycamel_tokens<item>>,
        .tries = run_tries<moodycamel_tokens<item>>,
        .exchange = run_exchange<moodycamel_tokens<item>, moodycamel_tokens<item>>,
        .round_trips = run_round_trips<moodycamel_tokens<item>>,
        .to_servers = true,
        .stall = run_stall<moodycamel_tokens<sluggish>>,
        .team = run_pairs<both_ends<moodycamel_tokens<item>>>},
       {.name = "moodycamel try_dequeue_bulk(8)",
        .role = "baseline",
        .note = "up to eight items per operation; not compared with single-item queues",
        .topics = fan_out,
        .strict = false,
        .stream = run_stream<moodycamel_tokens<item>, take_eight>}});
}

}  // namespace muster::bench
