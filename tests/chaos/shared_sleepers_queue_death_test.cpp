// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Operations that sleep in a shared_queue while another process dies in it. The victim is killed before its n-th
// operation, for every n until it survives (the slow ones, unless nightly, for every third): in a blocking pop, while a
// push sleeps because the queue is full, and in a blocking push, while a pop sleeps because the queue is empty. It has
// the queue at an address of its own. The victim's completed steps suffice: the sleeper continues without further help,
// long before the limit of its operation. (At the limit it would check once more, and succeed without a wake.)
#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "mapped_places.hpp"
#include "shared_death.hpp"

namespace muster_test {
namespace {

constexpr number last = capacity + 2;                     // of the items: two pushes must wait
constexpr std::chrono::milliseconds promised = 1s;        // the longest wait
constexpr std::chrono::milliseconds watched = 10s;        // then the sleeper is given up
constexpr std::chrono::milliseconds limit = 6 * watched;  // of its operations

/// The memory of a scene's queue: what is in it, and not what its operations say of it. The ranks of a test are fewer
/// than the cells, so that each has a cell of its own.
class region_view {
  using word = muster::detail::shared_word;
  using cell = muster::detail::shared_cell<wide>;

 public:
  explicit region_view(int descriptor)
      : memory_(muster::mapped_region::open_descriptor(descriptor)),
        facts_(muster::detail::read_facts(memory_, "it")) {}

  /// Ranks that consumers have claimed.
  number claimed() const {
    return count([](word::state s) { return s == word::taken || s == word::free; });
  }
  /// Ranks whose producers have published them.
  number published() const {
    return count([](word::state s) { return s != word::written; });
  }
  /// Ranks that producers have claimed.
  number begun() const {
    return count([](word::state) { return true; });
  }
  /// True if an operation sleeps, or is about to, until there is room, or an item.
  bool awaits_room() const { return awaits(header().producers); }
  bool awaits_item() const { return awaits(header().consumers); }

 private:
  template <class Which>
  number count(Which which) const {
    const auto* const cells = reinterpret_cast<const cell*>(memory_.start() + facts_.cells_at);  // of the first lane
    for (number i = 0;; ++i) {
      const muster::rank_t rank = (first_rank + i) * word::step;
      const cell& c = cells[rank / word::step % facts_.cells];
      const muster::rank_t now = c.word.load();
      if (word::rank_of(now) != rank || c.gap.load() == rank || !which(word::state_of(now))) return i;
    }
  }
  muster::detail::shared_header& header() const {
    return *reinterpret_cast<muster::detail::shared_header*>(memory_.start());
  }
  static bool awaits(muster::eventcount& events) { return events.waiters_after_event(muster::eventcount::bit(0)) != 0; }

  muster::mapped_region memory_;
  muster::detail::shared_metadata facts_;
};

template <class Shape>
struct sleeping_scene : scene<Shape> {
  using queue = typename scene<Shape>::queue;
  using scene<Shape>::shared, scene<Shape>::child;

  const region_view memory{shared.descriptor()};
  const std::set<std::uintptr_t> places = mapped_places();
  number& place = this->region.template make<number>();  // of the child's mapping

  queue open_elsewhere() {
    queue mine = queue::attach(shared.descriptor());
    for (const std::uintptr_t at : mapped_places())
      if (!places.contains(at)) place = at;
    return mine;
  }
  /// The child had the queue at an address of its own.
  void expect_child_elsewhere() const {
    EXPECT_EQ(places.size(), 2U);  // the queue's, and the view's
    EXPECT_NE(place, 0U);
    EXPECT_FALSE(places.contains(place));
  }
  // With a pause, a woken sleeper can complete its operation, and sleep again, before the next operation.
  void child_pops(bool pauses) {
    queue mine = open_elsewhere();
    auto port = mine.consumer();
    while (child.pops < last) {
      if (pauses) ::usleep(200);
      const auto item = port.pop_for(watched);
      if (!item) return;
      muster_chaos::point();
      child.popped[child.pops++] = *item;
    }
    static_cast<void>(port.pop_for(3ms));  // dies while it waits for an item that never comes
  }
  void child_pushes(bool pauses) {
    queue mine = open_elsewhere();
    auto port = mine.producer();
    for (number i = 1; i <= last; ++i) {
      if (pauses) ::usleep(200);
      child.tried = i;
      if (port.push_for(i, watched) != status::success) return;
      child.pushed = i;
    }
  }
};

/// A thread whose operations sleep, and its progress.
class sleeper {
 public:
  /// True if any sleeper was later than promised since the last call.
  static bool was_late() { return std::exchange(late_, false); }

  /// Calls `step(i)` for i = first, … until it returns false.
  template <class Step>
  sleeper(number first, Step step)
      : done_(first - 1), thread_([this, first, step = std::move(step)]() mutable {
          for (number i = first; step(i); ++i) done_ = i;
          over_ = true;
        }) {}
  bool is_over() const { return over_; }
  number done() const { return done_; }
  /// Waits until it has done `far` steps or has ended; returns true if it has done them.
  bool comes_to(number far) const {
    return watch([&] { return done_ >= far || over_; }) && done_ >= far;
  }
  bool ends() const {
    return watch([&] { return over_.load(); });
  }
  void join() { thread_.join(); }

 private:
  template <class Condition>
  static bool watch(Condition condition) {
    const auto begin = running_clock::now();
    for (; !condition(); std::this_thread::yield())
      if (running_clock::now() > begin + watched) return false;
    late_ |= running_clock::now() > begin + promised;
    return true;
  }

  static inline bool late_ = false;

  std::atomic<number> done_;
  std::atomic<bool> over_{false};
  std::jthread thread_;
};

template <class Condition>
void await(Condition condition) {
  while (!condition()) std::this_thread::yield();
}

template <class Shape>
class shared_queue_sleepers : public ::testing::Test {};
TYPED_TEST_SUITE(shared_queue_sleepers, shapes, shape_names);

template <class Shape>
void kill_consumers(bool pauses, number stride) {
  std::size_t lost = 0, given = 0, left_asleep = 0;
  // The operation at which a victim leaves something undone may lie between two strides.
  for (number start = 1; start <= stride && (lost == 0 || given == 0 || left_asleep == 0); ++start) {
    number n = start;
    next_operation next(stride);
    for (bool died = true; died; next.after(n, sleeper::was_late())) {
      sleeping_scene<Shape> s;
      auto in = std::make_unique<typename sleeping_scene<Shape>::queue::producer_port>(s.shared.producer());
      for (number i = 1; i <= capacity; ++i) ASSERT_EQ(in->try_push(i), status::success);
      sleeper pushes(capacity + 1, [&](number i) { return i <= last && in->push_for(i, limit) == status::success; });
      await([&] { return s.memory.awaits_room(); });
      died = child_dies(n, [&] { s.child_pops(pauses); });
      s.expect_child_elsewhere();
      // All items that the victim had claimed made room, whether or not it has signalled.
      const number room = std::min(capacity + s.memory.claimed(), last);
      left_asleep += pushes.done() < room;
      if (!pushes.comes_to(room)) {
        s.shared.close();
        FAIL() << "a push is not woken when a pop died at " << n;
      }

      const std::vector<number> back = s.recover();
      std::vector<number> rest;
      {
        auto out = s.shared.consumer();
        for (bool last_look = false;;) {
          const auto item = out.pop_for(1ms);
          if (item) rest.push_back(*item);
          else if (last_look) break;
          last_look = pushes.is_over();
        }
      }
      pushes.join();
      in.reset();
      ASSERT_EQ(pushes.done(), last) << "died at " << n;
      EXPECT_TRUE(std::is_sorted(rest.begin(), rest.end())) << "died at " << n;
      const std::vector<number> gone = missing(together(together(s.child.items(), back), rest), last);
      EXPECT_LE(gone.size(), died ? 1U : 0U) << "died at " << n;
      EXPECT_LE(back.size(), died ? 1U : 0U) << "died at " << n;
      lost += gone.size();
      given += back.size();
      ASSERT_NO_FATAL_FAILURE(s.still_works()) << "died at " << n;
    }
    EXPECT_GT(n, 60U);
  }
  EXPECT_GT(lost, 0U);
  EXPECT_GT(given, 0U);
  EXPECT_GT(left_asleep, 0U);  // it had not been woken yet
}

// Slowly: the sleeper does what it has been woken for, and sleeps again, before the victim's next operation.
TYPED_TEST(shared_queue_sleepers, in_a_push_get_the_room_of_a_dying_pop) { kill_consumers<TypeParam>(false, 1); }
TYPED_TEST(shared_queue_sleepers, in_a_push_get_the_room_of_slow_dying_pops) { kill_consumers<TypeParam>(true, 3); }
TYPED_TEST(shared_queue_sleepers, in_a_push_get_the_room_of_all_slow_dying_pops_nightly) {
  kill_consumers<TypeParam>(true, 1);
}

template <class Shape>
void kill_producers(bool pauses, number stride) {
  constexpr number end = 100;
  std::size_t lost = 0, left_asleep = 0;
  // The operation at which a victim leaves something undone may lie between two strides.
  for (number start = 1; start <= stride && (lost == 0 || left_asleep == 0); ++start) {
    number n = start;
    next_operation next(stride);
    for (bool died = true; died; next.after(n, sleeper::was_late())) {
      sleeping_scene<Shape> s;
      std::vector<number> got;
      auto out = std::make_unique<typename sleeping_scene<Shape>::queue::consumer_port>(s.shared.consumer());
      sleeper pops(1, [&](number) {
        if (!pauses) ::usleep(200);  // one of the two is slow: the queue is mostly full, or mostly empty
        const auto item = out->pop_for(limit);
        if (item) got.push_back(*item);
        return item && got.back() != end;
      });
      await([&] { return s.memory.awaits_item(); });
      died = child_dies(n, [&] { s.child_pushes(pauses); });
      s.expect_child_elsewhere();
      // All items that the victim had published are there, whether or not it has signalled.
      const number there = s.memory.published();
      EXPECT_GE(there, s.child.pushed);
      EXPECT_LE(there, s.child.tried);
      lost += s.child.tried - there;
      left_asleep += pops.done() < there;
      const bool woken = pops.comes_to(there);
      s.push(end, end);  // and what comes after the item that the victim was writing
      if (!woken || !pops.ends()) {
        s.shared.close();
        FAIL() << "a pop is not woken when a push died at " << n;
      }
      pops.join();
      ASSERT_EQ(got.size(), there + 1) << "died at " << n;
      EXPECT_EQ(got.back(), end);
      for (number i = 0; i < there; ++i) EXPECT_EQ(got[i], i + 1) << "died at " << n;
      out.reset();
      EXPECT_TRUE(s.recover().empty());
      ASSERT_NO_FATAL_FAILURE(s.still_works()) << "died at " << n;
    }
    EXPECT_GT(n, 60U);
  }
  EXPECT_GT(lost, 0U);
  EXPECT_GT(left_asleep, 0U);  // it had not been woken yet
}

TYPED_TEST(shared_queue_sleepers, in_a_pop_get_the_items_of_a_dying_push) { kill_producers<TypeParam>(false, 1); }
TYPED_TEST(shared_queue_sleepers, in_a_pop_get_the_items_of_slow_dying_pushes) { kill_producers<TypeParam>(true, 3); }
TYPED_TEST(shared_queue_sleepers, in_a_pop_get_the_items_of_all_slow_dying_pushes_nightly) {
  kill_producers<TypeParam>(true, 1);
}

// Room for one wakes one of several: it may be the one that dies, and the others must not sleep on.
TEST(shared_queue_mpmc_sleepers, are_woken_when_another_dies_that_was_woken) {
  std::size_t lost = 0, of_the_child = 0;
  number n = 1;
  next_operation next(1);
  for (bool died = true; died; next.after(n, sleeper::was_late())) {
    sleeping_scene<shape::mpmc> s;
    s.push(1, capacity);
    auto out = s.shared.consumer();
    auto in = std::make_unique<typename sleeping_scene<shape::mpmc>::queue::producer_port>(s.shared.producer());
    std::vector<number> got;
    std::optional<sleeper> pushes;
    const auto make_room = [&] {
      if (const auto item = out.try_pop()) got.push_back(*item);
    };
    const auto go_on = [&](bool child_has_ended) {
      if (!pushes && (s.child.tried != 0 || child_has_ended)) {
        ::usleep(300);  // the child sleeps, if it gets there, and is the first to be woken
        pushes.emplace(capacity + 1,
                       [&](number i) { return i == capacity + 1 && in->push_for(i, limit) == status::success; });
        ::usleep(300);
        make_room();
      } else if (pushes && pushes->done() > capacity && got.size() == 1) {
        make_room();  // this one was faster, and the child waits, too
      }
    };
    died = child_dies(
        n,
        [&] {
          auto mine = s.open_elsewhere();
          auto port = mine.producer();
          s.child.tried = 1;
          if (port.push_for(capacity + 2, watched) == status::success) s.child.pushed = 1;
        },
        [&] { go_on(false); });
    go_on(true);
    s.expect_child_elsewhere();
    if (s.memory.begun() > capacity && got.size() == 1) make_room();  // the child's push takes a place, alive or dead
    if (!pushes->comes_to(capacity + 1)) {
      s.shared.close();
      FAIL() << "a push is not woken when another died at " << n;
    }
    pushes->join();
    in.reset();
    EXPECT_TRUE(s.recover().empty());
    while (const auto item = out.try_pop()) got.push_back(*item);
    std::sort(got.begin(), got.end());
    const std::vector<number> gone = missing(got, capacity + 2);
    ASSERT_LE(gone.size(), 1U) << "died at " << n;
    if (!gone.empty()) {
      EXPECT_EQ(gone[0], capacity + 2);
      EXPECT_EQ(s.child.pushed, 0U);
    }
    lost += gone.size();
    of_the_child += s.child.pushed;
    EXPECT_TRUE(died || s.child.pushed == 1);
  }
  EXPECT_GT(n, 15U);
  EXPECT_GT(lost, 2U);
  EXPECT_GT(of_the_child, 0U);
}

}  // namespace
}  // namespace muster_test
