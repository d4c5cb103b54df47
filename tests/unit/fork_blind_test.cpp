// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Forks above and below code that cannot be looked through: without unwind information, or with a frame that is too
// large. The engine that finds forks on the stack must leave them alone, and find them again afterwards.
#include <gtest/gtest.h>
#include <muster/fork.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>

#include "deep_stack.hpp"
#include "fork_settings.hpp"
#include "stolen.hpp"

#if defined(__x86_64__)
// Assembly that tells no unwinder what it does.
asm(R"(
.text
.globl muster_test_calls_blindly
.hidden muster_test_calls_blindly
.type muster_test_calls_blindly, @function
muster_test_calls_blindly:
  subq $8, %rsp
  callq *%rdi
  addq $8, %rsp
  retq
.size muster_test_calls_blindly, . - muster_test_calls_blindly
)");
extern "C" void muster_test_calls_blindly(void (*)());
#endif

namespace {

using muster::pool;
using muster_test::await;
using muster_test::fork2;
using muster_test::fork_stolen;
using muster_test::leaf;

/// A frame that the engine can walk through.
[[gnu::noinline]] void calls_openly(void (*f)()) {
  f();
  muster_test::opaque(0);
}
[[gnu::noinline]] void calls_from_a_large_frame(void (*f)()) {
  char large[(std::size_t{16} << 20U) + 4096];
  asm volatile("" : : "r"(&large) : "memory");
  f();
  asm volatile("" : : "r"(&large) : "memory");
}

/// How often the second half above may be begun meanwhile: never, where it would have to be found on the stack.
int most() { return pool::barrier_unavailable_reason() == nullptr ? 0 : 1; }

std::atomic<int> begun_above{0}, executed{0};
int begun_meanwhile = 0;  // while the function in question was on the stack
std::atomic<bool> thief_is_free{false};

/// For a while it forks below, and nothing else.
void fork_below() {
  thief_is_free = true;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  while (std::chrono::steady_clock::now() < end) {
    const auto [first, second] = fork2([] { return leaf(1); },
                                       [] {
                                         ++executed;
                                         return leaf(2);
                                       });
    EXPECT_EQ(first + second, leaf(1) + leaf(2));
    EXPECT_EQ(executed.exchange(0), 1);
  }
  begun_meanwhile = begun_above;
}
/// Until its fork is stolen.
void wait_below() {
  thief_is_free = true;
  while (begun_above == 0) muster::pause();
  begun_meanwhile = begun_above;
}

/// Forks, and calls `below` through a function. Returns how often the second half had been begun before that came back.
int stolen_meanwhile(void (*through)(void (*)()), void (*below)()) {
  pool two({.workers = 2, .stack_bytes = muster_test::small_stack});
  begun_above = 0;
  thief_is_free = false;
  const auto above = [&] {
    const auto [first, second] = fork2(
        [&] {
          through(below);
          while (begun_above == 0) fork2([] {}, [] {});
          return leaf(4);
        },
        [] {
          ++begun_above;
          return leaf(3);
        });
    EXPECT_EQ(first, leaf(4));
    EXPECT_EQ(second, leaf(3));
  };
  two.run([&] {
    fork_stolen(
        [&] {
          for (int i = 0; i < 10; ++i) fork2([] {}, [] {});  // the thief has asked, and is answered; now it is busy
          above();
        },
        [] { await(thief_is_free); });
  });
  EXPECT_EQ(begun_above, 1);
  return begun_meanwhile;
}

TEST(forks, are_found_through_what_can_be_looked_through) {
  EXPECT_EQ(stolen_meanwhile(&calls_openly, &wait_below), 1);
}

TEST(forks, are_left_alone_above_a_function_without_unwind_information) {
#if defined(__x86_64__)
  EXPECT_LE(stolen_meanwhile(&muster_test_calls_blindly, &fork_below), most());
#else
  GTEST_SKIP() << "the function is x86-64's";
#endif
}

TEST(forks, are_left_alone_above_a_frame_that_is_too_large) {
  muster_test::on_a_deep_stack([] { EXPECT_LE(stolen_meanwhile(&calls_from_a_large_frame, &fork_below), most()); });
}

}  // namespace
