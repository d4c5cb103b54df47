// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// SIGURG, with which workers are stopped that do not fork, in programs that handle it themselves. The handler is the
// process's, so each test needs a process of its own, as ctest starts it; the first of several skips the others.
#include <gtest/gtest.h>
#include <muster/fork.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>

#include "fork_settings.hpp"
#include "scale.hpp"
#include "stolen.hpp"

namespace {

using muster::fork_engine;
using muster::pool;
using muster_test::scaled;
using muster_test::small_stack;

std::atomic<unsigned> handled{0};
void count_signal(int) { ++handled; }

/// Handles SIGURG. Returns false if the signal already has a handler.
bool handle_sigurg() {
  struct sigaction ours = {}, others = {};
  ::sigaction(SIGURG, nullptr, &others);
  if (others.sa_handler != SIG_DFL) return false;
  ours.sa_handler = &count_signal;
  return ::sigaction(SIGURG, &ours, nullptr) == 0;
}
/// Blocks or unblocks SIGURG in the calling thread and in the threads that it creates.
void change_mask(int how) {
  sigset_t one;
  ::sigemptyset(&one);
  ::sigaddset(&one, SIGURG);
  ::pthread_sigmask(how, &one, nullptr);
}
bool blocks_sigurg() {
  sigset_t now;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &now);
  return ::sigismember(&now, SIGURG) != 0;
}
bool sigurg_is_pending() {
  sigset_t now;
  ::sigpending(&now);
  return ::sigismember(&now, SIGURG) != 0;
}

TEST(signals, are_left_alone_by_a_pool_with_watermarks) {
  if (!handle_sigurg()) GTEST_SKIP() << "another test has made a pool";
  change_mask(SIG_BLOCK);
  {
    pool two({.workers = 2, .stack_bytes = small_stack, .engine = fork_engine::watermark});
    EXPECT_EQ(two.engine(), fork_engine::watermark);
    const auto [first, second] = two.run(
        [] { return muster_test::fork_stolen([] { return blocks_sigurg(); }, [] { return blocks_sigurg(); }); });
    EXPECT_TRUE(first);
    EXPECT_TRUE(second) << "the thief lets SIGURG in";
  }
  change_mask(SIG_UNBLOCK);
  struct sigaction now = {};
  ::sigaction(SIGURG, nullptr, &now);
  EXPECT_TRUE((now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == &count_signal);
}

/// Nothing to steal, but workers that sleep are woken for it, and ask for more.
void wake_others() {
  muster::finish([](auto& scope) { scope.async([] {}); });
}

TEST(signals, of_the_program_are_its_own_and_the_pools_are_not) {
  if (!handle_sigurg()) GTEST_SKIP() << "another test has made a pool";
  handled = 0;
  pool two({.workers = 2, .stack_bytes = small_stack});
  const unsigned rounds = static_cast<unsigned>(scaled(200));
  unsigned stolen = 0;
  for (unsigned round = 0; round < rounds; ++round)
    stolen += two.run([&] { return muster_test::fork_stolen([] { return 1U; }, [] { return 2U; }).second; });
  EXPECT_EQ(stolen, 2 * rounds);
  EXPECT_GE(two.statistics().thefts, rounds);
  EXPECT_EQ(handled, 0U);

  // Signals that arrive when the thread has left the pool.
  for (unsigned round = 0; two.engine() == fork_engine::barrier && round < 5; ++round) {
    change_mask(SIG_BLOCK);
    two.run([] {
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!sigurg_is_pending() && std::chrono::steady_clock::now() < limit) {
        wake_others();
        for (unsigned looks = 0; !sigurg_is_pending() && looks < 10'000; ++looks) muster::pause();
      }
    });
    EXPECT_TRUE(sigurg_is_pending()) << "no thief has requested work";
    change_mask(SIG_UNBLOCK);
    EXPECT_FALSE(sigurg_is_pending());
  }
  EXPECT_EQ(handled, 0U);

  ::raise(SIGURG);
  EXPECT_EQ(handled, 1U);
  two.run([] {  // where one may be lost, when the pool's arrives at the same moment
    for (unsigned tries = 0; handled == 1 && tries < 1000; ++tries) ::raise(SIGURG);
  });
  EXPECT_EQ(handled, 2U);
}

[[gnu::noinline]] std::uint64_t computes(std::uint64_t state, unsigned turns) {
  for (; turns != 0; --turns) state ^= state << 13U, state ^= state >> 7U, state ^= state << 17U;
  return state;
}

// Its stack has been looked through, so the others may sleep until it forks. Stopped in the function that has entered
// the pool, in one that this one calls, and deeper.
TEST(signals, stop_a_thread_that_has_forked_nothing_hardly_more_than_once) {
  const auto turns = static_cast<unsigned>(scaled(20'000'000));
  for (unsigned depth = 0; depth < 3; ++depth) {
    pool three({.workers = 3, .stack_bytes = small_stack});
    if (three.engine() != fork_engine::barrier) GTEST_SKIP() << "no thread is interrupted";
    const std::uint64_t found = three.run([&] {
      wake_others();
      std::uint64_t state = 1 + depth;
      if (depth == 0)
        for (unsigned left = turns; left != 0; --left)
          state ^= state << 13U, state ^= state >> 7U, state ^= state << 17U;
      if (depth == 1) state = computes(state, turns);
      if (depth == 2)
        for (unsigned i = 0; i < 10; ++i) state = muster_test::opaque(computes(state, turns / 10));
      return state;
    });
    EXPECT_NE(found, 0U);
    const std::uint64_t answers = three.statistics().answers;
    EXPECT_GE(answers, 1U) << depth << ": no thief has requested work";
    EXPECT_LE(answers, 12U) << depth;
  }
}

}  // namespace
