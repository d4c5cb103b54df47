// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole histories of shared_bytes, checked for linearizability as those of the other queues are: messages of different
// lengths, copied or in place, by threads with a port each, all ports at one address or each at its own. Small
// capacities, arenas in which bytes are short, ranks that start near every wrap, close at the end and in the middle.
#include <gtest/gtest.h>
#include <muster/queue/shared_bytes.hpp>

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include "queue_storm.hpp"
#include "scale.hpp"

using namespace muster_test;

namespace {

namespace shape = muster::shape;
namespace wait = muster::wait;
using muster::queue_status;

/// A number as a message of 1 to 4 blocks, all of which show it.
class letter {
 public:
  explicit letter(std::uint64_t number) : size_(8 * (1 + number * 2654435761 % 31)) { write(number, text_.data()); }
  std::span<const std::byte> bytes() const { return {text_.data(), size_}; }
  std::size_t size() const { return size_; }
  void write(std::uint64_t number, std::byte* to) const {
    for (std::size_t i = 0; i != size_; i += 8) std::memcpy(to + i, &number, 8);
  }

 private:
  std::size_t size_;
  std::array<std::byte, 256> text_{};
};

template <class Message>
std::uint64_t number_in(const Message& message) {
  std::uint64_t number = ~std::uint64_t{0};
  if (message.size() >= 8) std::memcpy(&number, message.data(), 8);
  const letter wanted(number);
  const bool whole =
      message.size() == wanted.size() && std::memcmp(message.data(), wanted.bytes().data(), wanted.size()) == 0;
  EXPECT_TRUE(whole) << "a message is not whole";
  return number;
}

template <class Port>
class writing {
 public:
  explicit writing(Port port) : port_(std::move(port)) {}
  template <class... Limit>
  queue_status push(std::uint64_t number, Limit... limit) {
    const letter text(number);
    if (number % 2 == 0) return port_.push(text.bytes(), limit...);
    auto room = port_.loan(256, limit...);
    return sent(room, text, number);
  }
  queue_status try_push(std::uint64_t number) {
    const letter text(number);
    if (number % 2 == 0) return port_.try_push(text.bytes());
    auto room = port_.try_loan(text.size());
    return sent(room, text, number);
  }
  template <class Time>
  queue_status push_for(std::uint64_t number, Time time) {
    const letter text(number);
    if (number % 2 == 0) return port_.push_for(text.bytes(), time);
    auto room = port_.loan_for(text.size(), time);
    return sent(room, text, number);
  }
  template <class From>
  std::size_t push_n(From first, std::size_t n) {
    std::size_t done = 0;
    while (done != n && push(*first) == queue_status::success) ++done, ++first;
    return done;
  }
  template <class From>
  std::size_t try_push_n(From first, std::size_t n) {
    std::size_t done = 0;
    while (done != n && try_push(*first) == queue_status::success) ++done, ++first;
    return done;
  }

 private:
  template <class Room>
  queue_status sent(Room& room, const letter& text, std::uint64_t number) {
    if (!room) return room.status();
    text.write(number, room->data());
    return room->push(text.size());
  }
  Port port_;
};

template <class Port>
class reading {
  using result = muster::queue_result<std::uint64_t>;

 public:
  explicit reading(Port port) : port_(std::move(port)) {}
  result pop() { return turn() ? read(port_.pop()) : look(port_.peek()); }
  result pop(std::stop_token stop) { return turn() ? read(port_.pop(stop)) : look(port_.peek(stop)); }
  result try_pop() { return turn() ? read(port_.try_pop()) : look(port_.try_peek()); }
  template <class Time>
  result pop_for(Time time) {
    return turn() ? read(port_.pop_for(time)) : look(port_.peek_for(time));
  }
  template <class Out>
  std::size_t pop_n(Out out, std::size_t n) {
    const result first = pop();
    return first ? *out++ = *first, 1 + try_pop_n(out, n - 1) : 0;
  }
  template <class Out>
  std::size_t try_pop_n(Out out, std::size_t n) {
    std::size_t done = 0;
    for (; done != n; ++done) {
      const result next = try_pop();
      if (!next) break;
      *out++ = *next;
    }
    return done;
  }

 private:
  bool turn() { return ++turns_ % 2 == 0; }
  template <class Copy>
  static result read(Copy copy) {
    if (!copy) return copy.status();
    return result(std::in_place, number_in(*copy));
  }
  template <class Place>
  static result look(Place message) {
    if (!message) return message.status();
    return result(std::in_place, number_in(message->bytes()));
  }
  Port port_;
  unsigned turns_ = 0;
};

enum class places { one, many };

template <class Shape, class Wait, places Where>
struct bytes_kind {
  using shape = Shape;
  using queue = muster::shared_bytes<Shape, Wait>;
  static constexpr places where = Where;
};

/// A shared_bytes as a storm wants it.
template <class Kind>
class stormed {
  using queue = typename Kind::queue;

 public:
  static constexpr bool fifo_per_producer = Kind::shape::many_rings;

  stormed(std::size_t capacity, const muster::queue_options& o)
      : queue_(queue::create_anonymous({capacity,
                                        capacity % 2 == 0 ? std::size_t{256} : std::size_t{2048},
                                        {.ports = o.threads, .lanes = o.threads, .first_rank = o.first_rank}})) {}

  auto producer() { return writing(here().producer()); }
  auto consumer() { return reading(here().consumer()); }
  void close() { queue_.close(); }
  void check() const {
    EXPECT_TRUE(queue_.info().participants.empty());
    queue_.check();
  }

 private:
  queue& here() {
    if (Kind::where == places::one) return queue_;
    const std::lock_guard lock(mutex_);
    return mappings_.emplace_back(queue::attach(queue_.descriptor()));
  }

  queue queue_;
  std::mutex mutex_;
  std::deque<queue> mappings_;
};

constexpr muster::rank_t last_rank = ~muster::rank_t{0} / muster::detail::shared_word::step;
constexpr muster::rank_t start_ranks[] = {0, (1ULL << 20) - 3, (1ULL << 31) - 3, last_rank / 2 - 2, last_rank - 2};
constexpr std::size_t capacities[] = {1, 2, 3, 64};
constexpr std::size_t sizes[] = {1, 2, 4, 8, 3};

template <class Kind>
class shared_bytes_history : public ::testing::Test {
 protected:
  using shape = typename Kind::shape;

  void play(std::size_t items, bool early_close) {
    std::size_t number = 0;
    for (const std::size_t capacity : capacities)
      for (const muster::rank_t first_rank : start_ranks) {
        storm plan;
        plan.capacity = capacity;
        plan.first_rank = first_rank;
        plan.producers = shape::many_rings ? sizes[number % 5] : 1;
        plan.consumers = shape::one_consumer ? 1 : sizes[(number / 2 + 1) % 5];
        plan.items = items;
        plan.early_close = early_close;
        plan.full_may_be_early = true;  // bytes may be short before places are
        queue_storm<stormed<Kind>, cheap_clock> played(plan);
        const std::string wrong = played.play();
        ASSERT_EQ(wrong, "") << plan.producers << " to " << plan.consumers << ", capacity " << plan.capacity
                             << ", start " << plan.first_rank;
        ++number;
      }
  }
};

using kinds = ::testing::Types<bytes_kind<shape::spsc, wait::spin_then_park, places::one>,
                               bytes_kind<shape::spmc, wait::park, places::many>,
                               bytes_kind<shape::lanes, wait::spin_then_park, places::many>>;
struct kind_names {
  template <class Kind>
  static std::string GetName(int) {
    return Kind::shape::name;
  }
};
TYPED_TEST_SUITE(shared_bytes_history, kinds, kind_names);

TYPED_TEST(shared_bytes_history, is_linearizable) { this->play(scaled(1500), false); }
TYPED_TEST(shared_bytes_history, is_linearizable_when_closed_in_the_middle) { this->play(scaled(600), true); }
TYPED_TEST(shared_bytes_history, is_linearizable_for_long_nightly) { this->play(scaled(30'000), false); }

}  // namespace
