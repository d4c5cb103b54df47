// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// shared_queue_table.cpp: makes the programs of shared_queue_table.hpp.
#include "shared_queue_table.hpp"

#include "queue_programs.hpp"
#include "shared_ports.hpp"
#include "shared_region.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace muster_model_test {

/// Ports of numbers with the face of a queue of items. `Self` has producer() and consumer(), the calling thread's.
template <class Self>
class as_queue_of_items {
 public:
  struct options {
    std::size_t threads, cells;
    muster::rank_t first_rank;
  };

  template <class... With>
  queue_status push(item&& value, With&&... limit) {
    return after(value, self().producer().push(value.value(), std::forward<With>(limit)...));
  }
  queue_status try_push(item&& value) { return after(value, self().producer().try_push(value.value())); }
  template <class Time>
  queue_status push_for(item&& value, Time time) {
    return after(value, self().producer().push_for(value.value(), time));
  }
  template <class Time>
  queue_status push_until(item&& value, Time when) {
    return after(value, self().producer().push_until(value.value(), when));
  }
  template <class From>
  std::size_t push_n(From first, std::size_t n) {
    return self().producer().push_n(first, n);
  }
  template <class From>
  std::size_t try_push_n(From first, std::size_t n) {
    return self().producer().try_push_n(first, n);
  }
  queue_status emplace(refusing) { return queue_status::busy; }
  queue_status try_emplace(refusing) { return queue_status::busy; }

  template <class... With>
  muster::queue_result<item> pop(With&&... limit) {
    return as_item(self().consumer().pop(std::forward<With>(limit)...));
  }
  muster::queue_result<item> try_pop() { return as_item(self().consumer().try_pop()); }
  template <class Time>
  muster::queue_result<item> pop_for(Time time) {
    return as_item(self().consumer().pop_for(time));
  }
  template <class Time>
  muster::queue_result<item> pop_until(Time when) {
    return as_item(self().consumer().pop_until(when));
  }
  std::size_t pop_n(item* out, std::size_t n) { return self().consumer().pop_n(into{out}, n); }
  std::size_t try_pop_n(item* out, std::size_t n) { return self().consumer().try_pop_n(into{out}, n); }

 private:
  struct into {
    item* at;
    into& operator*() { return *this; }
    into& operator++() { return ++at, *this; }
    void operator=(number value) { *at = item(value); }
  };
  static queue_status after(item& value, queue_status s) {
    if (s == queue_status::success) value = item();
    return s;
  }
  static muster::queue_result<item> as_item(const muster::queue_result<number>& r) {
    if (!r) return r.status();
    return muster::queue_result<item>(std::in_place, *r);
  }
  Self& self() { return static_cast<Self&>(*this); }
};

/// The rings. Each thread has a seat.
template <class Shape>
class rings_as_queue : public as_queue_of_items<rings_as_queue<Shape>> {
  using place = region<Shape, false>;

 public:
  using options = typename as_queue_of_items<rings_as_queue>::options;

  rings_as_queue(std::size_t capacity, const options& o) : all_(capacity, o.cells, o.first_rank, mm::most_threads + 1) {
    for (unsigned t = 0; t < mm::most_threads; ++t) {
      all_.queue->acquire_seat(t + 1, 1);
      seen_[t] = all_.queue->view_of(0);
    }
  }

  /// Adds detail/operations.hpp to the rings' operations, as the queue's ports do.
  class port : public muster::queue_operations<port, number> {
    friend muster::push_operations<port, number>;
    friend muster::pop_operations<port, number>;
    using pops = muster::pop_operations<port, number>;

   public:
    explicit port(rings_as_queue& of) : of_(of), seat_(mm::engine::running().current() + 1) {}
    queue_status try_emplace(number value) { return of_.all_.try_push(seat_, of_.seen_[seat_ - 1], value); }
    using pops::pop;
    muster::queue_result<number> pop() { return pop_within({}); }
    muster::queue_result<number> try_pop() { return of_.all_.try_pop(seat_); }

   private:
    queue_status emplace_within(const muster::wait_limit& limit, number value) {
      return of_.all_.push(seat_, of_.seen_[seat_ - 1], value, limit);
    }
    muster::queue_result<number> pop_within(const muster::wait_limit& limit) { return of_.all_.pop(seat_, limit); }

    rings_as_queue& of_;
    const unsigned seat_;
  };
  port producer() { return port(*this); }
  port consumer() { return port(*this); }

  void close() { all_.queue->close(); }
  bool is_closed() const { return all_.queue->is_closed(); }
  std::size_t size_approx() const { return all_.queue->size_approx(); }
  void check() const { all_.queue->check(); }

 private:
  place all_;
  std::array<typename place::rings::view, mm::most_threads> seen_;
};

/// Lanes. A thread takes one at its first push, waiting for one that is free, and leaves it by "leave".
class shared_lanes_as_queue : public as_queue_of_items<shared_lanes_as_queue> {
  using place = shared_lanes<false>;

 public:
  shared_lanes_as_queue(std::size_t capacity, const options& o) : all_(capacity, o.first_rank) {}

  place::producer_port& producer() {
    std::optional<place::producer_port>& own = producers_[mm::engine::running().current()];
    if (!own) all_.open(own);
    return *own;
  }
  place::consumer_port& consumer() {
    std::optional<place::consumer_port>& own = consumers_[mm::engine::running().current()];
    if (!own) all_.open(own);
    return *own;
  }
  void enter() { static_cast<void>(producer()); }
  void leave() { producers_[mm::engine::running().current()].reset(); }
  void handle() { static_cast<void>(all_.queue.try_producer()); }

  void close() { all_.queue.close(); }
  bool is_closed() const { return all_.queue.is_closed(); }
  std::size_t size_approx() const { return all_.queue.size_approx(); }
  void check() const { all_.queue.check(); }

 private:
  place all_;
  std::array<std::optional<place::producer_port>, mm::most_threads> producers_;
  std::array<std::optional<place::consumer_port>, mm::most_threads> consumers_;
};

template <>
inline constexpr bool fifo_per_producer<shared_lanes_as_queue> = true;

std::function<void()> make_program(const shared_row& r) {
  namespace shape = muster::shape;
  const std::string name = r.shape;
  queue_setup setup;
  setup.capacity = r.capacity;
  setup.cells = std::max<std::size_t>(2, std::bit_ceil(r.capacity + (name == "spsc" ? 0 : 1)));
  setup.full_may_be_early = true;
  if (name == "spsc") return queue_program<rings_as_queue<shape::spsc>>(setup, parse(r.text));
  if (name == "spmc") return queue_program<rings_as_queue<shape::spmc>>(setup, parse(r.text));
  if (name == "mpmc") return queue_program<rings_as_queue<shape::mpmc>>(setup, parse(r.text));
  if (name == "lanes") return queue_program<shared_lanes_as_queue>(setup, parse(r.text));
  throw std::invalid_argument("no shape is called \"" + name + "\"");
}

}  // namespace muster_model_test
