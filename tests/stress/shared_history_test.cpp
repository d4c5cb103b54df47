// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole histories of shared_queue, checked for linearizability as those of the other queues are: every operation at
// once, by threads with a port each, all ports at one address, or each at an address of its own as those of processes
// are. Small capacities, ranks that start near every wrap, close at the end and in the middle.
#include <gtest/gtest.h>
#include <muster/queue/shared.hpp>

#include <cstdint>
#include <deque>
#include <iterator>
#include <mutex>
#include <string>

#include "mapped_places.hpp"
#include "queue_storm.hpp"
#include "scale.hpp"

using namespace muster_test;

namespace {

namespace shape = muster::shape;
namespace wait = muster::wait;

enum class places { one, many };

template <class Shape, class Wait, places Where = places::one>
struct shared_kind {
  using shape = Shape;
  using queue = muster::shared_queue<std::uint64_t, Shape, Wait>;
  static constexpr places where = Where;
};

/// A shared_queue as a storm wants it.
template <class Kind>
class stormed {
  using queue = typename Kind::queue;

 public:
  static constexpr bool fifo_per_producer = Kind::shape::many_rings;

  stormed(std::size_t capacity, const muster::queue_options& o)
      : queue_(queue::create_anonymous(
            capacity, {.ports = o.threads, .lanes = o.threads, .tag = "history", .first_rank = o.first_rank})) {}

  auto producer() { return here().producer(); }
  auto consumer() { return here().consumer(); }
  void close() { queue_.close(); }
  void check() const {
    EXPECT_TRUE(queue_.info().participants.empty());
    // No two mappings have one address, and what begins at these is what the ports had.
    EXPECT_EQ(mapped_places().size(), 1 + mappings_.size());
    queue_.check();
  }

 private:
  queue& here() {
    if (Kind::where == places::one) return queue_;
    const std::lock_guard lock(mutex_);
    return mappings_.emplace_back(queue::attach(queue_.descriptor(), "history"));
  }

  queue queue_;
  std::mutex mutex_;
  std::deque<queue> mappings_;
};

// Near every place where a rank wraps, or a word that is made of it and of twelve bits more.
constexpr muster::rank_t last_rank = ~muster::rank_t{0} / muster::detail::shared_word::step;
constexpr muster::rank_t start_ranks[] = {0, (1ULL << 20) - 3, (1ULL << 31) - 3, last_rank / 2 - 2, last_rank - 2};
constexpr std::size_t capacities[] = {1, 2, 3, 64};
constexpr std::size_t sizes[] = {1, 2, 4, 8, 3};

template <class Kind>
class shared_history : public ::testing::Test {
 protected:
  using shape = typename Kind::shape;

  /// Every capacity with every start; the numbers of threads change from storm to storm.
  void play(std::size_t items, bool early_close) {
    std::size_t number = 0;
    for (const std::size_t capacity : capacities) {
      for (const muster::rank_t first_rank : start_ranks) {
        storm plan;
        plan.capacity = capacity;
        plan.first_rank = first_rank;
        plan.producers = shape::one_producer && !shape::many_rings ? 1 : sizes[number % 5];
        plan.consumers = shape::one_consumer ? 1 : sizes[(number / 2 + 1) % 5];
        plan.items = items;
        plan.early_close = early_close;
        // Gaps between the first item and the last take places. A thread that stops in the middle makes them: a
        // consumer that others overtake by a lap, or one of several producers of a ring.
        plan.full_may_be_early = plan.consumers > 1 || (!shape::one_producer && plan.producers > 1);
        if (number % 3 == 0) one<exact_clock>(plan);
        else one<cheap_clock>(plan);
        if (HasFatalFailure()) return;
        ++number;
      }
    }
    storms_ += number;
  }
  void TearDown() override {
    EXPECT_GE(storms_, std::size(capacities) * std::size(start_ranks));
    RecordProperty("operations", std::to_string(operations_));
  }

 private:
  template <class Clock>
  void one(const storm& plan) {
    queue_storm<stormed<Kind>, Clock> played(plan);
    const std::string wrong = played.play();
    ASSERT_EQ(wrong, "") << plan.producers << " to " << plan.consumers << ", capacity " << plan.capacity << ", start "
                         << plan.first_rank;
    // Each item is pushed and popped; of an early close, those before it.
    const std::size_t items = plan.items / plan.producers * plan.producers;
    ASSERT_GE(played.operations(), plan.early_close ? items : 2 * items);
    operations_ += played.operations();
  }

  std::size_t storms_ = 0, operations_ = 0;
};

using kinds = kinds_to_test<
    ::testing::Types<shared_kind<shape::spsc, wait::spin_then_park>, shared_kind<shape::spmc, wait::spin_then_park>,
                     shared_kind<shape::mpmc, wait::park, places::many>,
                     shared_kind<shape::lanes, wait::spin_then_park>,
                     shared_kind<shape::spsc, wait::park, places::many>,
                     shared_kind<shape::spmc, wait::park, places::many>, shared_kind<shape::mpmc, wait::spin_then_park>,
                     shared_kind<shape::mpmc, wait::spin>, shared_kind<shape::lanes, wait::park, places::many>>,
    ::testing::Types<shared_kind<shape::spsc, wait::spin_then_park>, shared_kind<shape::spmc, wait::spin_then_park>,
                     shared_kind<shape::mpmc, wait::park, places::many>,
                     shared_kind<shape::lanes, wait::spin_then_park>>>;
struct kind_names {
  template <class Kind>
  static std::string GetName(int which) {
    return Kind::shape::name + ("_" + std::to_string(which));
  }
};
TYPED_TEST_SUITE(shared_history, kinds, kind_names);

TYPED_TEST(shared_history, is_linearizable) { this->play(scaled(5000), false); }
TYPED_TEST(shared_history, is_linearizable_when_closed_in_the_middle) { this->play(scaled(2000), true); }
TYPED_TEST(shared_history, is_linearizable_for_long_nightly) { this->play(scaled(30'000), false); }
TYPED_TEST(shared_history, is_linearizable_when_closed_early_often_nightly) {
  for (int round = 0; round < 50; ++round) this->play(scaled(300), true);
}

}  // namespace
