// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The exceptions of forks whose second half is stolen: each first half ends only after a thief has begun the second. An
// engine that replaces return addresses depends on the frames that the compiler makes of these functions, so this file
// is compiled in many ways.
#include <cxxabi.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <muster/fork.hpp>

#include <atomic>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>

#include "foreign_exception.hpp"
#include "stolen.hpp"

namespace {

using muster_test::foreign_exception;
using muster_test::fork2;
using muster_test::fork_stolen;
using muster_test::leaf;
using muster_test::lets_foreign_pass;
using muster_test::pool;
using muster_test::throws_bad_exception;
using muster_test::workers;

struct failure {
  int what;
};
struct counted_local {
  explicit counted_local(int& count) : count_(count) { ++count_; }
  ~counted_local() { --count_; }
  int& count_;
};

template <class F>
int thrown_by(F f) {
  try {
    f();
  } catch (const failure& e) {
    return e.what;
  } catch (const std::exception&) {
    return -1;
  }
  return 0;
}
long throwing(int what) {
  if (what != 0) throw failure{what};
  return leaf(what);
}

TEST(exceptions, of_the_leftmost_half_arrive) {
  workers().run([] {
    for (const auto& [first, second, expected] :
         {std::tuple{1, 0, 1}, std::tuple{0, 2, 2}, std::tuple{1, 2, 1}, std::tuple{0, 0, 0}}) {
      int alive = 0;
      std::atomic<int> ended{0};
      EXPECT_EQ(thrown_by([&, a = first, b = second] {
                  const counted_local outer(alive);
                  fork_stolen(
                      [&] {
                        const counted_local inner(alive);
                        return throwing(a);
                      },
                      [&] {
                        std::this_thread::sleep_for(std::chrono::milliseconds(1));
                        ++ended;
                        return throwing(b);
                      });
                }),
                expected);
      EXPECT_EQ(alive, 0);
      EXPECT_EQ(ended, 1) << "the frame was left before its second half had ended";
    }
  });
}

[[gnu::noinline]] long caught_in_the_forking_function(int what) {
  try {
    const auto [x, y] = fork_stolen([=] { return throwing(what); }, [=] { return throwing(0); });
    return x + y;
  } catch (const failure& e) {
    return -e.what;
  }
}
[[gnu::noinline]] long deep_throw(int deep, int what) {
  if (deep == 0) return throwing(what);
  const auto [x, y] = fork_stolen([=] { return deep_throw(deep - 1, what); }, [=] { return leaf(deep); });
  return x + y;
}

TEST(exceptions, pass_through_many_frames_whose_second_halves_are_stolen) {
  workers().run([] {
    for (int round = 1; round < 5; ++round) {
      EXPECT_EQ(caught_in_the_forking_function(round), -round);
      EXPECT_EQ(thrown_by([&] { deep_throw(2, round); }), round);
      EXPECT_EQ(thrown_by([&] { deep_throw(2, 0); }), 0);
    }
  });
}

/// Counts the frames that have been left.
struct left {
  int& many;
  ~left() { ++many; }
};
TEST(exceptions, run_the_destructors_of_forking_functions) {
  workers().run([] {
    for (const bool stolen : {false, true}) {
      int many = 0;
      const auto fork = [&](auto first, auto second) {
        const left here{many};
        if (stolen) return fork_stolen(first, second);
        return fork2(first, second);
      };
      EXPECT_THROW(fork([]() -> long { throw failure{1}; }, [] { return 2L; }), failure);
      EXPECT_THROW(fork([] { return 1L; }, []() -> double { throw failure{2}; }), failure);
      EXPECT_THROW(fork([]() -> double { throw failure{1}; }, [] { return std::string(); }), failure);
      EXPECT_THROW(fork([&] { fork([] {}, [] { throw failure{3}; }); }, [] {}), failure);
      EXPECT_EQ(many, 5);
    }
  });
}

TEST(exceptions, may_be_rethrown_and_nested) {
  workers().run([] {
    const auto inner = [] {
      try {
        fork_stolen([] { return throwing(3); }, [] { return leaf(1); });
      } catch (const failure&) {
        // While the one is handled, another comes and goes.
        EXPECT_EQ(thrown_by([] { fork_stolen([] { return leaf(1); }, [] { return throwing(4); }); }), 4);
        throw;
      }
      return 0L;
    };
    EXPECT_EQ(thrown_by([&] { fork_stolen(inner, [] { return leaf(2); }); }), 3);
    EXPECT_EQ(thrown_by([&] { fork_stolen([] { return leaf(2); }, inner); }), 3);
  });
}

TEST(exceptions, do_not_disturb_forks_of_destructors) {
  struct forks_at_the_end {
    long& sum;
    int before = std::uncaught_exceptions();  // not always 0: libstdc++ never uncounts a rethrown foreign one
    ~forks_at_the_end() {
      EXPECT_EQ(std::uncaught_exceptions(), before + 1);
      const auto [x, y] = fork2([] { return leaf(1); }, [] { return leaf(2); });
      sum += x + y;
    }
  };
  workers().run([] {
    long sum = 0;
    EXPECT_EQ(thrown_by([&] {
                const forks_at_the_end last{.sum = sum};
                fork_stolen([] { return throwing(5); }, [] { return leaf(1); });
              }),
              5);
    EXPECT_EQ(sum, 11);
  });
}

TEST(exceptions, of_other_languages_pass) {
  workers().run([] {
    foreign_exception foreign;
    std::atomic<int> ended{0};
    EXPECT_TRUE(lets_foreign_pass([&] {
      fork_stolen(
          [&] {
            foreign.raise();
            return 0;
          },
          [&] { return ++ended, 0; });
    }));
    EXPECT_EQ(ended, 1);
    EXPECT_EQ(foreign.dropped(), 1);
  });
}

TEST(exceptions, of_other_languages_do_not_leave_their_thread) {
  workers().run([] {
    foreign_exception foreign;
    EXPECT_TRUE(throws_bad_exception([&] {
      fork_stolen([] { return leaf(1); },
                  [&] {
                    foreign.raise();
                    return leaf(2);
                  });
    }));
    EXPECT_EQ(foreign.dropped(), 1);
    // With results that do not fit into a register.
    EXPECT_TRUE(throws_bad_exception([&] {
      fork_stolen([] { return std::string("first"); },
                  [&] {
                    foreign.raise();
                    return std::string("second");
                  });
    }));
    EXPECT_EQ(foreign.dropped(), 2);
  });
}

TEST(exceptions, of_other_languages_leave_asyncs_as_another) {
  foreign_exception foreign;
  const auto raise_in_async = [&] {
    int ended = 0;
    EXPECT_TRUE(throws_bad_exception([&] {
      muster::finish([&](muster::async_scope& scope) {
        scope.async([&] { foreign.raise(); });
        ++ended;
      });
    }));
    EXPECT_EQ(ended, 1);
  };
  workers().run(raise_in_async);
  EXPECT_EQ(foreign.dropped(), 1);
  pool({.workers = 1, .stack_bytes = std::size_t{1} << 20U}).run(raise_in_async);
  EXPECT_EQ(foreign.dropped(), 2);
}

TEST(exceptions, of_other_languages_leave_a_scope_when_it_ends) {
  workers().run([] {
    foreign_exception foreign;
    std::atomic<bool> begun{false};
    std::atomic<int> ended{0};
    EXPECT_TRUE(lets_foreign_pass([&] {
      muster::finish([&](muster::async_scope& scope) {
        scope.async([&] {
          begun = true;
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          ended += thrown_by([] { throwing(3); });
        });
        muster_test::await(begun);
        foreign.raise();
      });
    }));
    EXPECT_EQ(ended, 3);
    EXPECT_EQ(foreign.dropped(), 1);
  });
}

// While a scope waits for its end, its thread executes asyncs, which may throw such ones as well.
TEST(exceptions, of_other_languages_meet_in_a_scope) {
  pool two({.workers = 2});
  for (const bool ends : {false, true}) {
    std::atomic<bool> begun{false}, here{false}, passed{false};
    foreign_exception first, second;
    std::thread([&] {
      two.run([&] {
        try {
          muster::finish([&](muster::async_scope& scope) {
            scope.async([&] {
              begun = true;
              muster_test::await(here);
            });
            muster_test::await(begun);
            scope.async([&] {
              here = true;
              second.raise();
            });
            if (ends) ::pthread_exit(nullptr);
            first.raise();
          });
        } catch (const abi::__forced_unwind&) {
          passed = true;
          throw;
        } catch (...) {
          passed = std::current_exception() == nullptr;
        }
      });
    }).join();
    EXPECT_TRUE(here);
    EXPECT_TRUE(passed);
    EXPECT_EQ(foreign_exception::dropped(), ends ? 1 : 2);
  }
}

// With frames that a program has registered by hand, the C++ runtime looks for unwind information under a lock, and a
// thread may be stopped while it holds that.
extern "C" void __register_frame(void*);
extern "C" void __deregister_frame(void*);
TEST(exceptions, may_be_thrown_in_programs_that_have_registered_frames) {
  // For a function of 16 bytes at 0x1000, which is never called: the common entry, that of the function, and the end.
  // clang-format off
  alignas(8) static unsigned char frames[] = {
      20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0, 0x0c, 7, 8, 0x90, 1, 0, 0,
      28, 0, 0, 0, 28, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
      0, 0, 0, 0};
  // clang-format on
  __register_frame(frames);
  workers().run([] {
    for (int round = 0; round < 20; ++round) {
      std::atomic<bool> begun{false};
      const auto throws = [&begun] {
        int caught = 0;
        do {
          try {
            throw failure{1};
          } catch (const failure& f) {
            caught += f.what;
          }
        } while (!begun);
        return caught;
      };
      const auto [caught, stolen] = fork2(throws, [&] {
        begun = true;
        return 2;
      });
      ASSERT_GE(caught, 1);
      ASSERT_EQ(stolen, 2);
    }
  });
  __deregister_frame(frames);
}

/// Ends a thread that is in a pool of two, by what is thrown within body(ends, counts): `ends` ends it, and what runs
/// meanwhile calls `counts` once.
template <class Body>
void expect_thread_to_end_after(Body body) {
  for (const bool cancelled : {false, true}) {
    std::atomic<int> ended{0}, unwound{0};
    struct noted {
      std::atomic<int>& count;
      ~noted() { ++count; }
    };
    const auto ends = [&] {
      const noted inner{unwound};
      if (!cancelled) pthread_exit(nullptr);
      pthread_cancel(pthread_self());
      pthread_testcancel();
    };
    const auto counts = [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++ended;
    };
    std::thread other([&] {
      const noted outer{unwound};
      pool two({.workers = 2, .stack_bytes = std::size_t{1} << 20U});
      two.run([&] { body(ends, counts); });
    });
    other.join();
    EXPECT_EQ(ended, 1);
    EXPECT_EQ(unwound, 2);
  }
}

TEST(exceptions, that_end_a_thread_wait_for_stolen_halves) {
  expect_thread_to_end_after([](auto ends, auto counts) { fork_stolen(ends, counts); });
}

TEST(exceptions, that_end_a_thread_wait_for_asyncs) {
  expect_thread_to_end_after([](auto ends, auto counts) {
    muster::finish([&](muster::async_scope& scope) {
      std::atomic<bool> begun{false};
      scope.async([&] {
        begun = true;
        counts();
      });
      muster_test::await(begun);
      ends();
    });
  });
}

}  // namespace
