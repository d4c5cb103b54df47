// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Stacks that overflow: of a fiber, with each kind of guard, of a pool's thread, of a thread that uses one; by
// recursion, and by a frame that is larger than a page. Each is reported in one line and aborts. Other faults keep
// their effect.
#include <gtest/gtest.h>
#include <muster/fiber.hpp>
#include <muster/fork.hpp>

#include <sys/mman.h>
#include <sys/resource.h>

#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "scale.hpp"

namespace {

volatile unsigned char sink;

[[gnu::noinline]] unsigned recurse(unsigned depth) {
  volatile unsigned char here[256];
  here[depth % sizeof here] = static_cast<unsigned char>(depth);
  const unsigned below = depth == ~0U ? 0 : recurse(depth + 1);
  return below + here[depth % sizeof here];
}
[[gnu::noinline]] void use_much_at_once() {
  volatile unsigned char here[std::size_t{48} << 10U];
  for (std::size_t i = 0; i < sizeof here / 4; ++i) here[i] = 'X';
  sink = here[1];
}

const muster::stack_options small{.size = std::size_t{32} << 10U};

class stack_overflow : public ::testing::Test {
 protected:
  stack_overflow() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void SetUp() override {
    if (muster_test::sanitized) GTEST_SKIP() << "the sanitizer has a message of its own";
  }
};

/// Both kinds of guards.
class stack_overflow_of_a_fiber : public stack_overflow, public ::testing::WithParamInterface<bool> {
 protected:
  using seam = muster::detail::stack_pool_seam;
  static bool as_mappings() { return GetParam(); }
  static void choose() {
    if (as_mappings()) seam::make_guards_as_mappings(muster::stack_pool::shared());
  }
  void SetUp() override {
    stack_overflow::SetUp();
    muster::stack_pool one;
    one.give_back(one.take(small));
    if (!as_mappings() && !seam::has_guards_in_tables(one))
      GTEST_SKIP() << "this kernel has no guards in its page tables (Linux 6.13 has)";
  }
};
INSTANTIATE_TEST_SUITE_P(guards, stack_overflow_of_a_fiber, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "as_mappings" : "in_tables"; });

TEST_P(stack_overflow_of_a_fiber, is_reported) {
  EXPECT_EXIT(
      {
        choose();
        muster::fiber(small, [] { recurse(1); }).join();
      },
      ::testing::KilledBySignal(SIGABRT), "overflowed.*that of a fiber.*stack_options::size");
}

// Among many, where the kernel prepares several stacks at once.
TEST_P(stack_overflow_of_a_fiber, is_reported_of_the_last_of_many) {
  EXPECT_EXIT(
      {
        choose();
        std::vector<muster::fiber> all;
        for (int i = 0; i < 300; ++i)
          all.emplace_back(small, [i] {
            if (i == 299) recurse(1);
            muster::this_fiber::yield();
          });
        all.clear();
      },
      ::testing::KilledBySignal(SIGABRT), "overflowed.*that of a fiber");
}

TEST_P(stack_overflow_of_a_fiber, by_a_frame_larger_than_a_page_reaches_no_neighbour) {
  EXPECT_EXIT(
      {
        choose();
        std::vector<muster::fiber> all;
        for (int i = 0; i < 8; ++i)
          all.emplace_back(small, [i] {
            volatile unsigned long mine[3000];
            for (auto& word : mine) word = 1;
            muster::this_fiber::yield();
            if (i == 2) use_much_at_once();
            muster::this_fiber::yield();
            for (auto& word : mine)
              if (word != 1) std::_Exit(3);
          });
        all.clear();
      },
      ::testing::KilledBySignal(SIGABRT), "that of a fiber");
}

TEST_F(stack_overflow, of_a_pools_thread_is_reported) {
  EXPECT_EXIT(
      {
        muster::pool pool({.workers = 2, .stack_bytes = std::size_t{256} << 10U});
        pool.run([] {
          // One of them finds itself on the pool's thread.
          const auto caller = std::this_thread::get_id();
          for (;;)
            muster::parallel_for(0, 64, [&](int) {
              if (std::this_thread::get_id() != caller) recurse(1);
              for (unsigned i = 0; i < 1000; ++i) sink = static_cast<unsigned char>(i);
            });
        });
      },
      ::testing::KilledBySignal(SIGABRT), "that of a pool's thread.*pool_options::stack_bytes");
}

TEST_F(stack_overflow, of_a_thread_that_uses_a_pool_is_reported) {
  EXPECT_EXIT(std::thread([] {
                muster::pool pool({.workers = 1});
                pool.run([] { recurse(1); });
              }).join(),
              ::testing::KilledBySignal(SIGABRT), "that of a thread");
}

TEST_F(stack_overflow, is_nothing_but_that) {
  const auto use_a_fiber = [] { muster::fiber([] {}).join(); };
  EXPECT_EXIT(
      {
        use_a_fiber();
        *reinterpret_cast<volatile int*>(16) = 1;
      },
      ::testing::KilledBySignal(SIGSEGV), "^$");
  EXPECT_EXIT(
      {
        use_a_fiber();
        ::raise(SIGSEGV);
      },
      ::testing::KilledBySignal(SIGSEGV), "^$");
  // Above the end of a stack, not below.
  EXPECT_EXIT(muster::fiber(small,
                            [] {
                              unsigned char here = 0;
                              for (volatile unsigned char* at = &here;; at += 512) sink = *at;
                            })
                  .join(),
              ::testing::KilledBySignal(SIGSEGV), "^$");
}

TEST_F(stack_overflow, leaves_other_faults_to_their_former_handler) {
  EXPECT_EXIT(
      {
        struct sigaction ours = {};
        ours.sa_handler = [](int) { std::_Exit(42); };
        ::sigaction(SIGSEGV, &ours, nullptr);
        muster::fiber([] {}).join();
        *reinterpret_cast<volatile int*>(16) = 1;
      },
      ::testing::ExitedWithCode(42), "");
}

TEST_F(stack_overflow, tells_them_all_about_it) {
  EXPECT_EXIT(
      {
        struct sigaction ours = {};
        ours.sa_flags = SA_SIGINFO;
        ours.sa_sigaction = [](int, siginfo_t* info, void* context) {
          std::_Exit(info->si_addr == reinterpret_cast<void*>(16) && context != nullptr ? 42 : 1);
        };
        ::sigaction(SIGSEGV, &ours, nullptr);
        muster::fiber([] {}).join();
        *reinterpret_cast<volatile int*>(16) = 1;
      },
      ::testing::ExitedWithCode(42), "");
}

// A thread frees the signal stack that it got from the library; one that had its own keeps it.
TEST_F(stack_overflow, takes_no_signal_stack_away) {
  std::thread([] {
    std::vector<char> own(std::size_t{64} << 10U);
    stack_t mine = {};
    mine.ss_sp = own.data();
    mine.ss_size = own.size();
    ASSERT_EQ(::sigaltstack(&mine, nullptr), 0);
    muster::fiber([] {}).join();
    stack_t now = {};
    ASSERT_EQ(::sigaltstack(nullptr, &now), 0);
    EXPECT_EQ(now.ss_sp, own.data());
    mine.ss_flags = SS_DISABLE;
    ::sigaltstack(&mine, nullptr);
  }).join();
  for (int i = 0; i < 100; ++i) std::thread([] { muster::fiber([] {}).join(); }).join();
}

}  // namespace
