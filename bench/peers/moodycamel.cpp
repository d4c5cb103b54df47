// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "peers/moodycamel.hpp"

#include "driver/request.hpp"
#include "driver/shared_pairs.hpp"
#include "driver/stall.hpp"

namespace muster::bench {

void add_moodycamel(catalogue& to) {
  contender c{.name = "moodycamel ConcurrentQueue", .family = "moodycamel", .role = "peer", .strict = false};
  c.note = "enqueue and try_dequeue with tokens; unbounded: its producers never wait; FIFO per producer only";
  c.topics = one_to_one | fan_out | many_to_many | oversubscribed | slow_consumer | topic::exchange | queue_pairs;
  c.stream = run_stream<moodycamel_tokens<item>>;
  c.team = run_pairs<both_ends<moodycamel_tokens<item>>>;
  c.exchange = run_exchange<moodycamel_tokens<item>, moodycamel_tokens<item>>;
  c.stall = run_stall<moodycamel_tokens<sluggish>>;
  to.all.push_back(c);

  c.name = "moodycamel try_dequeue_bulk(8)";
  c.role = "baseline";
  c.note = "up to eight items per operation; not compared with single-item queues";
  c.topics = fan_out;
  c.stream = run_stream<moodycamel_tokens<item>, take_eight>;
  c.exchange = {};
  c.stall = {};
  c.team = {};
  to.all.push_back(c);
}

}  // namespace muster::bench
