// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The doorbell between a sandbox's sides under the checker: a ring after an event wakes every thread that waits for it,
// and a hostile write to the doorbell's words delays no waiter past its deadline.
#include <gtest/gtest.h>
#include <muster/fiber.hpp>
#include <muster/syscall/detail/doorbell.hpp>

#include "checker/explore.hpp"
#include "expect_right.hpp"
#include "mutant_search.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace muster_model_test;
namespace sync = muster::sync;
constexpr auto relaxed = std::memory_order_relaxed;
using muster::detail::doorbell;
using muster::detail::spin_extension;

/// Something that happens, and a wait for it without end.
class event {
 public:
  explicit event(doorbell& by) : by_(by) {}
  void happen() {
    happened_.store(1, relaxed);
    by_.ring();
  }
  void await() {
    mm::require(by_.await<muster::wait::park>(
                    longer_, [this] { return happened_.load(relaxed) == 1; }, muster::no_deadline),
                "a wait without an end has ended");
  }

 private:
  doorbell& by_;
  spin_extension longer_;
  sync::atomic<unsigned> happened_{0};
};

void one_waits() {
  doorbell by;
  event one(by);
  mm::parallel([&] { one.happen(); }, [&] { one.await(); });
}

void two_wait() {
  doorbell by;
  event one(by);
  mm::parallel([&] { one.happen(); }, [&] { one.await(); }, [&] { one.await(); });
}

/// One rings for the one, another for the other; each may clear what was set for the other's.
void two_ring_for_two() {
  doorbell by;
  event one(by), other(by);
  mm::parallel([&] { one.happen(); }, [&] { other.happen(); }, [&] { one.await(); }, [&] { other.await(); });
}

/// One after the other: the second event may find that the first ring has cleared the word.
void two_events() {
  doorbell by;
  event one(by), other(by);
  mm::parallel(
      [&] {
        one.happen();
        other.happen();
      },
      [&] { one.await(); }, [&] { other.await(); });
}

void fibers_wait() {
  doorbell by;
  event one(by), other(by);
  mm::parallel(
      [&] {
        one.happen();
        other.happen();
      },
      [&] {
        muster::fiber first([&] { one.await(); });
        other.await();
      });
}

/// Each event needs one of the threads, which takes no other one.
class events {
 public:
  void happen() {
    made_.fetch_add(1, relaxed);
    by_.ring_one();
  }
  void take_one() {
    for (;;) {
      by_.await<muster::wait::park>(
          longer_, [this] { return made_.load(relaxed) > taken_.load(relaxed); }, muster::no_deadline);
      unsigned now = taken_.load(relaxed);
      while (now < made_.load(relaxed))
        if (taken_.compare_exchange_strong(now, now + 1, relaxed)) {
          if (made_.load(relaxed) > now + 1) by_.wake_next();
          return;
        }
    }
  }

 private:
  doorbell by_;
  spin_extension longer_;
  sync::atomic<unsigned> made_{0}, taken_{0};
};

void two_take() {
  events all;
  mm::parallel(
      [&] {
        all.happen();
        all.happen();
      },
      [&] { all.take_one(); }, [&] { all.take_one(); });
}

void two_make_and_two_take() {
  events all;
  mm::parallel([&] { all.happen(); }, [&] { all.happen(); }, [&] { all.take_one(); }, [&] { all.take_one(); });
}

/// A hostile thread writes the words, which prevents wakes. The waiters return all the same.
void words_that_change() {
  doorbell by;
  sync::atomic<unsigned> happened{0};
  mm::parallel(
      [&] {
        by.asleep.store(0, relaxed);
        by.rings.store(7, relaxed);
        by.rings.store(0, relaxed);
      },
      [&] {
        happened.store(1, relaxed);
        by.ring();
      },
      [&] {
        spin_extension longer;
        by.await<muster::wait::park>(
            longer, [&] { return happened.load(relaxed) == 1; }, muster::deadline_clock::now() + std::chrono::hours(1));
      });
}

struct row {
  const char* name;
  void (*run)();
  search_bounds within;
};

const row programs[] = {
    {"one_waits", one_waits, {-1, -1}},
    {"two_wait", two_wait, {1, 2}},
    {"two_ring_for_two", two_ring_for_two, {0, 2}},
    {"two_events", two_events, {1, 2}},
    {"two_take", two_take, {1, 2}},
    {"two_make_and_two_take", two_make_and_two_take, {0, 2}},
    {"fibers_wait", fibers_wait, {2, 2}},
    {"words_that_change", words_that_change, {2, 2}},
};

/// An execution frees its blocks when it ends, so what fibers leave for later ones is allocated before.
void prepare() {
  muster::stack_overflow::watch();
  const muster::stack_memory stack = muster::stack_pool::shared().take({});
  muster::stack_pool::shared().give_back(stack);
}

class doorbell_model : public ::testing::TestWithParam<row> {
 protected:
  void SetUp() override { prepare(); }
};

TEST_P(doorbell_model, is_heard) {
  const row& r = GetParam();
  expect_right(r.within, r.name, r.run);
  expect_right(mm::limits{.how = mm::strategy::priorities, .executions = 10'000, .depth = 4}, r.name, r.run);
}

INSTANTIATE_TEST_SUITE_P(of, doorbell_model, ::testing::ValuesIn(programs),
                         [](const auto& at) { return std::string(at.param.name); });

TEST(doorbell_mutants, are_noticed_or_explained) {
  prepare();
  mutant_search search;
  for (const row& r : programs) search.programs.push_back({r.name, true, r.run, {}});
  search.survivors = {{"doorbell::wake: store skipped #1", true, "a word that stays set costs superfluous wakes"},
                      {"doorbell::sleep: fetch_add skipped #1", true,
                       "it still reads the newest count, which is its purpose; two_take fails without it"}};
  search.files = {"detail/doorbell"};
  search.prefix = "doorbell";
  search.run();
}

}  // namespace
