// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Queues between processes: muster's, in each shape.
#include "driver/between.hpp"

#include <muster/queue/shared.hpp>

namespace muster::bench {
namespace {

template <class Shape>
class shared_channel {
  using queue = muster::shared_queue<parcel, Shape>;

 public:
  shared_channel(std::size_t capacity, unsigned producers, unsigned consumers)
      : queue_(queue::create_anonymous(capacity, {.ports = producers + consumers, .lanes = producers})) {}
  void forget() {}

  class producer {
   public:
    explicit producer(shared_channel& c) : queue_(c.queue_), port_(c.queue_.producer()) {}
    void push(const parcel& p) { port_.push(p); }
    void leave(bool last) {
      if (last) queue_.close();
    }

   private:
    queue& queue_;
    typename queue::producer_port port_;
  };

  class consumer {
   public:
    explicit consumer(shared_channel& c) : port_(c.queue_.consumer()) {}
    bool pop(parcel& p) {
      const auto item = port_.pop();
      if (item) p = *item;
      return item.has_value();
    }

   private:
    typename queue::consumer_port port_;
  };

 private:
  queue queue_;
};

template <class Shape>
void add(catalogue& to, unsigned topics, const char* note) {
  to.all.push_back({.name = std::string("shared_queue, ") + Shape::name,
                    .family = "muster",
                    .role = "ours",
                    .note = note,
                    .topics = topics,
                    .strict = !Shape::many_rings,
                    .between = run_between<shared_channel<Shape>>});
}

}  // namespace

void add_shared_queues(catalogue& to) {
  add<shape::spsc>(to, between_processes, "one producer, one consumer");
  add<shape::spmc>(to, between_processes | from_one_process, "one producer");
  add<shape::mpmc>(to, between_processes | from_one_process | between_many, "");
  add<shape::lanes>(to, between_processes | from_one_process | between_many, "a ring for each producer");
}

}  // namespace muster::bench
