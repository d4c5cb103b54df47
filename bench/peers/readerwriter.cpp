// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// moodycamel::ReaderWriterQueue (a ring of rings) and its circular buffer. One producer, one consumer.
#include "driver/round_trips.hpp"
#include "peers/by_try.hpp"

#include <readerwriterqueue/readerwritercircularbuffer.h>
#include <readerwriterqueue/readerwriterqueue.h>

namespace muster::bench {
namespace {

template <class Queue>
using reader_writer = by_try<item, Queue, [](Queue& q, item value) { return q.try_enqueue(value); },
                             [](Queue& q, item& value) { return q.try_dequeue(value); }>;

}  // namespace

void add_readerwriter(catalogue& to) {
  to.add("readerwriterqueue", "peer",
         {{.name = "readerwriterqueue",
           .note = "moodycamel::ReaderWriterQueue by try_enqueue and try_dequeue, waiting outside",
           .topics = one_to_one,
           .stream = run_stream<reader_writer<moodycamel::ReaderWriterQueue<item>>>,
           .round_trips = run_round_trips<reader_writer<moodycamel::ReaderWriterQueue<item>>>},
          {.name = "readerwriterqueue circular",
           .note = "BlockingReaderWriterCircularBuffer by its try_ operations, waiting outside",
           .topics = one_to_one,
           .stream = run_stream<reader_writer<moodycamel::BlockingReaderWriterCircularBuffer<item>>>,
           .round_trips = run_round_trips<reader_writer<moodycamel::BlockingReaderWriterCircularBuffer<item>>>}});
}

}  // namespace muster::bench
