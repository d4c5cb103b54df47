// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Fibers: their order, exceptions, lifetimes, memory, and misuse.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <muster/base/detail/reentrancy.hpp>
#include <muster/fiber.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#if defined(__ARM_FEATURE_SVE)
#include <arm_sve.h>
#endif

#include "foreign_exception.hpp"
#include "scale.hpp"

namespace {

using muster::fiber;
namespace this_fiber = muster::this_fiber;

TEST(a_fiber, runs_when_it_is_joined) {
  int runs = 0;
  fiber f([&] { ++runs; });
  EXPECT_TRUE(f.joinable());
  EXPECT_EQ(runs, 0);
  f.join();
  EXPECT_FALSE(f.joinable());
  EXPECT_EQ(runs, 1);
}

TEST(a_fiber, takes_arguments_by_value_and_functions_that_can_only_be_moved) {
  int sum = 0;
  fiber f([&sum, five = std::make_unique<int>(5)](std::unique_ptr<int> a, int b) { sum = *five + *a + b; },
          std::make_unique<int>(10), 100);
  f.join();
  EXPECT_EQ(sum, 115);
}

TEST(a_fiber, has_a_number) {
  EXPECT_EQ(this_fiber::number(), 0U);
  std::set<std::uint64_t> seen;
  std::vector<fiber> all;
  for (int i = 0; i < 5; ++i) all.emplace_back([&] { seen.insert(this_fiber::number()); });
  all.clear();
  EXPECT_EQ(seen.size(), 5U);
  EXPECT_FALSE(seen.contains(0));
}

// A yield gives each of the others that can run one turn, in the order of the ring.
TEST(the_ring, is_first_in_first_out) {
  std::vector<int> turns;
  std::vector<fiber> all;
  for (int i = 0; i < 4; ++i) {
    all.emplace_back([&turns, i] {
      for (int round = 0; round < 3; ++round) {
        turns.push_back(10 * round + i);
        this_fiber::yield();
      }
    });
  }
  EXPECT_TRUE(this_fiber::has_siblings());
  for (std::size_t round = 0; round < 3; ++round) {
    this_fiber::yield();
    EXPECT_EQ(turns.size(), 4 * (round + 1));
  }
  all.clear();
  EXPECT_FALSE(this_fiber::has_siblings());
  EXPECT_EQ(turns, (std::vector<int>{0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23}));
}

TEST(the_ring, puts_new_fibers_and_those_that_have_waited_behind_the_others) {
  std::string turns;
  fiber a([&] {
    turns += 'a';
    fiber c([&] { turns += 'c'; });
    c.join();
    turns += 'A';
    this_fiber::yield();
    turns += '1';
  });
  fiber b([&] {
    for (int i = 0; i < 4; ++i) {
      turns += 'b';
      this_fiber::yield();
    }
  });
  a.join();
  b.join();
  EXPECT_EQ(turns, "abcbAb1b");
}

TEST(a_yield, returns_at_once_without_siblings) {
  this_fiber::yield();
  fiber f([] { this_fiber::yield(); });
  f.join();
  this_fiber::yield();
}

struct refusal : std::runtime_error {
  explicit refusal(int n) : std::runtime_error("refusal"), number(n) {}
  int number;
};

TEST(exceptions, reach_join) {
  fiber f([] {
    this_fiber::yield();
    throw refusal(7);
  });
  try {
    f.join();
    ADD_FAILURE() << "join has not thrown";
  } catch (const refusal& r) {
    EXPECT_EQ(r.number, 7);
  }
  EXPECT_FALSE(f.joinable());
}

TEST(exceptions, of_other_languages_arrive_as_bad_exception) {
  muster_test::foreign_exception foreign;
  fiber f([&] { foreign.raise(); });
  EXPECT_TRUE(muster_test::throws_bad_exception([&] { f.join(); }));
  EXPECT_EQ(foreign.dropped(), 1);
}

// Each fiber has exceptions of its own: caught ones, and the count of those on their way.
TEST(exceptions, stay_with_their_fiber_over_a_yield) {
  struct yields_while_unwinding {
    ~yields_while_unwinding() {
      EXPECT_EQ(std::uncaught_exceptions(), 1);
      this_fiber::yield();
      EXPECT_EQ(std::uncaught_exceptions(), 1);
    }
  };
  std::vector<fiber> all;
  int caught = 0;
  for (int i = 0; i < 3; ++i) {
    all.emplace_back([i, &caught] {
      for (int round = 0; round < 5; ++round) {
        EXPECT_EQ(std::uncaught_exceptions(), 0);
        try {
          const yields_while_unwinding last;
          throw refusal(i);
        } catch (...) {
          this_fiber::yield();
          try {
            throw;
          } catch (const refusal& r) {
            EXPECT_EQ(r.number, i);
            this_fiber::yield();
            ++caught;
          }
        }
        // Also when it comes back after having handled one, among others that still do.
        for (int turn = 0; turn <= i; ++turn) {
          EXPECT_EQ(std::current_exception(), nullptr);
          this_fiber::yield();
        }
        EXPECT_EQ(std::current_exception(), nullptr);
      }
    });
  }
  all.emplace_back([] {
    for (int turn = 0; turn < 20; ++turn) {
      EXPECT_EQ(std::current_exception(), nullptr);
      EXPECT_EQ(std::uncaught_exceptions(), 0);
      this_fiber::yield();
    }
  });
  all.clear();
  EXPECT_EQ(caught, 15);
}

// Combining objects keep for each fiber which operations it is inside of.
TEST(operations, stay_with_their_fiber_over_a_yield) {
  using muster::detail::reentrancy_scope;
  int outer = 0, inner = 0;  // addresses of objects
  std::vector<fiber> all;
  for (int i = 0; i < 3; ++i) {
    all.emplace_back([&outer, &inner, i] {
      for (int round = 0; round < 5; ++round) {
        {
          const reentrancy_scope first(&outer);
          this_fiber::yield();
          EXPECT_FALSE(reentrancy_scope::is_in(&inner));
          {
            const reentrancy_scope second(&inner);
            this_fiber::yield();
            EXPECT_TRUE(reentrancy_scope::is_in(&outer));
            EXPECT_TRUE(reentrancy_scope::is_in(&inner));
          }
        }
        for (int turn = 0; turn <= i; ++turn) {
          EXPECT_FALSE(reentrancy_scope::is_in(&outer));
          this_fiber::yield();
        }
        EXPECT_FALSE(reentrancy_scope::is_in(&outer));
      }
    });
  }
  all.clear();
}

TEST(a_fiber, keeps_its_registers_over_a_yield) {
  std::vector<fiber> all;
  for (int i = 0; i < 8; ++i) {
    all.emplace_back([i] {
      double d[8];
      long n[12];
      long double x = i;
      std::iota(d, d + 8, i);
      std::iota(n, n + 12, i);
      for (int round = 0; round < 100; ++round) {
        for (double& v : d) v += 1;
        for (long& v : n) v += 1;
        x += 1;
        this_fiber::yield();
      }
      for (int k = 0; k < 8; ++k) EXPECT_EQ(d[k], i + k + 100);
      for (int k = 0; k < 12; ++k) EXPECT_EQ(n[k], i + k + 100);
      EXPECT_EQ(x, i + 100);
    });
  }
}

#if defined(__ARM_FEATURE_SVE)
/// Adds the first `few` floats of `from` to those of `to`, in turn with other fibers.
[[gnu::noinline]] void add_some(const float* from, float* to, unsigned few) {
  const svbool_t chosen = svwhilelt_b32_u32(0, few);
  for (int round = 0; round < 4; ++round) {
    this_fiber::yield();
    svst1_f32(chosen, to, svadd_f32_x(chosen, svld1_f32(chosen, to), svld1_f32(chosen, from)));
  }
}
TEST(a_fiber, keeps_its_predicates_over_a_yield) {
  const float ones[] = {1, 1, 1, 1};
  float of_one[4] = {}, of_all[4] = {};
  {
    const fiber one([&] { add_some(ones, of_one, 1); });
    const fiber all([&] { add_some(ones, of_all, 4); });
  }
  EXPECT_EQ(std::accumulate(of_one, of_one + 4, 0.0F), 4);
  EXPECT_EQ(std::accumulate(of_all, of_all + 4, 0.0F), 16);
}
#endif

TEST(fibers, may_be_thread_local_objects_older_than_the_first) {
  std::string order;
  std::thread([&] {
    struct last {
      ~last() { all.clear(); }
      std::vector<fiber> all;
    };
    thread_local last one;
    one.all.emplace_back([&] { order += "first "; });
    one.all.emplace_back([&] { order += "second"; });
  }).join();
  EXPECT_EQ(order, "first second");
}

// The key is newer than the one at whose end the library looks for fibers, so its destructor runs later.
TEST(fibers, may_be_joined_by_destructors_of_other_keys) {
  fiber([] {}).join();
  static bool ran;
  ran = false;
  pthread_key_t key{};
  ASSERT_EQ(pthread_key_create(&key, [](void* one) { delete static_cast<fiber*>(one); }), 0);
  std::thread([&] { pthread_setspecific(key, new fiber([] { ran = true; })); }).join();
  EXPECT_TRUE(ran);
  pthread_key_delete(key);
}

TEST(fibers, can_be_many) {
  const muster::stack_options small{.size = std::size_t{16} << 10U, .guard = false};
  std::uint64_t sum = 0;
  std::vector<fiber> all;
  for (unsigned i = 0; i < 5000; ++i) {
    all.emplace_back(small, [&sum, i] {
      this_fiber::yield();
      sum += i;
    });
  }
  all.clear();
  EXPECT_EQ(sum, 5000U * 4999U / 2);
  muster::stack_pool::shared().trim();
  EXPECT_EQ(muster::stack_pool::shared().kept(), 0U);
}

using stack_seam = muster::detail::stack_pool_seam;

std::size_t mappings() {
  std::ifstream all("/proc/self/maps");
  std::size_t found = 0;
  for (std::string line; std::getline(all, line);) ++found;
  return found;
}

/// So many at once, with guards; each runs before the next is joined.
void run_at_once(std::size_t many) {
  const muster::stack_options small{.size = std::size_t{16} << 10U};
  fiber(small, [] {}).join();
  if (!stack_seam::has_guards_in_tables(muster::stack_pool::shared()) && many > 10'000)
    GTEST_SKIP() << "this kernel has no guards in its page tables (Linux 6.13 has); two mappings each are too many";
  const std::size_t before = mappings();
  std::uint64_t sum = 0;
  std::vector<fiber> all;
  all.reserve(many);
  for (std::size_t i = 0; i < many; ++i) {
    all.emplace_back(small, [&sum, i] {
      this_fiber::yield();
      sum += i;
    });
  }
  if (many > 10'000) {
    EXPECT_LT(mappings(), before + many / 100);
  }
  all.clear();
  EXPECT_EQ(sum, std::uint64_t{many} * (many - 1) / 2);
  // Most of the memory is returned as they end, and the rest on demand.
  EXPECT_LE(muster::stack_pool::shared().kept(), 2 * muster::stack_pool::most_kept);
  muster::stack_pool::shared().trim();
  EXPECT_EQ(muster::stack_pool::shared().kept(), 0U);
}
// The thread sanitizer knows 8128 threads, of which each fiber is one.
TEST(fibers, can_be_a_hundred_thousand_with_guards) {
  run_at_once(muster_test::thread_sanitized ? 5000 : muster_test::scaled(100'000));
}
TEST(fibers, can_be_a_million_with_guards_nightly) {
  if (muster_test::sanitized) GTEST_SKIP() << "a sanitizer keeps too much for each";
  const auto available =
      static_cast<std::uint64_t>(::sysconf(_SC_AVPHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (available < std::uint64_t{10} << 30U) GTEST_SKIP() << "needs 10 GiB of free memory";
  run_at_once(1'000'000);
}

TEST(fibers, of_different_threads_do_not_meet) {
  std::atomic<int> runs{0};
  muster::run_team({.carriers = 4, .fibers = 10, .pin = true}, [&](unsigned, unsigned) {
    const std::thread::id here = std::this_thread::get_id();
    for (int i = 0; i < 100; ++i) {
      this_fiber::yield();
      EXPECT_EQ(std::this_thread::get_id(), here);
    }
    ++runs;
  });
  EXPECT_EQ(runs, 40);
}

TEST(a_fiber, is_joined_by_its_destructor_and_by_assignment) {
  int runs = 0;
  {
    fiber f([&] { ++runs; });
    f = fiber([&] { runs += 10; });
    EXPECT_EQ(runs % 10, 1);  // the second may have had its turn as well
  }
  EXPECT_EQ(runs, 11);
}

TEST(stacks, are_reused_and_have_colours) {
  muster::stack_pool pool;
  const muster::stack_memory a = pool.take({});
  const muster::stack_memory b = pool.take({});
  EXPECT_NE(reinterpret_cast<std::uintptr_t>(a.top) % 4096, reinterpret_cast<std::uintptr_t>(b.top) % 4096);
  EXPECT_GE(a.size(), muster::stack_options{}.size);
  pool.give_back(a);
  EXPECT_EQ(pool.kept(), 1U);
  const muster::stack_memory c = pool.take({});
  EXPECT_EQ(c.top, a.top);
  pool.give_back(b);
  pool.give_back(c);
}

TEST(stacks, of_another_kind_are_not_mistaken) {
  muster::stack_pool pool;
  const muster::stack_options small{.size = std::size_t{16} << 10U, .guard = false};
  pool.give_back(pool.take(small));
  const muster::stack_memory usual = pool.take({});
  EXPECT_GE(usual.size(), muster::stack_options{}.size);
  EXPECT_EQ(pool.kept(), 1U);
  pool.give_back(usual);
}

TEST(stacks, come_back_from_fibers) {
  muster::stack_pool& all = muster::stack_pool::shared();
  all.trim();
  for (int round = 0; round < 3; ++round) {
    fiber([] {}).join();
    EXPECT_EQ(all.kept(), 1U);
  }
  struct throws_when_copied {
    throws_when_copied() = default;
    throws_when_copied(const throws_when_copied&) { throw std::runtime_error("copied"); }
    void operator()() const {}
  };
  const throws_when_copied function;
  for (int round = 0; round < 3; ++round) {
    EXPECT_THROW(fiber{function}, std::runtime_error);
    EXPECT_EQ(all.kept(), 1U);
  }
}

/// Pipes, into which the kernel writes from a page if it is accessible.
class accessibility {
 public:
  accessibility() { EXPECT_EQ(::pipe(ends_), 0); }
  ~accessibility() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  accessibility(const accessibility&) = delete;
  accessibility& operator=(const accessibility&) = delete;

  bool of(const char* at) const {
    char byte = 0;
    return ::write(ends_[1], at, 1) == 1 && ::read(ends_[0], &byte, 1) == 1;
  }
  /// The stack is, and no page of the guard below it.
  bool is_right(const muster::stack_memory& stack) const {
    const auto page = static_cast<std::ptrdiff_t>(::sysconf(_SC_PAGESIZE));
    if (!of(stack.bottom) || !of(stack.top - 1)) return false;
    if (!stack.options.guard) return true;
    for (std::ptrdiff_t below = 1; below <= static_cast<std::ptrdiff_t>(muster::stack_guard_bytes); below += page)
      if (of(stack.bottom - below)) return false;
    return true;
  }

 private:
  int ends_[2] = {};
};

/// Both kinds of guards.
class guarded_stacks : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    pool_.give_back(pool_.take(small_));
    if (GetParam()) stack_seam::make_guards_as_mappings(pool_);
    if (!GetParam() && !stack_seam::has_guards_in_tables(pool_))
      GTEST_SKIP() << "this kernel has no guards in its page tables (Linux 6.13 has)";
    pool_.trim();
  }
  std::vector<muster::stack_memory> take(std::size_t many, const muster::stack_options& options) {
    std::vector<muster::stack_memory> all;
    for (std::size_t i = 0; i < many; ++i) all.push_back(pool_.take(options));
    return all;
  }
  void give_back(const std::vector<muster::stack_memory>& all) {
    for (const muster::stack_memory& one : all) pool_.give_back(one);
  }

  const muster::stack_options small_{.size = std::size_t{16} << 10U};
  muster::stack_pool pool_;
  accessibility accessible_;
};
INSTANTIATE_TEST_SUITE_P(stacks, guarded_stacks, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "as_mappings" : "in_tables"; });

TEST_P(guarded_stacks, have_each_a_guard) {
  for (int round = 0; round < 2; ++round) {
    const auto all = take(300, small_);
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_TRUE(accessible_.is_right(all[i])) << i;
      std::fill(all[i].bottom, all[i].top, static_cast<char>(i));
    }
    for (std::size_t i = 0; i < all.size(); ++i)
      EXPECT_TRUE(std::all_of(all[i].bottom, all[i].top, [i](char c) { return c == static_cast<char>(i); })) << i;
    give_back(all);
  }
}

TEST_P(guarded_stacks, have_any_size) {
  for (const std::size_t size : {16385UL, 20'000UL, 100'001UL, (1UL << 20U) - 1, (3UL << 20U) + 5})
    for (const bool guard : {true, false}) {
      const auto all = take(5, {.size = size, .guard = guard});
      for (const muster::stack_memory& one : all) {
        EXPECT_GE(one.size(), size);
        EXPECT_TRUE(accessible_.is_right(one));
        std::fill(one.bottom, one.top, 'x');
      }
      give_back(all);
    }
}

TEST_P(guarded_stacks, stay_as_they_are_when_their_neighbours_end) {
  auto all = take(400, small_);
  for (const muster::stack_memory& one : all) std::fill(one.bottom, one.top, 'x');
  for (std::size_t i = 0; i < all.size(); i += 2) pool_.give_back(all[i]);
  pool_.trim();
  EXPECT_EQ(pool_.kept(), 0U);
  std::set<char*> bottoms;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % 2 == 0) all[i] = pool_.take(small_);
    bottoms.insert(all[i].bottom);
    EXPECT_TRUE(accessible_.is_right(all[i])) << i;
    // The pages of the others were returned.
    if (i % 2 == 0) {
      EXPECT_EQ(*all[i].bottom, 0) << i;
    } else {
      EXPECT_TRUE(std::all_of(all[i].bottom, all[i].top, [](char c) { return c == 'x'; })) << i;
    }
  }
  EXPECT_EQ(bottoms.size(), all.size());
  give_back(all);
}

enum class page_state { unmapped, absent, present };
page_state state_of(char* at) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  unsigned char is_there = 0;
  if (::mincore(at - reinterpret_cast<std::uintptr_t>(at) % page, 1, &is_there) != 0) return page_state::unmapped;
  return is_there % 2 != 0 ? page_state::present : page_state::absent;
}

TEST_P(guarded_stacks, return_their_memory_when_many_end) {
  const auto all = take(3000, small_);
  const auto count = [&](page_state wanted) {
    return static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [&](const auto& one) { return state_of(one.bottom) == wanted; }));
  };
  for (const muster::stack_memory& one : all) *one.bottom = 1;
  EXPECT_EQ(count(page_state::present), all.size());
  give_back(all);
  constexpr std::size_t most = muster::stack_pool::most_kept + 64;
  EXPECT_LE(pool_.kept(), most);
  EXPECT_GE(pool_.kept(), muster::stack_pool::most_kept);
  EXPECT_LE(count(page_state::present), most);
  EXPECT_GE(count(page_state::unmapped), 100U);
  pool_.trim();
  EXPECT_EQ(pool_.kept(), 0U);
  EXPECT_EQ(count(page_state::unmapped), all.size());
}

TEST_P(guarded_stacks, are_whole_in_a_child_of_fork) {
  auto all = take(100, small_);
  for (const muster::stack_memory& one : all) *one.bottom = 'p';
  const pid_t child = ::fork();
  if (child == 0) {
    for (const muster::stack_memory& one : all)
      if (!accessible_.is_right(one) || *one.bottom != 'p') ::_exit(1);
    give_back(all);
    for (const muster::stack_memory& one : take(200, small_))
      if (!accessible_.is_right(one)) ::_exit(2);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  for (const muster::stack_memory& one : all) EXPECT_EQ(*one.bottom, 'p');
  give_back(all);
}

TEST_P(guarded_stacks, have_guards_in_locked_memory) {
  if (muster_test::sanitized) GTEST_SKIP() << "the sanitizer's own memory cannot be locked";
  const auto before = take(3, small_);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::mlockall(MCL_FUTURE) != 0) ::_exit(3);
    for (const muster::stack_memory& one : take(40, small_))
      if (!accessible_.is_right(one) || state_of(one.bottom) != page_state::present) ::_exit(1);
    if (stack_seam::has_guards_in_tables(pool_)) {
      if (::munlockall() != 0) ::_exit(3);
      for (const muster::stack_memory& one : take(40, small_))
        if (!accessible_.is_right(one)) ::_exit(2);
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  give_back(before);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 3) GTEST_SKIP() << "memory may not be locked here";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(stacks, of_too_many_mappings_are_refused_with_advice) {
  std::size_t most = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> most;
  if (muster_test::sanitized || most == 0 || most > 100'000) GTEST_SKIP() << "this system allows " << most;
  muster::stack_pool pool;
  stack_seam::make_guards_as_mappings(pool);
  std::vector<muster::stack_memory> all;
  all.reserve(most);
  std::string why;
  try {
    while (all.size() < most) all.push_back(pool.take({.size = std::size_t{16} << 10U}));
  } catch (const std::system_error& e) {
    why = e.what();
  }
  EXPECT_NE(why.find("raise vm.max_map_count or unset stack_options::guard"), std::string::npos) << why;
  EXPECT_GT(all.size(), most / 2 - 1000);
  for (const muster::stack_memory& one : all) pool.give_back(one);
  pool.trim();
  pool.give_back(pool.take({}));
}

TEST(stacks, may_be_given_back_by_another_thread) {
  muster::stack_pool pool;
  muster::stack_memory of_other;
  const muster::stack_memory own = pool.take({});
  std::thread([&] {
    pool.give_back(own);
    of_other = pool.take({.size = std::size_t{64} << 10U});
  }).join();
  EXPECT_EQ(pool.kept(), 1U);
  pool.give_back(of_other);
  EXPECT_EQ(pool.kept(), 2U);
  EXPECT_EQ(pool.take({}).bottom, own.bottom);
  pool.give_back(own);
}

TEST(stacks, of_a_thread_that_ends_are_kept_for_the_others) {
  muster::stack_pool& all = muster::stack_pool::shared();
  all.trim();
  const auto run = [](std::size_t many) {
    std::vector<fiber> some;
    for (std::size_t i = 0; i < many; ++i) some.emplace_back([] { this_fiber::yield(); });
  };
  std::thread([&] { run(5); }).join();
  EXPECT_EQ(all.kept(), 5U);
  run(5);
  EXPECT_EQ(all.kept(), 5U);
  std::thread([&] { run(40); }).join();
  EXPECT_LE(all.kept(), 48U);  // the calling thread has kept some, and none of the others is lost
  EXPECT_GE(all.kept(), 40U);
  all.trim();
  EXPECT_EQ(all.kept(), 0U);
}

TEST(stacks, of_fibers_have_their_options) {
  const muster::stack_options large{.size = std::size_t{1} << 20U};
  const auto use = [](std::size_t bytes) {
    volatile char* const all = static_cast<volatile char*>(__builtin_alloca(bytes));
    for (std::size_t i = 0; i < bytes; i += 1024) all[i] = 1;
  };
  for (int round = 0; round < 20; ++round) {
    fiber([&] { use(std::size_t{100} << 10U); }).join();
    fiber(large, [&] { use(std::size_t{900} << 10U); }).join();
    std::vector<fiber> both;
    for (int i = 0; i < 12; ++i) both.emplace_back(large, [&] { use(std::size_t{900} << 10U); });
    for (int i = 0; i < 12; ++i) both.emplace_back([&] { use(std::size_t{100} << 10U); });
  }
}

TEST(a_team, throws_what_was_thrown_first) {
  for (unsigned first = 0; first < 3; ++first) {
    try {
      muster::run_team({.carriers = 1, .fibers = 3}, [first](unsigned, unsigned f) {
        if (f >= first) throw f;
      });
      FAIL();
    } catch (unsigned f) {
      EXPECT_EQ(f, first);
    }
  }
}

TEST(bad_input, is_refused) {
  EXPECT_THROW(muster::run_team({.carriers = 1, .fibers = 0}, [](unsigned, unsigned) {}), std::invalid_argument);
  EXPECT_THROW(muster::run_team({.carriers = 0, .fibers = 1}, [](unsigned, unsigned) {}), std::invalid_argument);
  EXPECT_THROW(fiber({.size = 1000}, [] {}), std::invalid_argument);
  EXPECT_THROW(fiber({.size = std::size_t{1} << 60U}, [] {}), std::invalid_argument);
  EXPECT_THROW(fiber().join(), std::system_error);
  EXPECT_THROW(muster::run_team({.carriers = 0}, [](unsigned, unsigned) {}), std::invalid_argument);
  EXPECT_THROW(muster::run_team({.carriers = 2, .fibers = 3},
                                [](unsigned carrier, unsigned f) {
                                  if (carrier == 1 && f == 1) throw refusal(1);
                                }),
               refusal);
}

TEST(misuse_death, ends_with_a_message) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH({ const fiber f([] { throw refusal(1); }); }, "never retrieved; call join");
  EXPECT_DEATH(
      {
        fiber a;
        fiber b([&] { a.join(); });
        a = fiber([&] { b.join(); });
        a.join();
      },
      "cycle of joins|already joins");
  EXPECT_DEATH(
      {
        fiber f([] {});
        std::thread([&] { f.join(); }).join();
      },
      "another thread than its own");
  EXPECT_DEATH(std::thread([] { static_cast<void>(new fiber([] {})); }).join(), "ends before its fibers are done");
}

// A static object's destructor joins; fibers that the exit leaves behind are no mistake.
TEST(an_exit, needs_no_fiber_to_be_done) {
  if (muster_test::sanitized) GTEST_SKIP() << "the sanitizer reports what the exit leaves behind";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        static std::vector<fiber> all;
        all.emplace_back([] { std::fputs("joined at last", stderr); });
        std::exit(3);
      },
      testing::ExitedWithCode(3), "joined at last");
  EXPECT_EXIT(fiber([] { std::exit(4); }).join(), testing::ExitedWithCode(4), "");
  EXPECT_EXIT(
      {
        const fiber beside([] {});
        std::exit(5);
      },
      testing::ExitedWithCode(5), "");
}

}  // namespace
