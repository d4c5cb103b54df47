// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// base/: sizes, futex, the event mask that sleepers use, and the number of threads that can run.

#include <gtest/gtest.h>
#include <muster/base/arch.hpp>
#include <muster/base/detail/asymmetric_fence.hpp>
#include <muster/base/detail/eventcount.hpp>
#include <muster/base/detail/futex.hpp>
#include <muster/base/detail/heap_array.hpp>
#include <muster/base/detail/manual_lifetime.hpp>
#include <muster/base/detail/shared_object.hpp>
#include <muster/base/detail/spin_extension.hpp>
#include <muster/base/detail/temporal_slip.hpp>
#include <muster/base/parallelism.hpp>
#include <muster/base/wait.hpp>

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <filesystem>
#include <fstream>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "scale.hpp"

namespace {

using namespace std::chrono_literals;
using muster::deadline_clock;
using muster::eventcount;
using muster::futex_reason;
using muster::futex_scope;

TEST(arch, sizes_are_powers_of_two_and_hold_words) {
  EXPECT_TRUE(std::has_single_bit(muster::line_size));
  EXPECT_GE(muster::isolation_size, muster::line_size);
  int word = 0;
  muster::prefetch_for_write(&word);
  muster::pause();
}

TEST(arch, modified_memory_keeps_its_contents) {
  std::array<unsigned char, 3 * muster::line_size + 1> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i + 1);
  const std::array before = bytes;
  muster::leave_modified(bytes.data(), 0);
  muster::leave_modified(bytes.data(), 1);
  muster::leave_modified(bytes.data(), bytes.size());
  muster::leave_modified(&bytes[5], muster::line_size + 1);
  EXPECT_EQ(bytes, before);
}

// Read-only memory shows if a line is written.
TEST(arch_death_test, each_line_that_is_left_modified_is_written) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const memory = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  unsigned char* const border = static_cast<unsigned char*>(memory) + page;
  ASSERT_EQ(mprotect(border, page, PROT_READ), 0);
  for (const std::size_t before : {std::size_t{8}, muster::line_size, 3 * muster::line_size - 8}) {
    muster::leave_modified(border - before, before);
    EXPECT_DEATH(muster::leave_modified(border - before, before + 1), "");
  }
  EXPECT_EQ(munmap(memory, 2 * page), 0);
}

TEST(library, knows_the_programs_own_objects) {
  static const int constant = 1;
  static int variable = 2;
  const int local = variable;
  EXPECT_TRUE(muster::detail::is_of_program(reinterpret_cast<const void*>(&muster::pin_shared_object)));
  EXPECT_TRUE(muster::detail::is_of_program(&constant));
  EXPECT_TRUE(muster::detail::is_of_program(&variable));
  EXPECT_FALSE(muster::detail::is_of_program(&local));
  EXPECT_FALSE(muster::detail::is_of_program(nullptr));
  const void* const others = ::dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
  if (others == nullptr) GTEST_SKIP() << "a static program, or not glibc: the rest needs an object of a shared library";
  EXPECT_FALSE(muster::detail::is_of_program(others));
}

TEST(futex, reports_why_it_returned) {
  std::atomic<std::uint32_t> word{7};
  EXPECT_EQ(muster::futex_wait(&word, 8, 1, muster::no_deadline, futex_scope::process), futex_reason::changed);
  EXPECT_EQ(muster::futex_wait(&word, 7, 1, muster::deadline_clock::now() + 2ms, futex_scope::process),
            futex_reason::timed_out);
  EXPECT_EQ(muster::futex_wait(&word, 7, 1, muster::deadline{} - 1h, futex_scope::process), futex_reason::timed_out);
  EXPECT_EQ(muster::futex_wake(&word, 1, 1, futex_scope::process), 0);
}

TEST(futex, wakes_only_waiters_that_share_a_bit) {
  std::atomic<std::uint32_t> word{0};
  std::thread sleeper([&] {
    while (word.load() == 0) muster::futex_wait(&word, 0, 2, muster::no_deadline, futex_scope::process);
  });
  for (int i = 0; i < 10; ++i) EXPECT_EQ(muster::futex_wake(&word, 1, 1, futex_scope::process), 0);
  word.store(1);
  muster::futex_wake(&word, 1, 2, futex_scope::process);
  sleeper.join();
}

TEST(futex, shared_words_wake_another_process) {
  void* const page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto* const word = new (page) std::atomic<std::uint32_t>(0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    while (word->load() == 0) muster::futex_wait(word, 0, 1, muster::no_deadline, futex_scope::shared);
    ::_exit(42);
  }
  std::this_thread::sleep_for(2ms);
  word->store(1);
  muster::futex_wake(word, 1, 1, futex_scope::shared);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
  ::munmap(page, 4096);
}

TEST(futex, asymmetric_fences_are_consistent_and_survive_a_fork) {
  const bool available = muster::asymmetric_fences();
  EXPECT_EQ(muster::asymmetric_fences(), available);
  if (!available) GTEST_SKIP() << "membarrier(2) is not available here; queues use read-modify-writes instead";
  muster::heavy_fence();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    muster::heavy_fence();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

template <class Policy>
class eventcount_test : public ::testing::Test {};
using policies = ::testing::Types<muster::wait::spin, muster::wait::spin_then_park, muster::wait::park>;
TYPED_TEST_SUITE(eventcount_test, policies);

// Two threads hand a number back and forth; each waits for the other. A lost wake-up hangs.
TYPED_TEST(eventcount_test, no_wake_up_is_lost_in_a_ping_pong) {
  eventcount events;
  std::atomic<std::uint32_t> turn{0};
  const auto rounds = static_cast<std::uint32_t>(muster_test::scaled(20'000));
  const auto play = [&](std::uint32_t parity) {
    for (std::uint32_t i = parity; i < rounds; i += 2) {
      events.await<TypeParam>(i, [&] { return turn.load(std::memory_order_acquire) == i; }, muster::no_deadline);
      turn.store(i + 1, std::memory_order_release);
      const std::uint32_t sleepers = events.waiters_after_event();
      if (eventcount::wakes(sleepers, i + 1)) events.wake(i + 1);
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  EXPECT_EQ(turn.load(), rounds);
}

// More waiters than keys, so that several share a bit and wake each other superfluously.
TYPED_TEST(eventcount_test, each_of_many_waiters_gets_its_event) {
  eventcount events;
  constexpr std::uint32_t waiters = eventcount::keys + 5;
  std::atomic<std::uint32_t> made{0};
  std::atomic<std::uint32_t> woken{0};
  std::vector<std::jthread> threads;
  for (std::uint32_t i = 0; i < waiters; ++i) {
    threads.emplace_back([&, i] {
      events.await<TypeParam>(i, [&] { return made.load() > i; }, muster::no_deadline);
      woken.fetch_add(1);
    });
  }
  for (std::uint32_t i = 0; i < waiters; ++i) {
    if (i % 8 == 0) std::this_thread::sleep_for(1ms);
    made.store(i + 1);
    if (eventcount::wakes(events.waiters_after_event(), i)) events.wake(i);
  }
  threads.clear();
  EXPECT_EQ(woken.load(), waiters);
}

TYPED_TEST(eventcount_test, time_ends_the_waiting) {
  eventcount events;
  EXPECT_FALSE(events.await<TypeParam>(0, [] { return false; }, muster::deadline_clock::now() + 2ms));
  EXPECT_TRUE(events.await<TypeParam>(0, [] { return true; }, muster::deadline_clock::now() - 1h));
}

TEST(eventcount_flags, are_raised_once_and_wake_every_waiter) {
  eventcount events;
  constexpr std::uint32_t ended = eventcount::flag(0);
  std::vector<std::jthread> threads;
  for (std::uint32_t i = 0; i < 20; ++i) {
    threads.emplace_back([&, i] {
      events.await<muster::wait::park>(i, [&] { return (events.flags() & ended) != 0; }, muster::no_deadline);
    });
  }
  std::this_thread::sleep_for(1ms);
  EXPECT_EQ(events.flags(), 0U);
  EXPECT_TRUE(events.raise(ended));
  EXPECT_FALSE(events.raise(ended));
  threads.clear();
  EXPECT_EQ(events.flags(), ended);
}

TEST(spin_extension, grows_with_brief_sleeps_and_shrinks_with_long_ones) {
  muster::detail::spin_extension one;
  std::vector<std::chrono::microseconds> lengths;
  const auto sleep = [&](deadline_clock::duration lasted) {
    one.note_sleep(lasted);
    lengths.push_back(one.length());
  };
  EXPECT_EQ(one.length(), 0us);
  sleep(1s);
  for (int i = 0; i < 4; ++i) sleep(100us);
  sleep(101us);
  sleep(1us);
  EXPECT_EQ(lengths, (std::vector{0us, 6us, 12us, 24us, 48us, 24us, 48us}));
  for (int i = 0; i < 6; ++i) sleep(1s);
  EXPECT_EQ(one.length(), 0us);
}

TEST(spin_extension, rests_when_the_longest_spin_fails) {
  muster::detail::spin_extension one;
  for (int i = 0; i < 4; ++i) one.note_sleep(10us);
  EXPECT_EQ(one.length(), 48us);
  int rests = 0;
  for (one.note_sleep(10us); one.length() == 0us && rests < 1000; ++rests) one.note_sleep(rests % 2 == 0 ? 10us : 1s);
  EXPECT_EQ(rests, 33);
  EXPECT_EQ(one.length(), 6us);
}

struct adapting {
  static constexpr bool parks = true;
  static constexpr unsigned pauses = 8;
  static constexpr unsigned yields = 0;
  static constexpr bool adapts = true;
};

TEST(spin_extension, does_not_grow_when_time_limits_pass) {
  eventcount events;
  std::vector<int> looks;
  for (int i = 0; i < 8; ++i) {
    looks.push_back(0);
    EXPECT_FALSE(events.await<adapting>(0, [&] { return ++looks.back() == 0; }, deadline_clock::now()));
  }
  EXPECT_EQ(looks, std::vector(8, looks.front()));
}

/// The number of `waits` that look again at an amount that is read as `first`, and then as `later`.
int waits_that_slip(int waits, std::size_t first, std::size_t later) {
  muster::temporal_slip one;
  int slipped = 0;
  for (int i = 0; i < waits; ++i) {
    int looks = 0;
    one.after_wait(64, [&] { return looks++ == 0 ? first : later; });
    slipped += looks > 1 ? 1 : 0;
  }
  return slipped;
}

TEST(temporal_slip, is_skipped_where_the_other_side_waits_for_this_one) {
  EXPECT_EQ(waits_that_slip(10'000, 1, 1), 19) << "after 1, 2, 4, ... 1024, 1024, ...";
  EXPECT_EQ(waits_that_slip(10'000, 1, 8), 19) << "the rest of the requests in flight has arrived";
  EXPECT_EQ(waits_that_slip(100, 1, 64), 100) << "an open stream";
  EXPECT_EQ(waits_that_slip(100, 64, 64), 0) << "there is enough at once";
}

/// Cannot be moved. The constructor throws for the object with number `limit`.
struct counted {
  static inline std::vector<int> destroyed;
  static inline int made = 0;

  explicit counted(int limit) : number(made) {
    if (made == limit) throw std::runtime_error("one too many");
    ++made;
  }
  counted(const counted&) = delete;
  ~counted() { destroyed.push_back(number); }

  const int number;
};

TEST(heap_array, constructs_its_elements_in_order_and_destroys_them_in_reverse) {
  counted::made = 0;
  counted::destroyed.clear();
  {
    const muster::detail::heap_array<counted, 256> all({}, 5, 100);
    EXPECT_EQ(all.size(), 5U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(all.begin()) % 256, 0U);
    int n = 0;
    for (const counted& one : all) EXPECT_EQ(one.number, n++);
    EXPECT_EQ(&all[4] + 1, all.end());
  }
  EXPECT_EQ(counted::destroyed, (std::vector{4, 3, 2, 1, 0}));
}

TEST(heap_array, destroys_what_it_has_constructed_when_a_constructor_throws) {
  counted::made = 0;
  counted::destroyed.clear();
  EXPECT_THROW((muster::detail::heap_array<counted>({}, 5, 3)), std::runtime_error);
  EXPECT_EQ(counted::destroyed, (std::vector{2, 1, 0}));
  EXPECT_THROW((muster::detail::heap_array<counted>({}, ~std::size_t{0} / 2, 0)), std::bad_alloc);
}

TEST(slot, constructs_and_destroys_on_demand_only) {
  static int alive = 0;
  struct item {
    item() { ++alive; }
    ~item() { --alive; }
  };
  {
    muster::manual_lifetime<item> place;
    EXPECT_EQ(alive, 0);
    place.construct();
    EXPECT_EQ(alive, 1);
    place.destroy();
    EXPECT_EQ(alive, 0);
  }
  EXPECT_EQ(alive, 0);
}

TEST(parallelism, is_at_least_one_and_at_most_what_the_machine_has) {
  const unsigned count = muster::available_parallelism();
  EXPECT_GE(count, 1U);
  EXPECT_LE(count, static_cast<unsigned>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

TEST(parallelism, follows_the_affinity_of_the_thread) {
  std::thread([] {
    cpu_set_t all;
    ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
      if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(muster::detail::affinity_parallelism(), 1U);
    EXPECT_EQ(muster::available_parallelism(), 1U);
  }).join();
}

TEST(parallelism, pins_to_the_allowed_processors_in_turn) {
  cpu_set_t all;
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  std::vector<int> allowed;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &all)) allowed.push_back(cpu);
  for (std::size_t n = 0; n < 2 * allowed.size(); ++n)
    std::thread([&] {
      ASSERT_TRUE(muster::pin_this_thread(static_cast<unsigned>(n)));
      cpu_set_t now;
      ASSERT_EQ(::sched_getaffinity(0, sizeof now, &now), 0);
      EXPECT_EQ(CPU_COUNT(&now), 1);
      EXPECT_TRUE(CPU_ISSET(allowed[n % allowed.size()], &now)) << n;
    }).join();
}

class cgroup_files : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(root_); }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  unsigned limit() { return muster::detail::cgroup_parallelism((root_ / "self").string(), (root_ / "sys").string()); }

  const std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("muster-cgroup-" + std::to_string(::getpid()));
};

TEST_F(cgroup_files, version_2_takes_the_least_of_all_ancestors_rounded_up) {
  write("self", "0::/a/b\n");
  EXPECT_EQ(limit(), 0U);
  write("sys/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(limit(), 0U);
  write("sys/a/b/cpu.max", "350000 100000\n");
  EXPECT_EQ(limit(), 4U);
  write("sys/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(limit(), 2U);
  write("sys/cpu.max", "20000 100000\n");
  EXPECT_EQ(limit(), 1U);
}

TEST_F(cgroup_files, version_1_reads_quota_and_period) {
  write("self", "5:memory:/x\n4:cpu,cpuacct:/docker/y\n");
  write("sys/cpu/docker/y/cpu.cfs_quota_us", "-1\n");
  write("sys/cpu/docker/y/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(limit(), 0U);
  write("sys/cpu/docker/y/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(limit(), 3U);
}

TEST_F(cgroup_files, nonsense_is_no_limit) {
  EXPECT_EQ(limit(), 0U);
  write("self", "nonsense\n0::/\n");
  write("sys/cpu.max", "many\n");
  EXPECT_EQ(limit(), 0U);
}

}  // namespace
