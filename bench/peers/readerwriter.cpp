// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// moodycamel::ReaderWriterQueue (a ring of rings) and its circular buffer. One producer, one consumer.
#include "driver/stream.hpp"

#include <readerwriterqueue/readerwritercircularbuffer.h>
#include <readerwriterqueue/readerwriterqueue.h>

namespace muster::bench {
namespace {

template <class Queue>
class reader_writer {
 public:
  static constexpr ending ends_by = ending::drained;

  reader_writer(std::size_t capacity, unsigned, unsigned) : queue_(capacity) {}

  MUSTER_HOT void push(item value) {
    until([&] { return queue_.try_enqueue(value); });
  }
  MUSTER_HOT bool try_pop(item& value) { return queue_.try_dequeue(value); }

 private:
  Queue queue_;
};

}  // namespace

void add_readerwriter(catalogue& to) {
  contender c{.name = "readerwriterqueue",
              .family = "readerwriterqueue",
              .role = "peer",
              .note = "moodycamel::ReaderWriterQueue by try_enqueue and try_dequeue, waiting outside",
              .topics = one_to_one,
              .stream = run_stream<reader_writer<moodycamel::ReaderWriterQueue<item>>>};
  to.all.push_back(c);

  c.name = "readerwriterqueue circular";
  c.note = "BlockingReaderWriterCircularBuffer by its try_ operations, waiting outside";
  c.stream = run_stream<reader_writer<moodycamel::BlockingReaderWriterCircularBuffer<item>>>;
  to.all.push_back(c);
}

}  // namespace muster::bench
