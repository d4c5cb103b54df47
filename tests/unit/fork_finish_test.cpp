// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// finish and async: every async is executed once before the scope ends, in the order of a serial program if no worker
// steals; the leftmost exception arrives; the objects that asyncs own are destroyed.
#include <gtest/gtest.h>
#include <muster/fork.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "fork_settings.hpp"
#include "scale.hpp"
#include "stolen.hpp"

namespace {

using muster::finish;
using muster::pool;
using muster_test::scaled;

class finishes : public muster_test::in_pools {};
INSTANTIATE_TEST_SUITE_P(on, finishes, ::testing::ValuesIn(muster_test::fork_settings), muster_test::name_of);

/// Adds up the executions of things that have numbers.
class executions {
 public:
  explicit executions(std::size_t many) : counts_(many) {}
  void of(std::size_t number) { counts_[number].fetch_add(1, std::memory_order_relaxed); }
  bool once_each() const {
    for (const auto& count : counts_)
      if (count.load(std::memory_order_relaxed) != 1) return false;
    return true;
  }

 private:
  std::vector<std::atomic<std::uint32_t>> counts_;
};

TEST_P(finishes, when_a_million_asyncs_have_ended) {
  const std::size_t many = scaled(GetParam().publish_always ? 100'000 : 1'000'000);
  executions all(many);
  workers_.run([&] {
    finish([&](auto& scope) {
      for (std::size_t i = 0; i < many; ++i) scope.async([&all, i] { all.of(i); });
    });
  });
  EXPECT_TRUE(all.once_each());
}

// The objects that asyncs use end after the body has waited, long before the scope does.
TEST_P(finishes, after_the_body_has_waited_for_what_uses_its_locals) {
  constexpr std::size_t rounds = 20, of_each = 200;
  executions all(rounds * of_each);
  std::atomic<unsigned> wrong{0};
  workers_.run([&] {
    finish([&](muster::async_scope& scope) {
      for (std::size_t round = 0; round < rounds; ++round) {
        std::vector<std::size_t> numbers(of_each);
        for (std::size_t i = 0; i < of_each; ++i) numbers[i] = round * of_each + i;
        std::atomic<std::size_t> executed{0};
        for (const std::size_t& number : numbers)
          scope.async([&] {
            all.of(number);
            // Half of them begin another, which the body waits for as well.
            if (number % 2 == 0) scope.async([&] { executed.fetch_add(1); });
            executed.fetch_add(1);
          });
        scope.wait();
        wrong += executed.load() != of_each + of_each / 2;
        numbers.assign(of_each, ~std::size_t{0});
        scope.wait();  // for nothing
      }
      scope.async([&] { wrong += all.once_each() ? 0 : 1; });  // as before
    });
  });
  EXPECT_EQ(wrong.load(), 0U);
  EXPECT_TRUE(all.once_each());
}

TEST_P(finishes, and_throws_after_a_wait_what_was_thrown_before_it) {
  bool went_on = false;
  EXPECT_THROW(workers_.run([&] {
    finish([&](muster::async_scope& scope) {
      for (int i = 0; i < 20; ++i)
        scope.async([i] {
          if (i == 7) throw std::runtime_error("thrown");
        });
      scope.wait();
      went_on = true;
    });
  }),
               std::runtime_error);
  EXPECT_TRUE(went_on);
}

TEST(scopes_death, are_not_waited_for_by_their_asyncs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(finish([](muster::async_scope& scope) { scope.async([&] { scope.wait(); }); }),
               "only the body may wait");
}

TEST_P(finishes, when_asyncs_of_asyncs_have_ended) {
  constexpr std::size_t many = 1U << 12U;
  executions all(many);
  const auto visit = [&](auto& self, auto& scope, std::size_t node) -> void {
    all.of(node);
    for (const std::size_t child : {2 * node, 2 * node + 1})
      if (child < many) scope.async([&self, &scope, child] { self(self, scope, child); });
  };
  workers_.run([&] {
    finish([&](auto& scope) {
      all.of(0);
      visit(visit, scope, 1);
    });
    EXPECT_TRUE(all.once_each());
  });
}

TEST_P(finishes, scopes_within_scopes_first) {
  workers_.run([&] {
    std::atomic<unsigned> outer{0};
    finish([&](auto& scope) {
      for (unsigned i = 0; i < 40; ++i)
        scope.async([&] {
          std::atomic<unsigned> inner{0};
          finish([&](auto& within) {
            for (unsigned k = 0; k < 20; ++k)
              within.async([&] {
                ++inner;
                scope.async([&] { ++outer; });
              });
          });
          EXPECT_EQ(inner, 20U);
        });
    });
    EXPECT_EQ(outer, 800U);
  });
}

TEST_P(finishes, with_forks_inside_and_outside) {
  std::atomic<unsigned> leaves{0};
  const auto tree = [&](auto& self, auto& scope, unsigned depth) -> void {
    if (depth == 0) {
      scope.async([&] { ++leaves; });
      return;
    }
    muster::fork2([&] { self(self, scope, depth - 1); }, [&] { self(self, scope, depth - 1); });
  };
  workers_.run([&] { finish([&](auto& scope) { tree(tree, scope, 9); }); });
  EXPECT_EQ(leaves, 512U);
}

TEST_P(finishes, and_returns_what_the_body_returns) {
  const std::unique_ptr<int> owned = workers_.run([] {
    return finish([](auto& scope) {
      scope.async([] {});
      return std::make_unique<int>(7);
    });
  });
  EXPECT_EQ(*owned, 7);
}

TEST_P(finishes, and_what_asyncs_own_is_destroyed) {
  const auto shared = std::make_shared<int>(1);
  std::atomic<int> sum{0};
  workers_.run([&] {
    finish([&](auto& scope) {
      for (int i = 0; i < 500; ++i)
        scope.async([&sum, shared, own = std::make_unique<int>(i)] { sum += *shared + *own; });
    });
    EXPECT_EQ(sum, 500 + 499 * 500 / 2);
    EXPECT_EQ(shared.use_count(), 1);
  });
}

// Asyncs 0 to 5, of which each begins two others; the body throws after the third, or at the end, or not at all.
TEST_P(finishes, and_throws_the_leftmost) {
  for (unsigned bad = 0; bad < 64; ++bad)
    for (const unsigned body : {3U, 6U, 7U}) {
      executions all(18);
      unsigned expected = 7, thrown = 7;
      for (unsigned i = 6; i-- > 0;)
        if (i < body && (bad >> i & 1U) != 0) expected = i;
      try {
        workers_.run([&] {
          finish([&](auto& scope) {
            for (unsigned i = 0; i < 6; ++i) {
              if (i == body) throw body;
              scope.async([&, i] {
                for (unsigned k = 0; k < 2; ++k)
                  scope.async([&, i, k] {
                    all.of(6 + 2 * i + k);
                    if ((bad >> i & 1U) != 0) throw i;
                  });
                all.of(i);
                if ((bad >> i & 1U) != 0) throw i;
              });
            }
            if (body == 6) throw body;
          });
        });
      } catch (const unsigned number) {
        thrown = number;
      }
      if (expected == 7 && body < 7) expected = body;
      ASSERT_EQ(thrown, expected) << "bad " << bad << " body " << body;
      EXPECT_TRUE(body < 6 || all.once_each());
    }
}

TEST_P(finishes, without_those_that_have_not_begun_when_a_stop_is_requested) {
  muster_test::stop_at_call begin(10);
  workers_.run([&] {
    finish(
        [&](auto& scope) {
          for (unsigned i = 0; i < 1000; ++i) scope.async([&] { begin(); });
        },
        begin.token());
  });
  EXPECT_GE(begin.calls(), 10U);
  EXPECT_LE(begin.calls(), 10U + GetParam().workers - 1) << "one that each was about to begin";
}

// The closure cannot be moved to where it would wait for others. Asyncs that run at once are not moved.
TEST_P(finishes, and_throws_what_moving_a_closure_throws) {
  struct immovable {
    std::atomic<unsigned>* calls;
    explicit immovable(std::atomic<unsigned>& count) : calls(&count) {}
    immovable(const immovable& other) : calls(other.calls) { throw std::runtime_error("moved"); }
    immovable& operator=(const immovable&) = delete;
    void operator()() const { ++*calls; }
  };
  std::atomic<unsigned> calls{0};
  unsigned begun = 0;
  bool thrown = false;
  try {
    workers_.run([&] {
      finish([&](auto& scope) {
        for (; begun < 1000; ++begun) scope.async(immovable(calls));
      });
    });
  } catch (const std::runtime_error&) {
    thrown = true;
  }
  EXPECT_EQ(calls, begun) << "the one that throws is not executed; all others are";
  EXPECT_EQ(thrown, begun < 1000);
  EXPECT_EQ(thrown, GetParam().workers > 1) << "a stock is kept for others";
}

// A scope belongs to the pool of its body. An async that is begun inside another pool is executed there.
TEST_P(finishes, what_is_begun_inside_another_pool) {
  pool other({.workers = 2});
  executions all(400);
  workers_.run([&] {
    finish([&](auto& scope) {
      for (std::size_t i = 0; i < 100; ++i) {
        scope.async([&all, i] { all.of(i); });
        other.run([&] {
          scope.async([&all, i] { all.of(100 + i); });
          muster::fork2([&] { scope.async([&all, i] { all.of(200 + i); }); },
                        [&] { scope.async([&all, i] { all.of(300 + i); }); });
        });
      }
    });
  });
  EXPECT_TRUE(all.once_each());
}

TEST(finish_with_one_worker, is_in_the_order_of_the_serial_program) {
  pool one({.workers = 1});
  std::vector<unsigned> order;
  one.run([&] {
    finish([&](auto& scope) {
      for (unsigned i = 0; i < 5; ++i)
        scope.async([&, i] {
          order.push_back(10 * i);
          scope.async([&, i] { order.push_back(10 * i + 1); });
          order.push_back(10 * i + 2);
        });
    });
  });
  EXPECT_EQ(order, (std::vector<unsigned>{0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32, 40, 41, 42}));
}

TEST(finish_outside, of_any_pool_runs_in_the_shared_one) {
  std::atomic<int> sum{0};
  finish([&](auto& scope) {
    for (int i = 0; i < 100; ++i) scope.async([&sum, i] { sum += i; });
    std::thread([&] { scope.async([&] { sum += 1000; }); }).join();
  });
  EXPECT_EQ(sum, 4950 + 1000);
}

// The other worker is in a scope of its own, within this one, and keeps asyncs there; it waits until one is executed.
TEST(scopes, that_wait_execute_what_scopes_within_them_keep) {
  pool two({.workers = 2});
  for (std::size_t round = 0; round < scaled(200); ++round) {
    std::atomic<bool> kept{false}, executed_here{false};
    const auto home = std::this_thread::get_id();
    two.run([&] {
      finish([&](auto& outer) {
        outer.async([&] {
          finish([&](auto& inner) {
            for (int i = 0; i < 4; ++i)
              inner.async([&] {
                if (std::this_thread::get_id() == home) executed_here = true;
              });
            kept = true;
            while (!executed_here) std::this_thread::yield();
          });
        });
        while (!kept) std::this_thread::yield();
      });
    });
  }
}

// The other worker executes an async, in which it waits until half of a fork is executed here.
TEST(scopes, that_wait_execute_forks_of_their_asyncs) {
  pool two({.workers = 2});
  for (std::size_t round = 0; round < scaled(20); ++round) {
    const auto home = std::this_thread::get_id();
    std::thread::id there;
    std::atomic<bool> begun{false}, half_begun{false};
    two.run([&] {
      finish([&](auto& scope) {
        scope.async([&] {
          begun = true;
          muster::fork2([&] { muster_test::await(half_begun); },
                        [&] {
                          there = std::this_thread::get_id();
                          half_begun = true;
                        });
        });
        muster_test::await(begun);
      });
    });
    EXPECT_EQ(there, home);
  }
}

// The other worker executes an async. It begins others late, when this one sleeps, and waits until one is taken.
TEST(scopes, that_sleep_look_again) {
  pool two({.workers = 2});
  for (std::size_t round = 0; round < scaled(20); ++round) {
    const auto home = std::this_thread::get_id();
    std::atomic<bool> begun{false}, executed_here{false};
    std::atomic<unsigned> executed{0};
    two.run([&] {
      finish([&](auto& scope) {
        scope.async([&] {
          begun = true;
          std::this_thread::sleep_for(std::chrono::milliseconds(4));
          for (int i = 0; i < 4; ++i)
            scope.async([&] {
              if (std::this_thread::get_id() == home) executed_here = true;
              ++executed;
            });
          muster_test::await(executed_here);
        });
        muster_test::await(begun);
      });
    });
    EXPECT_EQ(executed, 4U);
  }
}

// An async of the inner scope, which the other worker executes, ends when those of the outer one have: so another
// thread must execute them, a substitute. The one that waits for the inner scope must not: it may hold what they need.
TEST(scopes, that_wait_execute_nothing_of_scopes_around_them) {
  pool two({.workers = 2, .substitutes = 1});
  constexpr unsigned many = 4;
  for (std::size_t round = 0; round < scaled(50); ++round) {
    std::atomic<bool> begun{false};
    std::atomic<unsigned> ended{0}, wrong{0};
    bool waiting = false;  // home's
    const auto home = std::this_thread::get_id();
    two.run([&] {
      finish([&](auto& outer) {
        finish([&](auto& inner) {
          inner.async([&] {
            begun = true;
            while (ended != many) std::this_thread::yield();
          });
          while (!begun) std::this_thread::yield();
          for (unsigned i = 0; i < many; ++i)
            outer.async([&] {
              if (std::this_thread::get_id() == home && waiting) ++wrong;
              ++ended;
            });
          waiting = true;
        });
        waiting = false;
      });
    });
    EXPECT_EQ(wrong, 0U);
    EXPECT_EQ(ended, many);
  }
}

// The first one throws after the others have.
TEST(scopes, throw_the_exception_that_a_stolen_half_has_begun_first) {
  for (std::size_t round = 0; round < scaled(10); ++round) {
    std::atomic<int> executed{0}, thrown_before{0};
    int thrown = 0;
    const auto throws = [&](int number) {
      ++executed;
      ++thrown_before;
      throw number;
    };
    try {
      muster_test::workers().run([&] {
        finish([&](auto& scope) {
          muster_test::fork_stolen([] {},
                                   [&] {
                                     scope.async([&] {
                                       while (thrown_before != 2) std::this_thread::yield();
                                       std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                       ++executed;
                                       throw 1;
                                     });
                                     scope.async([&] { throws(2); });
                                   });
          scope.async([&] { throws(3); });
        });
      });
    } catch (int number) {
      thrown = number;
    }
    EXPECT_EQ(thrown, 1);
    EXPECT_EQ(executed, 3);
  }
}

// An async that begins after the body has ended comes after the body's exception, whichever thread begins it.
TEST(scopes, throw_what_their_body_throws_before_what_begins_later) {
  pool three({.workers = 3});
  std::size_t later = 0;
  for (std::size_t round = 0; later < scaled(10) && round < 1000; ++round) {
    std::atomic<bool> stolen{false}, has_ended{false}, is_unknown{false};
    int thrown = 0;
    try {
      three.run([&] {
        const auto home = std::this_thread::get_id();
        finish([&](auto& scope) {
          scope.async([&] {
            muster_test::fork_stolen([] {},
                                     [&] {
                                       stolen = true;
                                       while (!has_ended && !is_unknown) std::this_thread::yield();
                                       if (has_ended) scope.async([] { throw 2; });
                                     });
          });
          muster_test::await(stolen);
          // Kept for the others, so this thread executes it only when the body has ended.
          scope.async([&, home] { (std::this_thread::get_id() == home ? has_ended : is_unknown) = true; });
          throw 1;
        });
      });
    } catch (int number) {
      thrown = number;
    }
    EXPECT_EQ(thrown, 1);
    later += has_ended;
  }
  EXPECT_GE(later, scaled(10));
}

TEST(asyncs, are_kept_for_later_requests) {
  pool two({.workers = 2});
  for (int round = 0; round < 20; ++round) {
    if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));  // the other sleeps
    std::atomic<bool> elsewhere{false};
    const auto home = std::this_thread::get_id();
    two.run([&] {
      finish([&](auto& scope) {
        while (!elsewhere)
          scope.async([&] {
            if (std::this_thread::get_id() != home) elsewhere = true;
          });
      });
    });
  }
}

/// A worker may offer a fork of a task that it has stolen, and after it an async of a scope opened outside of any.
TEST(asyncs, of_scopes_outside_stolen_tasks_are_no_part_of_another_wait) {
  using namespace muster::detail;
  const auto run_nothing = [](task&) noexcept -> completion_count* { return nullptr; };
  idle_workers asleep;
  watermark_engine deque(asleep, {.always = true});
  theft stolen;
  deque.tasks().enter(stolen, deque.depth());
  task half, async;
  deque.push(half, run_nothing);  // published at once
  const scope_node outside;
  deque.offer(async, run_nothing, outside);
  ASSERT_EQ(deque.tasks().offered(), 2U);

  constexpr unsigned thief = 1;
  const task awaited;
  theft noted;
  EXPECT_EQ(deque.tasks().steal_part_of(&awaited, 0, thief, noted), nullptr);
  EXPECT_EQ(deque.tasks().offered(), 2U);

  EXPECT_EQ(deque.tasks().steal_part_of(&outside, 0, thief, noted), &async);
  ASSERT_FALSE(deque.pop(half));
  EXPECT_TRUE(deque.take_back(half));
  deque.tasks().leave(stolen);
}

}  // namespace
