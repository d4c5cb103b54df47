// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Pools: how many workers they have, when the system has no more threads, in a child process, under fibers; that they
// sleep.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <muster/fiber.hpp>
#include <muster/fork.hpp>
#include <muster/queue.hpp>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "fork_settings.hpp"
#include "scale.hpp"
#include "stolen.hpp"

namespace {

using muster::fork2;
using muster::pool;
using muster_test::scaled;
using muster_test::small_stack;

std::uint64_t fib(unsigned n) {
  if (n < 2) return n;
  const auto [a, b] = fork2(fib, n - 1, [&] { return fib(n - 2); });
  return a + b;
}

/// The smallest stack of a worker: what the system needs may be more than what the pool asks for.
std::size_t least_stack() {
  return std::max(std::size_t{64} << 10U, static_cast<std::size_t>(::sysconf(_SC_THREAD_STACK_MIN)));
}

TEST(a_pool, says_how_many_workers_it_has_and_refuses_none) {
  EXPECT_EQ(pool({.workers = 3}).workers(), 3U);
  EXPECT_EQ(pool().workers(), muster::available_parallelism());
  EXPECT_THROW(pool({.workers = 0}), std::invalid_argument);
  EXPECT_THROW(pool({.workers = 2, .substitutes = 961}), std::invalid_argument);
  EXPECT_THROW(pool({.workers = 2, .substitutes = 0U - 1}), std::invalid_argument);
  EXPECT_EQ(pool({.workers = 2, .substitutes = 960}).workers(), 2U);
  for (const std::size_t bytes : {std::size_t{4096}, (std::size_t{64} << 10U) - 1})
    for (const unsigned workers : {1U, 2U})
      EXPECT_THROW(pool({.workers = workers, .stack_bytes = bytes}), std::invalid_argument);
  EXPECT_EQ(pool({.workers = 2, .stack_bytes = least_stack()}).run([] { return fib(10); }), 55U);
}

/// How many of a hundred asyncs have not ended when they have been begun.
unsigned kept_in(pool& one) {
  return one.run([] {
    std::atomic<unsigned> ended{0};
    unsigned kept = 0;
    muster::finish([&](muster::async_scope& scope) {
      for (unsigned i = 0; i < 100; ++i) {
        const unsigned before = ended;
        scope.async([&] { ++ended; });
        if (ended == before) ++kept;
      }
    });
    EXPECT_EQ(ended, 100U);
    return kept;
  });
}

TEST(a_pool, may_be_given_a_number_of_workers_alone) {
  EXPECT_EQ(pool(2).workers(), 2U);
  EXPECT_EQ(pool(3UL).workers(), 3U);
  for (const long none : {0L, -1L, 1L << 40}) try {
      const pool refused(none);
      ADD_FAILURE() << "made with " << none;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find("a pool of " + std::to_string(none)), std::string::npos) << error.what();
    }
}

TEST(a_pool, of_one_worker_keeps_no_asyncs) {
  pool first({.workers = 1}), second({.workers = 1});
  first.run([&] {
    EXPECT_EQ(second.run([&] { return kept_in(first) + kept_in(second); }), 0U);
    EXPECT_EQ(kept_in(first), 0U);
    // Now there are two.
    std::thread([&] { EXPECT_GT(kept_in(first), 0U); }).join();
    EXPECT_EQ(kept_in(first), 0U);
  });
  EXPECT_EQ(kept_in(first), 0U);
  EXPECT_EQ(kept_in(second), 0U);
}

/// The threads and the numbers of workers that execute something.
class seen_workers {
 public:
  void look() {
    const std::lock_guard lock(mutex_);
    threads_.insert(std::this_thread::get_id());
    numbers_.insert(muster::detail::worker::current()->number);
  }
  std::size_t threads() const { return threads_.size(); }
  unsigned highest_number() const { return *numbers_.rbegin(); }

 private:
  std::mutex mutex_;
  std::set<std::thread::id> threads_;
  std::set<unsigned> numbers_;
};

// A list that is walked by forks, each of whose elements sleeps: many joins come to sleep, while there is work.
TEST(a_pool, shows_no_more_threads_than_workers_and_callers_and_substitutes) {
  constexpr unsigned workers = 4;
  const auto many = static_cast<unsigned>(scaled(200));
  const auto show = [&](pool& four, unsigned callers, unsigned substitutes) {
    seen_workers seen;
    std::atomic<unsigned> executed{0};
    const auto walk = [&](auto& self, unsigned left) -> void {
      seen.look();
      if (left == 0) return;
      fork2(
          [&] {
            seen.look();
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            ++executed;
          },
          [&] { self(self, left - 1); });
    };
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < callers; ++i) threads.emplace_back([&] { four.run([&] { walk(walk, many); }); });
    threads.clear();
    EXPECT_EQ(executed, callers * many);
    EXPECT_LE(seen.threads(), workers - 1 + callers + substitutes);
    EXPECT_LT(seen.highest_number(), workers - 1 + callers + substitutes);
  };
  for (const unsigned callers : {1U, 3U}) {
    pool four({.workers = workers});
    show(four, callers, 0);
    for (const unsigned substitutes : {0U, 1U, 5U}) {
      pool bounded({.workers = workers, .substitutes = substitutes});
      show(bounded, callers, substitutes);
    }
  }
}

/// Returns true if four bodies are executed at the same time; each waits a while for the others.
bool four_meet(pool& in) {
  std::atomic<unsigned> here{0};
  std::atomic<bool> met{false};
  const auto body = [&] {
    if (++here == 4) met = true;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
    while (!met && std::chrono::steady_clock::now() < limit) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --here;
  };
  in.run([&] { muster::parallel_invoke(body, body, body, body); });
  return met;
}

// When the worker that had a substitute is back, one of the four looks for work and retires. If none ever does, the
// test times out.
TEST(a_pool, goes_back_to_as_many_workers_when_a_substitute_is_done) {
  pool three({.workers = 3, .stack_bytes = small_stack, .substitutes = 1});
  bool called = false;
  muster_test::call_in_substitute(three, [&] { called = true; });
  EXPECT_TRUE(called);
  while (four_meet(three)) {
  }
}

// Places are left to the threads that run() and to substitutes.
TEST(a_pool, of_more_workers_than_there_can_be_has_fewer) {
  if (muster_test::sanitized) GTEST_SKIP() << "so many threads are slow under a sanitizer";
  pool most({.workers = 1200, .stack_bytes = least_stack()});
  EXPECT_LT(most.workers(), 1024U);
  EXPECT_EQ(most.run([] { return fib(12); }), 144U);
  EXPECT_EQ(most.run([&] { return most.run([] { return fib(12); }); }), 144U);
}

TEST(a_pool, may_be_one_of_many_and_be_made_again_and_again) {
  for (std::size_t round = 0; round < scaled(200); ++round) {
    pool first({.workers = 3, .stack_bytes = small_stack}), second({.workers = 2, .stack_bytes = small_stack});
    EXPECT_EQ(first.run([&] { return fib(10) + second.run([] { return fib(9); }); }), 55U + 34U);
  }
}

TEST(a_pool, executes_what_is_run_in_it_from_within_another) {
  pool alone({.workers = 1, .stack_bytes = small_stack}), two({.workers = 2, .stack_bytes = small_stack});
  alone.run([&] { two.run([] { muster_test::fork_stolen([] {}, [] {}); }); });
  EXPECT_GE(two.statistics().thefts, 1U);
  EXPECT_EQ(alone.statistics().thefts, 0U);
}

TEST(a_pool, of_many_workers_on_few_processors) {
  pool crowd({.workers = 64, .stack_bytes = small_stack});
  EXPECT_EQ(crowd.workers(), 64U);
  for (std::size_t round = 0; round < scaled(20); ++round) EXPECT_EQ(crowd.run([] { return fib(18); }), 2584U);
}

TEST(a_pool, throws_what_the_function_throws) {
  pool two({.workers = 2});
  EXPECT_THROW(two.run([] { throw std::runtime_error("thrown"); }), std::runtime_error);
  EXPECT_EQ(two.run([] { return fib(10); }), 55U);
}

template <class F>
int exit_status_of_child(F function) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(function());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// _Fork() and clone(2) ask no handlers, which fork() does.
TEST(a_pool, knows_a_child_process_that_was_made_by_a_raw_call) {
  if (muster_test::sanitized) GTEST_SKIP() << "a sanitizer's threads are gone in such a child";
  static pool everywhere({.workers = 3});
  EXPECT_EQ(everywhere.run([] { return fib(12); }), 144U);
  const auto raw_fork = [] { return static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); };
  const pid_t child = raw_fork();
  if (child == 0) {
    ::alarm(20);
    int status = 1;
    try {
      everywhere.run([] { return 0; });
    } catch (const std::logic_error&) {
      // And again in a child of the child.
      const pid_t grandchild = raw_fork();
      if (grandchild == 0) {
        pool own({.workers = 2});
        ::_exit(own.run([] { return fib(10); }) == 55U ? 0 : 2);
      }
      int ended = 1;
      if (::waitpid(grandchild, &ended, 0) == grandchild) status = ended;
    }
    everywhere.~pool();  // ends without joining threads that are not there
    ::_exit(status == 0 ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(a_pool, has_no_threads_in_a_child_process_and_says_so) {
  pool parents({.workers = 2});
  EXPECT_EQ(parents.run([] { return fib(12); }) + fib(8), 144U + 21U);
  EXPECT_EQ(exit_status_of_child([&] {
              try {
                parents.run([] { return 0; });
                return 1;
              } catch (const std::logic_error& error) {
                return std::string(error.what()).find("in the parent of this process") == std::string::npos ? 2 : 0;
              }
            }),
            0);
  // Nor when the process is cloned inside run().
  EXPECT_EQ(parents.run([&] {
    return exit_status_of_child([&] {
      try {
        parents.run([] { return 0; });
        return 1;
      } catch (const std::logic_error&) {
        return 0;
      }
    });
  }),
            0);
  // The sanitizer of threads makes none in the child of a process that has some.
  if (muster_test::sanitized) GTEST_SKIP() << "a sanitizer is compiled in";
  EXPECT_EQ(exit_status_of_child([] {
              pool own({.workers = 2});
              return own.run([] { return fib(12); }) + fib(8) == 144 + 21 ? 0 : 1;
            }),
            0);
  EXPECT_EQ(parents.run([] { return fib(12); }), 144U);
}

/// Waits for a child that has been cloned while another worker is in the middle of something. Returns the signal that
/// has ended it.
template <class Fork>
int signal_that_ends_child(Fork fork_what_is_taken) {
  pool two({.workers = 2, .stack_bytes = small_stack});
  int status = 0;
  pid_t child = -1;
  two.run([&] {
    std::atomic<bool> begun{false}, over{false};
    fork_what_is_taken(
        [&] {
          muster_test::await(begun);
          child = ::fork();
          if (child == 0) {
            ::alarm(10);
          } else {
            ::waitpid(child, &status, 0);
            over = true;
          }
        },
        [&] {
          begun = true;
          muster_test::await(over);
        });
    if (child == 0) ::_exit(0);
  });
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(a_pool, ends_a_child_process_that_waits_for_its_threads) {
  if (muster_test::sanitized) GTEST_SKIP() << "a sanitizer is compiled in";
  EXPECT_EQ(signal_that_ends_child([](auto here, auto there) { fork2(here, there); }), SIGABRT);
  EXPECT_EQ(signal_that_ends_child([](auto here, auto there) {
              muster::finish([&](muster::async_scope& scope) {
                scope.async(there);
                here();
              });
            }),
            SIGABRT);
}

TEST(a_pool, has_fewer_workers_when_the_system_has_no_more_threads) {
  if (muster_test::sanitized) GTEST_SKIP() << "sanitizers need the memory that is taken away here";
  EXPECT_EQ(exit_status_of_child([] {
              const rlimit memory{std::size_t{1} << 30U, std::size_t{1} << 30U};
              if (::setrlimit(RLIMIT_AS, &memory) != 0) return 1;
              pool some({.workers = 16});  // each with a stack of 256 MiB
              if (some.workers() == 0 || some.workers() >= 16) return 2;
              return some.run([] { return fib(16); }) == 987 ? 0 : 3;
            }),
            0);
}

// Fibers of one thread, each in the middle of forks of its own.
// A fiber executes a function for the pool, which waits for another fiber. Meanwhile a third one ends the pool.
TEST(a_pool, ends_while_a_fiber_of_the_thread_executes_for_it) {
  auto pool = std::make_unique<muster::pool>(1);
  std::atomic<bool> begun{false}, may_end{false};
  auto longest = pool->submit([&] {  // occupies the pool's own thread
    begun = true;
    while (!may_end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return 1;
  });
  while (!begun) std::this_thread::yield();
  EXPECT_EQ(pool->submit([] { return 2; }).get(), 2);
  muster::spsc_queue<int> queue(1);
  auto waits = pool->submit([&] { return *queue.pop(); });
  int got = 0;
  muster::fiber guest([&] { got = waits.get(); });
  muster::fiber ends([&] {
    may_end = true;
    pool.reset();
  });
  muster::fiber pushes([&] { queue.push(3); });
  guest.join();
  ends.join();
  pushes.join();
  EXPECT_EQ(got, 3);
  EXPECT_EQ(longest.get(), 1);
}

TEST(a_pool, entered_by_several_fibers_of_a_thread) {
  pool two({.workers = 2});
  std::vector<muster::fiber> fibers;
  std::uint64_t sum = 0;
  for (unsigned f = 0; f < 8; ++f)
    fibers.emplace_back([&, f] {
      const auto tree = [](auto& self, unsigned n) -> std::uint64_t {
        if (n < 2) return n;
        muster::this_fiber::yield();
        const auto [a, b] = fork2([&] { return self(self, n - 1); }, [&] { return self(self, n - 2); });
        muster::this_fiber::yield();
        return a + b;
      };
      sum += f % 2 == 0 ? two.run([&] { return tree(tree, 8); }) : tree(tree, 8);
    });
  for (muster::fiber& one : fibers) one.join();
  EXPECT_EQ(sum, 8U * 21U);
}

/// How often the processors have been switched between the threads of the process and others.
std::uint64_t switches() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<std::uint64_t>(used.ru_nvcsw + used.ru_nivcsw);
}

// Threads that sleep are not switched to. Waits until that is so; if it never is, the test times out.
TEST(a_pool, sleeps_when_there_is_nothing_to_do) {
  pool several({.workers = 4});
  EXPECT_EQ(several.run([] { return fib(16); }), 987U);
  for (std::uint64_t before = 0, now = switches(); now - before > 3; now = switches()) {
    before = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(several.run([] { return fib(16); }), 987U);
}

std::size_t resident_bytes() {
  std::size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}
/// Returns the sum of the levels.
[[gnu::noinline]] long touch_stack(long levels) {
  char used[std::size_t{64} << 10U];
  for (std::size_t at = 0; at < sizeof used; at += 1024) used[at] = static_cast<char>(levels);
  asm volatile("" : : "r"(&used) : "memory");
  return levels == 0 ? 0 : touch_stack(levels - 1) + levels + used[0] - static_cast<char>(levels);
}

TEST(a_pool, returns_the_stack_memory_that_its_threads_have_used) {
  if (muster_test::sanitized) GTEST_SKIP() << "sanitizers may have frames elsewhere";
  constexpr std::size_t mebibyte = std::size_t{1} << 20U;
  pool two({.workers = 2, .stack_bytes = 256 * mebibyte});
  const std::size_t before = resident_bytes();
  for (int round = 0; round < 2; ++round) {
    const long levels = 1024;
    const auto deep = [] { return touch_stack(levels); };
    const long sum = two.run([&] { return muster_test::fork_stolen([] {}, deep).second; });
    EXPECT_EQ(sum, levels * (levels + 1) / 2);
    EXPECT_GT(resident_bytes(), before + 60 * mebibyte);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (resident_bytes() > before + 8 * mebibyte && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_LT(resident_bytes(), before + 8 * mebibyte);
  }
}

// The thread that sleeps in a join makes its substitute.
TEST(a_pool, has_threads_that_begin_as_the_pool_was_made) {
  pool three({.workers = 3, .substitutes = 1});
  sigset_t one, before;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &one, &before);
  // The processor has a register for each kind of arithmetic; the function below reads one of them only.
  const volatile double dividend = 1, divisor = 3;
  const double third = dividend / divisor;
  std::fesetround(FE_UPWARD);
  int rounding = -1;
  double third_there = 0;
  bool blocked = true;
  muster_test::call_in_substitute(three, [&] {
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, nullptr, &now);
    blocked = sigismember(&now, SIGUSR2) != 0;
    rounding = std::fegetround();
    third_there = dividend / divisor;
  });
  const double third_here = dividend / divisor;
  std::fesetround(FE_TONEAREST);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(rounding, FE_TONEAREST);
  EXPECT_EQ(third_there, third);
  EXPECT_GT(third_here, third);
  EXPECT_FALSE(blocked);
}

}  // namespace
