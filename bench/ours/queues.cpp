// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The library's queues as contenders.
#include "driver/request.hpp"
#include "driver/shared_pairs.hpp"
#include "driver/stall.hpp"
#include "ours/adapter.hpp"

#include <muster/queue.hpp>

namespace muster::bench {
namespace {

using spsc = ours<spsc_queue<item>>;
using spmc = ours<spmc_queue<item>>;
using mpmc = ours<mpmc_queue<item>>;
using some_lanes = ours<lanes<item>>;

contender one(std::string name, unsigned topics) {
  return {.name = std::move(name), .family = "muster", .role = "ours", .topics = topics};
}

template <template <class, class, class> class Queue, class Layout>
outcome run_laid_out(const exchange_spec& spec) {
  return run_exchange<ours<Queue<item, Layout, wait::spin_then_park>>, spsc>(spec);
}

}  // namespace

void add_ours(catalogue& to) {
  contender c = one("spsc_queue", one_to_one | topic::exchange | pairs_alone);
  c.stream = run_stream<spsc>;
  c.team = run_pairs<both_ends<spsc>>;
  c.exchange = run_exchange<spsc, spsc>;
  to.all.push_back(c);

  c = one("spsc_queue push_n/pop_n(8)", one_to_one);
  c.note = "eight items per operation";
  c.stream = run_stream<spsc, take_eight, give_eight>;
  to.all.push_back(c);

  c = one("spmc_queue", one_to_one | fan_out | oversubscribed | slow_consumer | topic::exchange | pairs_alone);
  c.stream = run_stream<spmc>;
  c.team = run_pairs<both_ends<spmc>>;
  c.exchange = run_exchange<spmc, spmc>;
  c.stall = run_stall<ours<spmc_queue<sluggish>>>;
  to.all.push_back(c);

  c = one("spmc_queue try_pop", fan_out);
  c.stream = run_stream<spmc, take_if_there>;
  to.all.push_back(c);

  c = one("spmc_queue pop_n(8)", fan_out);
  c.note = "up to eight items per claim; pushes are single";
  c.stream = run_stream<spmc, take_eight>;
  to.all.push_back(c);

  c = one("spmc_queue push_n(8)/pop_n(8)", fan_out);
  c.note = "eight items per push as well";
  c.stream = run_stream<spmc, take_eight, give_eight>;
  to.all.push_back(c);

  c = one("spmc_queue + spsc_queue", topic::exchange);
  c.note = "requests through spmc_queue, answers through spsc_queue";
  c.exchange = run_exchange<spmc, spsc>;
  to.all.push_back(c);

  c = one("mpmc_queue",
          one_to_one | fan_out | many_to_many | oversubscribed | slow_consumer | shared_queue | queue_pairs);
  c.stream = run_stream<mpmc>;
  c.team = run_pairs<both_ends<mpmc>>;
  c.stall = run_stall<ours<mpmc_queue<sluggish>>>;
  to.all.push_back(c);

  c = one("mpmc_queue with a line for each cell", many_to_many | queue_pairs);
  c.note = "layout::aligned, as FFQ^m has its cells";
  c.stream = run_stream<ours<mpmc_queue<item, layout::aligned>>>;
  c.team = run_pairs<both_ends<ours<mpmc_queue<item, layout::aligned>>>>;
  to.all.push_back(c);

  c = one("lanes", one_to_one | fan_out | many_to_many | oversubscribed);
  c.strict = false;
  c.note = "a handle and a lane of that capacity for each producer; FIFO per producer only";
  c.stream = run_stream<some_lanes>;
  to.all.push_back(c);

  c = one("lanes pop_n(8)", many_to_many);
  c.strict = false;
  c.note = "up to eight items per claim; pushes are single; FIFO per producer only";
  c.stream = run_stream<some_lanes, take_eight>;
  to.all.push_back(c);

  const auto laid_out = [&](const char* name, outcome (*run)(const exchange_spec&)) {
    contender l = one(name, queue_layouts);
    l.exchange = run;
    to.all.push_back(l);
  };
  laid_out("mpmc_queue, not aligned", run_laid_out<mpmc_queue, layout::packed>);
  laid_out("mpmc_queue, aligned", run_laid_out<mpmc_queue, layout::aligned>);
  laid_out("mpmc_queue, randomized", run_laid_out<mpmc_queue, layout::rotated>);
  laid_out("mpmc_queue, both", run_laid_out<mpmc_queue, layout::aligned_rotated>);
  laid_out("spmc_queue, not aligned", run_laid_out<spmc_queue, layout::packed>);
  laid_out("spmc_queue, aligned", run_laid_out<spmc_queue, layout::aligned>);
  laid_out("spmc_queue, randomized", run_laid_out<spmc_queue, layout::rotated>);
  laid_out("spmc_queue, both", run_laid_out<spmc_queue, layout::aligned_rotated>);

  c = one("mpmc_queue try_pop", many_to_many);
  c.stream = run_stream<mpmc, take_if_there>;
  to.all.push_back(c);
}

}  // namespace muster::bench
