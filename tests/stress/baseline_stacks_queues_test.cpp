// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The stacks and queues that the benchmark compares with must be right, too: nothing lost, nothing twice, whole
// histories checked for linearizability, threads that come and go, and siblings that interrupt each other only in
// Pause::turn().

#include <muster/base/sync.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../../bench/baselines/clh_stack.hpp"
#include "../../bench/baselines/htm_ring.hpp"
#include "../../bench/baselines/lcrq.hpp"
#include "../../bench/baselines/lprq.hpp"
#include "../../bench/baselines/ms_queue.hpp"
#include "../../bench/baselines/scq.hpp"
#include "../../bench/baselines/treiber_stack.hpp"
#include "../../bench/baselines/wcq.hpp"
#include "../../bench/baselines/wf_queue.hpp"
#include "counted.hpp"
#include "fifo_monitor.hpp"
#include "history.hpp"
#include "in_threads.hpp"
#include "lifo_monitor.hpp"
#include "scale.hpp"

using namespace muster_test;
using namespace muster::bench;

namespace {

using number = std::uint64_t;

/// Threads that run one at a time, in a circle, and change only where they call turn(): what user-level threads on one
/// kernel thread do.
class circle {
 public:
  explicit circle(std::size_t members) : here_(members, true) {}
  void enter(std::size_t self) { self_ = self, mine_ = this, await(); }
  void leave() {
    here_[self_] = false;
    pass();
    mine_ = nullptr;
  }
  static void turn() {
    mine_->pass();
    mine_->await();
  }

 private:
  void pass() {
    std::size_t next = self_;
    do next = (next + 1) % here_.size();
    while (!here_[next] && next != self_);
    running_.store(next);
    running_.notify_all();
  }
  void await() {
    for (std::size_t now = running_.load(); now != self_; now = running_.load()) running_.wait(now);
  }

  static inline thread_local circle* mine_ = nullptr;
  static inline thread_local std::size_t self_ = 0;
  std::vector<bool> here_;  // read and written by the running one
  std::atomic<std::size_t> running_{0};
};

/// Yields between any two steps of an operation, too, so rare interleavings become frequent.
template <class Pause>
struct restless : Pause {
  static void between() {
    static thread_local small_random chance(muster::sync::new_object_id());
    if (chance.below(4) == 0) Pause::turn();
  }
};

/// Imitates transactions by a lock; one in three fails.
struct imitated {
  static bool available() { return true; }
  template <class Body>
  static bool attempt(std::atomic<bool>& lock, Body body) {
    static thread_local small_random chance(muster::sync::new_object_id());
    if (chance.below(3) == 0 || lock.exchange(true, std::memory_order_acquire)) return false;
    body();
    lock.store(false, std::memory_order_release);
    return true;
  }
};

enum class discipline { fifo, lifo };

template <class Pause>
struct ms_kind : ms_queue<number, Pause> {
  static constexpr discipline order = discipline::fifo;
  static constexpr bool available = true;
};
/// `Align` 16: cells side by side, as a reader of the papers would first write them.
template <class Pause, std::size_t Ring, unsigned Wait, std::size_t Align = 64, class Counters = single_words>
struct lcrq_kind : lcrq<number, Pause, Align, Counters> {
  static constexpr discipline order = discipline::fifo;
  lcrq_kind() : lcrq<number, Pause, Align, Counters>(Ring, {.attempts = 4, .wait = Wait}) {}
};
template <class Pause, std::size_t Ring, unsigned Wait, std::size_t Align = 64, class Counters = single_words>
struct lprq_kind : lprq<number, Pause, Align, Counters> {
  static constexpr discipline order = discipline::fifo;
  lprq_kind() : lprq<number, Pause, Align, Counters>(Ring, {.attempts = 4, .wait = Wait}) {}
};
template <class Pause, unsigned Wait>
struct scq_kind : scq<number, Pause> {
  static constexpr discipline order = discipline::fifo;
  scq_kind() : scq<number, Pause>(1 << 17, {.wait = Wait}) {}  // room for all of a test's items
};
template <class Pause, unsigned Patience, unsigned Wait>
struct wcq_kind : wcq<number, Pause> {
  static constexpr discipline order = discipline::fifo;
  wcq_kind() : wcq<number, Pause>(1 << 17, {.pushes = Patience, .pops = Patience, .delay = Patience, .wait = Wait}) {}
};
template <class Pause, unsigned Patience, std::size_t Segment, unsigned Wait>
struct wf_kind : wf_queue<number, Pause, Segment> {
  static constexpr discipline order = discipline::fifo;
  static constexpr bool available = true;
  wf_kind() : wf_queue<number, Pause, Segment>({.patience = Patience, .wait = Wait}) {}
};
template <class Pause, class Transactions>
struct htm_kind : htm_ring<number, Pause, Transactions> {
  static constexpr discipline order = discipline::fifo;
  static constexpr bool available = true;
  htm_kind() : htm_ring<number, Pause, Transactions>(1 << 17, {.attempts = 2}) {}  // room for all of a test's items
};
template <class Pause>
struct treiber_kind : treiber_stack<number, Pause> {
  static constexpr discipline order = discipline::lifo;
  static constexpr bool available = true;
  treiber_kind() : treiber_stack<number, Pause>(backoff_limits{1, 4}) {}
};
template <class Pause, elimination::when When, unsigned Places>
struct clh_kind : clh_stack<number, Pause> {
  static constexpr discipline order = discipline::lifo;
  static constexpr bool available = true;
  clh_kind() : clh_stack<number, Pause>({.attempt = When, .places = Places, .turns = 3}) {}
};

template <class Pause>
using kinds = ::testing::Types<
    ms_kind<Pause>, lcrq_kind<Pause, 2, 0>, lcrq_kind<Pause, 2, 2>, lcrq_kind<Pause, 4, 0>, lcrq_kind<Pause, 1024, 16>,
    lcrq_kind<Pause, 8, 16, 16>, lcrq_kind<Pause, 4, 2, 64, funnels<2, turns<Pause>>>, lprq_kind<Pause, 2, 0>,
    lprq_kind<Pause, 2, 2>, lprq_kind<Pause, 4, 0>, lprq_kind<Pause, 1024, 16>, lprq_kind<Pause, 8, 16, 16>,
    lprq_kind<Pause, 4, 2, 64, funnels<1, turns<Pause>>>, scq_kind<Pause, 0>, scq_kind<Pause, 16>,
    wcq_kind<Pause, 16, 16>, wcq_kind<restless<Pause>, 1, 0>, wf_kind<Pause, 10, 1024, 16>,
    wf_kind<restless<Pause>, 0, 2, 0>, wf_kind<restless<Pause>, 1, 16, 2>, htm_kind<Pause, rtm>,
    htm_kind<Pause, imitated>, treiber_kind<Pause>, clh_kind<Pause, elimination::when::never, 1>,
    clh_kind<Pause, elimination::when::crowded, 2>, clh_kind<Pause, elimination::when::always, 1>,
    clh_kind<Pause, elimination::when::always, 3>>;

struct names {
  template <class Kind>
  static std::string GetName(int index) {
    static constexpr std::array<const char*, 27> all = {"ms",           "lcrq_2",       "lcrq_2_waiting",
                                                        "lcrq_4",       "lcrq_1024",    "lcrq_dense",
                                                        "lcrq_funnel",  "lprq_2",       "lprq_2_waiting",
                                                        "lprq_4",       "lprq_1024",    "lprq_dense",
                                                        "lprq_funnel",  "scq",          "scq_waiting",
                                                        "wcq",          "wcq_1",        "wf",
                                                        "wf_0",         "wf_1_waiting", "htm",
                                                        "htm_imitated", "treiber",      "clh",
                                                        "clh_crowded",  "clh_1",        "clh_3"};
    return all.at(static_cast<std::size_t>(index));
  }
};

/// Describes which of the values 0 to `count` - 1, each of which must come out once, did not.
std::string missing_or_twice(const std::vector<std::vector<number>>& popped, std::size_t count) {
  std::vector<unsigned> seen(count);
  for (const auto& by_one : popped) {
    for (const number value : by_one) {
      if (value >= count) return "never pushed: " + std::to_string(value);
      ++seen[value];
    }
  }
  for (std::size_t value = 0; value < count; ++value)
    if (seen[value] != 1) return std::to_string(value) + " came out " + std::to_string(seen[value]) + " times";
  return {};
}

// ---------------------------------------------------------------------------------------------------------------------

template <class Kind>
class baseline : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Kind::available) GTEST_SKIP() << "not on this machine";
    made_ = std::make_unique<Kind>();
  }
  using handle = typename Kind::handle;
  Kind& all() { return *made_; }

  // Each thread pushes and pops by chance, `pushes` in ten of its operations, and the whole history is checked.
  template <class Clock>
  std::string storm(std::size_t threads, std::size_t operations, unsigned pushes, bool split) {
    recording<Clock> record(threads, operations);
    in_threads(threads, [&](std::size_t i) {
      thread_log<Clock>& log = record.log(i);
      handle own(all());
      small_random dice(muster::sync::new_object_id());
      for (std::size_t n = 0; n < operations; ++n) {
        if (split ? i % 2 == 0 : dice.below(10) < pushes) {
          const number value = i * operations + n + 1;
          log.invoke(op::push, value);
          own.push(value);
          log.respond(result::success);
        } else {
          number value = 0;
          log.invoke(op::pop);
          if (own.pop(value)) log.respond(result::success, value);
          else log.respond(result::empty);
        }
        if (dice.below(64) == 0) std::this_thread::yield();
      }
    });
    const std::vector<event> history = record.history();
    return Kind::order == discipline::fifo ? fifo_violation(history) : lifo_violation(history);
  }

  void storms(std::size_t rounds, std::size_t operations) {
    for (std::size_t round = 0; round < rounds; ++round) {
      for (const std::size_t threads : {2U, 3U, 4U, 8U}) {
        made_ = std::make_unique<Kind>();
        const unsigned pushes = round % 2 == 0 ? 5 : 4;
        const bool split = round % 3 == 2;
        const std::string wrong = (round + threads) % 3 == 0 ? storm<exact_clock>(threads, operations, pushes, split)
                                                             : storm<cheap_clock>(threads, operations, pushes, split);
        ASSERT_EQ(wrong, "") << threads << " threads, round " << round;
      }
    }
  }

 private:
  std::unique_ptr<Kind> made_;
};
TYPED_TEST_SUITE(baseline, kinds<yielding_turn>, names);

TYPED_TEST(baseline, keeps_its_order) {
  typename TestFixture::handle own(this->all());
  number value = 0;
  for (number round = 0; round < 5; ++round) {
    EXPECT_FALSE(own.pop(value));
    for (number i = 0; i < 100; ++i) own.push(1000 * round + i);
    for (number i = 0; i < 100; ++i) {
      ASSERT_TRUE(own.pop(value));
      ASSERT_EQ(value, 1000 * round + (TypeParam::order == discipline::fifo ? i : 99 - i));
    }
  }
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(own.pop(value));
  own.push(7);
  EXPECT_TRUE(own.pop(value));
  EXPECT_EQ(value, 7U);
}

TYPED_TEST(baseline, one_handle_pops_the_items_of_another) {
  typename TestFixture::handle first(this->all());
  typename TestFixture::handle second(this->all());
  number value = 0;
  for (number i = 0; i < 5000; ++i) {  // more than a handle keeps in its pool
    first.push(i);
    ASSERT_TRUE(second.pop(value));
    ASSERT_EQ(value, i);
  }
}

TYPED_TEST(baseline, loses_nothing) {
  const std::size_t each = scaled(20'000);
  for (const std::size_t threads : {2U, 5U, 8U}) {
    std::vector<std::vector<number>> popped(threads + 1);
    in_threads(threads, [&](std::size_t i) {
      typename TestFixture::handle own(this->all());
      number value = 0;
      for (std::size_t n = 0; n < each; ++n) {
        own.push(i * each + n);
        if (own.pop(value)) popped[i].push_back(value);
      }
    });
    typename TestFixture::handle last(this->all());
    for (number value = 0; last.pop(value);) popped[threads].push_back(value);
    ASSERT_EQ(missing_or_twice(popped, threads * each), "");
  }
}

TYPED_TEST(baseline, loses_nothing_between_pushers_and_poppers) {
  const std::size_t each = scaled(20'000);
  constexpr std::size_t pairs = 3;
  std::vector<std::vector<number>> popped(pairs);
  std::atomic<std::size_t> pushing{pairs};
  in_threads(2 * pairs, [&](std::size_t i) {
    typename TestFixture::handle own(this->all());
    if (i < pairs) {
      for (std::size_t n = 0; n < each; ++n) own.push(i * each + n);
      pushing.fetch_sub(1);
      return;
    }
    for (number value = 0;;) {
      const bool last_look = pushing.load() == 0;
      if (own.pop(value)) popped[i - pairs].push_back(value);
      else if (last_look) return;
      else std::this_thread::yield();
    }
  });
  EXPECT_EQ(missing_or_twice(popped, pairs * each), "");
}

TYPED_TEST(baseline, handles_come_and_go) {
  const std::size_t lives = scaled(500);
  constexpr std::size_t threads = 6, work = 20;
  std::vector<std::vector<number>> popped(threads + 1);
  in_threads(threads, [&](std::size_t i) {
    for (std::size_t life = 0; life < lives; ++life) {
      typename TestFixture::handle own(this->all());
      number value = 0;
      for (std::size_t n = 0; n < work; ++n) own.push((i * lives + life) * work + n);
      for (std::size_t n = 0; n < work; ++n)
        if (own.pop(value)) popped[i].push_back(value);
    }
  });
  typename TestFixture::handle last(this->all());
  for (number value = 0; last.pop(value);) popped[threads].push_back(value);
  EXPECT_EQ(missing_or_twice(popped, threads * lives * work), "");
}

TYPED_TEST(baseline, is_linearizable) { this->storms(scaled(30), 1000); }
TYPED_TEST(baseline, is_linearizable_for_long_nightly) { this->storms(scaled(300), 1500); }

// ---------------------------------------------------------------------------------------------------------------------

template <class Kind>
class baseline_siblings : public baseline<Kind> {};
TYPED_TEST_SUITE(baseline_siblings, kinds<circle>, names);

TYPED_TEST(baseline_siblings, may_interrupt_each_other_when_they_wait) {
  constexpr std::size_t siblings = 5;
  const std::size_t each = scaled(1000);
  std::vector<std::vector<number>> popped(siblings + 1);
  circle ring(siblings);
  in_threads(siblings, [&](std::size_t i) {
    ring.enter(i);
    {
      typename TestFixture::handle own(this->all());
      small_random dice(muster::sync::new_object_id());
      number value = 0;
      for (std::size_t n = 0; n < each; ++n) {
        if (dice.below(3) == 0) circle::turn();
        own.push(i * each + n);
        if (dice.below(3) == 0) circle::turn();
        if (own.pop(value)) popped[i].push_back(value);
      }
    }
    ring.leave();
  });
  circle alone(1);
  alone.enter(0);
  typename TestFixture::handle last(this->all());
  for (number value = 0; last.pop(value);) popped[siblings].push_back(value);
  EXPECT_EQ(missing_or_twice(popped, siblings * each), "");
}

TEST(baseline_clh_stack, eliminates_a_push_and_a_pop_that_meet) {
  // One place and no other member: the push waits in the array, and the pop finds it there.
  clh_stack<number, circle> stack({.attempt = elimination::when::always, .places = 1, .turns = 10});
  circle ring(2);
  std::array<std::uint64_t, 2> eliminated{};
  in_threads(2, [&](std::size_t i) {
    ring.enter(i);
    {
      clh_stack<number, circle>::handle own(stack);
      number value = 0;
      if (i == 0) {
        own.push(42);
      } else {
        EXPECT_TRUE(own.pop(value));
        EXPECT_EQ(value, 42U);
      }
      eliminated[i] = own.eliminated();
    }
    ring.leave();
  });
  EXPECT_EQ(eliminated[0], 1U);
  EXPECT_EQ(eliminated[1], 1U);
}

TEST(baseline_clh_stack, does_not_eliminate_two_of_a_kind) {
  clh_stack<number, circle> stack({.attempt = elimination::when::always, .places = 1, .turns = 10});
  circle ring(2);
  in_threads(2, [&](std::size_t i) {
    ring.enter(i);
    {
      clh_stack<number, circle>::handle own(stack);
      own.push(i);
      EXPECT_EQ(own.eliminated(), 0U);
    }
    ring.leave();
  });
}

TEST(baseline_lcrq, closes_a_full_ring_and_appends_another) {
  if (!lcrq<>::available) GTEST_SKIP() << "not on this machine";
  lcrq<> queue(4);
  lcrq<>::handle own(queue);
  for (number i = 0; i < 4; ++i) own.push(i);
  EXPECT_EQ(own.appended(), 0U);
  for (number i = 4; i < 100; ++i) own.push(i);
  EXPECT_GE(own.appended(), 24U);  // one for every four items
  number value = 0;
  for (number i = 0; i < 100; ++i) {
    ASSERT_TRUE(own.pop(value));
    ASSERT_EQ(value, i);
  }
  EXPECT_FALSE(own.pop(value));
}

TEST(baseline_lcrq, holds_pointers_and_negative_numbers) {
  if (!lcrq<>::available) GTEST_SKIP() << "not on this machine";
  lcrq<const int*> addresses(2);
  lcrq<const int*>::handle of_addresses(addresses);
  const int target = 5;
  const int* found = nullptr;
  of_addresses.push(&target);
  of_addresses.push(nullptr);
  ASSERT_TRUE(of_addresses.pop(found));
  EXPECT_EQ(found, &target);
  ASSERT_TRUE(of_addresses.pop(found));
  EXPECT_EQ(found, nullptr);

  lcrq<std::int64_t> numbers(2);
  lcrq<std::int64_t>::handle of_numbers(numbers);
  std::int64_t n = 0;
  of_numbers.push(-2);
  ASSERT_TRUE(of_numbers.pop(n));
  EXPECT_EQ(n, -2);
}

TEST(baseline_lcrq, refuses_the_reserved_value) {
  if (!lcrq<>::available) GTEST_SKIP() << "not on this machine";
  lcrq<> queue(4);
  lcrq<>::handle own(queue);
  EXPECT_DEATH(own.push(lcrq<>::greatest + 1), "cannot hold");
}

TEST(baseline_lprq, holds_values_up_to_its_greatest) {
  lprq<> queue(4);
  lprq<>::handle own(queue);
  number value = 0;
  own.push(lprq<>::greatest);
  ASSERT_TRUE(own.pop(value));
  EXPECT_EQ(value, lprq<>::greatest);
  EXPECT_DEATH(own.push(lprq<>::greatest + 1), "cannot hold");
}

TEST(baseline_htm_ring, refuses_pushes_without_room) {
  htm_ring<> ring(3);  // that is four
  htm_ring<>::handle own(ring);
  number value = 0;
  for (number round = 0; round < 10; ++round) {
    for (number i = 0; i < 4; ++i) EXPECT_TRUE(own.try_push(10 * round + i));
    EXPECT_FALSE(own.try_push(99));
    for (number i = 0; i < 4; ++i) {
      ASSERT_TRUE(own.pop(value));
      ASSERT_EQ(value, 10 * round + i);
    }
    EXPECT_FALSE(own.pop(value));
  }
}

/// Transactions that always succeed, or never.
template <bool Succeed>
struct certain {
  static bool available() { return true; }
  template <class Body>
  static bool attempt(std::atomic<bool>&, Body body) {
    ++tried;
    if (Succeed) body();
    return Succeed;
  }
  static inline unsigned tried = 0;
};

TEST(baseline_htm_ring, takes_the_lock_when_its_transactions_have_failed) {
  htm_ring<number, cpu_turn, certain<false>> ring(2, {.attempts = 3});
  decltype(ring)::handle own(ring);
  number value = 0;
  own.push(7);
  EXPECT_TRUE(own.pop(value));
  EXPECT_EQ(value, 7U);
  EXPECT_EQ(certain<false>::tried, 6U);
  EXPECT_EQ(own.locked(), 2U);
}

TEST(baseline_htm_ring, takes_no_lock_when_its_transactions_succeed) {
  htm_ring<number, cpu_turn, certain<true>> ring(2);
  decltype(ring)::handle own(ring);
  number value = 0;
  own.push(7);
  EXPECT_TRUE(own.pop(value));
  EXPECT_EQ(value, 7U);
  EXPECT_FALSE(own.pop(value));
  EXPECT_EQ(own.locked(), 0U);
}

TEST(baseline_htm_ring, knows_whether_transactions_can_be_used) {
  using namespace std::string_literals;
  EXPECT_NE(rtm::why_not({}), ""s);
  EXPECT_EQ(rtm::why_not({.listed = true, .committed = true}), ""s);
  EXPECT_NE(rtm::why_not({.listed = true}), ""s);
  EXPECT_NE(rtm::why_not({.listed = true, .always_aborts = true}), ""s);
  std::ifstream file("/proc/cpuinfo");
  const std::string about{std::istreambuf_iterator<char>(file), {}};
  if (about.find(" rtm") == std::string::npos) {
    EXPECT_FALSE(rtm::available()) << "Linux does not list RTM";
  }
}

// ---------------------------------------------------------------------------------------------------------------------

template <class Structure>
class baseline_lives : public ::testing::Test {};
using with_nodes = ::testing::Types<ms_queue<counted, yielding_turn>, treiber_stack<counted, yielding_turn>,
                                    clh_stack<counted, yielding_turn>>;
struct lives_names {
  template <class Structure>
  static std::string GetName(int index) {
    return std::array<std::string, 3>{"ms", "treiber", "clh"}.at(static_cast<std::size_t>(index));
  }
};
TYPED_TEST_SUITE(baseline_lives, with_nodes, lives_names);

TYPED_TEST(baseline_lives, ends_the_lives_of_all_items) {
  {
    TypeParam structure;
    in_threads(4, [&](std::size_t i) {
      typename TypeParam::handle own(structure);
      counted item;
      for (std::size_t n = 1; n <= scaled(5000); ++n) {
        own.push(counted(10'000 * i + n));
        if (n % 4 != 0 && own.pop(item)) {
          EXPECT_NE(item.value(), 0U);
        }
      }
    });
  }
  EXPECT_EQ(counted::alive(), 0);
}

}  // namespace
