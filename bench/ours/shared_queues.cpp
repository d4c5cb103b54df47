// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Queues between processes: muster's, in each shape, and its messages, copied and in place.
#include "driver/between.hpp"
#include "driver/messages.hpp"

#include <muster/queue/shared.hpp>
#include <muster/queue/shared_bytes.hpp>

#include <cstring>
#include <vector>

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

words words_in(std::span<std::byte> bytes) {
  return {reinterpret_cast<std::uint64_t*>(bytes.data()), bytes.size() / sizeof(std::uint64_t)};
}

template <class Shape, bool InPlace>
class message_channel {
  using queue = muster::shared_bytes<Shape>;

 public:
  explicit message_channel(std::size_t size)
      : size_(size), queue_(queue::create_anonymous({4096, message_room(size), {.ports = 2, .lanes = 1}})) {}
  void forget() {}

  class producer {
   public:
    explicit producer(message_channel& c) : port_(c.queue_.producer()), own_(c.size_) {}
    template <class Fill>
    void push(Fill fill) {
      if constexpr (InPlace) {
        auto room = port_.loan(own_.size());
        fill(words_in(room->bytes()));
        room->push();
      } else {
        fill(words_in(own_));
        port_.push(own_);
      }
    }

   private:
    typename queue::producer_port port_;
    std::vector<std::byte> own_;
  };

  class consumer {
   public:
    explicit consumer(message_channel& c) : port_(c.queue_.consumer()) {}
    template <class Read>
    void pop(Read read) {
      if constexpr (InPlace) {
        const auto message = port_.peek();
        read(words_in(message->bytes()));
      } else {
        auto message = port_.pop();
        read(words_in(*message));
      }
    }

   private:
    typename queue::consumer_port port_;
  };

 private:
  std::size_t size_;
  queue queue_;
};

template <class Shape>
void add_messages(catalogue& to, const char* note) {
  const std::string name = std::string("shared_bytes, ") + Shape::name;
  to.all.push_back({.name = name + ", in place",
                    .family = "muster",
                    .role = "ours",
                    .note = std::string(note) + "; loan and peek",
                    .messages = run_messages<message_channel<Shape, true>>});
  to.all.push_back({.name = name + ", copied",
                    .family = "muster",
                    .role = "ours",
                    .note = std::string(note) + "; push from a buffer, pop into a new one",
                    .messages = run_messages<message_channel<Shape, false>>});
}

template <class Shape>
void add(catalogue& to, unsigned topics, const char* note) {
  to.all.push_back({.name = std::string("shared_queue, ") + Shape::name,
                    .family = "muster",
                    .role = "ours",
                    .note = note,
                    .topics = topics,
                    .strict = !Shape::many_rings,
                    .between = run_between<shared_channel<Shape>>,
                    .trips_between = run_trips_between<shared_channel<Shape>>});
}

}  // namespace

void add_shared_queues(catalogue& to) {
  add<shape::spsc>(to, between_processes, "one producer, one consumer");
  add<shape::spmc>(to, between_processes | from_one_process, "one producer");
  add<shape::mpmc>(to, between_processes | from_one_process | between_many, "");
  add<shape::lanes>(to, between_processes | from_one_process | between_many, "a ring for each producer");
  add_messages<shape::spsc>(to, "one producer, one consumer");
  add_messages<shape::lanes>(to, "many of each");
}

}  // namespace muster::bench
