// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Every kind of exception through every kind of fork: one whose second half a thief has begun, one that is offered and
// not taken, and one that is not offered. If the second half is not stolen, the program is the serial one: an exception
// that leaves the first half leaves the fork, and the second is not begun. Compiled in many ways, as
// fork_exceptions_test.cpp.
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>
#include <muster/fork.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <exception>
#include <string>
#include <thread>

#include "foreign_exception.hpp"
#include "stolen.hpp"

namespace {

using muster_test::foreign_exception;
using muster_test::leaf;

enum class form { stolen, published, unseen };
std::string name_of(const ::testing::TestParamInfo<form>& one) {
  return one.param == form::stolen ? "stolen" : one.param == form::published ? "published" : "unseen";
}

struct failure {
  int what;
};
/// Counts the objects that are alive.
struct counted {
  explicit counted(std::atomic<int>& alive) : alive_(alive) { ++alive_; }
  ~counted() { --alive_; }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;
  std::atomic<int>& alive_;
};

class exception_kinds : public ::testing::TestWithParam<form> {
 protected:
  exception_kinds()
      : workers_({.workers = is_stolen() ? 2U : 1U,
                  .stack_bytes = std::size_t{1} << 20U,
                  .publish_always = GetParam() == form::published}) {}
  static bool is_stolen() { return GetParam() == form::stolen; }

  /// A fork of this form, from a function with a local variable, whose second half counts.
  template <class F, class G>
  auto fork(F first, G second) {
    const counted here(alive_);
    const auto counts = [&] {
      const counted there(alive_);
      if (is_stolen()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++begun_;
      return second();
    };
    if (is_stolen()) return muster_test::fork_stolen(first, counts);
    return muster::fork2(first, counts);
  }
  /// The second halves that have begun although the first was left: none in the serial program, one if stolen.
  int begun_though_left() const { return is_stolen() ? 1 : 0; }
  void expect_all_left(int begun) {
    EXPECT_EQ(begun_.exchange(0), begun);
    EXPECT_EQ(alive_, 0) << "a frame has been left before its second half, or has never been left";
  }

  muster::pool workers_;
  std::atomic<int> begun_{0}, alive_{0};
};
INSTANTIATE_TEST_SUITE_P(of_forks, exception_kinds, ::testing::Values(form::stolen, form::published, form::unseen),
                         name_of);

template <class F>
int thrown_by(F f) {
  try {
    f();
  } catch (const failure& e) {
    return e.what;
  }
  return 0;
}
long throwing(int what) {
  if (what != 0) throw failure{what};
  return leaf(what);
}

TEST_P(exception_kinds, throw_arrives_from_either_half) {
  workers_.run([&] {
    for (int round = 1; round < 20; ++round) {
      EXPECT_EQ(thrown_by([&] { fork([=] { return throwing(round); }, [] { return leaf(1); }); }), round);
      expect_all_left(begun_though_left());
      EXPECT_EQ(thrown_by([&] { fork([] { return leaf(1); }, [=] { return throwing(-round); }); }), -round);
      expect_all_left(1);
      EXPECT_EQ(thrown_by([&] { fork([=] { return throwing(round); }, [=] { return throwing(-round); }); }), round);
      expect_all_left(begun_though_left());
    }
  });
}

TEST_P(exception_kinds, rethrow_continues_with_the_same_one) {
  workers_.run([&] {
    const failure* thrown = nullptr;
    const auto rethrows = [&] {
      try {
        return throwing(7);
      } catch (const failure& e) {
        thrown = &e;
        throw;
      }
    };
    for (const bool in_first : {true, false}) {
      try {
        if (in_first) fork(rethrows, [] { return leaf(1); });
        else fork([] { return leaf(1); }, rethrows);
        ADD_FAILURE() << "nothing has been thrown";
      } catch (const failure& e) {
        EXPECT_EQ(e.what, 7);
        EXPECT_EQ(&e, thrown) << "a copy";
      }
      expect_all_left(in_first ? begun_though_left() : 1);
    }
  });
}

TEST_P(exception_kinds, nested_ones_come_and_go_while_one_is_handled) {
  workers_.run([&] {
    const auto handles = [&] {
      try {
        fork([] { return throwing(3); }, [] { return leaf(1); });
      } catch (const failure&) {
        EXPECT_EQ(thrown_by([&] { fork([] { return leaf(1); }, [] { return throwing(4); }); }), 4);
        throw;
      }
      return 0L;
    };
    EXPECT_EQ(thrown_by([&] { fork(handles, [] { return leaf(2); }); }), 3);
    expect_all_left(2 * begun_though_left() + 1);
    EXPECT_EQ(thrown_by([&] { fork([] { return leaf(2); }, handles); }), 3);
    expect_all_left(begun_though_left() + 2);
    EXPECT_EQ(std::uncaught_exceptions(), 0);
  });
}

TEST_P(exception_kinds, of_other_languages_pass_or_are_replaced) {
  workers_.run([&] {
    foreign_exception foreign;
    EXPECT_TRUE(muster_test::lets_foreign_pass([&] {
      fork(
          [&] {
            foreign.raise();
            return 0L;
          },
          [] { return leaf(1); });
    }));
    expect_all_left(begun_though_left());
    EXPECT_EQ(foreign.dropped(), 1);
    // From another thread it does not come; from this one it may.
    bool passed = false, replaced = false;
    try {
      fork([] { return leaf(1); },
           [&] {
             foreign.raise();
             return 0L;
           });
    } catch (const std::bad_exception&) {
      replaced = true;
    } catch (...) {
      passed = std::current_exception() == nullptr;
    }
    EXPECT_TRUE(replaced || (passed && !is_stolen()));
    expect_all_left(1);
    EXPECT_EQ(foreign.dropped(), 2);
  });
}

// pthread_exit and pthread_cancel unwind the stack as an exception does; no handler ends that.
TEST_P(exception_kinds, forced_unwinding_leaves_no_frame_out) {
  for (const bool cancelled : {false, true}) {
    const auto ends = [&] {
      const counted inner(alive_);
      if (!cancelled) pthread_exit(nullptr);
      pthread_cancel(pthread_self());
      pthread_testcancel();
      return 0L;
    };
    for (const bool in_first : {true, false}) {
      if (!in_first && is_stolen()) continue;  // see below
      std::thread([&] {
        const counted outer(alive_);
        muster::pool own({.workers = is_stolen() ? 2U : 1U,
                          .stack_bytes = std::size_t{1} << 20U,
                          .publish_always = GetParam() == form::published});
        own.run([&] {
          if (in_first) fork(ends, [] { return leaf(1); });
          else fork([] { return leaf(1); }, ends);
          ADD_FAILURE() << "the thread continues";
        });
      }).join();
      expect_all_left(in_first ? begun_though_left() : 1);
    }
  }
}

// A worker of the pool is not the program's to end, and its owner waits for it: the C library ends the program.
TEST_P(exception_kinds, death_when_a_thief_s_thread_would_be_ended) {
  if (!is_stolen()) GTEST_SKIP() << "the second half is executed by its own thread";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const bool cancelled : {false, true}) {
    const auto ends = [cancelled] {
      if (!cancelled) pthread_exit(nullptr);
      pthread_cancel(pthread_self());
      pthread_testcancel();
      return 0L;
    };
    EXPECT_EXIT(workers_.run([&] { fork([] { return leaf(1); }, ends); }), ::testing::KilledBySignal(SIGABRT), "");
  }
}

// Not inlined: where a function that may not be left so has objects of its own to destroy, g++ 12 ends the program
// without handling the exception.
template <class F>
[[gnu::noinline]] void call(const F& f) {
  f();
}
template <class F>
[[gnu::noinline]] void leave_noexcept(const F& f) noexcept {
  f();
}

TEST_P(exception_kinds, death_when_one_would_leave_a_noexcept_function) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto forks = [&] { fork([] { return throwing(9); }, [] { return leaf(1); }); };
  EXPECT_EXIT(
      {
        std::set_terminate([] { ::_exit(std::current_exception() == nullptr ? 1 : 42); });
        workers_.run([&] { leave_noexcept([&] { call(forks); }); });
      },
      ::testing::ExitedWithCode(42), "");
}

}  // namespace
