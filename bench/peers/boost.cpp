// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// boost::lockfree: queue (Michael and Scott's list over a pool of nodes, strict FIFO), spsc_queue (a ring), and stack
// (Treiber's).
#include "driver/round_trips.hpp"
#include "driver/tails.hpp"
#include "driver/tries.hpp"
#include "peers/by_try.hpp"

#include <boost/lockfree/queue.hpp>
#include <boost/lockfree/spsc_queue.hpp>
#include <boost/lockfree/stack.hpp>

namespace muster::bench {
namespace {

constexpr auto push_bounded = [](auto& q, item value) { return q.bounded_push(value); };
constexpr auto push = [](auto& q, item value) { return q.push(value); };
constexpr auto pop = [](auto& q, item& value) { return q.pop(value); };

using boost_list = by_try<item, boost::lockfree::queue<item>, push_bounded, pop>;
/// A queue or stack that begins with some nodes and makes more when they are used up.
template <class Structure>
using growing = by_try<item, Structure, push, pop>;

class boost_ring : public by_try<item, boost::lockfree::spsc_queue<item>, push, pop> {
 public:
  using by_try::by_try;
  MUSTER_HOT void push_n(const item* first, std::size_t n) {
    until([&] {
      const std::size_t taken = queue_.push(first, n);
      first += taken;
      n -= taken;
      return n == 0;
    });
  }
  MUSTER_HOT std::size_t try_pop_n(item* out, std::size_t n) { return queue_.pop(out, n); }
};

}  // namespace

void add_boost(catalogue& to) {
  to.add("boost", "peer",
         {{.name = "boost lockfree::queue",
           .note = "bounded_push and pop, waiting outside; trivially copyable items only",
           .topics = fan_out | many_to_many | oversubscribed | slow_consumer,
           .no_stall = "takes only trivially copyable items, whose copy cannot be interrupted",
           .stream = run_stream<boost_list>,
           .tails = run_tails<boost_list>,
           .tries = run_tries<boost_list>,
           .round_trips = run_round_trips<boost_list>,
           .to_servers = true},
          {.name = "boost spsc_queue",
           .note = "push and pop, waiting outside",
           .topics = one_to_one,
           .stream = run_stream<boost_ring>,
           .round_trips = run_round_trips<boost_ring>},
          {.name = "boost spsc_queue bulk(8)",
           .role = "baseline",
           .note = "eight items per operation; not compared with single-item queues",
           .topics = one_to_one,
           .stream = run_stream<boost_ring, take_eight, give_eight>},
          {.name = "boost lockfree::queue",
           .note = "Michael and Scott's, over a pool of nodes",
           .topics = queue_by_fibers | queue_pairs,
           .team = run_pairs<growing<boost::lockfree::queue<item>>>},
          {.name = "boost lockfree::stack",
           .note = "Treiber's, over a pool of nodes",
           .topics = stack_by_fibers,
           .team = run_pairs<growing<boost::lockfree::stack<item>>>}});
}

}  // namespace muster::bench
