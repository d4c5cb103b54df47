// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// boost::lockfree: queue (Michael and Scott's list over a pool of nodes, strict FIFO), spsc_queue (a ring), and stack
// (Treiber's).
#include "driver/request.hpp"
#include "driver/shared_pairs.hpp"

#include <boost/lockfree/queue.hpp>
#include <boost/lockfree/spsc_queue.hpp>
#include <boost/lockfree/stack.hpp>

namespace muster::bench {
namespace {

class boost_list {
 public:
  static constexpr ending ends_by = ending::drained;

  boost_list(std::size_t capacity, unsigned, unsigned) : queue_(capacity) {}

  MUSTER_HOT void push(item value) {
    until([&] { return queue_.bounded_push(value); });
  }
  MUSTER_HOT bool try_pop(item& value) { return queue_.pop(value); }

 private:
  boost::lockfree::queue<item> queue_;
};

class boost_ring {
 public:
  static constexpr ending ends_by = ending::drained;

  boost_ring(std::size_t capacity, unsigned, unsigned) : queue_(capacity) {}

  MUSTER_HOT void push(item value) {
    until([&] { return queue_.push(value); });
  }
  MUSTER_HOT void push_n(const item* first, std::size_t n) {
    until([&] {
      const std::size_t taken = queue_.push(first, n);
      first += taken;
      n -= taken;
      return n == 0;
    });
  }
  MUSTER_HOT bool try_pop(item& value) { return queue_.pop(value); }
  MUSTER_HOT std::size_t try_pop_n(item* out, std::size_t n) { return queue_.pop(out, n); }

 private:
  boost::lockfree::spsc_queue<item> queue_;
};

/// A queue or stack that begins with some nodes and makes more when they are used up.
template <class Structure>
class boost_pairs {
 public:
  explicit boost_pairs(const team_spec&) : structure_(4096) {}

  MUSTER_HOT void push(item value) {
    until([&] { return structure_.push(value); });
  }
  MUSTER_HOT bool pop(item& value) { return structure_.pop(value); }

 private:
  Structure structure_;
};

}  // namespace

void add_boost(catalogue& to) {
  contender c{.name = "boost lockfree::queue", .family = "boost", .role = "peer"};
  c.note = "bounded_push and pop, waiting outside; trivially copyable items only";
  c.topics = fan_out | many_to_many | oversubscribed | slow_consumer;
  c.no_stall = "takes only trivially copyable items, whose copy cannot be interrupted";
  c.stream = run_stream<boost_list>;
  to.all.push_back(c);

  c.name = "boost spsc_queue";
  c.note = "push and pop, waiting outside";
  c.topics = one_to_one;
  c.no_stall.clear();
  c.stream = run_stream<boost_ring>;
  to.all.push_back(c);

  c.name = "boost spsc_queue bulk(8)";
  c.role = "baseline";
  c.note = "eight items per operation; not compared with single-item queues";
  c.stream = run_stream<boost_ring, take_eight, give_eight>;
  to.all.push_back(c);

  c.role = "peer";
  c.note = "Michael and Scott's, over a pool of nodes";
  c.stream = {};
  c.name = "boost lockfree::queue";
  c.topics = shared_queue | queue_pairs;
  c.team = run_pairs<boost_pairs<boost::lockfree::queue<item>>>;
  to.all.push_back(c);

  c.name = "boost lockfree::stack";
  c.note = "Treiber's, over a pool of nodes";
  c.topics = shared_stack;
  c.team = run_pairs<boost_pairs<boost::lockfree::stack<item>>>;
  to.all.push_back(c);
}

}  // namespace muster::bench
