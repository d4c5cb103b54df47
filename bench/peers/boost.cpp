// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// boost::lockfree: queue (Michael and Scott's list over a fixed pool of nodes, strict FIFO) and spsc_queue (a ring).
#include "driver/request.hpp"

#include <boost/lockfree/queue.hpp>
#include <boost/lockfree/spsc_queue.hpp>

namespace muster::bench {
namespace {

class boost_list {
 public:
  static constexpr ending ends_by = ending::drained;

  boost_list(std::size_t capacity, unsigned, unsigned) : queue_(capacity) {}

  class producer {
   public:
    producer(boost_list& q, unsigned) : queue_(q.queue_) {}
    void push(item value) {
      until([&] { return queue_.bounded_push(value); });
    }

   private:
    boost::lockfree::queue<item>& queue_;
  };

  class consumer {
   public:
    consumer(boost_list& q, unsigned) : queue_(q.queue_) {}
    bool try_pop(item& value) { return queue_.pop(value); }

   private:
    boost::lockfree::queue<item>& queue_;
  };

 private:
  boost::lockfree::queue<item> queue_;
};

class boost_ring {
 public:
  static constexpr ending ends_by = ending::drained;

  boost_ring(std::size_t capacity, unsigned, unsigned) : queue_(capacity) {}

  class producer {
   public:
    producer(boost_ring& q, unsigned) : queue_(q.queue_) {}
    void push(item value) {
      until([&] { return queue_.push(value); });
    }
    void push_n(const item* first, std::size_t n) {
      until([&] {
        const std::size_t taken = queue_.push(first, n);
        first += taken;
        n -= taken;
        return n == 0;
      });
    }

   private:
    boost::lockfree::spsc_queue<item>& queue_;
  };

  class consumer {
   public:
    consumer(boost_ring& q, unsigned) : queue_(q.queue_) {}
    bool try_pop(item& value) { return queue_.pop(value); }
    std::size_t try_pop_n(item* out, std::size_t n) { return queue_.pop(out, n); }

   private:
    boost::lockfree::spsc_queue<item>& queue_;
  };

 private:
  boost::lockfree::spsc_queue<item> queue_;
};

}  // namespace

void add_boost(catalogue& to) {
  contender c;
  c.family = "boost";
  c.role = "peer";
  c.name = "boost lockfree::queue";
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
}

}  // namespace muster::bench
