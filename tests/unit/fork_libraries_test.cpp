// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Forks in libraries that a program loads, each for itself, and in the program, on one stack.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>
#include <muster/combine/cc_synch.hpp>
#include <muster/fork.hpp>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "stolen.hpp"

namespace {

using muster_test::fork2;
using muster_test::fork_stolen;
using muster_test::workers;

/// A loaded library, whose names are not visible to others.
class plugin {
 public:
  explicit plugin(const char* path) : handle_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(dlerror());
  }
  ~plugin() { dlclose(handle_); }
  plugin(const plugin&) = delete;
  plugin& operator=(const plugin&) = delete;

  template <class F>
  F* function(const char* name) const {
    F* const found = reinterpret_cast<F*>(dlsym(handle_, name));
    if (found == nullptr) throw std::runtime_error(dlerror());
    return found;
  }

 private:
  void* const handle_;
};
/// A copy of the first library, which can be closed while that one is loaded.
class plugin_copy {
 public:
  explicit plugin_copy(const std::string& name)
      : path_(testing::TempDir() + "fork_plugin_" + name + '_' + std::to_string(getpid()) + ".so") {
    std::filesystem::copy_file(FORK_PLUGIN_FIRST, path_, std::filesystem::copy_options::overwrite_existing);
  }
  ~plugin_copy() { std::filesystem::remove(path_); }
  plugin_copy(const plugin_copy&) = delete;
  plugin_copy& operator=(const plugin_copy&) = delete;

  const char* path() const { return path_.c_str(); }
  bool is_loaded() const {
    void* const found = dlopen(path(), RTLD_NOW | RTLD_NOLOAD);
    if (found != nullptr) dlclose(found);
    return found != nullptr;
  }

 private:
  const std::string path_;
};

/// While it lives, the calling thread and the threads that it creates share one processor.
class one_processor {
 public:
  one_processor() {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i)
      if (CPU_ISSET(i, &before_)) CPU_SET(i, &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  ~one_processor() { sched_setaffinity(0, sizeof before_, &before_); }
  one_processor(const one_processor&) = delete;
  one_processor& operator=(const one_processor&) = delete;

 private:
  cpu_set_t before_;
};

using leaves_of = long(int depth, long (*next)(int), int argument);

/// Returns true if the program's workers are the library's too.
bool has_same_workers(const plugin& one) {
  return workers().run([&] { return one.function<int()>("plugin_knows_worker")() != 0; });
}
/// Lets a library's second halves be stolen, unless it has workers of its own, which do not find what is on one stack
/// with other libraries' forks.
void steal_in(const plugin& one) { one.function<void(int)>("plugin_set_stolen")(has_same_workers(one) ? 1 : 0); }

TEST(libraries, fork_on_one_stack) {
  const plugin first(FORK_PLUGIN_FIRST), second(FORK_PLUGIN_SECOND);
  steal_in(first);
  steal_in(second);
  auto* const leaves = first.function<leaves_of>("plugin_leaves");
  static leaves_of* others = nullptr;
  others = second.function<leaves_of>("plugin_leaves");
  EXPECT_NE(leaves, others) << "it is one library";
  for (int depth = 0; depth < 5; ++depth) {
    const long found = workers().run([&] {
      const auto [a, b] =
          fork_stolen([&] { return leaves(depth, [](int more) { return others(more, nullptr, 0); }, depth + 1); },
                      [] { return 1L; });
      return a + b;
    });
    EXPECT_EQ(found, depth + (depth + 2) + 1);
  }
}

TEST(libraries, throw_through_each_other) {
  const plugin first(FORK_PLUGIN_FIRST), second(FORK_PLUGIN_SECOND);
  steal_in(first);
  steal_in(second);
  auto* const leaves = first.function<leaves_of>("plugin_leaves");
  auto* const throws = second.function<long(int)>("plugin_throws");
  for (int number = 0; number < 3; ++number) {
    std::string what;
    try {
      workers().run(
          [&] { return fork_stolen([&] { return leaves(number, throws, number); }, [] { return 0; }).first; });
    } catch (const std::range_error& thrown) {
      what = thrown.what();
    }
    EXPECT_EQ(what, std::to_string(number));
  }
}

// Otherwise two threads would have one number.
TEST(libraries, use_combining_objects_together_or_are_refused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const plugin first(FORK_PLUGIN_FIRST), second(FORK_PLUGIN_SECOND);
  for (const plugin* one : {&first, &second}) {
    muster::cc_synch<int> number;
    auto* const adds = one->function<void(void*)>("plugin_adds");
    if (one->function<const void*()>("plugin_copy_of_library")() == muster::sync::copy_of_library()) {
      std::thread(adds, &number).join();
      EXPECT_EQ(number.apply([](int& n) { return n; }), 1);
    } else {
      EXPECT_DEATH(adds(&number), "with a copy of muster of its own");
    }
  }
  EXPECT_NE(second.function<const void*()>("plugin_copy_of_library")(), muster::sync::copy_of_library());
}

TEST(libraries, have_pools_of_their_own) {
  const plugin first(FORK_PLUGIN_FIRST), second(FORK_PLUGIN_SECOND);
  for (const plugin* one : {&first, &second}) {
    EXPECT_EQ(one->function<int()>("plugin_uses_stack_scan")() != 0,
              muster::pool::barrier_unavailable_reason() == nullptr);
    one->function<void(int)>("plugin_set_stolen")(1);
    EXPECT_EQ(one->function<long(int)>("plugin_pool_leaves")(4), 5);
    EXPECT_EQ(workers().run([&] { return one->function<long(int)>("plugin_pool_leaves")(4); }), 5);
  }
}

// The program's workers find the program's forks between those of a library that has workers of its own, and no others.
TEST(libraries, leave_each_other_their_forks) {
  const plugin first(FORK_PLUGIN_FIRST), second(FORK_PLUGIN_SECOND);
  for (const plugin* one : {&first, &second}) {
    if (has_same_workers(*one)) continue;  // then they are of the library's pool while they are in it
    auto* const calls = one->function<long(int, long (*)())>("plugin_pool_calls");
    const auto stolen = [] { return fork_stolen([] { return 100L; }, [] { return 200L; }).second; };
    const auto [a, b] = workers().run([&] { return fork_stolen([&] { return calls(6, stolen); }, [] { return 7L; }); });
    EXPECT_EQ(a, 6 * 201);
    EXPECT_EQ(b, 7);
  }
}

// The program's forks are found also when a library's below have been stolen.
TEST(libraries, do_not_hide_forks_above) {
  const plugin first(FORK_PLUGIN_FIRST), second(FORK_PLUGIN_SECOND);
  for (const plugin* one : {&first, &second}) {
    static std::atomic<bool> is_free, begun;
    is_free = begun = false;
    auto* const calls = one->function<long(long (*)())>("plugin_pool_calls_when_stolen");
    muster::pool two({.workers = 2, .stack_bytes = std::size_t{1} << 20U});
    const auto above = [&] {
      return fork2(
                 [&] {
                   return calls([] {
                     is_free = true;
                     muster_test::await(begun);
                     return 7L;
                   });
                 },
                 [] { begun = true; })
          .first;
    };
    const auto busy = [] { muster_test::await(is_free); };
    EXPECT_EQ(two.run([&] {
      return fork_stolen(
                 [&] {
                   for (int i = 0; i < 10; ++i) fork2([] {}, [] {});  // answers the thief, which is busy now
                   return above();
                 },
                 busy)
          .first;
    }),
              7);
  }
}

// A fork also offers the forks above it, by the barrier of its own library. They return to it after that is closed.
TEST(libraries, may_be_closed_with_forks_of_others_above) {
  if (muster::pool::barrier_unavailable_reason() != nullptr) GTEST_SKIP() << muster::pool::barrier_unavailable_reason();
  const plugin_copy copy("below");
  const plugin first(FORK_PLUGIN_FIRST);
  first.function<void(int)>("plugin_set_stolen")(0);
  for (int round = 0; round < 5; ++round) {
    static std::optional<plugin> another;
    static std::atomic<bool> others_may_steal;
    another.emplace(copy.path());
    another->function<void(int)>("plugin_set_stolen")(0);
    others_may_steal = false;
    // The forks above have not been requested until now; the request reaches the other library, in one of its forks.
    const auto use_another = [](int depth) {
      others_may_steal = true;
      auto* const leaves = another->function<leaves_of>("plugin_leaves");
      long found = 0;
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
      do found = leaves(depth, nullptr, 0);
      while (std::chrono::steady_clock::now() < end);
      another.reset();
      return found;
    };
    using alone = long(int, long (*)(int), int, const std::atomic<bool>*);
    EXPECT_EQ(first.function<alone>("plugin_pool_leaves_alone")(4, use_another, 3, &others_may_steal), 4 + (3 + 1));
  }
}

// The thief leaves the code that it has executed last: the thread that waits for it continues first, and closes the
// library.
TEST(libraries, may_be_closed_when_their_forks_have_ended) {
  const plugin first(FORK_PLUGIN_FIRST);
  static const plugin_copy copy("stolen");
  static int by_async;
  static bool has_same_workers;
  const auto use_another = [] {
    const auto slowly = [] {
      const sched_param none = {};
      sched_setscheduler(0, SCHED_IDLE, &none);                    // runnable others run first,
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // and the owner sleeps by then
    };
    const plugin another(copy.path());
    has_same_workers = another.function<int()>("plugin_knows_worker")() != 0;
    return has_same_workers ? another.function<int(int, void (*)())>("plugin_is_helped")(by_async, slowly) : 1;
  };
  const bool no_barrier = first.function<int()>("plugin_uses_stack_scan")() == 0;
  const one_processor alone;
  using runs = int(muster::fork_engine, int (*)());
  for (const auto engine : {muster::fork_engine::watermark, muster::fork_engine::automatic})
    for (by_async = 0; by_async < 2; ++by_async) {
      EXPECT_EQ(first.function<runs>("plugin_pool_runs")(engine, use_another), 1);
      if (!has_same_workers) GTEST_SKIP() << "the compiler gives each library workers of its own";
      // The other engine's barrier is kept, and so all of its library.
      EXPECT_TRUE(!copy.is_loaded() || (engine == muster::fork_engine::automatic && !no_barrier));
    }
}

// The records of a call hold for the library that was loaded then. Otherwise forks above are not found.
TEST(libraries, may_be_replaced_by_others_with_other_frames) {
  if (muster::pool::barrier_unavailable_reason() != nullptr) GTEST_SKIP() << muster::pool::barrier_unavailable_reason();
#if defined(FRAME_PLUGIN_24)
  const auto calls_stolen = [](const plugin& through) {
    auto* const calls = through.function<void(void (*)())>("plugin_calls");
    static std::atomic<bool> begun;
    begun = false;
    const int second = workers().run([&] {
      return fork2([&] { calls([] { muster_test::await(begun); }); },
                   [] {
                     begun = true;
                     return 7;
                   })
          .second;
    });
    EXPECT_EQ(second, 7);
    return calls;
  };
  bool at_one_place = true;
  for (int round = 0; round < 3; ++round) {
    auto* const one = calls_stolen(plugin(FRAME_PLUGIN_24));
    at_one_place = calls_stolen(plugin(FRAME_PLUGIN_88)) == one && at_one_place;
  }
  if (!at_one_place) GTEST_SKIP() << "the system has not loaded one where the other was";
#endif
}

// The program's idle workers interrupt a thread that waits for a thief of another library.
TEST(libraries, interrupt_each_other) {
  const plugin first(FORK_PLUGIN_FIRST), second(FORK_PLUGIN_SECOND);
  for (const plugin* one : {&first, &second})
    EXPECT_EQ(workers().run([&] { return one->function<long(int)>("plugin_pool_waits")(60); }), 60);
}

}  // namespace
