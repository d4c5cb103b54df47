// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Pools and forks: every half of every fork is executed once, results and exceptions arrive, in pools of one worker, of
// several, of more than there are processors, and with every fork published.
#include <gtest/gtest.h>
#include <sched.h>
#include <muster/fork.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <variant>
#include <vector>

#include "deep_stack.hpp"
#include "fork_settings.hpp"
#include "scale.hpp"
#include "stolen.hpp"

namespace {

using muster::finish;
using muster::fork2;
using muster::pool;
using muster_test::await;
using muster_test::scaled;

class forks : public muster_test::in_pools {};
INSTANTIATE_TEST_SUITE_P(on, forks, ::testing::ValuesIn(muster_test::fork_settings), muster_test::name_of);

/// Counts executions: a tree executed twice has the right value as well.
struct counted_tree {
  std::atomic<std::uint64_t> executions{0};
  std::uint64_t fib(unsigned n) {
    executions.fetch_add(1, std::memory_order_relaxed);
    if (n < 2) return n;
    const auto [a, b] = fork2([&] { return fib(n - 1); }, [&] { return fib(n - 2); });
    return a + b;
  }
};

TEST_P(forks, are_executed_once) {
  for (std::size_t round = 0; round < scaled(60); ++round) {
    counted_tree tree;
    EXPECT_EQ(workers_.run([&] { return tree.fib(16); }), 987U);
    EXPECT_EQ(tree.executions, 3193U);
  }
}

TEST_P(forks, return_the_results_of_the_functions) {
  workers_.run([] {
    const auto [number, text] =
        fork2([] { return 1; }, [] { return std::string("a string of some length, on the heap"); });
    EXPECT_EQ(number, 1);
    EXPECT_EQ(text, "a string of some length, on the heap");
    const auto [owned, nothing] = fork2([] { return std::make_unique<int>(3); }, [] {});
    EXPECT_EQ(*owned, 3);
    static_assert(std::is_same_v<decltype(nothing), const std::monostate>);
    int left = 0, right = 0;
    fork2([&] { left = 1; }, [&] { right = 2; });
    EXPECT_EQ(left + right, 3);
  });
}

TEST_P(forks, take_a_function_and_its_arguments) {
  const auto join = [](const std::string& a, std::unique_ptr<int> b) { return a + std::to_string(*b); };
  workers_.run([&] {
    std::string text = "seven ";
    const auto [first, second] = fork2(join, text, std::make_unique<int>(7), [] { return 8; });
    EXPECT_EQ(first, "seven 7");
    EXPECT_EQ(second, 8);
    const auto change = [](std::string& what, int by) { what += std::to_string(by); };
    fork2(change, text, 9, [] {});
    EXPECT_EQ(text, "seven 9");
  });
}

TEST_P(forks, through_a_context) {
  std::atomic<std::uint64_t> executions{0};
  const auto fib = [&](auto& self, muster::context here, unsigned n) -> std::uint64_t {
    ++executions;
    if (n < 2) return n;
    const auto [a, b] = here.fork2([&](muster::context its) { return self(self, its, n - 1); },
                                   [&](muster::context& its) { return self(self, its, n - 2); });
    return a + b;
  };
  EXPECT_EQ(workers_.run([&](muster::context here) { return fib(fib, here, 16); }), 987U);
  EXPECT_EQ(executions, 3193U);
}

TEST_P(forks, of_many_functions) {
  workers_.run([] {
    std::atomic<int> calls{0};
    const auto [one, two, nothing, four, five] =
        muster::parallel_invoke([] { return 1; }, [&] { return std::make_unique<int>(++calls); }, [&] { ++calls; },
                                [](muster::context) { return 4.0; }, [] { return std::string("five"); });
    EXPECT_EQ(one, 1);
    EXPECT_NE(two, nullptr);
    static_assert(std::is_same_v<decltype(nothing), const std::monostate>);
    EXPECT_EQ(four, 4.0);
    EXPECT_EQ(five, "five");
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(std::get<0>(muster::parallel_invoke([] { return 6; })), 6);
    // A tuple or pair is the result of one function, not the results of several.
    const auto [tuple, pair, last] =
        muster::parallel_invoke([] { return std::tuple(1, 2); }, [] { return std::pair(std::string("three"), 4); },
                                [] { return std::tuple(std::monostate(), 5); });
    EXPECT_EQ(tuple, std::tuple(1, 2));
    EXPECT_EQ(pair, std::pair(std::string("three"), 4));
    EXPECT_EQ(std::get<1>(last), 5);
    for (int bad = 0; bad < 4; ++bad) try {
        const auto maybe = [bad](int i) {
          return [bad, i] {
            if (i >= bad) throw i;
          };
        };
        muster::parallel_invoke(maybe(0), maybe(1), maybe(2), maybe(3));
        ADD_FAILURE() << "nothing has been thrown";
      } catch (const int caught) {
        EXPECT_EQ(caught, bad);
      }
  });
}

// Two forks whose functions are inlined into one function lie in one frame, in any order.
TEST_P(forks, in_one_frame) {
  std::atomic<std::uint64_t> executions{0};
  const auto count = [&](std::uint64_t n) {
    executions += n;
    return n;
  };
  for (std::size_t round = 0; round < scaled(3000); ++round)
    EXPECT_EQ(workers_.run([&] {
      const auto [ab, cd] = fork2(
          [&] {
            const auto [a, b] = fork2(
                [&] {
                  const auto [c, d] = fork2([&] { return count(1); }, [&] { return count(2); });
                  return c + d;
                },
                [&] { return count(4); });
            return a + b;
          },
          [&] {
            const auto [e, f] = fork2([&] { return count(8); }, [&] { return count(16); });
            return e + f;
          });
      return ab + cd;
    }),
              31U);
  EXPECT_EQ(executions, 31U * scaled(3000));
}

/// The processors that the thread may use which makes and destroys it. In between it, and others, may keep to one.
class usable_processors {
 public:
  usable_processors() {
    CPU_ZERO(&all_);
    ::sched_getaffinity(0, sizeof all_, &all_);
  }
  ~usable_processors() {
    if (CPU_COUNT(&all_) != 0) ::sched_setaffinity(0, sizeof all_, &all_);
  }
  usable_processors(const usable_processors&) = delete;
  usable_processors& operator=(const usable_processors&) = delete;

  int many() const { return CPU_COUNT(&all_); }
  /// The calling thread keeps to the first of them, or to the last.
  bool keep_to(bool first) const {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && (!first || CPU_COUNT(&one) == 0); ++cpu) {
      if (!CPU_ISSET(cpu, &all_)) continue;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
    }
    return ::sched_setaffinity(0, sizeof one, &one) == 0;
  }

 private:
  cpu_set_t all_{};
};

// More than 65,535 thefts from one frame: the first half continues when a thief has begun the second. On a busy machine
// a yield takes milliseconds, and thousands of thefts fit into the time that owner and thief run together. So the owner
// does not yield at once, and a single thief has another processor.
TEST_P(forks, are_stolen_from_one_frame_many_times) {
  const unsigned workers = GetParam().workers;
  const bool by_thieves = workers > 1 && GetParam().publish_always;
  const std::size_t many = by_thieves ? scaled(70'000) : 1000;
  const usable_processors processors;
  const unsigned patience = processors.many() > 1 ? 10'000 : 1;
  const bool apart = by_thieves && workers == 2 && processors.many() > 1;
  std::atomic<std::size_t> second{0};
  workers_.run([&] {
    if (apart) processors.keep_to(true);
    for (std::size_t i = 0; i < many; ++i)
      fork2(
          [&, i] {
            for (unsigned turn = 1; by_thieves && second.load(std::memory_order_relaxed) == i; ++turn) {
              if (turn % patience == 0) std::this_thread::yield();
              else muster::pause();
            }
          },
          [&] {
            [[maybe_unused]] thread_local const bool kept = apart && processors.keep_to(false);
            second.fetch_add(1, std::memory_order_relaxed);
          });
  });
  EXPECT_EQ(second, many);
}

struct thrown_by : std::runtime_error {
  explicit thrown_by(unsigned n) : std::runtime_error("thrown"), number(n) {}
  unsigned number;
};

/// A tree whose leaves are numbered from left to right; those in `bad` throw.
struct throwing_tree {
  std::vector<bool> bad;
  std::atomic<unsigned> alive{0};

  struct counted {
    explicit counted(std::atomic<unsigned>& n) : alive(n) { ++alive; }
    counted(const counted&) = delete;
    counted& operator=(const counted&) = delete;
    ~counted() { --alive; }
    std::atomic<unsigned>& alive;
  };

  void visit(unsigned first, unsigned last) {
    const counted here(alive);
    if (last - first == 1) {
      if (bad[first]) throw thrown_by(first);
      return;
    }
    const unsigned middle = first + (last - first) / 2;
    fork2([&] { visit(first, middle); }, [&] { visit(middle, last); });
  }
};

TEST_P(forks, throw_what_the_serial_program_throws) {
  constexpr unsigned leaves = 24;
  for (unsigned first = 0; first < leaves; ++first) {
    for (unsigned second = first; second < leaves; second += 5) {
      throwing_tree tree{std::vector<bool>(leaves)};
      tree.bad[first] = tree.bad[second] = true;
      try {
        workers_.run([&] { tree.visit(0, leaves); });
        ADD_FAILURE() << "nothing has been thrown";
      } catch (const thrown_by& caught) {
        EXPECT_EQ(caught.number, first);
      }
      EXPECT_EQ(tree.alive, 0U) << "an execution continues after the join";
    }
  }
}

// The caller's thread is the same after the join, so it may hold a mutex; what it executes while it waits has come out
// of its own fork, so it cannot wait for that mutex.
TEST_P(forks, may_hold_a_mutex_over_a_join) {
  std::mutex mutex;
  std::uint64_t sum = 0;
  counted_tree tree;
  const auto holder = [&](auto& self, unsigned depth) -> void {
    if (depth == 0) {
      const std::lock_guard lock(mutex);
      const std::thread::id before = std::this_thread::get_id();
      sum += tree.fib(8);
      EXPECT_EQ(std::this_thread::get_id(), before);
      return;
    }
    fork2([&] { self(self, depth - 1); }, [&] { self(self, depth - 1); });
  };
  workers_.run([&] { holder(holder, 6); });
  EXPECT_EQ(sum, 64U * 21U);
}

// Deeper than the calling thread's own stack would allow. (Unoptimized, a fork is some ten calls.)
TEST_P(forks, may_be_deep) {
  const unsigned depth = muster_test::thread_sanitized ? 4'000 : static_cast<unsigned>(scaled(100'000));
  const auto spine = [](auto& self, unsigned left) -> unsigned {
    if (left == 0) return 0;
    const auto [a, b] = fork2([&] { return self(self, left - 1); }, [] { return 1U; });
    return a + b;
  };
  muster_test::on_a_deep_stack([&] { EXPECT_EQ(workers_.run([&] { return spine(spine, depth); }), depth); });
}

// The worker has something older on offer, and executes an async whose fork this thread takes; then each waits for what
// the other executes. (A third thread may take the older work, if the pool may have a substitute.)
void join_beside_older_work(unsigned substitutes) {
  pool two({.workers = 2, .substitutes = substitutes});
  const std::thread::id here = std::this_thread::get_id();
  std::atomic<bool> taken{false}, in_async{false}, inner_taken{false}, innermost_taken{false};
  bool is_kept = false, waits = false, is_wrong = false, older_executed = false;
  const auto inner = [&] {
    inner_taken = true;
    waits = true;
    fork2([&] { await(innermost_taken); },
          [&] {
            innermost_taken = true;
            std::this_thread::sleep_for(std::chrono::milliseconds(5));  // while this thread waits
          });
    waits = false;
  };
  const auto older = [&] {
    older_executed = true;
    if (std::this_thread::get_id() == here && waits) is_wrong = true;
  };
  const auto outer = [&] {
    taken = true;
    const auto body = [&](auto& scope) {
      scope.async([&] {
        in_async = true;
        fork2([&] { await(inner_taken); }, inner);
      });
      is_kept = !in_async;
    };
    fork2([&] { finish(body); }, older);
  };
  two.run([&] { fork2([&] { await(taken), await(in_async); }, outer); });
  EXPECT_TRUE(is_kept);
  EXPECT_TRUE(older_executed);
  EXPECT_FALSE(is_wrong);
}
TEST(joins, execute_only_what_has_come_out_of_what_they_wait_for) {
  for (const unsigned substitutes : {0U, 1U}) join_beside_older_work(substitutes);
}

// Both halves sleep, so the holder of the mutex does, too, in the join; meanwhile others fork, and wait for the mutex.
// If it executed one of those while it waits, it would wait for itself.
TEST(joins, that_sleep_may_hold_a_mutex) {
  constexpr unsigned depth = 5;
  for (const unsigned substitutes : {0U, 1U, 4U}) {
    pool four({.workers = 4, .substitutes = substitutes});
    std::mutex mutex;
    std::array<unsigned, 1U << depth> executions{};  // under the mutex
    std::atomic<unsigned> slept{0};
    const auto nap = [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++slept;
    };
    const auto holder = [&](auto& self, unsigned left, unsigned at) -> void {
      if (left != 0) {
        fork2([&] { self(self, left - 1, 2 * at); }, [&] { self(self, left - 1, 2 * at + 1); });
        return;
      }
      const std::lock_guard lock(mutex);
      const std::thread::id before = std::this_thread::get_id();
      fork2([&] { fork2(nap, nap); }, [&] { fork2(nap, nap); });
      EXPECT_EQ(std::this_thread::get_id(), before);
      ++executions[at];
    };
    four.run([&] { holder(holder, depth, 0); });
    for (const unsigned times : executions) EXPECT_EQ(times, 1U);
    EXPECT_EQ(slept, 4 * executions.size());
  }
}

// The other worker executes the second half. It forks late, when this one sleeps, and waits until that is taken.
TEST(joins, that_sleep_look_again) {
  pool two({.workers = 2});
  for (std::size_t round = 0; round < scaled(20); ++round) {
    const std::thread::id here = std::this_thread::get_id();
    std::thread::id there;
    std::atomic<bool> taken{false};
    const auto late = [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(4));
      fork2([&] { await(taken); },
            [&] {
              there = std::this_thread::get_id();
              taken = true;
            });
    };
    two.run([&] { muster_test::fork_stolen([] {}, late); });
    EXPECT_EQ(there, here);
  }
}

// The second worker executes what this one waits for, the third a half of that; both wait until this one has executed
// a half of the third's.
TEST(joins, execute_stolen_parts_of_their_own_work) {
  pool three({.workers = 3});
  for (std::size_t round = 0; round < scaled(20); ++round) {
    const std::thread::id here = std::this_thread::get_id();
    std::thread::id there;
    std::atomic<bool> begun{false}, innermost_begun{false};
    const auto innermost = [&] {
      there = std::this_thread::get_id();
      innermost_begun = true;
    };
    const auto inner = [&] {
      begun = true;
      fork2([&] { await(innermost_begun); }, innermost);
    };
    const auto outer = [&] { fork2([&] { await(innermost_begun); }, inner); };
    three.run([&] { fork2([&] { await(begun); }, outer); });
    EXPECT_EQ(there, here);
  }
}

// The other worker executes the second half, in which it waits for an async that it has kept.
TEST(joins, execute_asyncs_of_scopes_in_what_they_wait_for) {
  pool two({.workers = 2});
  for (std::size_t round = 0; round < scaled(20); ++round) {
    const std::thread::id here = std::this_thread::get_id();
    std::atomic<bool> executed_here{false};
    std::atomic<unsigned> executed{0};
    const auto scope_of_four = [&] {
      finish([&](auto& scope) {
        for (int i = 0; i < 4; ++i)
          scope.async([&] {
            ++executed;
            if (std::this_thread::get_id() == here) executed_here = true;
          });
        await(executed_here);
      });
    };
    two.run([&] { muster_test::fork_stolen([] {}, scope_of_four); });
    EXPECT_EQ(executed, 4U);
  }
}

// The innermost first half does not fork. It ends when all second halves have been executed, by others.
TEST(leaves, hide_no_forks) {
  if (!muster::sync::asymmetric_fences()) GTEST_SKIP() << "no thread can answer for a worker that does not fork";
  const auto depth = static_cast<unsigned>(scaled(5'000));
  std::atomic<unsigned> executed{0};
  const auto chain = [&](auto& self, unsigned left) -> void {
    if (left == 0) {
      while (executed != depth) std::this_thread::yield();
      return;
    }
    fork2([&] { self(self, left - 1); }, [&] { ++executed; });
  };
  muster_test::on_a_deep_stack([&] {
    pool two({.workers = 2});
    two.run([&] { chain(chain, depth); });
  });
  EXPECT_EQ(executed, depth);
}

TEST_P(forks, run_within_run) {
  pool other({.workers = 2});
  EXPECT_EQ(workers_.run([&] {
    return workers_.run([&] {
      const auto [a, b] = fork2([&] { return other.run([] { return counted_tree().fib(10); }); },
                                [&] { return counted_tree().fib(9); });
      return a + b;
    });
  }),
            55U + 34U);
}

TEST_P(forks, from_several_threads_at_once) {
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (unsigned round = 0; round < scaled(20); ++round)
        EXPECT_EQ(workers_.run([] { return counted_tree().fib(12); }), 144U);
    });
}

TEST(a_fork, outside_of_any_pool_runs_in_the_shared_one) {
  counted_tree tree;
  EXPECT_EQ(tree.fib(12), 144U);
  EXPECT_EQ(tree.executions, 465U);
}

// Both halves are long and fork nothing: the second must be published before the first begins.
TEST(a_worker, that_sleeps_is_woken_by_a_fork) {
  pool two({.workers = 2});
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));  // all asleep
    std::atomic<bool> met{false};
    two.run([&] {
      fork2([&] { met.wait(false); },
            [&] {
              met = true;
              met.notify_all();
            });
    });
  }
}

TEST(a_worker, that_waits_has_a_substitute) {
  pool three({.workers = 3, .substitutes = 1});
  for (int round = 0; round < 20; ++round) {
    const auto caller = std::this_thread::get_id();
    bool elsewhere = false;
    muster_test::call_in_substitute(three, [&] { elsewhere = std::this_thread::get_id() != caller; });
    EXPECT_TRUE(elsewhere);
  }
}

}  // namespace
